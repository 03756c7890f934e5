"""`retry`, `suspend`, `resume`, `restart`, `wake`, `approve`: instructions that stand until they are done or withdrawn.

Each writes one row into the state directory. `run` reads it within a second, `plan` and `apply` when they begin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from reconciler.cli.console import Context, note, out

if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from pathlib import Path

    from reconciler.controller.asking import Asked
    from reconciler.domain.desired import Desired
    from reconciler.domain.intent import Intent, IntentKind

Model = Annotated[str, typer.Argument(metavar="MODEL", help="A model of HEAD, or one whose file is gone.")]
Why = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why; shown wherever it has an effect.")]

_NAMED = 3
"""Nodes that are named in a note."""

TAKEN = "reconciler run takes it within a second; without one: reconciler apply"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (retry, suspend, resume, restart, wake, approve):
        app.command()(command)


def retry(context: typer.Context, model: Model, reason: Why = None) -> None:
    """Launch what failed of a model again, once, and start on nodes that were given up."""
    from reconciler.domain.intent import IntentKind  # noqa: PLC0415  # keeps --help lean

    state, _ = _place(context, model)
    fleet = _asked(context, state)
    nothing = fleet.nothing_to_retry(model) if fleet is not None else None
    if nothing is not None:
        out(f"{nothing}; how it stands: reconciler why {model}")
        return
    _add(state, IntentKind.RETRY, model=model, reason=reason)
    _note_silent(fleet)
    out(f"{model}: what failed is tried again once; {TAKEN}")


def suspend(
    context: typer.Context,
    model: Model,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="Such as 90s, 30m, 2h or 1d; else until resumed.")
    ] = None,
    reason: Why = None,
) -> None:
    """Change nothing about a model: no start, no stop, no repair, until the time is over or it is resumed."""
    from reconciler.domain.intent import IntentKind  # noqa: PLC0415  # keeps --help lean

    state, _ = _place(context, model)
    intent = _add(state, IntentKind.SUSPEND, model=model, reason=reason, lasts=_duration(for_))
    until = f"until {intent.expires_at.astimezone():%Y-%m-%d %H:%M}" if intent.expires_at else "until it is resumed"
    out(f"{model} is suspended {until}; end it with: reconciler resume {model}")


def resume(context: typer.Context, model: Model) -> None:
    """End the suspension of a model that `suspend` began."""
    from reconciler.controller.standing import read_standing, remove_intents  # noqa: PLC0415  # keeps --help lean
    from reconciler.domain.intent import IntentKind  # noqa: PLC0415

    state, desired = _place(context, model)
    found = [each for each in read_standing(state).intents if each.kind is IntentKind.SUSPEND and each.model == model]
    remove_intents(state, found)
    out(f"{model} is resumed; {TAKEN}" if found else f"{model} was not suspended by a command")
    spec = desired.model_by_name.get(model)
    if spec is not None and spec.suspend:
        note("note: its file says suspend: true, which holds; remove that and commit to end it")


def restart(
    context: typer.Context,
    model: Annotated[str, typer.Option("--model", metavar="M", help="The model whose replicas are replaced.")],
    reason: Why = None,
) -> None:
    """Replace every replica of a model by its rollout policy, though nothing about it has changed."""
    from reconciler.domain.intent import IntentKind  # noqa: PLC0415  # keeps --help lean

    state, _ = _place(context, model)
    fleet = _asked(context, state)
    nothing = fleet.nothing_to_restart(model) if fleet is not None else None
    if nothing is not None:
        out(nothing)
        return
    _add(state, IntentKind.RESTART, model=model, reason=reason)
    _note_silent(fleet)
    out(f"{model}: every replica is replaced by its rollout policy; {TAKEN}")


def wake(context: typer.Context, model: Model, reason: Why = None) -> None:
    """Load one replica of an on-demand model (min 0, max above it); it stops when it was idle for its idle_timeout."""
    from reconciler.domain.intent import IntentKind  # noqa: PLC0415  # keeps --help lean
    from reconciler.errors import UsageError  # noqa: PLC0415

    state, desired = _place(context, model)
    spec = desired.model_by_name.get(model)
    if spec is None or not spec.is_on_demand:
        raise UsageError(f"{model} is not on demand", hint="what scaling: {min: 0, max: 1} says is loaded when woken")
    _add(state, IntentKind.WAKE, model=model, reason=reason, lasts=desired.idle_timeout(spec))
    out(f"{model} is woken; {TAKEN}")


def approve(
    context: typer.Context,
    digest: Annotated[str, typer.Argument(metavar="DIGEST", help="As plan, apply and status print it.")],
    reason: Why = None,
) -> None:
    """Let disappear what a limit holds back. It holds for just that set of models and replicas."""
    from reconciler.controller.asking import already  # noqa: PLC0415  # keeps --help lean
    from reconciler.domain.intent import IntentKind  # noqa: PLC0415
    from reconciler.errors import UsageError  # noqa: PLC0415
    from reconciler.planning.limits import is_approval  # noqa: PLC0415

    if not is_approval(digest):
        raise UsageError(f"{digest!r} is no digest", hint="8 hex digits, as reconciler plan prints them")
    state = _state(context)
    fleet = _asked(context, state)
    before = fleet.approved_before(digest) if fleet is not None else None
    if before is not None:
        out(already(before))
        return
    _add(state, IntentKind.APPROVE, digest=digest, reason=reason)
    out(f"{digest} is approved until it is done or the set changes; {TAKEN}")


def _asked(context: typer.Context, state: Path) -> Asked | None:
    """What the instruction would find; None where nobody can tell."""
    from reconciler.controller.asking import asked  # noqa: PLC0415  # keeps --help lean

    options: Context = context.obj
    return asked(options.directory, state)


def _note_silent(fleet: Asked | None) -> None:
    """Say which nodes may hold more of what was asked for: there it is done when they answer."""
    silent = fleet.silent if fleet is not None else ()
    if silent:
        more = f" and {len(silent) - _NAMED} more" if len(silent) > _NAMED else ""
        verb = "does" if len(silent) == 1 else "do"
        note(f"note: {', '.join(silent[:_NAMED])}{more} {verb} not answer; what is there is seen to when it is heard")


def _state(context: typer.Context) -> Path:
    from reconciler.controller.aim import fleet_name  # noqa: PLC0415  # keeps --help lean
    from reconciler.controller.state import state_dir  # noqa: PLC0415

    options: Context = context.obj
    return state_dir(fleet_name(options.directory))


def _place(context: typer.Context, model: str) -> tuple[Path, Desired]:
    """The state directory, and what HEAD says; UsageError for a model that neither HEAD nor the roster knows."""
    from reconciler.controller.standing import read_standing  # noqa: PLC0415  # keeps --help lean
    from reconciler.errors import UsageError  # noqa: PLC0415
    from reconciler.sources.loader import load  # noqa: PLC0415
    from reconciler.sources.repository import read_tree  # noqa: PLC0415

    options: Context = context.obj
    state, loaded = _state(context), load(read_tree(options.directory))
    roster = read_standing(state).roster
    known = {*loaded.partial.model_by_name, *loaded.broken, *(roster.models if roster is not None else ())}
    if model not in known:
        raise UsageError(
            f"there is no model {model!r} in HEAD, nor was there in what was last applied",
            hint=f"models: {', '.join(sorted(known)) or 'none'}",
        )
    return state, loaded.partial


def _add(
    state: Path,
    kind: IntentKind,
    *,
    model: str | None = None,
    digest: str | None = None,
    reason: str | None = None,
    lasts: timedelta | None = None,
) -> Intent:
    from reconciler.controller.attempt import wall_clock  # noqa: PLC0415  # keeps --help lean
    from reconciler.controller.holder import this_user  # noqa: PLC0415
    from reconciler.controller.standing import add_intent, intent_id  # noqa: PLC0415
    from reconciler.domain.intent import Intent  # noqa: PLC0415

    now: datetime = wall_clock()
    intent = Intent(
        id=intent_id(kind, now),
        kind=kind,
        model=model,
        digest=digest,
        author=this_user(),
        reason=reason or None,
        created_at=now,
        expires_at=now + lasts if lasts is not None else None,
    )
    add_intent(state, intent)
    return intent


def _duration(text: str | None) -> timedelta | None:
    from datetime import timedelta  # noqa: PLC0415  # keeps --help lean

    from pydantic_core import PydanticCustomError  # noqa: PLC0415

    from reconciler.domain.base import parse_duration  # noqa: PLC0415
    from reconciler.errors import UsageError  # noqa: PLC0415

    if text is None:
        return None
    try:
        found = parse_duration(text)
    except PydanticCustomError:
        raise UsageError(f"--for {text}: expected a duration such as 90s, 30m, 2h or 1d") from None
    if found <= timedelta():
        raise UsageError(f"--for {text}: a suspension lasts for some time", hint="without --for it lasts until resumed")
    return found
