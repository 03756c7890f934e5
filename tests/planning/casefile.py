"""Case files: a fleet as YAML, and the plan, the orders and the whole course of the rollout as text.

`models` and `nodes` take what `tests.builders` takes. A replica is `{slot, gpus, state, for, was}` under its node:
`was` overrides what its model says now, and so makes it outdated. `unreachable` nodes say what they last said.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML

from reconciler.domain.assignment import RunEntry
from reconciler.domain.intent import IntentKind
from reconciler.domain.observed import ForeignProcess, LoadTime, ReplicaState
from reconciler.domain.placement import parse_replica_id
from reconciler.domain.plan import Reason
from reconciler.planning.planner import plan
from reconciler.views.placement import clock_text, place_text
from reconciler.views.plan import plan_text
from tests.builders import FLEET, NOON, a_desired, a_model, a_node, a_replica, an_intent, heard, lost, observation
from tests.planning.lint import lint
from tests.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reconciler.domain.desired import Desired
    from reconciler.domain.intent import Intent
    from reconciler.domain.observed import NodeObservation, Observation, ObservedReplica
    from reconciler.domain.plan import Decision

PASSES = 80
"""More than any case needs; a rollout that takes longer is not converging."""

KEYS = frozenset(
    ["why", "why_nothing", "fleet", "models", "nodes", "observed", "unreachable", "intents", "only", "fails", "expect"]
)


@dataclass(frozen=True, slots=True)
class Case:
    """One case as read."""

    why: str
    why_nothing: str | None
    desired: Desired
    observed: Observation
    intents: tuple[Intent, ...]
    only: str | None
    fails: tuple[str, ...]
    """Slots whose launches fail in the course."""

    def decide(self, observed: Observation) -> Decision:
        """Plan, and hold the plan against the linter."""
        decision = plan(self.desired, observed, self.intents, NOON, commit="9c2f4e1", tree="t1", only=self.only)
        assert lint(self.desired, observed, decision, self.only) == []
        return decision

    def text(self, decision: Decision) -> str:
        """What a person reads."""
        return plan_text(decision.plan, self.observed, commit_line="commit 9c2f4e1", fleet=FLEET)


def read(path: Path) -> Case:
    """A case; every key is known, so that a typing mistake does not weaken it."""
    raw = YAML(typ="safe").load(path.read_text("utf-8"))
    assert raw.keys() <= KEYS, f"{raw.keys() - KEYS} of {path.name}"
    desired = a_desired(
        [a_model(**each) for each in raw.get("models") or ()],
        [a_node(**each) for each in raw.get("nodes") or ()],
        **(raw.get("fleet") or {}),
    )
    models = {each["name"]: each for each in raw.get("models") or ()}
    reported = raw.get("observed") or {}
    nodes = [_node(desired, name, reported.get(name) or {}, models) for name in _names(desired, reported)]
    silent = [lost(desired.node_by_name[name], *_replicas(name, each, models)) for name, each in _silent(raw)]
    return Case(
        why=raw["why"],
        why_nothing=raw.get("why_nothing"),
        desired=desired,
        observed=observation(*(node for node in nodes if node.name not in {each.name for each in silent}), *silent),
        intents=tuple(an_intent(IntentKind(each.pop("kind")), **each) for each in raw.get("intents") or ()),
        only=raw.get("only"),
        fails=tuple(raw.get("fails") or ()),
    )


def course(case: Case) -> list[str]:
    """Obey, let time pass, plan again, until there is nothing left to do: what was done when, and how it ended."""
    simulation = Simulation.of(case.observed, fails=lambda entry: _failure(case, entry))
    lines: list[str] = []
    for _ in range(PASSES):
        decision = case.decide(simulation.observe())
        lines += [f"{clock_text(simulation.now)}  {line}" for line in simulation.obey(decision)]
        due = any(orders.changes_something for orders in decision.orders.values())
        if not due and not simulation.pass_time(decision.look_again_in):
            return [*lines, f"{clock_text(simulation.now)}  {_ending(case, simulation, decision)}"]
    raise AssertionError("it does not come to an end")


def orders_text(decision: Decision) -> list[str]:
    """Every entry of every node, one a line; nothing for a node that already holds just these."""
    lines = []
    for node, orders in decision.orders.items():
        if not orders.changes_something:
            continue
        for entry in orders.entries:
            if isinstance(entry, RunEntry):
                attempt = f" attempt {entry.attempt}" if entry.attempt else ""
                lines.append(
                    f"{node}: run {entry.id} {place_text(entry.placement).removeprefix(node).strip()}{attempt}"
                )
            else:
                lines.append(f"{node}: {entry.kind} {entry.id}")
    return lines


def _ending(case: Case, simulation: Simulation, decision: Decision) -> str:
    """How it ended; and planning again changes nothing."""
    again = case.decide(simulation.observe())
    assert again.plan.digest == decision.plan.digest
    assert simulation.obey(again) == []
    if decision.settled:
        return "settled"
    ending = [f"blocked by {rule}" for rule in sorted({block.rule for block in decision.plan.blocked})]
    waiting = [change for change in decision.plan.changes if change.schedule.kind == "waiting"]
    ending += [f"waiting: {change.replica} ({change.reason})" for change in waiting]
    ending += [f"broken: {change.replica}" for change in decision.plan.changes if change.reason is Reason.UNHEALTHY]
    assert ending, "not settled, and nothing says why"
    return "; ".join(ending)


def _failure(case: Case, entry: RunEntry) -> str | None:
    return "out of memory" if f"{entry.model}/{entry.ordinal}" in case.fails else None


def _names(desired: Desired, reported: dict[str, Any]) -> list[str]:
    """Inventory nodes answer unless told otherwise; a node that has left the inventory answers when it is reported."""
    return sorted({node.name for node in desired.nodes} | reported.keys())


def _silent(raw: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(name, each or {}) for name, each in (raw.get("unreachable") or {}).items()]


def _node(desired: Desired, name: str, raw: dict[str, Any], models: dict[str, Any]) -> NodeObservation:
    node = desired.node_by_name.get(name) or a_node(name)
    fields: dict[str, Any] = {}
    gpus = heard(node).gpus
    if "used_mib" in raw:
        gpus = tuple(gpu.model_copy(update={"used_mib": raw["used_mib"].get(gpu.index, 0)}) for gpu in gpus)
    if "silent_gpus" in raw:
        gpus = tuple(gpu.model_copy(update={"answers": gpu.index not in raw["silent_gpus"]}) for gpu in gpus)
    if "engines" in raw:
        fields["engines"] = tuple(raw["engines"])
    if "foreign" in raw:
        held = tuple(gpu.uuid for gpu in gpus if gpu.index in raw["foreign"])
        fields["foreign"] = (ForeignProcess(pid=4242, command="python train.py", gpus=held),)
    if "load_times" in raw:
        fields["load_times"] = tuple(LoadTime(model=model, seconds=s) for model, s in raw["load_times"].items())
    return heard(node, *_replicas(name, raw, models), gpus=gpus, **fields)


def _replicas(node: str, raw: dict[str, Any], models: dict[str, Any]) -> Sequence[ObservedReplica]:
    return [_replica(node, each, models) for each in raw.get("replicas") or ()]


def _replica(node: str, raw: dict[str, Any], models: dict[str, Any]) -> ObservedReplica:
    known = {"slot", "gpus", "state", "for", "was", "entry", "seen"}
    assert raw.keys() <= known, f"{raw.keys() - known} of {raw['slot']}"
    name, ordinal = parse_replica_id(f"{raw['slot']}@00000000")
    model = a_model(**({"name": name} | models.get(name, {}) | raw.get("was", {})))
    fields = dict(raw.get("seen") or {})
    if "for" in raw:
        fields["state_for"] = timedelta(seconds=raw["for"])
    state = ReplicaState(raw.get("state", "ready"))
    return a_replica(model, ordinal, node, raw.get("gpus") or (), state, entry=raw.get("entry"), **fields)
