"""What a decision says of itself: its digest, when to look again, whether anything is left to do."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.domain.assignment import StopEntry
from reconciler.domain.observed import ReplicaState
from reconciler.planning.planner import plan
from tests.builders import NOON, a_desired, a_model, a_node, a_replica, heard, lost, observation, uuid
from tests.planning.lint import lint

if TYPE_CHECKING:
    from reconciler.domain.desired import Desired
    from reconciler.domain.observed import Observation
    from reconciler.domain.plan import Decision

MODEL = a_model(rollout={"min_ready": "30s", "withdraw_delay": "7s", "drain_timeout": "9s"})
BEFORE = a_model(context=1024)
NODE = a_node("n1", gpus=2)


def decide(desired: Desired, observed: Observation, tree: str | None = "t1") -> Decision:
    decision = plan(desired, observed, (), NOON, commit="c1", tree=tree)
    assert lint(desired, observed, decision) == []
    return decision


def pair(ready_for: int) -> tuple[Desired, Observation]:
    """A surge whose successor has been ready for so many seconds."""
    successor = a_replica(MODEL, 0, "n1", [1], state_for=timedelta(seconds=ready_for))
    return a_desired([MODEL], [NODE]), observation(heard(NODE, a_replica(BEFORE, 0, "n1", [0]), successor))


@pytest.mark.parametrize(("ready_for", "left"), [(0, 30), (12, 18), (29, 1)])
def test_it_says_when_a_min_ready_will_have_passed(ready_for: int, left: int) -> None:
    assert decide(*pair(ready_for)).look_again_in == timedelta(seconds=left)


def test_nothing_is_due_later_once_min_ready_has_passed() -> None:
    decision = decide(*pair(30))
    assert decision.look_again_in is None
    assert decision.orders["n1"].changes_something


def test_a_fresh_replica_that_nothing_waits_for_is_settled_at_once() -> None:
    desired = a_desired([MODEL], [NODE])
    decision = decide(desired, observation(heard(NODE, a_replica(MODEL, 0, "n1", [0], state_for=timedelta()))))
    assert decision.settled
    assert decision.look_again_in is None


@pytest.mark.parametrize("state", [ReplicaState.PENDING, ReplicaState.STARTING, ReplicaState.UNHEALTHY])
def test_a_replica_that_does_not_serve_yet_is_not_settled(state: ReplicaState) -> None:
    desired = a_desired([MODEL], [NODE])
    assert not decide(desired, observation(heard(NODE, a_replica(MODEL, 0, "n1", [0], state)))).settled


def test_what_is_still_stopping_is_not_settled() -> None:
    desired = a_desired([MODEL], [NODE])
    leaving = a_replica(BEFORE, 0, "n1", [1], ReplicaState.STOPPING)
    assert not decide(desired, observation(heard(NODE, a_replica(MODEL, 0, "n1", [0]), leaving))).settled


def test_a_silent_node_is_not_settled() -> None:
    desired = a_desired([MODEL], [NODE])
    decision = decide(desired, observation(lost(NODE, a_replica(MODEL, 0, "n1", [0]))))
    assert not decision.settled
    assert decision.orders == {}


def test_stops_carry_the_policy_and_stay_until_the_replica_is_gone() -> None:
    desired, observed = pair(30)
    (entry,) = [each for each in decide(desired, observed).orders["n1"].entries if isinstance(each, StopEntry)]
    assert (entry.withdraw_delay, entry.drain_timeout) == (timedelta(seconds=7), timedelta(seconds=9))
    node = observed.reachable[0]
    leaving = [
        replica.model_copy(update={"state": ReplicaState.DRAINING}) if replica.id == entry.id else replica
        for replica in node.replicas
    ]
    again = decide(desired, observation(node.model_copy(update={"replicas": tuple(leaving)})))
    assert entry in again.orders["n1"].entries
    assert not again.orders["n1"].changes_something


def test_the_digest_is_of_what_is_decided_and_not_of_the_words() -> None:
    desired, observed = pair(0)
    digest = decide(desired, observed).plan.digest
    assert decide(desired, observed).plan.digest == digest
    assert decide(desired, observed, tree="t2").plan.digest != digest
    told = observed.reachable[0]
    dead = a_replica(MODEL, 0, "n1", [0], ReplicaState.FAILED, ever_ready=True, failure="killed")
    slain = dead.model_copy(update={"failure": "segmentation fault"})
    digests = {
        decide(desired, observation(told.model_copy(update={"replicas": (each,)}))).plan.digest
        for each in (dead, slain)
    }
    assert len(digests) == 1


def test_time_that_passes_changes_no_digest() -> None:
    assert decide(*pair(3)).plan.digest == decide(*pair(4)).plan.digest


def test_a_plan_of_one_model_says_that_it_is_not_complete() -> None:
    desired, observed = pair(0)
    assert decide(desired, observed).plan.complete
    assert not plan(desired, observed, (), NOON, only="m").plan.complete


def test_a_new_entry_carries_what_the_agent_needs() -> None:
    desired = a_desired([MODEL.model_copy(update={"restart": "x"})], [NODE])
    (entry,) = decide(desired, observation(heard(NODE))).orders["n1"].entries
    assert not isinstance(entry, StopEntry)
    assert (entry.fleet, entry.model, entry.ordinal, entry.attempt) == ("prod", "m", 0, 0)
    assert (entry.restart, entry.intent, entry.retry) == ("x", None, None)
    assert entry.ready_timeout == timedelta(minutes=30)
    assert entry.placement.nodes == ("n1",)


def test_a_fleet_default_policy_stops_what_is_gone_from_the_tree() -> None:
    desired = a_desired([], [NODE], allow_empty=True, defaults={"rollout": {"drain_timeout": "1m"}})
    (entry,) = decide(desired, observation(heard(NODE, a_replica(MODEL, 0, "n1", [0])))).orders["n1"].entries
    assert isinstance(entry, StopEntry)
    assert entry.drain_timeout == timedelta(minutes=1)


def test_a_replica_over_two_nodes_is_unknown_when_one_of_them_is_silent() -> None:
    """Nothing places such a replica yet; one that runs must still never be cut in half."""
    other = a_node("n2", gpus=2)
    seen = a_replica(BEFORE, 0, "n1", [0])
    desired = a_desired([MODEL], [NODE, other])
    decision = decide(desired, observation(heard(NODE, seen), lost(other, seen)))
    assert [change.reason for change in decision.plan.changes] == ["unreachable"]
    assert decision.orders["n1"].entries == (seen.entry,)
    both = decide(desired, observation(heard(NODE, seen), heard(other, seen)))
    assert [change.reason for change in both.plan.changes] == ["changed"]


@pytest.mark.parametrize(
    ("first", "second", "served"),
    [
        ({}, {}, "a"),
        ({"class": "opportunistic"}, {}, "b"),
        ({}, {"class": "critical"}, "b"),
        ({"class": "critical"}, {"class": "critical"}, "a"),
        ({"scaling": {"min": 0, "max": 1}}, {}, "b"),  # on demand: nothing runs until it is asked for
    ],
)
def test_the_more_important_model_gets_the_room(first: dict[str, Any], second: dict[str, Any], served: str) -> None:
    desired = a_desired([a_model("a", gpus=2, **first), a_model("b", gpus=2, **second)], [NODE])
    starts = [change for change in decide(desired, observation(heard(NODE))).plan.acts if change.after is not None]
    assert [change.model for change in starts] == [served]


def test_indices_that_swap_change_nothing_and_name_nobody_elses_card() -> None:
    """gpustack#9 and others: a card is its UUID; after a reboot the indices may be the other way round."""
    replica = a_replica(MODEL, 0, "n1", [0])
    gpus = tuple(gpu.model_copy(update={"index": 1 - gpu.index}) for gpu in heard(NODE).gpus)
    seen = observation(heard(NODE, replica, gpus=gpus))
    assert decide(a_desired([MODEL], [NODE]), seen).settled
    (change,) = decide(a_desired([MODEL, a_model("other")], [NODE]), seen).plan.acts
    assert change.after is not None
    assert [(gpu.uuid, gpu.index) for shard in change.after.shards for gpu in shard.gpus] == [(uuid("n1", 1), 0)]
