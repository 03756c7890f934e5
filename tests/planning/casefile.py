"""Case files: a fleet as YAML, and the plan, the orders and the whole course of the rollout as text.

`models` and `nodes` take what `tests.builders` takes. A replica is `{slot, gpus, state, for, was}` under its node:
`was` overrides what its model says now, and so makes it outdated; `parts` are the GPUs of all its nodes where it has
several, and it is written under each that reports it. `last_good` are replicas that once were ready. `unreachable`
nodes say what they last said.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML

from reconciler.domain.assignment import RunEntry
from reconciler.domain.fleet_spec import GpuGroup
from reconciler.domain.intent import IntentKind
from reconciler.domain.observed import FailedLaunch, FailedStarts, ForeignProcess, LoadTime, ReplicaState
from reconciler.domain.placement import parse_replica_id
from reconciler.domain.plan import Reason
from reconciler.domain.roster import Roster, RosterRow
from reconciler.planning.aim import slots_held
from reconciler.planning.limits import next_roster
from reconciler.planning.outlook import NoFigures, foresee
from reconciler.planning.planner import plan
from reconciler.views.placement import clock_text, place_text
from reconciler.views.plan import plan_text
from tests.builders import (
    FLEET,
    NOON,
    a_desired,
    a_model,
    a_node,
    a_replica,
    an_intent,
    heard,
    lost,
    observation,
    shards_of,
)
from tests.planning.lint import lint
from tests.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reconciler.domain.desired import Desired, Node
    from reconciler.domain.intent import Intent
    from reconciler.domain.observed import NodeObservation, Observation, ObservedReplica, UnreachableNode
    from reconciler.domain.plan import Decision

PASSES = 80
"""More than any case needs; a rollout that takes longer is not converging."""

KEYS = frozenset(
    [
        "why",
        "why_nothing",
        "fleet",
        "roster",
        "models",
        "nodes",
        "observed",
        "unreachable",
        "intents",
        "only",
        "fails",
        "expect",
    ]
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
    """Slots whose launches fail in the course, perhaps only with one `context`, number of `gpus` or `on` one node."""

    def decide(self, observed: Observation, roster: Roster | None = None, seconds: float = 0.0) -> Decision:
        """Plan so long after noon, and hold the plan against the linter; `roster` is what earlier passes left."""
        desired = self.desired if roster is None else replace(self.desired, roster=roster)
        now = NOON + timedelta(seconds=seconds)
        decision = plan(desired, observed, self.intents, now, commit="9c2f4e1", tree="t1", only=self.only)
        holding = [each for each in self.intents if each.is_live(now)]
        assert lint(desired, observed, decision, self.only, intents=holding) == []
        return decision

    def text(self, decision: Decision) -> str:
        """What a person reads."""
        seen = foresee(self.desired, self.observed, self.intents, NOON, decision.plan, NoFigures())
        return plan_text(seen, self.observed, commit_line="commit 9c2f4e1", fleet=FLEET)


def read(path: Path) -> Case:
    """A case; every key is known, so that a typing mistake does not weaken it."""
    raw = YAML(typ="safe").load(path.read_text("utf-8"))
    assert raw.keys() <= KEYS, f"{raw.keys() - KEYS} of {path.name}"
    return case_of(raw)


def case_of(raw: dict[str, Any]) -> Case:
    """A case out of what its file says."""
    desired = a_desired(
        [a_model(**each) for each in raw.get("models") or ()],
        [_listed(each) for each in raw.get("nodes") or ()],
        **(raw.get("fleet") or {}),
    )
    models = {each["name"]: each for each in raw.get("models") or ()}
    reported = raw.get("observed") or {}
    nodes = [_node(desired, name, reported.get(name) or {}, models) for name in _names(desired, reported)]
    if "roster" in raw:
        rows = {name: RosterRow.model_validate(each) for name, each in raw["roster"].items()}
        desired = replace(desired, roster=Roster(models=rows))
    silent = [_lost(desired.node_by_name[name], _replicas(name, each, models), each) for name, each in _silent(raw)]
    return Case(
        why=raw["why"],
        why_nothing=raw.get("why_nothing"),
        desired=desired,
        observed=observation(*(node for node in nodes if node.name not in {each.name for each in silent}), *silent),
        intents=tuple(_intent(**each) for each in raw.get("intents") or ()),
        only=raw.get("only"),
        fails=tuple(raw.get("fails") or ()),
    )


def _intent(kind: str, *, made: float = 0, lasts: float | None = None, **fields: Any) -> Intent:
    """An intent made so many seconds after noon, which is now, and lasting so many from then."""
    at = NOON + timedelta(seconds=made)
    ends = None if lasts is None else at + timedelta(seconds=lasts)
    return an_intent(IntentKind(kind), created_at=at, expires_at=ends, **fields)


def _lost(node: Node, replicas: Sequence[ObservedReplica], raw: dict[str, Any]) -> UnreachableNode:
    silent_for = timedelta(seconds=raw["silent_for"]) if "silent_for" in raw else None
    last = {"last": None} if raw.get("never_heard") else {}
    return lost(node, *replicas).model_copy(update={"silent_for": silent_for, **last})


def _listed(raw: dict[str, Any]) -> Node:
    """A node of the inventory; `groups` where its GPUs are of several classes."""
    groups = tuple(GpuGroup.model_validate(group) for group in raw.get("groups") or ())
    return a_node(**(raw | {"groups": groups} if groups else raw))


def course(case: Case) -> list[str]:
    """Obey, let time pass, plan again, until there is nothing left to do: what was done when, and how it ended."""
    simulation = Simulation.of(case.observed, fails=lambda entry: _failure(case, entry))
    lines: list[str] = []
    roster = case.desired.roster
    for _ in range(PASSES):
        observed = simulation.observe()
        decision = case.decide(observed, roster, simulation.now)
        roster = next_roster(replace(case.desired, roster=roster), slots_held(case.desired, observed))
        lines += [f"{clock_text(simulation.now)}  {line}" for line in simulation.obey(decision)]
        due = any(orders.changes_something for orders in decision.orders.values())
        times = [each for each in (decision.look_again_in, decision.expires_in) if each is not None]
        if not due and not simulation.pass_time(min(times, default=None)):
            return [*lines, f"{clock_text(simulation.now)}  {_ending(case, simulation, decision, roster)}"]
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


def _ending(case: Case, simulation: Simulation, decision: Decision, roster: Roster) -> str:
    """How it ended; and planning again changes nothing."""
    again = case.decide(simulation.observe(), roster, simulation.now)
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
    slot, declared = f"{entry.model}/{entry.ordinal}", entry.declaration
    named = {slot, f"{slot} context {declared.context}", f"{slot} gpus {declared.gpus}"}
    named |= {f"{slot} on {node}" for node in entry.placement.nodes}
    return "out of memory" if named & set(case.fails) else None


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
    gpus = tuple(gpu for gpu in gpus if gpu.index not in raw.get("lost_gpus", ()))
    if "gpu_class" in raw:
        gpus = tuple(gpu.model_copy(update={"gpu_class": raw["gpu_class"]}) for gpu in gpus)
    if "engines" in raw:
        fields["engines"] = tuple(raw["engines"])
    if "foreign" in raw:
        held = tuple(gpu.uuid for gpu in gpus if gpu.index in raw["foreign"])
        fields["foreign"] = (ForeignProcess(pid=4242, command="python train.py", gpus=held),)
    if "load_times" in raw:
        fields["load_times"] = tuple(LoadTime(model=model, seconds=s) for model, s in raw["load_times"].items())
    if "failed_starts" in raw:
        in_a_row, last_for = raw["failed_starts"]
        fields["failed_starts"] = FailedStarts(in_a_row=in_a_row, last_for=timedelta(seconds=last_for))
    fields["failed_launches"] = tuple(_failed(each, models) for each in raw.get("failed") or ())
    if "last_good" in raw:
        fields["last_good"] = tuple(_replica(name, each, models).entry for each in raw["last_good"])
    return heard(node, *_replicas(name, raw, models), gpus=gpus, **fields)


def _failed(raw: dict[str, Any], models: dict[str, Any]) -> FailedLaunch:
    """A launch that the agent remembers, as what its model says now or, with `was`, said then."""
    entry = _replica("n", {"slot": raw["slot"], "was": raw.get("was", {})}, models).entry
    return FailedLaunch(
        model=entry.model, ordinal=entry.ordinal, digest=entry.digest, retry=raw.get("retry"), failure="out of memory"
    )


def _replicas(node: str, raw: dict[str, Any], models: dict[str, Any]) -> Sequence[ObservedReplica]:
    return [_replica(node, each, models) for each in raw.get("replicas") or ()]


def _replica(node: str, raw: dict[str, Any], models: dict[str, Any]) -> ObservedReplica:
    known = {"slot", "gpus", "parts", "state", "for", "was", "entry", "seen"}
    assert raw.keys() <= known, f"{raw.keys() - known} of {raw['slot']}"
    name, ordinal = parse_replica_id(f"{raw['slot']}@00000000")
    model = a_model(**({"name": name} | models.get(name, {}) | raw.get("was", {})))
    fields = dict(raw.get("seen") or {})
    if "for" in raw:
        fields["state_for"] = timedelta(seconds=raw["for"])
    state = ReplicaState(raw.get("state", "ready"))
    entry = dict(raw.get("entry") or {})
    if "parts" in raw:
        entry["shards"] = tuple(shard for name, gpus in raw["parts"].items() for shard in shards_of(name, gpus))
    return a_replica(model, ordinal, node, raw.get("gpus") or (), state, entry=entry, **fields)
