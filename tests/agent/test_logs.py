"""Engine logs: bounded, kept past their replica, and read by whole lines."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from reconciler.agent.logs import KEPT_BYTES, KEPT_FILES, LINE_BYTES, MAX_BYTES, READ_BYTES, EngineLogs, LogReader
from reconciler.errors import AgentError

if TYPE_CHECKING:
    from pathlib import Path

ID = "tiny/0@1a2b3c4d"


@pytest.fixture
def logs(tmp_path: Path) -> EngineLogs:
    made = EngineLogs(tmp_path / "logs")
    made.rotate(ID)
    return made


def test_a_launch_begins_an_empty_log_and_keeps_the_one_before(logs: EngineLogs) -> None:
    logs.path(ID).write_text("why it died\n")
    logs.rotate(ID)
    assert logs.path(ID).read_text() == ""
    assert logs.path(ID).with_name("tiny-0@1a2b3c4d.log.1").read_text() == "why it died\n"


def test_only_the_owner_reads_logs(logs: EngineLogs) -> None:
    assert logs.path(ID).stat().st_mode & 0o077 == 0


def test_the_tail_is_the_last_lines(logs: EngineLogs) -> None:
    logs.path(ID).write_text("".join(f"line {number}\n" for number in range(500)))
    assert logs.tail(ID, 2) == "line 498\nline 499\n"


def test_an_empty_log_shows_the_launch_before(logs: EngineLogs) -> None:
    logs.path(ID).write_text("why it died\n")
    logs.rotate(ID)
    assert logs.tail(ID, 5) == "why it died\n"


def test_a_replica_that_never_wrote_has_no_log(logs: EngineLogs) -> None:
    assert logs.tail("tiny/1@1a2b3c4d", 5) is None


def test_a_log_past_its_bound_keeps_its_newest_part_while_it_is_written(logs: EngineLogs) -> None:
    with logs.path(ID).open("ab", buffering=0) as engine:
        engine.truncate(MAX_BYTES)  # a sparse file stands for 32 MiB of log
        engine.write(b"the end\n")
        logs.bound(ID)
        engine.write(b"and on\n")
    assert logs.path(ID).read_text() == "and on\n"
    kept = logs.path(ID).with_name("tiny-0@1a2b3c4d.log.1")
    assert kept.stat().st_size == KEPT_BYTES
    assert kept.read_bytes().endswith(b"the end\n")


def test_a_log_within_its_bound_is_left_alone(logs: EngineLogs) -> None:
    logs.path(ID).write_text("short\n")
    logs.bound(ID)
    assert logs.path(ID).read_text() == "short\n"


def test_logs_of_replicas_that_are_gone_are_kept_up_to_a_number(logs: EngineLogs) -> None:
    for number in range(KEPT_FILES + 5):
        path = logs.path(f"old/{number}@1a2b3c4d")
        path.write_text("x")
        os.utime(path, (number, number))
    os.utime(logs.path(ID), (0, 0))
    logs.prune([ID])
    left = {path.name for path in logs.directory.iterdir()}
    assert len(left) == KEPT_FILES + 1
    assert "tiny-0@1a2b3c4d.log" in left, "a held replica's log stays, however old"
    assert "old-4@1a2b3c4d.log" not in left
    assert "old-5@1a2b3c4d.log" in left


def test_a_log_that_cannot_be_made_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AgentError, match="log cannot be made"):
        EngineLogs(tmp_path / "file").rotate(ID)


def test_a_reader_sees_each_whole_line_once(logs: EngineLogs) -> None:
    reader, path = LogReader(logs.path(ID)), logs.path(ID)
    path.write_text("one\ntw")
    assert reader.new_lines() == ["one"]
    with path.open("a") as engine:
        engine.write("o\nthree\r\n")
    assert reader.new_lines() == ["two", "three"]
    assert reader.new_lines() == []


def test_every_state_of_a_progress_bar_is_a_line(logs: EngineLogs) -> None:
    reader, path = LogReader(logs.path(ID)), logs.path(ID)
    path.write_bytes(b"\rshards 0/4\rshards 1/4\rshards 2/4\r")
    assert reader.new_lines() == ["", "shards 0/4", "shards 1/4"]
    with path.open("ab") as engine:
        engine.write(b"\nloaded\n")
    assert reader.new_lines() == ["shards 2/4", "loaded"]


def test_a_reader_begins_anew_when_the_log_was_cut(logs: EngineLogs) -> None:
    reader, path = LogReader(logs.path(ID)), logs.path(ID)
    path.write_text("a long first line\n")
    reader.new_lines()
    path.write_text("anew\n")
    assert reader.new_lines() == ["anew"]


def test_a_reader_of_no_file_reads_nothing(tmp_path: Path) -> None:
    assert LogReader(tmp_path / "none.log").new_lines() == []


def test_of_a_line_without_an_end_a_reader_keeps_the_start(logs: EngineLogs) -> None:
    reader, path = LogReader(logs.path(ID)), logs.path(ID)
    path.write_bytes(b"start" + b"x" * 4 * READ_BYTES + b"\nloaded\n")
    looks = [reader.new_lines() for _ in range(5)]
    assert looks[:4] == [[]] * 4
    long, loaded = looks[4]
    assert long.startswith("start")
    assert (len(long), loaded) == (LINE_BYTES, "loaded")


def test_a_line_that_began_before_what_is_read_is_not_in_the_tail(logs: EngineLogs) -> None:
    """It may begin with the end of a secret."""
    logs.path(ID).write_bytes(b"x" * KEPT_BYTES + b"\nthe end\n")
    assert logs.tail(ID, 5) == "the end\n"
