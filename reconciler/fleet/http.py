"""The real fleet: agents over HTTP, on Unix sockets, loopback or TLS."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import anyio
import httpx
from pydantic import BaseModel, ValidationError

from reconciler.domain.assignment import Assignment, ClaimGranted, ClaimRequest, Refusal
from reconciler.domain.observed import ReachableNode
from reconciler.errors import AssignmentRefused, ClaimRefused, NodeUnreachable
from reconciler.fleet.trouble import cannot_connect

if TYPE_CHECKING:
    from collections.abc import Mapping

CONNECT_TIMEOUT = timedelta(seconds=5)
"""A node on the same network answers a connection in milliseconds; five seconds forgives a lost packet or two."""

ANSWER_MARGIN = timedelta(seconds=15)
"""A node is unreachable when it has not answered this long after it should have (design section 8)."""

MOST_BYTES = 64 * 2**20
"""Of one answer. A node of 64 GPUs reports some hundred KiB; more than this is no agent."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where one agent answers: a Unix socket, or a base URL. `problem` says why there is none."""

    url: str = "http://agent"
    socket: str | None = None
    problem: str | None = None

    @property
    def address(self) -> str:
        """How people are told of it, without user and password."""
        if self.socket is not None:
            return f"unix:{self.socket}"
        url = httpx.URL(self.url)
        return str(url.copy_with(username=None, password=None)) if url.userinfo else self.url


