"""A model hub on loopback, laid out as huggingface_hub asks one, with a storage beside it that large files come from.

Real HTTP on two ports: the storage is another origin, as on the real hub, and redirects to it carry a signature.
What a test wants to go wrong is set as a field.
"""

from __future__ import annotations

import hashlib
import json
import re
import ssl
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from typing_extensions import override

from tests.weights.tensor_files import Content

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

CERTIFICATE = Path(__file__).parent / "loopback.pem"
LARGE = (".safetensors", ".gguf", ".bin")
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")

Answer = tuple[int, dict[str, str], bytes]


@dataclass
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    range: str | None
    token: str | None


@dataclass
class Repo:
    """One repository: commits and the branches that point at them."""

    commits: dict[str, dict[str, Content]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    card: Any = None
    tags: tuple[str, ...] = ()
    gated: bool = False
    """Everybody may see what it has, and only those with the token may have it."""
    private: bool = False
    lists_sizes: bool = True
    override: dict[str, Content] = field(default_factory=dict)
    """Files that are sent as something else than they are listed, as by a mirror that copied pointers."""

    def commit(self, files: Mapping[str, Any], branch: str = "main") -> str:
        made = {path: Content.of(value) for path, value in files.items()}
        told = [(path, len(content.head), content.size, content.head) for path, content in made.items()]
        sha = hashlib.sha1(repr((len(self.commits), told)).encode()).hexdigest()
        self.commits[sha] = made
        self.branches[branch] = sha
        return sha


@dataclass
class HubServer:
    """The hub and its storage."""

    address: str = ""
    storage: str = ""
    token: str = "hf_right"
    repos: dict[str, Repo] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    sent_bytes: int = 0
    refusal: Answer | None = None
    """What every request to the hub gets instead of an answer."""

    def repo(self, name: str, files: Mapping[str, Any], **fields: Any) -> str:
        """Make a repository with one commit on main; its sha."""
        made = self.repos[name] = Repo(**fields)
        return made.commit(files)

    def answer_hub(self, path: str, query: Mapping[str, list[str]], token: str | None) -> Answer:
        if self.refusal is not None:
            return self.refusal
        try:
            return self._answer(path, query, token)
        except _Refuse as refused:
            return refused.answer

    def _answer(self, path: str, query: Mapping[str, list[str]], token: str | None) -> Answer:
        if token not in {None, self.token}:
            raise _Refuse(401, None, "Invalid credentials in Authorization header")
        api = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/([^/]+))?", path)
        if api:
            return self._api(api[1], unquote(api[2] or "main"), token, sizes="blobs" in query)
        resolve = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        if resolve:
            return self._resolve(resolve[1], unquote(resolve[2]), unquote(resolve[3]), token)
        raise _Refuse(404, None, "Not found")

    def answer_storage(self, path: str) -> Content | None:
        sha, _, name = unquote(path.lstrip("/")).partition("/")
        for repo in self.repos.values():
            if sha in repo.commits and name in repo.commits[sha]:
                return repo.override.get(name, repo.commits[sha][name])
        return None

    def _find(self, name: str, revision: str, token: str | None) -> tuple[Repo, str]:
        repo = self.repos.get(name)
        if repo is None or (repo.private and token is None):
            raise _Refuse(401 if token is None else 404, "RepoNotFound" if token else None, "Repository not found")
        sha = repo.branches.get(revision, revision)
        found = [commit for commit in repo.commits if len(sha) >= 7 and commit.startswith(sha)]
        if not found:
            raise _Refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return repo, found[0]

    def _api(self, name: str, revision: str, token: str | None, *, sizes: bool) -> Answer:
        repo, sha = self._find(name, revision, token)
        rows = [self._row(path, each, sizes=sizes and repo.lists_sizes) for path, each in repo.commits[sha].items()]
        told: dict[str, Any] = {
            "id": name,
            "sha": sha,
            "gated": "manual" if repo.gated else False,
            "tags": list(repo.tags),
        }
        told |= {"siblings": rows, "private": repo.private}
        if repo.card is not None:
            told["cardData"] = repo.card
        return 200, {"Content-Type": "application/json"}, json.dumps(told).encode()

    def _row(self, path: str, content: Content, *, sizes: bool) -> dict[str, Any]:
        row: dict[str, Any] = {"rfilename": path}
        if sizes:
            row |= {"size": content.size, "blobId": hashlib.sha1(content.head).hexdigest()}
            if path.endswith(LARGE):
                row["lfs"] = {"sha256": digest(content), "size": content.size, "pointerSize": 135}
        return row

    def _resolve(self, name: str, revision: str, path: str, token: str | None) -> Answer:
        repo, sha = self._find(name, revision, token)
        if repo.gated and token is None:
            raise _Refuse(401, "GatedRepo", f"Access to model {name} is restricted")
        if path not in repo.commits[sha]:
            raise _Refuse(404, "EntryNotFound", "Entry not found")
        content = repo.override.get(path, repo.commits[sha][path])
        headers = {"X-Repo-Commit": sha, "ETag": f'"{digest(content)}"'}
        if path.endswith(LARGE):
            told = {"X-Linked-Size": str(content.size), "X-Linked-ETag": f'"{digest(content)}"'}
            signed = f"{self.storage}/{sha}/{quote(path)}?signature=s3cret"
            return 302, headers | told | {"Location": signed}, b""
        return 200, headers, content.head


