"""The moves of a stop: withdraw, drain, signal, signal again, kill."""

from __future__ import annotations

from datetime import timedelta

import pytest

from reconciler.agent.records import StopRecord
from reconciler.agent.stop_moves import COUNT_EVERY, StopMove, stop_move
from reconciler.engines.base import StopBehaviour

BEHAVIOUR = StopBehaviour(repeat_after=timedelta(seconds=5), kill_after=timedelta(seconds=15))


def stop(*, withdrawn: float | None = 0, signalled: float | None = None, drain: float = 60) -> StopRecord:
    return StopRecord(
        withdraw_delay=timedelta(seconds=5),
        drain_timeout=timedelta(seconds=drain),
        withdrawn_seconds_at=withdrawn,
        signalled_seconds_at=signalled,
    )


def due(
    record: StopRecord, now: float, *, idle: int = 0, terminated: int = 0, behaviour: StopBehaviour = BEHAVIOUR
) -> tuple[StopMove, float]:
    return stop_move(record, behaviour, now, idle_readings=idle, terminated=terminated)


def test_clients_get_the_withdraw_delay_to_notice() -> None:
    assert due(stop(), 1, idle=9) == (StopMove.WAIT, 4)


def test_then_the_requests_in_flight_are_counted() -> None:
    assert due(stop(), 5)[0] is StopMove.COUNT
    assert due(stop(), 5, idle=1)[0] is StopMove.COUNT, "one reading may fall between two requests"


def test_two_idle_readings_end_the_drain() -> None:
    assert due(stop(), 6, idle=2)[0] is StopMove.INTEND


@pytest.mark.parametrize(("idle_for", "readings"), [(0.0, 2), (0.5, 2), (0.6, 3), (1.0, 3), (5.0, 11)], ids=str)
def test_an_engine_may_have_to_be_idle_for_longer(idle_for: float, readings: int) -> None:
    behaviour = StopBehaviour(timedelta(seconds=5), timedelta(seconds=15), timedelta(seconds=idle_for))
    assert due(stop(), 20, idle=readings - 1, behaviour=behaviour) == (StopMove.COUNT, COUNT_EVERY)
    assert due(stop(), 20, idle=readings, behaviour=behaviour)[0] is StopMove.INTEND
    assert (readings - 1) * COUNT_EVERY >= idle_for


def test_the_drain_ends_at_its_deadline_whatever_is_in_flight() -> None:
    assert due(stop(), 64.9)[0] is StopMove.COUNT
    assert due(stop(), 65)[0] is StopMove.INTEND


def test_a_drain_of_no_time_is_none() -> None:
    assert due(stop(drain=0), 5)[0] is StopMove.INTEND


def test_what_never_served_is_signalled_at_once() -> None:
    assert due(stop(withdrawn=None), 0)[0] is StopMove.INTEND


@pytest.mark.parametrize(
    ("elapsed", "terminated", "move"),
    [
        (0, 0, StopMove.TERMINATE),
        (0, 1, StopMove.WAIT),
        (4.9, 1, StopMove.WAIT),
        (5, 1, StopMove.TERMINATE),
        (5, 2, StopMove.WAIT),
        (14.9, 2, StopMove.WAIT),
        (15, 2, StopMove.KILL),
        (400, 0, StopMove.KILL),
    ],
)
def test_the_signal_is_repeated_and_a_kill_ends_it(elapsed: float, terminated: int, move: StopMove) -> None:
    assert due(stop(signalled=100), 100 + elapsed, terminated=terminated)[0] is move


def test_it_looks_again_when_the_next_move_is_due() -> None:
    assert due(stop(signalled=100), 101, terminated=1) == (StopMove.WAIT, 4)
    assert due(stop(signalled=100), 106, terminated=2) == (StopMove.WAIT, 9)


def test_an_agent_that_restarted_signals_once_more() -> None:
    assert due(stop(signalled=100), 103, terminated=0)[0] is StopMove.TERMINATE