class HttpFleet:
    """`Fleet` over HTTP: one client per node with one shared TLS context (a single shared client costs more CPU)."""

    def __init__(
        self,
        endpoints: Mapping[str, Endpoint],
        *,
        connect_timeout: timedelta = CONNECT_TIMEOUT,
        answer_margin: timedelta = ANSWER_MARGIN,
    ) -> None:
        self._endpoints = endpoints
        self._connect_seconds = connect_timeout.total_seconds()
        self._margin = answer_margin
        self._clients: dict[str, httpx.AsyncClient] = {}
        self._tls: ssl.SSLContext | None = None

    async def observe(self, node: str, *, since: int | None, wait: timedelta) -> ReachableNode:
        """See `Fleet.observe`."""
        params = {"wait": f"{wait.total_seconds():g}s"} | ({} if since is None else {"since": str(since)})
        answer = await self._send(node, "GET", "/v1/observation", params=params, wait=wait)
        if answer.status_code != httpx.codes.OK:
            raise NodeUnreachable(node, f"{node} answered {answer.status_code} to an observation: {_text(answer)}")
        seen = _read(node, ReachableNode, answer, "an observation")
        if seen.name != node:
            raise NodeUnreachable(
                node,
                f"the agent at the address of {node} says that it is {seen.name}",
                hint="give each node of cluster/nodes the address of its own agent",
            )
        return seen

    async def claim(self, node: str, request: ClaimRequest) -> ClaimGranted:
        """See `Fleet.claim`."""
        answer = await self._send(node, "POST", "/v1/claim", body=request.model_dump_json())
        if answer.status_code == httpx.codes.CONFLICT:
            raise ClaimRefused(node, f"{node}: {_refusal(answer)}")
        if answer.status_code != httpx.codes.OK:
            raise NodeUnreachable(node, f"{node} answered {answer.status_code} to a claim: {_text(answer)}")
        return _read(node, ClaimGranted, answer, "an answer to a claim")

    async def release(self, node: str, holder: str, epoch: int) -> None:
        """See `Fleet.release`."""
        try:
            await self._send(node, "POST", "/v1/release", body=f'{{"holder":"{holder}","epoch":{epoch}}}')
        except NodeUnreachable:
            return

    async def assign(self, node: str, assignment: Assignment) -> int:
        """See `Fleet.assign`."""
        answer = await self._send(node, "PUT", "/v1/assignment", body=assignment.model_dump_json())
        if answer.status_code != httpx.codes.OK:
            raise AssignmentRefused(node, f"{node}: {_refusal(answer)}")
        return _read(node, _Taken, answer, "an answer to an assignment").revision

    async def close(self) -> None:
        """Close every connection."""
        for client in self._clients.values():
            await client.aclose()
        self._clients.clear()

    async def _send(
        self,
        node: str,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: str | None = None,
        wait: timedelta = timedelta(),
    ) -> httpx.Response:
        client = self._client(node)
        answer_seconds = (wait + self._margin).total_seconds()
        timeout = httpx.Timeout(answer_seconds, connect=self._connect_seconds, pool=None)
        headers = {"content-type": "application/json"} if body is not None else None
        try:
            # Over all, too: an agent that sends a byte now and then would never run into a timeout between two bytes.
            with anyio.fail_after(answer_seconds + self._connect_seconds):
                return await self._bounded(
                    client.build_request(method, path, params=params, content=body, headers=headers, timeout=timeout),
                    client,
                )
        except TimeoutError as error:
            raise NodeUnreachable(node, f"{node}: {self._address(node)} did not finish its answer") from error
        except httpx.HTTPError as error:
            message = f"{node}: {self._address(node)} {self._trouble(error, answer_seconds)}"
            raise NodeUnreachable(node, message, refused=isinstance(error, httpx.ConnectError)) from error

    async def _bounded(self, request: httpx.Request, client: httpx.AsyncClient) -> httpx.Response:
        """Send and read the answer, up to a size that no honest one has."""
        response = await client.send(request, stream=True)
        try:
            chunks: list[bytes] = []
            size = 0
            async for chunk in response.aiter_bytes():
                size += len(chunk)
                if size > MOST_BYTES:
                    raise httpx.ReadError(f"more than {MOST_BYTES // 2**20} MiB", request=request)
                chunks.append(chunk)
        finally:
            await response.aclose()
        return httpx.Response(response.status_code, content=b"".join(chunks), request=request)

    def _trouble(self, error: httpx.HTTPError, answer_seconds: float) -> str:
        """What went wrong, as a clause whose subject is the address."""
        match error:
            case httpx.ConnectError():
                return cannot_connect(error) or "cannot be connected to"
            case httpx.ConnectTimeout():
                return f"took no connection within {self._connect_seconds:g} s"
            case httpx.TimeoutException():
                return f"took the connection and did not answer within {answer_seconds:g} s"
            case httpx.ProtocolError():
                return "gives no answer in HTTP"
            case _:
                return "broke the connection off"

    def _address(self, node: str) -> str:
        return self._endpoints[node].address

    def _client(self, node: str) -> httpx.AsyncClient:
        if node not in self._clients:
            endpoint = self._endpoints.get(node, Endpoint(problem=f"{node} is not in the inventory"))
            if endpoint.problem is not None:
                raise NodeUnreachable(node, endpoint.problem)
            if endpoint.socket is not None:
                transport = httpx.AsyncHTTPTransport(uds=endpoint.socket)
                client = httpx.AsyncClient(base_url=endpoint.url, transport=transport, trust_env=False)
            elif endpoint.url.startswith("https://"):
                self._tls = self._tls or ssl.create_default_context()
                client = httpx.AsyncClient(base_url=endpoint.url, verify=self._tls, trust_env=False)
            else:
                client = httpx.AsyncClient(base_url=endpoint.url, trust_env=False)
            self._clients[node] = client
        return self._clients[node]


class _Taken(BaseModel):
    """The agent's answer to an assignment."""

    revision: int


Answered = TypeVar("Answered", bound=BaseModel)


def _read(node: str, kind: type[Answered], answer: httpx.Response, what: str) -> Answered:
    """What the agent sent, as the type it must be; NodeUnreachable when it is something else: nothing is known then."""
    try:
        return kind.model_validate_json(answer.content)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        raise NodeUnreachable(
            node,
            f"{node} sent {what} that this version cannot read ({where or 'it'}: {first['msg']})",
            hint="the agent and the reconciler must be of one version",
        ) from error


def _refusal(answer: httpx.Response) -> str:
    """The agent's words, or what it sent when they cannot be read."""
    try:
        return Refusal.model_validate_json(answer.content).message
    except ValidationError:
        return f"answered {answer.status_code}: {_text(answer)}"


def _text(answer: httpx.Response) -> str:
    return " ".join(answer.text[:300].split()) or "nothing"
