"""The directory that each replica has for its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reconciler.agent.launch_files import (
    in_files,
    launch_directory,
    sweep_launch_directories,
    write_launch_files,
)
from reconciler.agent.processes import Running
from reconciler.engines.secret_settings import SecretSettings
from reconciler.errors import AgentError
from tests.agent.bench import Bench
from tests.agent.entries import run_entry, stop_entry

if TYPE_CHECKING:
    from pathlib import Path


def test_it_is_there_before_the_engine_starts_with_its_files_in_it(tmp_path: Path) -> None:
    directory = launch_directory(tmp_path, "m/0@1a2b3c4d")
    write_launch_files(directory, {"options.yaml": "{}\n"})
    assert (directory / "options.yaml").read_text("utf-8") == "{}\n"
    assert directory.stat().st_mode & 0o077 == 0


def test_a_second_start_finds_it_and_writes_its_files_anew(tmp_path: Path) -> None:
    directory = launch_directory(tmp_path, "m/0@1a2b3c4d")
    write_launch_files(directory, {"options.yaml": "old\n"})
    (directory / "temp").mkdir()
    write_launch_files(directory, {"options.yaml": "{}\n"})
    assert (directory / "options.yaml").read_text("utf-8") == "{}\n"
    assert (directory / "temp").is_dir()


def test_nobody_else_enters_the_directory_of_them_all(tmp_path: Path) -> None:
    (tmp_path / "launches").mkdir(mode=0o755)  # as an older agent made it
    write_launch_files(launch_directory(tmp_path, "m/0@1a2b3c4d"), {})
    assert (tmp_path / "launches").stat().st_mode & 0o777 == 0o700


def test_a_sweep_takes_away_those_of_replicas_that_are_gone_and_no_others(tmp_path: Path) -> None:
    sweep_launch_directories(tmp_path, ())  # there is none yet
    gone, known = launch_directory(tmp_path, "m/0@1a2b3c4d"), launch_directory(tmp_path, "m/1@1a2b3c4d")
    for each in (gone, known):
        write_launch_files(each, {"options.yaml": "{}\n"})
    (tmp_path / "launches").chmod(0o755)
    sweep_launch_directories(tmp_path, {known.name})
    assert [each.name for each in (tmp_path / "launches").iterdir()] == [known.name]
    assert (tmp_path / "launches").stat().st_mode & 0o777 == 0o700


@pytest.mark.anyio
async def test_it_goes_with_its_replica_and_what_was_left_goes_when_the_agent_starts(tmp_path: Path) -> None:
    bench, entry = Bench(tmp_path), run_entry()
    await bench.serve(entry)
    own = launch_directory(bench.config.directory, entry.id)
    assert own.is_dir()
    left = own.with_name("m-0@1a2b3c4d")
    stray = own.with_name("m-1@1a2b3c4d")
    for each in (left, stray):
        each.mkdir()
    bench.running = {
        stray.name: (Running(bench.driver.newest.identity.model_copy(update={"pid": 4_711}), "engine", ()),)
    }
    bench.restart()
    assert sorted(own.parent.iterdir()) == sorted([own, stray]), "an engine runs in it, with or without a record"
    await bench.send(stop_entry(entry, withdraw=0, drain=0))
    bench.driver.newest.end(code=0)
    await bench.after(5)
    assert bench.node().replicas == ()
    assert list(own.parent.iterdir()) == [stray]


def test_a_directory_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "launches").touch()
    with pytest.raises(AgentError, match=r"launches/m-0@1a2b3c4d cannot be written: "):
        write_launch_files(launch_directory(tmp_path, "m/0@1a2b3c4d"), {})


KEYED = SecretSettings({"api-key": "SGLANG_API_KEY"})


def test_a_declared_value_is_put_into_the_file_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    directory = launch_directory(tmp_path, "m/0@1a2b3c4d")
    files: dict[str, str | SecretSettings] = {"sglang.yaml": KEYED, "options.yaml": "{}\n"}
    write_launch_files(directory, files, {"SGLANG_API_KEY": 'k"0815', "OTHER": "elsewhere"})
    assert (directory / "sglang.yaml").read_text("utf-8") == 'api-key: "k\\"0815"\n'
    assert (directory / "options.yaml").read_text("utf-8") == "{}\n"
    assert (directory / "sglang.yaml").stat().st_mode & 0o777 == 0o600
    assert in_files(files) == {"SGLANG_API_KEY"}


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("", "is empty"),
        ("-secret", "begins with a dash"),
        ("two words", "has blanks"),
        ("a\nb", "has blanks"),
        ("schlüssel", "has blanks, line ends or other than ASCII"),
    ],
)
def test_a_value_that_no_engine_would_read_as_it_is_starts_nothing(tmp_path: Path, value: str, fault: str) -> None:
    directory = launch_directory(tmp_path, "m/0@1a2b3c4d")
    with pytest.raises(AgentError, match=f"the value of SGLANG_API_KEY {fault}.* cannot go into sglang.yaml") as told:
        write_launch_files(directory, {"sglang.yaml": KEYED}, {"SGLANG_API_KEY": value})
    assert not value or value not in told.value.message
    assert not directory.exists()
