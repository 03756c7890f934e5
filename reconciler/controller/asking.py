"""What an instruction of a person would find, before it is written down: something to do, nothing, or a mistake.

Where a node does not answer, or the model's own file is broken, nobody knows: the instruction is then taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from reconciler.controller.aim import Aim, load_commit
from reconciler.controller.attempt import decide, wall_clock
from reconciler.controller.ground import ground
from reconciler.controller.look import look
from reconciler.controller.standing import read_standing
from reconciler.controller.state import read_aim
from reconciler.domain.intent import IntentKind
from reconciler.domain.observed import ReplicaState
from reconciler.errors import SourceError, UsageError
from reconciler.planning.aim import slots_held
from reconciler.planning.brake import given_up
from reconciler.planning.limits import removal_digest
from reconciler.planning.matching import LEAVING
from reconciler.planning.used_up import failed_before, held_of, unheard
from reconciler.views.intent import intent_text
from reconciler.views.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path

    from reconciler.domain.intent import Intent
    from reconciler.domain.observed import Observation, ObservedReplica


@dataclass(frozen=True, slots=True)
class Asked:
    """The fleet as an instruction meets it."""

    aims: tuple[Aim, ...]
    """HEAD and what was last applied, as far as the gate takes them; at least one."""
    observed: Observation
    intents: tuple[Intent, ...]
    """What was said before."""
    now: datetime

    @property
    def silent(self) -> tuple[str, ...]:
        """Nodes of which nobody knows what they hold."""
        return unheard(self.aims[0].desired, self.observed)

    def nothing_to_retry(self, model: str) -> str | None:
        """What was found instead of something that failed; None where there is something, or it cannot be known."""
        failed = any(
            failed_before(aim.desired, self.observed, model, frozenset())
            or any(each.state is ReplicaState.FAILED for each in self._held(aim, model))
            for aim in self.aims
        )
        if failed or self.silent or given_up(self.observed, (), self.now):
            return None
        return f"{model}: nothing of it has failed ({self._found(model)}), so there is nothing to try again"

    def nothing_to_restart(self, model: str) -> str | None:
        """That nothing of it runs; None where something does, or it cannot be known."""
        running = [each for each in self._held(self.aims[0], model) if each.state not in LEAVING]
        if running or self.silent:
            return None
        return f"{model}: {self._found(model)}, so there is nothing to restart; whatever starts of it is new"

    def approved_before(self, digest: str) -> Intent | None:
        """Who has approved this already; None where nobody has. UsageError where no plan asks for it."""
        found = next((each for each in self.intents if each.kind is IntentKind.APPROVE and each.digest == digest), None)
        if found is not None and found.is_live(self.now):
            return found
        waiting: dict[str, str] = {}
        known: set[str | None] = set()
        for aim in self.aims:
            blocked = decide(aim, self.observed, self.intents, now=self.now).plan.blocked
            waiting |= {each.digest: each.message for each in blocked if each.digest is not None}
            if self.silent:  # what runs there would be stopped later, and a plan says nothing of it now
                known |= {removal_digest(aim.desired, held) for held in ({}, slots_held(aim.desired, self.observed))}
        if digest not in waiting and digest not in known:
            told = "; ".join(f"{each} ({message})" for each, message in sorted(waiting.items()))
            rest = "what another commit or the work tree removes is asked for once that is HEAD"
            hint = f"what waits for approval: {told}" if told else f"nothing waits for approval; {rest}"
            raise UsageError(f"no plan asks for {digest}: neither that of HEAD nor what was last applied", hint=hint)
        return None

    def _held(self, aim: Aim, model: str) -> Sequence[ObservedReplica]:
        return held_of(aim.desired, self.observed, model)

    def _found(self, model: str) -> str:
        """`2 replicas: ready, starting`, or that none runs."""
        held = self._held(self.aims[0], model)
        states = ", ".join(dict.fromkeys(each.state for each in held))
        return f"{counted(len({each.id for each in held}), 'replica')}: {states}" if held else "no replica of it runs"


def asked(directory: Path, state: Path) -> Asked | None:
    """Look at the fleet; None where the gate takes neither HEAD nor what was last applied, so that nothing is known."""
    standing, record = read_standing(state), read_aim(state)
    aims: dict[str | None, Aim] = {}
    for revision in ("HEAD", record.commit if record is not None else "HEAD"):
        try:
            aim = load_commit(directory, revision)
        except SourceError:
            continue
        aims[aim.sha] = standing.over(aim)
    if not aims:
        return None
    found = tuple(aims.values())
    observed = anyio.run(look, ground(found[0].desired, state, may_start=False))
    return Asked(found, observed, standing.intents, wall_clock())


def already(intent: Intent) -> str:
    """`1a2b3c4d is approved already: approve 1a2b3c4d, said by ada 13:30`."""
    return f"{intent.digest} is approved already: {intent_text(intent, wall_clock().astimezone())}"
