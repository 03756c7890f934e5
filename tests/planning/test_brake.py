"""When many nodes vanish at once, and when a node takes no new starts."""

from __future__ import annotations

from datetime import timedelta

import pytest

from reconciler.domain.intent import IntentKind
from reconciler.domain.observed import FailedStarts
from reconciler.planning.brake import given_up, vanished
from tests.builders import NOON, a_desired, a_node, an_intent, heard, lost, observation


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


@pytest.mark.parametrize(
    ("silent", "found"),
    [
        ({}, ()),
        ({0: 5}, ()),  # one is an accident
        ({0: 5, 1: 5, 2: 5}, ()),  # 30 % is not over it
        ({0: 5, 1: 20, 2: 40, 3: 65}, ("n0", "n1", "n2", "n3")),
        ({0: 5, 1: 20, 2: 40, 3: 66}, ()),
        ({0: 5, 1: 500, 2: 510, 3: 520, 4: 530}, ("n1", "n2", "n3", "n4")),
        ({0: None, 1: None, 2: None, 3: None}, ()),  # they were never heard
        ({6: 5, 7: 5, 8: 5, 9: 5}, ()),  # drained ones are not missed
    ],
)
def test_only_many_that_were_heard_and_fell_silent_together_count(
    silent: dict[int, float | None], found: tuple[str, ...]
) -> None:
    nodes = [a_node(f"n{index}", drain=index > 7) for index in range(10)]
    seen = [
        lost(node).model_copy(update={"silent_for": None if silent[index] is None else seconds(silent[index] or 0)})
        if index in silent
        else heard(node)
        for index, node in enumerate(nodes)
    ]
    assert vanished(a_desired([], nodes), observation(*seen)) == found


def test_two_starts_can_be_the_model_and_three_are_the_node_until_a_person_says_retry() -> None:
    def of(in_a_row: int, *made: float, kind: IntentKind = IntentKind.RETRY) -> set[str]:
        failed = FailedStarts(in_a_row=in_a_row, last_for=seconds(60))
        intents = [an_intent(kind, id=f"i{at}", created_at=NOON + seconds(at)) for at in made]
        return set(given_up(observation(heard(a_node("n1"), failed_starts=failed)), intents, NOON))

    assert of(2) == set()
    assert of(3) == {"n1"}
    assert of(3, -120) == {"n1"}, "that was before the last of them failed"
    assert of(3, -120, -30) == set()
    assert of(3, -30, kind=IntentKind.COMMIT) == {"n1"}, "a commit says nothing of a node"
