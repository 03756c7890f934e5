"""The cache on disk: whole or absent, bounded, nobody else's, and never in the way."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.controller import cache as module
from reconciler.controller.cache import CACHE_VARIABLE, MOST_ENTRIES, Cache, user_cache

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "deep" / "cache")


def entries(cache: Cache) -> list[Path]:
    return sorted(cache.directory.iterdir())


@pytest.mark.parametrize("content", [b"", b"{}", b"\0" * 70_000], ids=["nothing", "little", "much"])
def test_an_entry_reads_back(cache: Cache, content: bytes) -> None:
    assert cache.read("a") is None
    cache.write("a", b"before")
    cache.write("a", content)

    assert cache.read("a") == content
    assert cache.read("b") is None


def test_only_its_owner_can_read_it(cache: Cache) -> None:
    cache.write("a", b"x")

    assert cache.directory.stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in entries(cache)] == [0o600]


@given(st.integers(0, 40), st.binary(min_size=1, max_size=3), st.booleans())
def test_a_damaged_entry_is_as_if_it_were_not_there(
    tmp_path_factory: pytest.TempPathFactory, at: int, junk: bytes, cut: bool
) -> None:
    cache = Cache(tmp_path_factory.mktemp("c") / "cache")
    cache.write("a", b"content")
    (path,) = entries(cache)
    data = path.read_bytes()
    damaged = data[:at] if cut else data[:at] + junk + data[at + len(junk) :]
    path.write_bytes(damaged)

    assert cache.read("a") == (b"content" if damaged == data else None)
    cache.write("a", b"again")
    assert cache.read("a") == b"again"


def test_a_directory_that_others_can_write_is_not_trusted(cache: Cache) -> None:
    cache.write("a", b"x")
    cache.directory.chmod(0o770)

    assert cache.read("a") is None
    cache.write("b", b"y")
    assert len(entries(cache)) == 1


@pytest.mark.parametrize("blocked", ["a file", "a file above it"])
def test_a_place_that_cannot_be_a_directory_is_no_error(tmp_path: Path, blocked: str) -> None:
    (tmp_path / "x").write_text("in the way")
    cache = Cache(tmp_path / "x" if blocked == "a file" else tmp_path / "x" / "cache")

    cache.write("a", b"x")
    assert cache.read("a") is None
    assert (tmp_path / "x").read_text() == "in the way"


def test_the_number_of_entries_is_bounded_and_the_used_ones_are_kept(cache: Cache) -> None:
    for number in range(MOST_ENTRIES):
        cache.write(f"e{number:03}", b"x")
        os.utime(cache.directory / f"e{number:03}.entry", (number, number))
    assert cache.read("e000") == b"x"
    cache.write("last", b"x")

    assert len(entries(cache)) == MOST_ENTRIES * 3 // 4
    assert cache.read("e000") == cache.read("last") == b"x"
    assert cache.read("e001") is None
    assert cache.read(f"e{MOST_ENTRIES - 1}") == b"x"


def test_the_size_is_bounded(cache: Cache) -> None:
    third = bytes(module.MOST_BYTES // 3)
    for number in range(4):
        cache.write(f"e{number}", third)
        os.utime(cache.directory / f"e{number}.entry", (number, number))
    cache.write("more", b"x")

    assert sum(path.stat().st_size for path in entries(cache)) <= module.MOST_BYTES
    assert cache.read("e0") is None
    assert cache.read("more") == b"x"


def test_an_entry_larger_than_all_may_be_is_not_kept(cache: Cache) -> None:
    cache.write("a", bytes(module.MOST_BYTES))

    assert cache.read("a") is None


def test_runs_beside_each_other_see_whole_entries_only(cache: Cache) -> None:
    contents = [bytes([65 + number]) * 200_000 for number in range(4)]
    seen: list[bytes | None] = []

    def work(content: bytes) -> None:
        for _ in range(20):
            cache.write("a", content)
            seen.append(cache.read("a"))

    threads = [threading.Thread(target=work, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(seen) == 80
    assert set(seen) <= set(contents)
    assert [path.name for path in entries(cache)] == ["a.entry"]


def test_what_a_killed_run_left_is_removed_in_time(cache: Cache) -> None:
    cache.write("a", b"x")
    for number in range(MOST_ENTRIES):
        left = cache.directory / f".b.entry.{number}"
        left.write_bytes(b"half")
        os.utime(left, (number, number))
    cache.write("c", b"x")

    assert len(entries(cache)) <= MOST_ENTRIES
    assert cache.read("a") == cache.read("c") == b"x"


def test_the_variable_says_where_it_is(tmp_path: Path) -> None:
    assert user_cache({CACHE_VARIABLE: str(tmp_path)}).directory == tmp_path
    assert user_cache({}).directory.name == "reconciler"
    assert user_cache({CACHE_VARIABLE: ""}) == user_cache({})
