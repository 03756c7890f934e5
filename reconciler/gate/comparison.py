"""Which models differ between two trees, how, and which of them must be replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.comparison import ModelChange, Way
from reconciler.domain.model_spec import Strategy
from reconciler.domain.plan import Action, FieldChange
from reconciler.gate.discretion import discreet
from reconciler.gate.loading import loading
from reconciler.gate.sides import pairs
from reconciler.planning.difference import compare

if TYPE_CHECKING:
    from reconciler.domain.model_spec import ModelSpec
    from reconciler.gate.sides import Side

_GIB = 2**30


def replaced(before: Side, after: Side) -> frozenset[str]:
    """Models whose replicas this change must replace, by the name they have after it.

    That is where no profile of the base is launched as before, so that whichever of them runs has to go, or where the
    restart token differs. What has no replica before or after is not replaced, and a suspended model is left alone.
    """
    return frozenset(
        pair.name
        for pair in pairs(before, after)
        if pair.before is not None and pair.after is not None and _must_go(pair.before, pair.after, before, after)
    )


def model_changes(before: Side, after: Side) -> tuple[ModelChange, ...]:
    """Every model that differs, sorted by name; one that could not be read on one side is left out."""
    changes = (_change(pair.before, pair.after, before, after) for pair in pairs(before, after))
    return tuple(sorted((each for each in changes if each is not None), key=lambda each: each.model))


def _must_go(one: ModelSpec, other: ModelSpec, before: Side, after: Side) -> bool:
    if other.suspend or min(one.replicas, other.replicas) == 0:
        return False
    if one == other and _same_defaults(before, after):
        return False
    digests = {each.launch_digest() for each in before.declarations(one).values()}
    kept = digests & {each.launch_digest() for each in after.declarations(other).values()}
    return not kept or one.restart != other.restart


def _same_defaults(before: Side, after: Side) -> bool:
    return before.desired.fleet.defaults == after.desired.fleet.defaults


def _change(one: ModelSpec | None, other: ModelSpec | None, before: Side, after: Side) -> ModelChange | None:
    if one is None:
        assert other is not None  # noqa: S101  # a pair has at least one side
        return ModelChange(model=other.name, action=Action.CREATE, after=_way(other, after))
    if other is None:
        return ModelChange(model=one.name, action=Action.DELETE, before=_way(one, before))
    fields = _fields(one, other, before, after)
    same_lock = before.desired.locks.get(one.name) == after.desired.locks.get(other.name)
    if one == other and not fields and same_lock:
        return None
    must_go = _must_go(one, other, before, after)
    strategy = after.desired.policy(other).strategy if must_go else None
    ways = (_way(one, before), _way(other, after))
    return ModelChange(
        model=other.name,
        action=_action(*ways, must_go=must_go),
        fields=fields,
        before=ways[0],
        after=ways[1],
        strategy=strategy,
        outage_seconds=_outage_seconds(other, after, strategy),
    )


def _way(model: ModelSpec, side: Side) -> Way | None:
    """How a side runs a model; None for an external one."""
    use = side.use(model)
    if use is None:
        return None
    sized = side.knowledge.sized(use)
    return Way(
        profile=use.profile.name,
        gpu_class=use.profile.gpu_class,
        gpus=use.gpus * use.profile.nodes,
        replicas=model.replicas,
        gib_per_gpu=None if sized.per_gpu is None else round(sized.per_gpu.needs.likely / _GIB, 1),
        kv_tokens=sized.kv_tokens,
    )


def _action(before: Way | None, after: Way | None, *, must_go: bool) -> Action:
    ran = before is not None and before.replicas > 0
    runs = after is not None and after.replicas > 0
    if ran != runs:
        return Action.CREATE if runs else Action.DELETE
    return Action.REPLACE if must_go else Action.UPDATE


def _fields(one: ModelSpec, other: ModelSpec, before: Side, after: Side) -> tuple[FieldChange, ...]:
    """What differs between the profiles that the two sides are counted with."""
    if one == other and _same_defaults(before, after):
        return ()
    left, right = before.use(one), after.use(other)
    if left is None or right is None:
        return ()
    found = compare(before.declarations(one)[left.profile.name], after.declarations(other)[right.profile.name])
    return tuple(
        FieldChange(field=each.field, before=discreet(each.before), after=discreet(each.after)) for each in found
    )


def _outage_seconds(model: ModelSpec, side: Side, strategy: Strategy | None) -> float | None:
    """How long nothing serves it: as `rollout/outage` says, where no other replica does and there is no room beside."""
    policy, use = side.desired.policy(model), side.use(model)
    if strategy in {None, Strategy.SURGE} or model.replicas > max(1, policy.max_unavailable) or use is None:
        return 0.0
    if strategy is Strategy.SURGE_OR_IN_PLACE and policy.max_surge > 0 and side.has_room_beside(model):
        return 0.0
    found = loading(side.knowledge, use)
    return None if found is None else float(found.seconds)
