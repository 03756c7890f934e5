"""What must not happen without a person saying so: much that disappears at once, or all of it.

A tree without any model file stops nothing by itself. The limits of the fleet count models whose file is gone and the
replicas that they had; the digest by which a person approves depends on nothing observed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from reconciler.domain.base import digest
from reconciler.domain.placement import slot_name
from reconciler.domain.plan import Blocked
from reconciler.domain.roster import RosterRow, roster_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from reconciler.domain.desired import Desired
    from reconciler.domain.fleet_spec import Limits
    from reconciler.domain.roster import Roster

_DIGITS = 8
"""Of the digest that a person types: short, and no two sets that a fleet meets share them."""


@dataclass(frozen=True, slots=True)
class Removal:
    """What disappears from the tree, and what there was."""

    gone: Mapping[str, int]
    """Models whose file is gone, each with its replicas."""
    models: int
    """Before."""
    replicas: int
    """Before."""

    @property
    def words(self) -> str:
        """`3 models with 7 replicas`."""
        return f"{_counted(len(self.gone), 'model')} with {_counted(sum(self.gone.values()), 'replica')}"


def removal(before: Desired, after: Desired) -> Removal:
    """What a change to the tree removes; a model that another one says it has `moved` from is not gone."""
    kept = {model.name for model in after.models} | {model.moved for model in after.models if model.moved}
    gone = {model.name: model.replicas for model in before.models if model.name not in kept}
    return Removal(gone, len(before.models), sum(model.replicas for model in before.models))


def exceeded(limits: Limits, removed: Removal) -> str | None:
    """Which limit is hit, as one clause; None when all that disappears may."""
    counts = (
        ("models", limits.models_removed, len(removed.gone), removed.models),
        ("replicas", limits.replicas_removed, sum(removed.gone.values()), removed.replicas),
    )
    for what, limit, gone, total in counts:
        may = allowed(limit, total)
        if gone > may:
            written = f" ({limit} of {total})" if isinstance(limit, str) else ""
            return f"limits.{what}_removed lets {may}{written} go at once"
    return None


def allowed(limit: str | int, total: int) -> int:
    """How many of `total` may disappear: a count, or a share rounded down; always at least one."""
    return max(1, limit if isinstance(limit, int) else total * int(limit.removesuffix("%")) // 100)


def approval(gone: Mapping[str, int]) -> str:
    """What a person approves: 8 hex digits of sha256 over the sorted names and slots that would disappear."""
    slots = [slot_name(model, ordinal) for model, count in sorted(gone.items()) for ordinal in range(count)]
    return digest([sorted(gone), sorted(slots)])[:_DIGITS]


def is_approval(text: str) -> bool:
    """Whether this could be what `approval` gives."""
    return len(text) == _DIGITS and all(each in "0123456789abcdef" for each in text)


def removed(desired: Desired, held: Mapping[str, int]) -> Removal:
    """What the tree has lost since it was last made real.

    What runs and stands in no roster counts as well: another machine, or a lost state directory, must not make a
    removal smaller than it is. `held` are models with their slots, as `aim.slots_held` finds them.
    """
    before = desired.roster or roster_of(desired)
    rows = {name: row.replicas for name, row in before.models.items()}
    known = {*desired.model_by_name, *desired.name_after}
    rows |= {name: slots for name, slots in held.items() if name not in rows and name not in known}
    gone = {name: count for name, count in rows.items() if name not in known}
    return Removal(dict(sorted(gone.items())), len(rows), sum(rows.values()))


def removal_digest(desired: Desired, held: Mapping[str, int]) -> str | None:
    """What a person would approve of all that is gone and not protected, whether or not any of it still runs."""
    rows = desired.roster.models if desired.roster is not None else {}
    found = removed(desired, held).gone
    gone = {name: count for name, count in found.items() if name not in rows or not rows[name].protect}
    return approval(gone) if gone else None


def next_roster(desired: Desired, held: Mapping[str, int]) -> Roster:
    """What to remember after a pass: the tree, and as one set all that is gone from it until the last of it has left.

    So an approval holds from the first stop to the last, and what was removed bit by bit is seen as one removal.
    """
    gone = removed(desired, held).gone
    after = roster_of(desired)
    if not any(name in held for name in gone):
        return after
    before = desired.roster.models if desired.roster is not None else {}
    rows = {name: before.get(name, RosterRow(replicas=count)) for name, count in gone.items()}
    return after.model_copy(update={"models": dict(sorted((after.models | rows).items()))})


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Models whose replicas go on although their file is gone."""

    why_by_model: Mapping[str, str]
    """One clause each."""
    blocked: tuple[Blocked, ...] = ()


def hold_back(
    desired: Desired, held: Mapping[str, int], doomed: Collection[str], approved: Collection[str]
) -> HeldBack:
    """Which of the `doomed` models may not stop yet: protected ones, all of an empty tree, and what is over a limit.

    `approved` are the digests that a person has approved.
    """
    rows = desired.roster.models if desired.roster is not None else {}
    shielded = [name for name in sorted(doomed) if name in rows and rows[name].protect]
    why = dict.fromkeys(shielded, "its file said protect: true")
    blocked = [_protected(name) for name in shielded]
    found = removed(desired, held)
    gone = {name: count for name, count in found.gone.items() if name not in why}
    rest = [name for name in sorted(doomed) if name not in why]
    if not rest:
        return HeldBack(why, tuple(blocked))
    over = exceeded(desired.fleet.limits, replace(found, gone=gone))
    if not desired.models and not desired.fleet.allow_empty:
        count = sum(held[name] for name in rest)
        message = (
            f"the tree has no model file: {_counted(count, 'replica')} of {_counted(len(rest), 'model')} would stop"
        )
        hint = "write allow_empty: true in cluster.yaml if that is meant"
        blocked.append(Blocked(rule="rollout/limits", message=message, hint=hint))
        why |= dict.fromkeys(rest, "the tree has no model file")
    elif over is not None and approval(gone) not in approved:
        mark = approval(gone)
        message = f"{replace(found, gone=gone).words} would disappear: {over}"
        hint = f"nothing of it stops before: reconciler approve {mark}"
        blocked.append(Blocked(rule="rollout/limits", message=message, hint=hint, digest=mark))
        why |= dict.fromkeys(rest, f"until a person approves {mark}")
    return HeldBack(why, tuple(blocked))


def _protected(name: str) -> Blocked:
    message = f"{name} is protected: its file is gone, and its replicas are kept"
    hint = "restore the file; to remove the model take protect: true out of it and apply that first"
    return Blocked(model=name, rule="rollout/protected", message=message, hint=hint)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
