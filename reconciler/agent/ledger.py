"""The node's own record at run time: its counters, the claim on it, the newest assignment, what was ever ready.

What must survive is on disk before it counts: a claim or an assignment that cannot be written has not happened.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from reconciler.agent.journal import JournalUnwritable
from reconciler.agent.processes import is_dead
from reconciler.agent.remembered import came_to_nothing, came_up, left
from reconciler.domain.assignment import Refusal
from reconciler.domain.claims import decide_claim, released, restored
from reconciler.domain.observed import LoadTime

if TYPE_CHECKING:
    from reconciler.agent.clock import Moment
    from reconciler.agent.journal import Journal
    from reconciler.agent.records import NodeRecord, ReplicaRecord
    from reconciler.domain.assignment import Assignment, ClaimRequest
    from reconciler.domain.claims import Claims

_log = logging.getLogger(__name__)

REMEMBERED_DIGESTS = 256
"""Launch digests that were ready once; the oldest go. A node runs tens of models, each changed now and then."""


class Ledger:
    """The node record and the claims that follow from it."""

    def __init__(self, record: NodeRecord, journal: Journal, moment: Moment) -> None:
        self._journal = journal
        self.claims: Claims = restored(record.epoch, record.claim, moment.seconds)
        self._saved = True
        self.record = self._opened(record, moment)

    def claim(self, request: ClaimRequest, now: float, boot_id: str) -> int | Refusal:
        """Take or renew the claim: its epoch. JournalUnwritable when it cannot be remembered."""
        outcome = decide_claim(self.claims, request, now, boot_id=boot_id, is_dead=is_dead)
        if isinstance(outcome, Refusal):
            return outcome
        self._keep_claims(outcome)
        return outcome.epoch

    def release(self, holder_id: str, epoch: int) -> None:
        """Give a claim up; nothing happens when it is not the newest any more."""
        self._keep_claims(released(self.claims, holder_id, epoch))

    def accept(self, assignment: Assignment) -> None:
        """This assignment holds from now on; JournalUnwritable leaves the one before."""
        accepted = (assignment.epoch, assignment.generation)
        self._keep(self.record.model_copy(update={"assignment": assignment, "accepted": accepted}))

    def was_ready(self, digest: str) -> bool:
        """Whether this launch digest reached ready on this node."""
        return digest in self.record.ready_digests

    def became_ready(self, record: ReplicaRecord) -> None:
        """Remember a launch digest and its load time; in memory only while the journal cannot be written."""
        entry, before = record.entry, self.record
        digests = (*(each for each in before.ready_digests if each != entry.digest), entry.digest)
        times = {each.model: each for each in before.load_times}
        if record.load_seconds is not None:
            times[entry.model] = LoadTime(model=entry.model, seconds=record.load_seconds)
        update = {
            "ready_digests": digests[-REMEMBERED_DIGESTS:],
            "load_times": tuple(times[model] for model in sorted(times)),
        }
        self._remember(came_up(before.model_copy(update=update), entry), f"{entry.id} became ready")

    def launch_failed(self, record: ReplicaRecord, why: str, moment: Moment) -> None:
        """Remember a launch that ended before it answered; in memory only while the journal cannot be written."""
        entry = record.entry
        self._remember(came_to_nothing(self.record, entry, why, moment), f"{entry.id} failed to start")

    def left(self, replica_id: str, moment: Moment) -> None:
        """Remember when what served here went; in memory only while the journal cannot be written."""
        record = left(self.record, replica_id, moment)
        if record is not self.record:
            self._remember(record, f"{replica_id} is gone")

    def _remember(self, record: NodeRecord, what: str) -> None:
        self.record = record
        try:
            self._journal.save_node(record)
        except JournalUnwritable as error:
            self._saved = False
            _log.warning("%s and that is not on disk: %s", what, error.message)

    def write_again(self) -> None:
        """Write the record that could not be written, or that somebody removed; nothing when it is on disk."""
        if self._saved and self._journal.holds_node():
            return
        with suppress(JournalUnwritable):  # it was said when it began; the next look tries again
            self._keep(self.record)

    def _opened(self, record: NodeRecord, moment: Moment) -> NodeRecord:
        """Write the new count of starts down; without a disk it comes from the clock, so that none is used twice."""
        try:
            self._journal.save_node(record)
        except JournalUnwritable as error:
            _log.warning("going on without a journal: %s", error.message)
            self._saved = False
            return record.model_copy(update={"agent_starts": int(moment.at.timestamp())})
        return record

    def _keep_claims(self, claims: Claims) -> None:
        if (claims.epoch, claims.claim) != (self.claims.epoch, self.claims.claim):
            self._keep(self.record.model_copy(update={"epoch": claims.epoch, "claim": claims.claim}))
        self.claims = claims

    def _keep(self, record: NodeRecord) -> None:
        self._journal.save_node(record)
        self.record, self._saved = record, True
