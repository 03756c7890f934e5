"""Whether engines may be bound here is tried, with a program that stands for numactl."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil

from reconciler.agent.binding import can_bind
from tests.agent.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path


def numactl(directory: Path, script: str) -> str:
    """A PATH with this script as numactl on it."""
    program = directory / "numactl"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return f"{directory}:/usr/bin:/bin"


def test_each_node_is_tried_once_with_the_words_that_an_engine_gets(tmp_path: Path) -> None:
    path = numactl(tmp_path, f'echo "$@" >> {tmp_path}/asked')
    assert can_bind((1, 0, 1), path)
    assert sorted((tmp_path / "asked").read_text().splitlines()) == [
        "--cpunodebind=0 --preferred=0 true",
        "--cpunodebind=1 --preferred=1 true",
    ]


def test_a_container_that_forbids_it_binds_nothing(tmp_path: Path) -> None:
    refuses = "echo 'set_mempolicy: Operation not permitted' >&2; exit 1"
    assert not can_bind((0,), numactl(tmp_path, refuses))


def test_one_node_that_is_out_of_reach_is_enough(tmp_path: Path) -> None:
    assert not can_bind((0, 1), numactl(tmp_path, 'test "$1" = --cpunodebind=0'))


def test_without_the_program_nothing_is_bound(tmp_path: Path) -> None:
    assert not can_bind((0,), str(tmp_path))


def test_one_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    assert not can_bind((0, 1), numactl(tmp_path, f"sleep 300 & echo $! > {tmp_path}/child; wait"))
    child = int((tmp_path / "child").read_text())
    wait_until(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE)


def test_no_node_is_nothing_to_try(tmp_path: Path) -> None:
    assert can_bind((), numactl(tmp_path, f"touch {tmp_path}/asked"))
    assert not (tmp_path / "asked").exists()
