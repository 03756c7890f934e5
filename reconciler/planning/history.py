"""What agents remember of slots: launches that failed, and what served there before.

A failure is remembered by slot, launch digest and the retry it was launched under. It counts until a new commit, or a
person, asks for another try.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.assignment import RunEntry
    from reconciler.domain.desired import Desired
    from reconciler.domain.observed import FailedLaunch, Observation
    from reconciler.planning.aim import Aim
    from reconciler.planning.counting import Slot


@dataclass(frozen=True, slots=True)
class Failure:
    """One launch that failed and is not tried again by itself."""

    node: str
    launch: FailedLaunch


@dataclass(frozen=True, slots=True)
class History:
    """What agents remember of slots, as far as it counts now; by slot name."""

    failures: Mapping[str, tuple[Failure, ...]] = field(default_factory=dict)
    last_good: Mapping[str, tuple[RunEntry, ...]] = field(default_factory=dict)
    """What served there before, by node."""

    def failure(self, slot: Slot) -> Failure | None:
        """Why what is desired is not launched in this slot; None where nothing speaks against it."""
        return next(iter(self.failures_of(slot)), None)

    def failures_of(self, slot: Slot) -> tuple[Failure, ...]:
        """Every node on which what is desired failed in this slot."""
        wanted = slot.aim.profiles_by_digest
        return tuple(each for each in self.failures.get(slot.name, ()) if each.launch.digest in wanted)

    def failed_on(self, slot: Slot) -> frozenset[str]:
        """The nodes of these."""
        return frozenset(each.node for each in self.failures_of(slot))

    def nodes_of(self, digest: str) -> frozenset[str]:
        """The nodes on which a launch failed, in whichever slot."""
        return frozenset(
            each.node for found in self.failures.values() for each in found if each.launch.digest == digest
        )

    def good(self, slot: Slot, after: str) -> RunEntry | None:
        """What can be restored after this launch digest failed: never what failed itself."""
        failed = {each.launch.digest for each in self.failures.get(slot.name, ())} | {after}
        found = (each for each in self.last_good.get(slot.name, ()) if each.digest not in failed)
        return next((each for each in found if each.model == slot.aim.name), None)


def history(desired: Desired, observed: Observation, aims: Mapping[str, Aim]) -> History:
    """Collect what the nodes that answer remember."""
    failures: dict[str, list[Failure]] = {}
    good: dict[str, list[RunEntry]] = {}
    for node in sorted(observed.reachable, key=lambda each: each.name):
        for launch in node.failed_launches:
            aim = aims.get(launch.model)
            if aim is not None and not is_asked_again(aim, launch.retry):
                failures.setdefault(f"{launch.model}/{launch.ordinal}", []).append(Failure(node.name, launch))
        for entry in node.last_good:
            if entry.fleet == desired.fleet.name:
                good.setdefault(f"{entry.model}/{entry.ordinal}", []).append(entry)
    return History(
        {slot: tuple(each) for slot, each in failures.items()}, {slot: tuple(each) for slot, each in good.items()}
    )


def is_asked_again(aim: Aim, retry: str | None) -> bool:
    """Whether a commit or a person has asked for another try since what was launched under `retry`."""
    return aim.retry is not None and aim.retry != retry
