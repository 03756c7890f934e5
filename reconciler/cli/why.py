"""`why`: what keeps a model from being as desired, and what would help."""

from __future__ import annotations

from typing import Annotated

import typer

from reconciler.cli.console import Context, Format, note_uncommitted, out


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(why)


def why(
    context: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model of HEAD, or one that still runs.")],
    format: Annotated[Format, typer.Option(help="How to print it.")] = Format.TEXT,  # noqa: A002
) -> None:
    """Say why a model is not as HEAD wants it, and which small changes would unblock it."""
    import anyio  # noqa: PLC0415  # keeps --help lean

    from reconciler.controller.aim import load_to_explain  # noqa: PLC0415
    from reconciler.controller.attempt import wall_clock  # noqa: PLC0415
    from reconciler.controller.externals import externals_of  # noqa: PLC0415
    from reconciler.controller.ground import ground  # noqa: PLC0415
    from reconciler.controller.look import look_beyond  # noqa: PLC0415
    from reconciler.controller.standing import read_standing  # noqa: PLC0415
    from reconciler.controller.state import state_dir  # noqa: PLC0415
    from reconciler.controller.would_merge import WouldMerge  # noqa: PLC0415
    from reconciler.errors import UsageError  # noqa: PLC0415
    from reconciler.gate.nearest import nearest  # noqa: PLC0415
    from reconciler.planning.unblocking import Case  # noqa: PLC0415
    from reconciler.planning.why import why as explain  # noqa: PLC0415
    from reconciler.views.why import why_json, why_text  # noqa: PLC0415

    options: Context = context.obj
    aim, refused = load_to_explain(options.directory)
    note_uncommitted(options.directory, aim)
    state = state_dir(aim.desired.fleet.name)
    standing = read_standing(state)
    aim = standing.over(aim)
    seen = anyio.run(look_beyond, ground(aim.desired, state, may_start=False), externals_of(aim.desired, model))
    observed = seen.observed
    running = {replica.entry.model for _, replica in observed.replicas()}
    known = sorted({*aim.desired.model_by_name, *running})
    if model not in known:
        close = nearest(model, known)
        hint = f"did you mean {close}?" if close else f"models: {', '.join(known) or 'none'}"
        raise UsageError(f"there is no model {model!r} in HEAD, and none runs", hint=hint)
    case = Case(aim.desired, observed, standing.intents, wall_clock())
    answer = explain(case, model, WouldMerge(), aim.sha, seen.externals.get(model))
    # Of a refused commit nothing starts: only what is in the way is worth telling.
    if refused is None or answer.rule is not None:
        out(why_json(answer) if format is Format.JSON else why_text(answer))
    if refused is not None:
        raise refused
