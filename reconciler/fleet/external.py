"""External models asked whether they are there: `GET {url}/models` with the key, names compared. Nothing is changed.

The key comes from the reconciler's environment and goes to the host of `external.url` only. It is in no message: what
a server sends back, and what exceptions say, is never repeated as it is.
"""

from __future__ import annotations

import os
import ssl
from collections import defaultdict
from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING

import anyio
import httpx

from reconciler import __version__
from reconciler.domain.external import ExternalAnswer, ExternalVerdict
from reconciler.fleet.model_list import judge_names, judge_status, served_names, unreachable, without_key
from reconciler.fleet.trouble import cannot_connect

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from reconciler.domain.model_spec import External, ModelSpec

TIMEOUT = timedelta(seconds=2)
"""For all of them together: lists of models come within 0.3 s over an ocean, and `status` waits for the slowest."""

MOST_BYTES = 4 * 2**20
"""Of one answer. The longest public list (some 400 models with prices) is below 1 MiB; more is something else."""

MOST_REDIRECTS = 3
"""On the same host, as from /models to /models/; more is a loop."""

AT_ONCE = 64
"""Connections at a time, below any limit of open files."""

_DIRECT = ("localhost", "127.0.0.1", "[::1]")
"""Never asked through a proxy: it would ask itself."""

_LAST_PORT = 65_535

_VERSION = "v1"
"""What the base URL of an OpenAI API usually ends in, and what people leave out."""


async def ask_externals(
    models: Iterable[ModelSpec], environ: Mapping[str, str] = os.environ
) -> dict[str, ExternalAnswer]:
    """The answer about every external model, by name, within `TIMEOUT`; others are left out.

    Models behind one address with one key are asked about once. Never raises for what a server or a variable holds.
    """
    served: dict[External, list[ModelSpec]] = defaultdict(list)
    for model in models:
        if model.external is not None:
            served[model.external.model_copy(update={"model": None})].append(model)
    answers: dict[str, ExternalAnswer] = {}
    limiter = anyio.CapacityLimiter(AT_ONCE)

    async def ask(client: httpx.AsyncClient, external: External) -> None:
        async with limiter:
            answers.update(await _answers(client, external, served[external], environ))

    try:
        client = _client(encrypted=any(external.url.startswith("https:") for external in served))
    except (ImportError, OSError, ValueError, httpx.InvalidURL):
        # A proxy of a kind that needs another package, or a file of certificates that is not there.
        why = "what HTTPS_PROXY, ALL_PROXY or SSL_CERT_FILE names here cannot be used"
        return {model.name: unreachable(why) for each in served.values() for model in each}
    async with client:
        with anyio.move_on_after(TIMEOUT.total_seconds()):
            async with anyio.create_task_group() as tasks:
                for external in served:
                    tasks.start_soon(ask, client, external)
    late = f"did not answer within {TIMEOUT.total_seconds():g} s"
    for external, each in served.items():
        for model in each:
            answers.setdefault(model.name, unreachable(f"{_host(external)} {late}"))
    return answers


def _client(*, encrypted: bool) -> httpx.AsyncClient:
    """One client for one round: no connection is kept for the next. The CA store is read where it is needed."""
    return httpx.AsyncClient(
        verify=httpx.create_ssl_context() if encrypted else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        limits=httpx.Limits(max_keepalive_connections=0),
        headers={"user-agent": f"reconciler/{__version__}", "accept-encoding": "identity"},
        follow_redirects=False,
        timeout=TIMEOUT.total_seconds(),
        mounts={f"all://{host}": None for host in _DIRECT},
    )


async def _answers(
    client: httpx.AsyncClient, external: External, models: list[ModelSpec], environ: Mapping[str, str]
) -> dict[str, ExternalAnswer]:
    """One address asked; what that means for each of its models."""
    host, variable = _host(external), external.api_key_env
    key = None if variable is None else environ.get(variable, "").strip()
    names: tuple[str, ...] | ExternalAnswer
    if variable is not None and not key:
        why = "is empty" if variable in environ else "is not set"
        names = ExternalAnswer(ExternalVerdict.KEY_MISSING, f"{variable} {why} here")
    elif key is not None and not (key.isascii() and key.isprintable()):
        names = ExternalAnswer(ExternalVerdict.KEY_MISSING, f"{variable} holds characters that no key has")
    else:
        try:
            names = await _names(client, external, host, key)
        except httpx.HTTPError as error:
            names = unreachable(f"{host} {_trouble(error)}")
        except httpx.InvalidURL:
            names = unreachable("external.url holds no address that can be asked")
        except (httpx.StreamError, OSError, ValueError) as error:  # what httpx lets through of sockets and names
            names = unreachable(f"{host} could not be asked ({type(error).__name__})")
    if isinstance(names, ExternalAnswer):
        return {model.name: names for model in models}
    return {model.name: judge_names(model, names, host, key) for model in models}


