"""Rules on replacing what runs: room for it, how long a model is away, and how much may disappear at once.

They look at files only and so at minimums; the planner says the same of the fleet as it is, under the same names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.desired import Where
from reconciler.domain.finding import Problem, Severity
from reconciler.domain.model_spec import Strategy
from reconciler.gate.loading import loading
from reconciler.gate.rule import Rule, rule, words
from reconciler.placement.needs import need_of
from reconciler.planning.limits import approval, exceeded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.domain.model_spec import ModelSpec
    from reconciler.gate.subject import Context, Use
    from reconciler.placement.needs import Ask


@rule(Severity.WARNING)
def no_surge_room(context: Context) -> Iterator[Problem]:
    """A surge starts the successor beside the running replica, so it needs room for one replica more on some node.

    Room is free GPUs of the class on one node, or host RAM and cores on CPUs, after all that runs there: here, after
    the minimums of all models have been packed as well as can be.

        strategy: surge                 blocked while every node is full
        strategy: surge_or_in_place     beside where there is room, else the running replica stops first

    In place the model has one replica less while the successor loads; with one replica it is away for that time.
    The hint names what would make room, each checked: GPUs on one node, or another model with a replica less.
    With --base it is an error for a model that the change must replace: once merged it would wait for ever.
    """
    for use, ask in _replaceable(context):
        model = use.model
        policy = context.desired.policy(model)
        if policy.strategy is not Strategy.SURGE:
            continue
        severity = Severity.ERROR if context.replaced is not None and model.name in context.replaced else None
        if policy.max_surge == 0:
            why, ways = "rollout.max_surge is 0 and the strategy is surge", ["rollout.max_surge: 1"]
        elif context.beside.has_room(ask):
            continue
        else:
            away = _away(context, use, policy.max_unavailable)
            why = context.beside.shortage(ask)
            ways = [f"rollout.strategy: surge_or_in_place  ({away})", *context.beside.ways(ask)]
        message = f"{model.name} cannot be replaced beside itself: {why}"
        yield Problem(_at(context, use), message, ", or ".join(ways), model.name, severity=severity)


@rule(Severity.WARNING)
def outage(context: Context) -> Iterator[Problem]:
    """In place the running replica stops before its successor starts, so a model with one replica is away meanwhile.

    Told is about how long: the bytes of the weights in the lock, read at 1 GiB/s, and what the engine takes to start.
    Once the model has loaded somewhere, `reconciler plan` has the measured time.

        rollout: {strategy: in_place}      with scaling.min 1: nothing serves while the new one loads

    A second replica, or a surge where there is room for it, closes the gap. fallbacks name models that answer
    meanwhile.
    """
    for use, ask in _replaceable(context):
        model = use.model
        policy = context.desired.policy(model)
        if policy.strategy is Strategy.SURGE or model.replicas > max(1, policy.max_unavailable):
            continue
        beside = policy.max_surge > 0 and context.beside.has_room(ask)
        if policy.strategy is Strategy.SURGE_OR_IN_PLACE and beside:
            continue
        found = loading(context.knowledge, use)
        lasts = found.words if found else "as long as it takes to load (its lock states no size)"
        replicas = "its one replica is" if model.replicas == 1 else f"all {model.replicas} replicas are"
        message = f"{model.name} is away while {replicas} replaced in place: {lasts}"
        if beside:
            hint = f"rollout.strategy: surge  (there is room beside), or scaling.min: {model.replicas + 1}"
        else:
            hint = ", or ".join(context.beside.ways(ask)) or "make room for a second replica"
        yield Problem(_at(context, use), message, hint, model.name)


@rule(Severity.WARNING)
def limits(context: Context) -> Iterator[Problem]:
    """How much may disappear from the tree at once is limited, since a lost directory looks like a wish to stop all.

    Only what is gone from the tree counts: models whose file is gone, and the replicas they had. A model that is
    written down to min: 0, max: 0 does not. Nothing is stopped before a person says `reconciler approve DIGEST`.

        limits: {models_removed: 20%, replicas_removed: 20%}

    A tree without any model file stops nothing either, until cluster.yaml says that an empty catalog is meant:

        name: prod
        allow_empty: true
    """
    removal, fleet = context.removal, context.desired.fleet
    if removal is None or not removal.gone:
        return
    over = exceeded(fleet.limits, removal)
    if not context.desired.models and not context.broken and not fleet.allow_empty:
        message = f"the tree has no model file: {removal.words} would stop"
        yield Problem(_fleet_file(context), message, "write allow_empty: true in cluster.yaml if that is meant")
    elif over is not None:
        hint = f"nothing of it stops before: reconciler approve {approval(removal.gone)}"
        where = _fleet_file(context)
        yield Problem(where and where.at("limits"), f"{removal.words} would disappear: {over}", hint)


@rule(Severity.NOTE)
def no_scaler(context: Context) -> Iterator[Problem]:
    """Nothing counts requests yet, so that what scaling says of load changes nothing: the count stays as it is.

    scaling.target and a max above min are read and kept, for a scaler that is to come. Until then a model runs just
    min replicas, and what somebody else has made of the count between min and max is left alone.

        scaling: {min: 1, max: 4, target: 8}     runs 1, however many requests wait
        scaling: {min: 4}                        runs 4
        scaling: {min: 0, max: 1}                on demand: loaded when it is asked for, which needs no scaler

    Write into min how many are to run; `reconciler model scale` does so.
    """
    for model in context.desired.models:
        scaling, here = model.scaling, context.desired.where_by_model.get(model.name)
        high = model.replicas if scaling.max is None else scaling.max
        if here is None or model.external is not None or (scaling.target is None and not 0 < scaling.min < high):
            continue
        field = "max" if scaling.target is None else "target"
        runs = "one is loaded when asked for" if model.is_on_demand else f"{model.replicas} run"
        runs = "1 runs" if runs == "1 run" else runs
        message = f"scaling.{field} has no effect yet: nothing scales with load, so {runs}, whatever waits"
        hint = f"write how many are to run: scaling.min, {model.replicas} to {high}" if high > model.replicas else None
        yield Problem(here.at("scaling", field), message, hint, model.name)


FAILED = Rule(
    "rollout/failed",
    Severity.WARNING,
    *words(
        """
    A launch that never answered, or died three times in a row, is not tried again by itself: it would fail again.

    What served before is kept, or after a launch in place started again on its GPUs. The message has the engine's own
    reason, and `reconciler status` shows it as well. Where it is the node's fault it goes elsewhere: what has served
    leaves GPUs that cannot be used any more, and a launch that serves in another slot is tried on three nodes in all.

        weights missing, out of memory, an unknown argument     mend it and commit

    A new commit is tried at once, and so is `reconciler retry MODEL` or another apply, for causes outside of git.
    """
    ),
)
"""What only the planner finds, with the fleet before it; the explanation is here."""

PROTECTED = Rule(
    "rollout/protected",
    Severity.WARNING,
    *words(
        """
    A model whose file said protect: true is never stopped because its file is gone, which may be a mistake.

    Its replicas go on as they are, whatever else the commit changes. To remove the model, write its file back without
    the field, apply that, and remove the file then.

        protect: true
    """
    ),
)
"""As `FAILED`."""

NODES_VANISHED = Rule(
    "rollout/nodes-vanished",
    Severity.WARNING,
    *words(
        """
    When more than one node and over 30 % of them fall silent within a minute, the network is a likelier cause.

    Nothing that serves is replaced or stopped until they answer again; what is missing or broken is repaired where
    there is room.

    Nodes that are gone for good are taken out of nodes/, or say so:

        - {name: gpu-17, drain: true}
    """
    ),
)
"""As `FAILED`."""


NOT_HEARD = Rule(
    "rollout/not-heard",
    Severity.WARNING,
    *words(
        """
    Where no node that could run a replica answers, nothing is known of room: it may be free, full or gone.

    What ran there is unknown and is left alone; nothing is started elsewhere in its place. The message says of each
    node what happened when it was asked: a name that cannot be looked up, a refused connection, silence, a certificate.

        no agent runs there      start it: reconciler agent
        it is somewhere else     mend its address in nodes/
        it is gone for good      drain: true, or take it out of nodes/
    """
    ),
)
"""As `FAILED`."""


def _replaceable(context: Context) -> Iterator[tuple[Use, Ask]]:
    """Each model that runs and may be replaced, with the first of its profiles that has a place in the fleet.

    Where not all minimums fit, or it is not known, `inventory/overcommitted` has spoken and there is no room to ask of.
    """
    together = context.together
    if together is None or not together.is_understood or not together.today.fits:
        return
    told: set[str] = set()
    for use in context.uses:
        ask = together.placed.get(use.model.name)
        if ask is not None and ask.model not in told and not use.model.suspend and need_of(use.profile) in ask.needs:
            told.add(ask.model)
            yield use, ask


def _fleet_file(context: Context) -> Where | None:
    """`cluster.yaml` as the user names it, told from a file beside it; None where there is none."""
    beside = [node.where.file for node in context.desired.nodes[:1]]
    return next((Where(f"{file.rpartition('nodes/')[0]}cluster.yaml") for file in beside), None)


def _at(context: Context, use: Use) -> Where:
    """The strategy where it is written, else the rollout, else what the profile runs on."""
    model: ModelSpec = use.model
    here = context.desired.where_by_model[model.name]
    if "strategy" in model.rollout.model_fields_set:
        return here.at("rollout", "strategy")
    if "rollout" in model.model_fields_set:
        return here.at("rollout")
    return use.where.at("engine" if use.profile.gpu_class is None else "gpu_class")


def _away(context: Context, use: Use, max_unavailable: int) -> str:
    """What in place would cost: how many replicas are away, for how long."""
    found = loading(context.knowledge, use)
    time = f"for {found.words.partition(' (')[0]} " if found else ""
    count = use.model.replicas
    if count <= max(1, max_unavailable):
        return f"it is then away {time}at each replacement"
    return f"one replica of {count} away {time}at a time"