def digest(content: Content) -> str:
    """Stands for the sha256 of a large file, which a test need not compute."""
    return hashlib.sha256(content.head + str(content.size).encode()).hexdigest()


class _Refuse(Exception):
    """An answer with an error status, in the words of a hub."""

    def __init__(self, status: int, code: str | None, message: str) -> None:
        super().__init__(message)
        self.answer: Answer = status, {"X-Error-Message": message} | ({"X-Error-Code": code} if code else {}), b""


@contextmanager
def serving(respond: Callable[[BaseHTTPRequestHandler], None], *, tls: bool = False) -> Iterator[str]:
    """A server on loopback whose GET and HEAD requests `respond` answers; its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            respond(self)

        do_HEAD = do_GET  # noqa: N815  # the base class asks for it

        @override
        def log_message(self, format: str, *args: object) -> None:  # the name of its base
            """Nothing: pytest's output is for failures."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls:
        secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        secure.load_cert_chain(CERTIFICATE)
        server.socket = secure.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def send(handler: BaseHTTPRequestHandler, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
    handler.send_response(status)
    for name, value in ({"Content-Length": str(len(body))} | dict(headers)).items():
        handler.send_header(name, value)
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(body)


def ranged(asked: str | None, content: Content, headers: Mapping[str, str]) -> Answer:
    """The answer to a request for all or, by its Range header, for a part of a file."""
    found = _RANGE.fullmatch(asked or "")
    if found is None:
        return 200, dict(headers) | {"Accept-Ranges": "bytes"}, content.part(0, content.size)
    start, last = int(found[1]), int(found[2] or content.size - 1)
    if start >= content.size:
        return 416, {"Content-Range": f"bytes */{content.size}"}, b""
    body = content.part(start, last + 1 - start)
    told = f"bytes {start}-{start + len(body) - 1}/{content.size}"
    return 206, dict(headers) | {"Content-Range": told}, body


def send_range(handler: BaseHTTPRequestHandler, content: Content, headers: Mapping[str, str]) -> None:
    """Send a file, or the part of it that is asked for."""
    send(handler, *ranged(handler.headers.get("Range"), content, headers))


@contextmanager
def running_hub() -> Iterator[HubServer]:
    """A hub without repositories."""
    hub = HubServer()
    lock = threading.Lock()

    def reply(handler: BaseHTTPRequestHandler, origin: str, answer: Answer) -> None:
        """Counted before it is sent: a client that has its answer may look at once."""
        asked = Asked(handler.command, origin + handler.path, handler.headers.get("Range"), token_of(handler))
        with lock:
            hub.asked.append(asked)
            hub.sent_bytes += len(answer[2])
        send(handler, *answer)

    def hub_request(handler: BaseHTTPRequestHandler) -> None:
        split = urlsplit(handler.path)
        query = parse_qs(split.query, keep_blank_values=True)
        status, headers, body = hub.answer_hub(split.path, query, token_of(handler))
        if status == 200 and "/resolve/" in split.path:
            status, headers, body = ranged(handler.headers.get("Range"), Content.of(body), headers)
        reply(handler, "hub:", (status, headers, body))

    def storage_request(handler: BaseHTTPRequestHandler) -> None:
        split = urlsplit(handler.path)
        content = hub.answer_storage(split.path)
        if content is None or "signature" not in split.query:
            reply(handler, "storage:", (403, {}, b""))
        else:
            headers = {"ETag": f'"{digest(content)}"'}
            reply(handler, "storage:", ranged(handler.headers.get("Range"), content, headers))

    with serving(hub_request) as hub.address, serving(storage_request) as hub.storage:
        yield hub


def token_of(handler: BaseHTTPRequestHandler) -> str | None:
    """The token of a request, if it has one."""
    authorization = handler.headers.get("Authorization")
    return authorization.removeprefix("Bearer ") if authorization else None
