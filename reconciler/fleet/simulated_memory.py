"""What a simulated agent remembers of its node, replicas that are gone included, and what it tells of that.

The same memory as the real agent's (`agent.remembered` and `agent.ledger` give the reasons); the contract tests hold
both to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from reconciler.domain.observed import FailedLaunch, FailedStarts, LoadTime

if TYPE_CHECKING:
    from collections.abc import Collection

    from reconciler.domain.assignment import RunEntry
    from reconciler.domain.observed import ReachableNode

REMEMBERED_SLOTS = 64
REMEMBERED_DIGESTS = 256
TOLD_AFTER_LEAVING = 3600.0
"""As many, and as long, as the real agent: `agent.remembered`, `agent.ledger`."""


@dataclass(slots=True)
class Memory:
    """Survives the agent and the machine: it stands for the agent's journal. Instants are seconds of virtual time."""

    ready_digests: tuple[str, ...] = ()
    """Launch digests that reached ready on this node, oldest first."""
    load_seconds: dict[str, float] = field(default_factory=dict)
    """By model, of the last load."""
    last_good: tuple[RunEntry, ...] = ()
    """What reached ready last in each slot, oldest first."""
    left_at: dict[str, float] = field(default_factory=dict)
    """When those of them that are gone went, by id."""
    failed_launches: tuple[FailedLaunch, ...] = ()
    failed_starts: tuple[str, ...] = ()
    """Ids of replicas whose launches failed since the last one that came up, each once."""
    failed_at: float = 0.0
    """When the last of them failed."""

    @classmethod
    def of(cls, node: ReachableNode) -> Memory:
        """What a node must remember to have answered this at second 0."""
        served = [replica.entry for replica in node.replicas if replica.ever_ready]
        good = {_slot(entry): entry for entry in (*node.last_good, *served)}
        failed = node.failed_starts
        return cls(
            ready_digests=tuple(sorted({entry.digest for entry in good.values()})),
            load_seconds={each.model: each.seconds for each in node.load_times},
            last_good=tuple(good.values()),
            left_at={entry.id: 0.0 for entry in node.last_good},
            failed_launches=node.failed_launches,
            failed_starts=tuple(f"before-{number}" for number in range(failed.in_a_row if failed else 0)),
            failed_at=-failed.last_for.total_seconds() if failed else 0.0,
        )

    def was_ready(self, digest: str) -> bool:
        """Whether this launch digest reached ready on this node."""
        return digest in self.ready_digests

    def came_up(self, entry: RunEntry, load_seconds: float | None) -> None:
        """A launch reached ready: the node is well, and what failed in its slot under another retry is past."""
        digests = (*(each for each in self.ready_digests if each != entry.digest), entry.digest)
        good = (*(each for each in self.last_good if _slot(each) != _slot(entry)), entry)
        self.ready_digests, self.last_good = digests[-REMEMBERED_DIGESTS:], good[-REMEMBERED_SLOTS:]
        if load_seconds is not None:
            self.load_seconds[entry.model] = load_seconds
        self.failed_launches = tuple(
            each
            for each in self.failed_launches
            if _slot(each) != _slot(entry) or (each.retry == entry.retry and each.digest != entry.digest)
        )
        self.failed_starts = ()

    def came_to_nothing(self, entry: RunEntry, why: str, now: float) -> None:
        """A launch ended before it answered; what was ready here before is no failed launch, yet a failed start."""
        launch = FailedLaunch(
            model=entry.model, ordinal=entry.ordinal, digest=entry.digest, retry=entry.retry, failure=why
        )
        if not self.was_ready(entry.digest):
            known = (_slot(entry), entry.digest)
            others = (each for each in self.failed_launches if (_slot(each), each.digest) != known)
            self.failed_launches = (*others, launch)[-REMEMBERED_SLOTS:]
        starts = (*(each for each in self.failed_starts if each != entry.id), entry.id)
        self.failed_starts, self.failed_at = starts[-REMEMBERED_SLOTS:], now

    def left(self, replica_id: str, now: float) -> None:
        """A replica is gone."""
        self.left_at[replica_id] = now

    # What it tells.

    def told_loads(self) -> tuple[LoadTime, ...]:
        """How long each model took last."""
        return tuple(LoadTime(model=model, seconds=seconds) for model, seconds in sorted(self.load_seconds.items()))

    def told_good(self, held: Collection[str], now: float) -> tuple[RunEntry, ...]:
        """What served before, for slots in which a launch failed here or may soon fail elsewhere; `held` run."""
        failed = {_slot(each) for each in self.failed_launches}
        recent = {each for each, at in self.left_at.items() if now - at < TOLD_AFTER_LEAVING}
        gone = (each for each in self.last_good if each.id not in held)
        return tuple(each for each in gone if each.id in recent or _slot(each) in failed)

    def told_starts(self, now: float) -> FailedStarts | None:
        """How many starts in a row have failed; None where the last one came up."""
        if not self.failed_starts:
            return None
        ago = timedelta(seconds=max(now - self.failed_at, 0.0))
        return FailedStarts(in_a_row=len(self.failed_starts), last_for=ago)


def _slot(each: RunEntry | FailedLaunch) -> tuple[str, int]:
    return each.model, each.ordinal