async def _names(
    client: httpx.AsyncClient, external: External, host: str, key: str | None
) -> tuple[str, ...] | ExternalAnswer:
    """The names that are served below the URL as it is written; where that has none, below its /v1."""
    url = _url(external)
    if key is not None:
        url = url.copy_with(userinfo=b"")  # httpx would send it in the place of the key
    path = url.path.rstrip("/")
    found = await _list(client, url.copy_with(path=f"{path}/models"), external, host, key)
    is_elsewhere = isinstance(found, ExternalAnswer) and found.verdict is ExternalVerdict.UNREACHABLE
    if not is_elsewhere or path.endswith(f"/{_VERSION}"):
        return found
    below = await _list(client, url.copy_with(path=f"{path}/{_VERSION}/models"), external, host, key)
    is_nowhere = isinstance(below, ExternalAnswer) and below.verdict is ExternalVerdict.UNREACHABLE
    return found if is_nowhere else below


async def _list(
    client: httpx.AsyncClient, url: httpx.URL, external: External, host: str, key: str | None
) -> tuple[str, ...] | ExternalAnswer:
    """One list of models, or what there is instead. Redirects are followed on the same scheme, host and port only."""
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    for _ in range(MOST_REDIRECTS + 1):
        response = await client.send(client.build_request("GET", url, headers=headers), stream=True)
        try:
            if response.next_request is None:
                body = await _body(response)
                if body is None:
                    return unreachable(f"{host} answers with more than {MOST_BYTES // 2**20} MiB")
                names = served_names(body) if response.status_code == HTTPStatus.OK else None
                return judge_status(response.status_code, host, external.api_key_env) if names is None else names
            onward = response.next_request.url.copy_with(userinfo=b"")
        finally:
            await response.aclose()
        if _origin(onward) != _origin(url):
            there = without_key(f"{onward.scheme}://{_netloc(onward)}", key)
            return unreachable(f"{host} redirects to {there}; write that in external.url if it is right")
        url = onward
    return unreachable(f"{host} redirects more than {MOST_REDIRECTS} times")


async def _body(response: httpx.Response) -> bytes | None:
    """The body; None when it is longer than a list of models can be."""
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MOST_BYTES:
            return None
    return bytes(body)


def _trouble(error: httpx.HTTPError) -> str:
    """What went wrong on the way. An exception's own words may hold a header, and with it the key."""
    if isinstance(error, httpx.TimeoutException):
        return f"did not answer within {TIMEOUT.total_seconds():g} s"
    if isinstance(error, httpx.ProxyError):
        return "cannot be reached through the proxy of this environment"
    if isinstance(error, httpx.ConnectError):
        return cannot_connect(error) or "cannot be connected to"
    return "gives no answer in HTTP" if isinstance(error, httpx.ProtocolError) else "broke the connection off"


def _origin(url: httpx.URL) -> tuple[str, bytes, int | None]:
    return url.scheme, url.raw_host, url.port


def _url(external: External) -> httpx.URL:
    """The address that is written; httpx.InvalidURL where nothing can be there."""
    url = httpx.URL(external.url).copy_with(fragment=None)
    try:
        is_possible = url.host and (url.port or 0) <= _LAST_PORT
    except UnicodeError:  # of idna
        is_possible = False
    if not is_possible:
        raise httpx.InvalidURL("no host, one that cannot be a name, or a port that does not exist")
    return url


def _host(external: External) -> str:
    """Who is asked, for people."""
    try:
        return _netloc(_url(external))
    except httpx.InvalidURL:
        return "external.url"


def _netloc(url: httpx.URL) -> str:
    """Host and port as they are written, without user and password."""
    return url.netloc.decode("ascii")
