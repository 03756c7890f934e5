"""What a reconciler keeps on disk, and where."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from reconciler.controller.holder import this_process
from reconciler.controller.state import put_back, read_aim, record_aim, state_dir

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
ONE = datetime(2026, 11, 30, 13, tzinfo=UTC)


def test_the_variable_wins_and_else_each_fleet_has_its_own() -> None:
    assert state_dir("f", {"RECONCILER_STATE_DIR": "/x"}) == Path("/x")
    assert state_dir("f", {"RECONCILER_STATE_DIR": ""}).name == "f"
    assert state_dir("f", {}) != state_dir("g", {})


def test_an_aim_keeps_when_it_was_set_until_another_takes_its_place(tmp_path: Path) -> None:
    assert read_aim(tmp_path) is None
    record_aim(tmp_path, "aaa", settled=False, now=NOON)
    record_aim(tmp_path, "aaa", settled=True, now=ONE)
    record = read_aim(tmp_path)
    assert record is not None
    assert (record.commit, record.set_at, record.settled_at) == ("aaa", NOON, ONE)
    record_aim(tmp_path, "bbb", settled=False, now=ONE)
    record = read_aim(tmp_path)
    assert record is not None
    assert (record.commit, record.set_at, record.settled_at) == ("bbb", ONE, None)


def test_an_aim_is_abandoned_when_its_process_is_gone_and_it_was_not_reached(tmp_path: Path) -> None:
    living = this_process("apply")
    gone = living.model_copy(update={"started_at": living.started_at - 3600})
    before_boot = living.model_copy(update={"boot_id": "an-earlier-boot"})
    elsewhere = gone.model_copy(update={"machine": "another-machine"})
    for by, settled, is_abandoned in (
        (living, False, False),
        (gone, False, True),
        (gone, True, False),
        (before_boot, False, True),
        (elsewhere, False, False),
        (None, False, False),
    ):
        record_aim(tmp_path, "aaa", settled=settled, by=by, now=NOON)
        record = read_aim(tmp_path)
        assert record is not None
        assert record.is_abandoned is is_abandoned, by


def test_an_aim_that_came_to_nothing_gives_way_to_the_one_before(tmp_path: Path) -> None:
    record_aim(tmp_path, "aaa", settled=True, now=NOON)
    before = read_aim(tmp_path)
    record_aim(tmp_path, "bbb", settled=False, now=ONE)
    put_back(tmp_path, before)
    assert read_aim(tmp_path) == before
    put_back(tmp_path, None)
    assert read_aim(tmp_path) is None


@pytest.mark.parametrize("content", [b"", b"{", b'{"commit": 3}', b"\xff\x00"])
def test_a_torn_record_is_as_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "aim.json").write_bytes(content)
    assert read_aim(tmp_path) is None


def test_a_disk_that_does_not_take_it_is_one_sentence_and_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    trouble = record_aim(tmp_path / "file" / "below", "aaa", settled=False)
    assert trouble is not None
    assert "cannot be written" in trouble
    assert record_aim(tmp_path, "aaa", settled=False) is None
