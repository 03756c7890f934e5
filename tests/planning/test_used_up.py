"""When an instruction is done, and when it is not: one that still has work is never among them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.domain.intent import Intent, IntentKind
from reconciler.domain.observed import FailedLaunch, FailedStarts, ReplicaState
from reconciler.planning.planner import plan
from reconciler.planning.used_up import may_go, not_outlived, used_up
from tests.builders import NOON, a_desired, a_model, a_node, a_replica, an_entry, an_intent, heard, lost, observation

if TYPE_CHECKING:
    from reconciler.domain.observed import NodeObservation, ObservedReplica

MODEL = a_model("m", gpus=1)
NODES = (a_node("n1", gpus=2), a_node("n2", gpus=2))
DESIRED = a_desired([MODEL], NODES)
RESTART, RETRY = an_intent(IntentKind.RESTART, "m", id="restart-1"), an_intent(IntentKind.RETRY, "m", id="retry-1")
COMMIT = an_intent(IntentKind.COMMIT, id="commit-1", created_at=NOON - timedelta(hours=1))
LATER = an_intent(IntentKind.COMMIT, id="commit-2", created_at=NOON + timedelta(seconds=1))
NOW = NOON + timedelta(minutes=5)


def done(*nodes: NodeObservation, intents: tuple[Intent, ...], only: str | None = None) -> tuple[set[str], set[str]]:
    """What is used up, and what of that may go."""
    observed = observation(*nodes)
    decision = plan(DESIRED, observed, intents, NOW, only=only)
    used = used_up(DESIRED, observed, intents, decision, NOW)
    gone = may_go(DESIRED, observed, intents, decision, NOW)
    assert set(gone) <= set(used)
    return {each.id for each in used}, {each.id for each in gone}


def one(state: ReplicaState = ReplicaState.READY, **entry: Any) -> ObservedReplica:
    return a_replica(MODEL, 0, "n1", [0], state, entry=entry)


def failed(retry: str | None, **fields: Any) -> FailedLaunch:
    digest = an_entry(MODEL, 0, "n1", [0]).digest
    told = {"model": "m", "ordinal": 0, "digest": digest, "failure": "no space left on device"}
    return FailedLaunch(**(told | {"retry": retry} | fields))


N1, N2 = NODES


@pytest.mark.parametrize(
    ("replicas", "is_done"),
    [
        ([one(intent="restart-1")], True),
        ([one()], False),
        ([one(intent="restart-0")], False),
        ([one(intent="restart-1"), a_replica(MODEL, 0, "n1", [1], ReplicaState.DRAINING)], False),
        ([one(intent="restart-1"), a_replica(a_model("other", gpus=1), 0, "n1", [1])], True),
    ],
    ids=["all carry it", "one does not", "an older one", "one is still draining", "another model's"],
)
def test_a_restart_is_done_when_every_replica_carries_it(replicas: list[ObservedReplica], is_done: bool) -> None:
    used, gone = done(heard(N1, *replicas), heard(N2), intents=(RESTART,))
    assert used == gone == ({"restart-1"} if is_done else set())


def test_a_restart_waits_for_what_a_silent_node_holds() -> None:
    new, old = one(intent="restart-1"), a_replica(MODEL, 1, "n2", [0])
    assert done(heard(N1, new), lost(N2, old), intents=(RESTART,)) == (set(), set())
    never = lost(N2).model_copy(update={"last": None})
    assert done(heard(N1, new), never, intents=(RESTART,)) == (set(), set())
    assert done(heard(N1, new), lost(N2), intents=(RESTART,))[1] == {"restart-1"}


def test_what_was_sent_and_is_not_seen_yet_is_waited_for() -> None:
    assert done(heard(N1), heard(N2), intents=(RESTART, RETRY)) == (set(), set())


@pytest.mark.parametrize(
    ("launch", "used", "gone"),
    [
        (failed(None), False, False),
        (failed("commit-1"), False, False),
        (failed("retry-1"), True, False),  # else the commit, which is older, would ask for it once more
        (failed(None, digest="0" * 64), True, True),
        (failed(None, ordinal=4), True, True),
        (failed(None, model="gone"), True, True),
    ],
    ids=["not tried since", "tried before", "tried under it", "not wanted any more", "no such slot", "no such model"],
)
def test_a_retry_is_used_up_when_nothing_failed_that_was_not_tried_since(
    launch: FailedLaunch, used: bool, gone: bool
) -> None:
    full = [a_replica(a_model("other", gpus=1), each, "n1", [each]) for each in range(2)]
    nodes = heard(N1, *full, failed_launches=(launch,)), lost(N2)
    found = done(*nodes, intents=(COMMIT, RETRY))
    assert found == ({"retry-1"} if used else set(), {"retry-1"} if gone else set())


def test_a_commit_after_it_has_asked_for_the_same() -> None:
    full = [a_replica(a_model("other", gpus=1), each, "n1", [each]) for each in range(2)]
    node = heard(N1, *full, failed_launches=(failed("commit-2"),))
    assert done(node, lost(N2), intents=(LATER, RETRY))[1] == {"retry-1"}


def test_a_slot_that_serves_elsewhere_has_nothing_to_try() -> None:
    nodes = heard(N1, failed_launches=(failed(None),)), heard(N2, a_replica(MODEL, 0, "n2", [0]))
    assert done(*nodes, intents=(RETRY,))[1] == {"retry-1"}


@pytest.mark.parametrize("state", [ReplicaState.STARTING, ReplicaState.UNHEALTHY, ReplicaState.FAILED])
def test_what_may_still_fail_or_has_failed_under_an_older_word_is_waited_for(state: ReplicaState) -> None:
    assert done(heard(N1, one(state)), heard(N2), intents=(RETRY,)) == (set(), set())


@pytest.mark.parametrize(("ago", "is_open"), [(timedelta(minutes=10), True), (timedelta(minutes=1), False)])
def test_a_retry_stands_while_it_opens_a_node_on_which_nothing_was_started_since(ago: timedelta, is_open: bool) -> None:
    bad = heard(N2, failed_starts=FailedStarts(in_a_row=3, last_for=ago))
    assert done(heard(N1, one()), bad, intents=(RETRY,))[1] == (set() if is_open else {"retry-1"})


def test_only_what_was_planned_is_judged() -> None:
    nodes = heard(N1, one(intent="restart-1")), heard(N2)
    assert done(*nodes, intents=(RESTART,), only="other") == (set(), set())
    assert done(*nodes, intents=(RESTART,), only="m")[1] == {"restart-1"}


def test_other_words_are_no_matter_of_this() -> None:
    others = [an_intent(kind, "m", id=kind) for kind in (IntentKind.SUSPEND, IntentKind.WAKE)]
    assert done(heard(N1, one()), heard(N2), intents=tuple(others)) == (set(), set())


def test_a_retry_is_outlived_by_what_asked_for_the_same_later() -> None:
    suspend = an_intent(IntentKind.SUSPEND, "m", id="suspend-1")
    words, minute = (RETRY, RESTART, suspend), timedelta(minutes=1)
    assert not_outlived(words, []) == words
    assert not_outlived(words, [NOON - minute]) == words
    assert not_outlived(words, [NOON - minute, NOON + minute]) == (RESTART, suspend)


def test_what_failed_under_a_later_apply_is_stalled_though_a_node_is_silent_that_keeps_the_retry() -> None:
    """The status of a fleet in which a node is dead for weeks: the word stands, and nothing is under way for it."""
    full = [a_replica(a_model("other", gpus=1), each, "n1", [each]) for each in range(2)]
    node = heard(N1, *full, failed_launches=(failed("apply-9"),))
    never = lost(N2).model_copy(update={"last": None})
    assert done(node, never, intents=(RETRY,)) == (set(), set())
    for asked_at, rule in (([], False), ([NOON + timedelta(seconds=1)], True)):
        counting = not_outlived((RETRY,), asked_at)
        blocked = plan(DESIRED, observation(node, never), counting, NOW).plan.blocked
        assert ("rollout/failed" in {each.rule for each in blocked}) == rule
