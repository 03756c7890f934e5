"""The safety sentences of the design, as properties of the pure planner over fleets that could exist."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.domain.assignment import StopEntry
from reconciler.domain.base import canonical_json
from reconciler.domain.observed import ReplicaState
from reconciler.domain.plan import Action, Reason
from reconciler.planning.planner import plan
from tests.builders import NOON
from tests.planning.lint import lint
from tests.simulation import Simulation
from tests.strategies import Fleet, fleets, turned

if TYPE_CHECKING:
    from reconciler.domain.assignment import RunEntry
    from reconciler.domain.desired import Desired
    from reconciler.domain.observed import Observation
    from reconciler.domain.plan import Decision

PASSES = 120
"""A dozen replicas one after the other take three passes each; three times that is not converging."""

some = settings(max_examples=40)
"""For the properties whose every example is a whole course of a dozen plans and more."""


def decide(fleet: Fleet, observed: Observation | None = None) -> Decision:
    """One plan, held against the linter: promises 3, 4 and 5, and that every slot appears once."""
    seen = fleet.observed if observed is None else observed
    decision = plan(fleet.desired, seen, fleet.intents, NOON, tree="t")
    assert lint(fleet.desired, seen, decision, intents=fleet.intents) == []
    return decision


def run_on(fleet: Fleet, simulation: Simulation, passes: int = PASSES) -> Decision:
    """Obey and let time pass until nothing is left to do; the last decision. Ready replicas are watched all the way."""
    for _ in range(passes):
        decision = decide(fleet, simulation.observe())
        simulation.obey(decision)
        due = any(orders.changes_something for orders in decision.orders.values())
        if not due and not simulation.pass_time(decision.look_again_in):
            return decision
    raise AssertionError(f"not at an end after {passes} passes: {fleet}")


def as_bytes(decision: Decision) -> bytes:
    orders = [
        [name, [entry.model_dump(mode="json") for entry in each.entries]] for name, each in decision.orders.items()
    ]
    return canonical_json([decision.plan.model_dump(mode="json"), orders])


@given(fleets())
def test_every_plan_keeps_every_promise(fleet: Fleet) -> None:
    decide(fleet)


@given(fleets())
def test_planning_twice_gives_equal_bytes(fleet: Fleet) -> None:
    assert as_bytes(decide(fleet)) == as_bytes(decide(fleet))


@given(fleets())
def test_the_order_of_documents_nodes_replicas_and_intents_changes_nothing(fleet: Fleet) -> None:
    assert as_bytes(decide(fleet)) == as_bytes(decide(turned(fleet)))


@given(fleets())
def test_it_comes_to_an_end_and_planning_again_changes_nothing(fleet: Fleet) -> None:
    """Whatever the start: at the end nothing moves, and what is not as desired says why."""
    simulation = Simulation.of(fleet.observed)
    decision = run_on(fleet, simulation)
    again = decide(fleet, simulation.observe())
    assert again.plan == decision.plan
    assert simulation.obey(again) == []
    if not decision.settled:
        explained = bool(decision.plan.blocked) or any(
            change.reason is Reason.UNREACHABLE or change.schedule.on for change in decision.plan.changes
        )
        assert explained, decision.plan.model_dump_json(indent=1)


@some
@given(fleets(calm=True))
def test_with_room_for_all_it_settles_on_just_what_is_desired(fleet: Fleet) -> None:
    simulation = Simulation.of(fleet.observed)
    decision = run_on(fleet, simulation)
    assert decision.settled, decision.plan.model_dump_json(indent=1)
    assert not decision.plan.acts
    ready = sorted(
        {
            replica.id: f"{replica.entry.model}/{replica.entry.ordinal}"  # once, though each of its nodes reports it
            for _, replica in simulation.observe().replicas()
            if replica.state is ReplicaState.READY
        }.values()
    )
    wanted = sorted(f"{each.name}/{ordinal}" for each in fleet.desired.models for ordinal in range(each.replicas))
    assert ready == wanted


@some
@given(fleets(calm=True), st.data())
def test_zero_replicas_stops_everything_of_that_model_and_nothing_else(fleet: Fleet, data: st.DataObject) -> None:
    simulation = Simulation.of(fleet.observed)
    run_on(fleet, simulation)
    name = data.draw(st.sampled_from([model.name for model in fleet.desired.models]))
    none = replace(fleet, desired=scaled(fleet.desired, name, 0))
    before = {replica.id for _, replica in simulation.observe().replicas() if replica.entry.model == name}
    decision = decide(none, simulation.observe())
    stopped = {
        entry.id for orders in decision.orders.values() for entry in orders.entries if isinstance(entry, StopEntry)
    }
    assert stopped == before
    assert {change.model for change in decision.plan.acts} <= {name}
    run_on(none, simulation)
    assert not any(replica.entry.model == name for _, replica in simulation.observe().replicas())


@some
@given(fleets(), st.sets(st.sampled_from(["a/0", "a/1", "b/0", "b/1", "c/0"])))
def test_launches_that_fail_end_the_rollout_and_stop_nothing_that_serves(fleet: Fleet, failing: set[str]) -> None:
    def fails(entry: RunEntry) -> str | None:
        return "out of memory" if f"{entry.model}/{entry.ordinal}" in failing else None

    run_on(fleet, Simulation.of(fleet.observed, fails=fails))


@some
@given(fleets(), st.integers(0, 8), st.data())
def test_a_new_commit_on_the_way_is_rolled_out_within_the_same_budget(
    fleet: Fleet, passes: int, data: st.DataObject
) -> None:
    simulation = Simulation.of(fleet.observed)
    for _ in range(passes):
        decision = decide(fleet, simulation.observe())
        simulation.obey(decision)
        simulation.pass_time(decision.look_again_in)
    changed = tuple(
        model.model_copy(update={"context": data.draw(st.sampled_from([1024, 2048, 4096]))})
        for model in fleet.desired.models
    )
    run_on(replace(fleet, desired=replace(fleet.desired, models=changed)), simulation)


@given(fleets())
def test_a_suspended_model_changes_nothing(fleet: Fleet) -> None:
    models = tuple(model.model_copy(update={"suspend": True}) for model in fleet.desired.models)
    decision = decide(replace(fleet, desired=replace(fleet.desired, models=models)))
    names = {model.name for model in models}
    assert all(change.action is Action.NONE for change in decision.plan.changes if change.model in names)


@given(fleets(), st.sampled_from(["a", "b", "gone"]))
def test_planning_one_model_keeps_the_rest_as_it_is_held(fleet: Fleet, name: str) -> None:
    decision = plan(fleet.desired, fleet.observed, fleet.intents, NOON, only=name)
    assert lint(fleet.desired, fleet.observed, decision, name, intents=fleet.intents) == []
    assert {change.model for change in decision.plan.changes} <= {name}
    held = {replica.id: replica for _, replica in fleet.observed.replicas()}
    for orders in decision.orders.values():
        for entry in orders.entries:
            known = held.get(entry.id)
            if known is not None and known.entry.model != name and not isinstance(entry, StopEntry):
                assert entry == known.entry
            elif known is not None and known.entry.model != name:
                assert known.state in {ReplicaState.DRAINING, ReplicaState.STOPPING}


def scaled(desired: Desired, name: str, replicas: int) -> Desired:
    """The same desired side with another count for one model."""
    models = tuple(
        model.model_copy(update={"scaling": model.scaling.model_copy(update={"min": replicas})})
        if model.name == name
        else model
        for model in desired.models
    )
    return replace(desired, models=models)
