"""The agent's HTTP surface: claims, the assignment, observations, logs. It translates; the supervisor decides."""

from __future__ import annotations

import logging
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import anyio
from fastapi import FastAPI, Query
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic import AfterValidator, BaseModel
from starlette.exceptions import HTTPException

from reconciler import __version__
from reconciler.agent.engine_keys import given_secrets
from reconciler.agent.journal import JournalUnwritable
from reconciler.agent.secret_files import every_secret, redact
from reconciler.domain.assignment import Assignment, ClaimRequest, Refusal
from reconciler.domain.base import Count, Frozen, Text
from reconciler.domain.placement import ReplicaId

if TYPE_CHECKING:
    from fastapi import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from reconciler.agent.config import AgentConfig
    from reconciler.agent.logs import EngineLogs
    from reconciler.agent.supervisor import Supervisor

_log = logging.getLogger(__name__)

MAX_BODY_BYTES = 8 * 2**20
"""An assignment of 64 replicas with long arguments is some 300 kB."""

LONGEST_WAIT = 300.0
"""Seconds a long poll may ask for: connections that stay silent for longer are cut by middleboxes."""

MOST_LINES = 10_000


class ReleaseRequest(Frozen):
    """`POST /v1/release`: give up the claim with this epoch."""

    holder: Text
    """Id of the holder."""
    epoch: Count


@dataclass(slots=True)
class Desk:
    """What the app speaks for; `supervisor` is None until the agent has adopted what runs."""

    config: AgentConfig
    logs: EngineLogs
    supervisor: Supervisor | None = None

    def open(self) -> Supervisor:
        """The supervisor; only asked for behind `Guard`, which lets nothing through before adoption."""
        assert self.supervisor is not None, "the guard answers until the supervisor is here"  # noqa: S101
        return self.supervisor


def _seconds(text: str) -> str:
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?s?", text):
        raise ValueError("expected seconds, such as 30s or 30")
    return text


def create_app(desk: Desk) -> Guard:
    """The app of one agent."""
    app = FastAPI(title="reconciler agent", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
    _add_commands(app, desk)
    _add_questions(app, desk)
    app.add_exception_handler(RequestValidationError, _unreadable)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(JournalUnwritable, _unwritable)
    return Guard(app, desk)


def _add_commands(app: FastAPI, desk: Desk) -> None:
    @app.post("/v1/claim")
    async def claim(request: ClaimRequest) -> Response:
        return _answer(desk.open().claim(request))

    @app.post("/v1/release")
    async def release(request: ReleaseRequest) -> Response:
        desk.open().release(request.holder, request.epoch)
        return JSONResponse({})

    @app.put("/v1/assignment")
    async def assign(assignment: Assignment) -> Response:
        revision = desk.open().assign(assignment)
        return _answer(revision) if isinstance(revision, Refusal) else JSONResponse({"revision": revision})


def _add_questions(app: FastAPI, desk: Desk) -> None:
    @app.get("/v1/observation")
    async def observation(since: int | None = None, wait: Annotated[str, AfterValidator(_seconds)] = "0s") -> Response:
        supervisor = desk.open()
        if since is not None:
            with anyio.move_on_after(min(float(wait.removesuffix("s")), LONGEST_WAIT)):
                await supervisor.wait_for_change(since)
        return _answer(supervisor.observe())

    @app.get("/v1/health")
    async def health() -> Response:
        facts = {"node": desk.config.node, "pid": os.getpid(), "version": __version__, "config": desk.config.digest()}
        return JSONResponse({**facts, "revision": desk.open().revision})

    @app.get("/v1/logs")
    async def logs(replica: ReplicaId, lines: Annotated[int, Query(ge=1, le=MOST_LINES)] = 200) -> Response:
        tail = desk.logs.tail(replica, lines)
        if tail is None:
            return JSONResponse({"message": f"{replica} has no log on {desk.config.node}"}, status_code=404)
        entry = desk.open().entry(replica)
        config = desk.config  # of one that is gone nobody knows which secrets it had
        secrets = every_secret(config.secrets).items() if entry is None else given_secrets(entry, config)
        return PlainTextResponse(redact(tail, secrets))


class Guard:
    """Around the app: nothing before adoption, no body beyond the bound, and no request that ends the agent."""

    def __init__(self, app: ASGIApp, desk: Desk) -> None:
        self._app = app
        self._desk = desk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; the ASGI interface."""
        if self._desk.supervisor is None:
            answer = JSONResponse({"message": "the agent is taking over its engines; ask again"}, status_code=503)
            await answer(scope, receive, send)
            return
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, _bounded(receive), sending)
        except Exception:  # noqa: BLE001  # one agent request: the node and the other requests must not suffer
            _log.exception("%s %s failed", scope.get("method"), scope.get("path"))
            if not started:
                message = "the agent made a mistake; its log says which"
                await JSONResponse({"message": message}, status_code=500)(scope, receive, send)


def _bounded(receive: Receive) -> Receive:
    seen = 0

    async def receiving() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > MAX_BODY_BYTES:
            raise HTTPException(413, f"the body is larger than {MAX_BODY_BYTES // 2**20} MiB")
        return message

    return receiving


def _answer(value: BaseModel) -> Response:
    status = 409 if isinstance(value, Refusal) else 200
    return Response(value.model_dump_json(), status_code=status, media_type="application/json")


async def _unreadable(_request: Request, error: Exception) -> Response:
    """Where and why, without the values: they may be secret."""
    assert isinstance(error, RequestValidationError)  # noqa: S101  # it is registered for nothing else
    errors = [{"at": ".".join(map(str, each["loc"])), "message": each["msg"]} for each in error.errors()]
    message = "; ".join(f"{each['at']}: {each['message']}" for each in errors[:3])
    return JSONResponse({"message": message, "errors": errors}, status_code=422)


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101  # as above
    return JSONResponse({"message": error.detail}, status_code=error.status_code)


async def _unwritable(_request: Request, error: Exception) -> Response:
    return JSONResponse({"message": str(error)}, status_code=507)
