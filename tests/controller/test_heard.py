"""When nodes were last heard, from one command to the next."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from reconciler.controller.heard import EVERY, Heard, read_heard
from reconciler.domain.observed import UnreachableNode
from tests.builders import NOON, a_node, heard, observation

if TYPE_CHECKING:
    from pathlib import Path

ONE, TWO = heard(a_node("n1")), heard(a_node("n2"))
LOST = UnreachableNode(name="n2", reason="refused the connection", since=NOON)


def test_the_next_command_knows_when_a_silent_node_was_last_heard(tmp_path: Path) -> None:
    kept = Heard(tmp_path)
    kept.note(observation(ONE, TWO), NOON)
    kept.note(observation(ONE, LOST), NOON + timedelta(seconds=5))
    assert read_heard(tmp_path) == {"n1": NOON + timedelta(seconds=5), "n2": NOON}


def test_a_calm_fleet_is_written_down_once_a_minute(tmp_path: Path) -> None:
    kept = Heard(tmp_path)
    for seconds in (0, 30, 59):
        kept.note(observation(ONE), NOON + timedelta(seconds=seconds))
    assert read_heard(tmp_path) == {"n1": NOON}
    kept.note(observation(ONE), NOON + EVERY)
    assert read_heard(tmp_path) == {"n1": NOON + EVERY}


def test_a_node_that_was_never_heard_is_in_no_record(tmp_path: Path) -> None:
    never = UnreachableNode(name="n9", reason="refused the connection")
    Heard(tmp_path).note(observation(ONE, never), NOON)
    assert set(read_heard(tmp_path)) == {"n1"}


def test_what_this_machine_tells_of_a_node_without_an_agent_is_no_hearing(tmp_path: Path) -> None:
    Heard(tmp_path / "state").note(observation(ONE.model_copy(update={"agent": False})), NOON)
    assert not (tmp_path / "state").exists()


def test_nothing_depends_on_the_record(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the directory should be")
    Heard(tmp_path / "state").note(observation(ONE), NOON)
    assert read_heard(tmp_path / "state") == {}
    for torn in (
        "{",
        '{"format_version": "1.0", "heard_at": {"n1": "9999-12-31T23:59:59-12:00"}}',
        '{"format_version": "1.0", "heard_at": {"n1": "2026-11-30T12:00:00"}}',
        '{"format_version": "2.0", "heard_at": {"n1": "2026-11-30T12:00:00Z"}}',
    ):
        (tmp_path / "heard.json").write_text(torn)
        assert read_heard(tmp_path) == {}, torn
