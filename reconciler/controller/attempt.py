"""One pass: what was observed → what is decided → sent once. Level-triggered: every pass reads everything it needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import anyio

from reconciler.domain.assignment import Assignment
from reconciler.domain.observed import Observation, ReachableNode
from reconciler.errors import UsageError
from reconciler.fleet.executor import Outcome, send
from reconciler.planning.planner import plan
from reconciler.planning.used_up import may_go

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reconciler.controller.aim import Aim
    from reconciler.controller.claims import Claims
    from reconciler.domain.intent import Intent
    from reconciler.domain.plan import Decision, NodeOrders
    from reconciler.fleet.executor import Sent
    from reconciler.fleet.observer import Observer
    from reconciler.fleet.protocol import Fleet

SETTLE_WITHIN = timedelta(seconds=5)
"""An agent tells what it took within a round trip; longer means that it is gone, which the next pass sees."""


def wall_clock() -> datetime:
    """This machine's clock, in UTC."""
    return datetime.now(UTC)  # noqa: TID251  # the shell reads the clock for the core


FIRST_HEARING = timedelta(seconds=60)
"""A fresh reconciler changes nothing before it has heard every node, or has waited this long (design section 7): what
it has not heard of may run there already."""


@dataclass(slots=True)
class Hearing:
    """What this process has heard of nodes so far, over changes of the inventory and lost claims."""

    began: float = field(default_factory=anyio.current_time)
    """When it began to listen, on the monotonic clock."""
    known: dict[str, ReachableNode] = field(default_factory=dict)
    heard_at: dict[str, datetime] = field(default_factory=dict)
    """By node, when it was last heard, by this process or one before it; for people."""

    def lacks(self, observed: Observation) -> tuple[str, ...]:
        """Nodes that were never heard and may still be within the time for it."""
        silent = tuple(node.name for node in observed.unreachable if node.last is None)
        return silent if self.left > timedelta() else ()

    @property
    def left(self) -> timedelta:
        """How much of that time is left."""
        return timedelta(seconds=self.began - anyio.current_time()) + FIRST_HEARING


@dataclass(slots=True)
class Attempts:
    """The passes of one reconciler: its collaborators, and the generations it has sent."""

    fleet: Fleet
    observer: Observer
    claims: Claims
    inventory: tuple[str, ...]
    hearing: Hearing
    now: Callable[[], datetime] = wall_clock
    """The reconciler's wall clock; only tells which intents have expired."""
    _generation_by_node: dict[str, int] = field(default_factory=dict)
    _unanswered: set[str] = field(default_factory=set)
    """Nodes whose last assignment got no answer. It may still be on its way, and what was right then may be wrong when
    it arrives: whatever is right now is sent after it, with a higher generation, even if that changes nothing."""

    async def once(
        self, aim: Aim, intents: Sequence[Intent], *, only: str | frozenset[str] | None, may_start: bool = True
    ) -> Pass:
        """Observe, decide, and send what is due; `may_start` False only looks, so that what is in flight can finish.

        A node of this machine whose agent is gone gets one first, and nothing is sent on what its journal said:
        what drains or starts there needs it, and the next pass sees the truth.
        """
        observed = self.observer.latest()
        decision = decide(aim, observed, intents, only=only, now=self.now())
        if not may_start:
            return Pass(observed, decision, ())
        unattended = [node for node in observed.reachable if not node.agent and (node.replicas or _is_due(decision))]
        if unattended:
            await self._attend(unattended)
            return Pass(observed, decision, (), attended=True)
        due = [each for each in decision.orders.values() if each.changes_something or each.node in self._unanswered]
        unheard = self.hearing.lacks(observed)
        if due and unheard:
            return Pass(observed, decision, (), held_back=_not_heard(unheard), only_looks_for=self.hearing.left)
        if not due:
            return Pass(observed, decision, ())
        await self.claims.take(node.name for node in observed.reachable)
        if not self.claims.enough(len(self.inventory)):
            return Pass(observed, decision, (), held_back=self.claims.lacking(self.inventory))
        known = {node.name: node for node in observed.reachable}
        assignments = [
            self._assignment(aim, orders, known[orders.node])
            for orders in due
            if orders.node in self.claims.epoch_by_node
        ]
        sent = await send(self.fleet, assignments)
        for each in sent:
            self._unanswered.discard(each.node)
            if each.outcome is Outcome.UNKNOWN:
                self._unanswered.add(each.node)
            elif each.outcome is Outcome.REFUSED:
                self.claims.forget(each.node)  # perhaps fenced off: ask again, and hear who holds it
            elif each.revision is not None:
                await self.observer.reached(each.node, each.revision, SETTLE_WITHIN)
        return Pass(observed, decision, sent)

    async def _attend(self, nodes: Sequence[ReachableNode]) -> None:
        """Claim nodes without an agent, which starts it, and wait until it has been heard."""
        for node in nodes:
            self.claims.forget(node.name)  # whatever was held died with the agent
        await self.claims.take(node.name for node in nodes)
        for node in nodes:
            if node.name in self.claims.epoch_by_node:
                await self.observer.reached(node.name, node.revision + 1, SETTLE_WITHIN)

    def _assignment(self, aim: Aim, orders: NodeOrders, node: ReachableNode) -> Assignment:
        generation = max(node.generation, self._generation_by_node.get(node.name, 0)) + 1
        self._generation_by_node[node.name] = generation
        return Assignment(
            fleet=aim.desired.fleet.name,
            node=node.name,
            holder=self.claims.holder.id,
            epoch=self.claims.epoch_by_node[node.name],
            generation=generation,
            entries=orders.entries,
        )


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass saw, decided and sent."""

    observed: Observation
    decision: Decision
    sent: tuple[Sent, ...]
    attended: bool = False
    """Whether it only saw to it that an agent runs."""
    held_back: str | None = None
    """Why nothing was sent although something is due."""
    only_looks_for: timedelta | None = None
    """For how long nothing is sent because of nodes that were never heard."""


def _not_heard(nodes: Sequence[str]) -> str:
    told = ", ".join(nodes[:3]) + (f" and {len(nodes) - 3} more" if len(nodes) > 3 else "")  # noqa: PLR2004  # a line
    return f"{told} not heard yet: nothing is changed until then, or for {FIRST_HEARING.total_seconds():.0f} s"


def _is_due(decision: Decision) -> bool:
    """Whether an agent has anything to be told."""
    return any(orders.changes_something for orders in decision.orders.values())


def spent(aim: Aim, done: Pass, intents: Sequence[Intent], now: datetime) -> tuple[Intent, ...]:
    """What people said that this pass, made under `intents`, has found done and needs no more."""
    return may_go(aim.desired, done.observed, intents, done.decision, now)


def check_only(aim: Aim, observed: Observation, only: str | None) -> None:
    """UsageError when `--model` names nothing that is desired or runs."""
    running = {replica.entry.model for _, replica in observed.replicas()}
    if only is not None and only not in aim.desired.model_by_name and only not in running:
        known = ", ".join(sorted({*aim.desired.model_by_name, *running})) or "none"
        raise UsageError(f"there is no model {only!r} in this commit or on the fleet", hint=f"models: {known}")


def decide(
    aim: Aim,
    observed: Observation,
    intents: Sequence[Intent],
    *,
    only: str | frozenset[str] | None = None,
    now: datetime | None = None,
) -> Decision:
    """The planner's decision as of now."""
    return plan(aim.desired, observed, intents, now or wall_clock(), commit=aim.sha, tree=aim.tree_id, only=only)
