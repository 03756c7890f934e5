"""Progress of an apply or of a run: a line when a replica changes, and a heartbeat so that silence is no hang.

Plain lines, not a redrawn screen: they read the same on a terminal, in a CI log and in a file.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reconciler.cli.console import note, out
from reconciler.controller.apply import IN_FLIGHT, Ending
from reconciler.domain.observed import ReplicaState
from reconciler.domain.plan import Action
from reconciler.views.status import progress_line

if TYPE_CHECKING:
    from reconciler.controller.apply import Applied
    from reconciler.controller.attempt import Pass
    from reconciler.domain.observed import Observation, ObservedReplica
    from reconciler.domain.plan import Plan

HEARTBEAT_SECONDS = 10.0
"""A line at least this often while something is in flight (silence of minutes is reported as a hang elsewhere)."""


@dataclass(slots=True)
class Progress:
    """Compares each pass with the one before and says what changed."""

    before: Observation
    planned: Plan | None = None
    """What the person has just been shown."""
    _known: dict[str, tuple[ReplicaState, str | None]] = field(default_factory=dict)
    _nodes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Of every replica that was seen, where it was placed."""
    _started: float = field(default_factory=time.monotonic)
    _spoke: float = field(default_factory=time.monotonic)
    _done: dict[str, Action] = field(default_factory=dict)
    """By slot, what was first planned for it: replacing in place is one replacement, not one and a creation."""
    _blocked: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for _, replica in self.before.replicas():
            self._known[replica.id] = (replica.state, replica.stage)
            self._nodes[replica.id] = replica.entry.placement.nodes
        if self.planned is not None:
            self._blocked = _blocked_lines(self.planned)

    def passed(self, done: Pass) -> None:
        """Say what this pass shows that the last one did not."""
        for change in done.decision.plan.acts:
            self._done.setdefault(change.replica, change.action)
        seen = {replica.id: replica for _, replica in done.observed.replicas()}
        quiet = time.monotonic() - self._spoke > HEARTBEAT_SECONDS
        for replica in seen.values():
            self._replica(replica, heartbeat=quiet)
        silent = {node.name for node in done.observed.unreachable}
        for gone in [each for each in self._known if each not in seen]:
            if silent.isdisjoint(self._nodes.get(gone, ())):  # on one that keeps silent it is unknown, not gone
                self._line(f"✓ {gone} stopped and gone")
                del self._known[gone]
        self._say_blocked(done.decision.plan, done.held_back)

    def said(self, message: str) -> None:
        """One line about something out of the ordinary."""
        note(message)
        self._spoke = time.monotonic()

    def summary(self, applied: Applied, *, commit: str) -> str:
        """The closing line: what was done, in what time, and what is left."""
        plan = applied.last.decision.plan
        left = {change.replica for change in plan.acts}
        counts = Counter(action for slot, action in self._done.items() if slot not in left)
        words = {
            Action.CREATE: "created",
            Action.REPLACE: "replaced",
            Action.UPDATE: "updated",
            Action.DELETE: "deleted",
        }
        did = (
            ", ".join(f"{counts[action]} {word}" for action, word in words.items() if counts[action]) or "nothing to do"
        )
        seconds = int(time.monotonic() - self._started)
        took = f"{seconds // 60}:{seconds % 60:02d}"
        match applied.ending:
            case Ending.DONE:
                return f"done in {took}: {did}, nothing left to do (commit {commit[:7]})"
            case Ending.INTERRUPTED:
                still = f"still to do: {', '.join(sorted(left))}; " if left else ""
                return f"interrupted after {took}: {did}; {still}the next apply goes on from here"
            case Ending.FAILED | Ending.LIMIT | Ending.WAITING:
                why = "; ".join(dict.fromkeys(each.message for each in plan.blocked)) or _stuck(applied)
                return f"stopped after {took}: not everything could be done: {why}"

    def _replica(self, replica: ObservedReplica, *, heartbeat: bool) -> None:
        state = (replica.state, replica.stage)
        known = self._known.get(replica.id)
        self._known[replica.id] = state
        self._nodes[replica.id] = replica.entry.placement.nodes
        if known == state:
            if heartbeat and replica.state in IN_FLIGHT:
                self._line(progress_line(replica), important=False)
        elif replica.state is ReplicaState.READY:
            took = f" in {replica.load_seconds:.1f} s" if replica.load_seconds is not None else ""
            self._line(f"✓ {replica.id} ready on {', '.join(replica.entry.placement.nodes)}{took}")
        elif replica.state is ReplicaState.FAILED:
            self._line(f"✗ {replica.id} failed: {replica.failure or 'no reason is known'}")
        else:
            self._line(progress_line(replica), important=False)

    def _say_blocked(self, plan: Plan, held_back: str | None) -> None:
        blocked = _blocked_lines(plan) | ({held_back} if held_back else set())
        for each in sorted(blocked - self._blocked):
            self.said(f"blocked: {each}")
        self._blocked = blocked

    def _line(self, text: str, *, important: bool = True) -> None:
        self._spoke = time.monotonic()
        (out if important else note)(text)


def _stuck(applied: Applied) -> str:
    """Why an apply ended that nothing blocked."""
    if applied.last.held_back is not None:
        return applied.last.held_back
    if applied.ending is Ending.FAILED:
        return "an agent was sent what is due again and again, and nothing came of it"
    silent = [f"{node.name} does not answer: {node.reason}" for node in applied.last.observed.unreachable]
    return "; ".join(silent) or "nothing that is left can be done now"


def _blocked_lines(plan: Plan) -> frozenset[str]:
    return frozenset(f"{each.message} ({each.rule})" for each in plan.blocked)
