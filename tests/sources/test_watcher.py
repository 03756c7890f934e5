"""Hints to look again: after a real commit, after an interval, and whatever happened to the watched directories."""

from __future__ import annotations

import os
import shutil
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from reconciler.sources.repository import head
from reconciler.sources.watcher import look_again
from tests.sources.repositories import Repository, a_repository

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

NEVER = timedelta(hours=1)
DEADLINE_SECONDS = 20


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return a_repository(tmp_path / "repo")


async def next_hint(hints: AsyncIterator[None]) -> None:
    with anyio.fail_after(DEADLINE_SECONDS):
        await anext(hints)


def hints_after(directory: Path, *changes: Callable[[], object]) -> None:
    """After each change a hint comes, though the interval is far away."""

    async def watch() -> None:
        hints = look_again(directory, NEVER)
        await next_hint(hints)
        for change in changes:
            await anyio.to_thread.run_sync(change)
            await next_hint(hints)
        await hints.aclose()

    anyio.run(watch)


def test_the_first_hint_comes_at_once(repository: Repository) -> None:
    hints_after(repository.cluster)


def test_every_commit_gives_a_hint(repository: Repository) -> None:
    hints_after(repository.cluster, repository.commit, repository.commit, repository.commit)


@pytest.mark.parametrize(
    "change",
    [
        ("checkout", "--quiet", "-b", "other"),
        ("checkout", "--quiet", "--detach"),
        ("branch", "feature/a"),
        ("update-ref", "refs/remotes/origin/main", "HEAD"),
        ("tag", "v1"),
        ("pack-refs", "--all"),
        ("reset", "--quiet", "--hard", "HEAD~1"),
    ],
    ids=" ".join,
)
def test_whatever_moves_a_ref_gives_a_hint(repository: Repository, change: tuple[str, ...]) -> None:
    repository.commit("second")
    hints_after(repository.cluster, partial(repository.git, *change))


def test_a_branch_in_a_folder_that_is_made_later(repository: Repository) -> None:
    hints_after(
        repository.cluster,
        partial(repository.git, "checkout", "--quiet", "-b", "feature/a/b"),
        repository.commit,
        repository.commit,
    )


def test_a_linked_work_tree(repository: Repository, tmp_path: Path) -> None:
    repository.git("worktree", "add", "--quiet", str(tmp_path / "linked"), "-b", "linked")
    linked = Repository(tmp_path / "linked")
    hints_after(linked.cluster, linked.commit, partial(linked.git, "checkout", "--quiet", "--detach"))


def test_a_commit_made_while_the_caller_works_is_not_lost(repository: Repository) -> None:
    async def watch() -> None:
        hints = look_again(repository.cluster, NEVER)
        await next_hint(hints)
        before = head(repository.cluster)
        await anyio.to_thread.run_sync(repository.commit)  # after the caller has read HEAD, before it asks for more
        await next_hint(hints)
        assert head(repository.cluster) != before
        await hints.aclose()

    anyio.run(watch)


def test_refs_that_are_removed_and_made_again_are_watched_again(repository: Repository) -> None:
    heads = repository.top / ".git" / "refs" / "heads"

    def replace() -> None:
        shutil.copytree(heads, heads.with_name("copy"))
        shutil.rmtree(heads)
        heads.with_name("copy").rename(heads)

    async def watch() -> None:
        hints = look_again(repository.cluster, NEVER)
        await next_hint(hints)
        await anyio.to_thread.run_sync(replace)
        seen = 0
        with anyio.move_on_after(1):  # as many hints as that gives
            while True:
                await anext(hints)
                seen += 1
        assert seen
        await hints.aclose()

    anyio.run(watch)
    hints_after(repository.cluster, replace, repository.commit)


def test_what_moves_no_ref_gives_no_hint(repository: Repository) -> None:
    async def watch() -> None:
        hints = look_again(repository.cluster, NEVER)
        await next_hint(hints)
        repository.write("cluster.yaml", "name: other\n")
        repository.git("add", "--all")
        repository.git("stash", "list")
        repository.git("hash-object", "-w", "--stdin", stdin=b"x")
        with anyio.move_on_after(0.5) as waited:
            await anext(hints)
        assert waited.cancelled_caught

    anyio.run(watch)


def test_an_interval_gives_a_hint_without_any_event(repository: Repository) -> None:
    async def watch() -> None:
        hints = look_again(repository.cluster, timedelta(seconds=0.05))
        for _ in range(4):
            await next_hint(hints)
        await hints.aclose()

    anyio.run(watch)


def test_events_that_do_not_matter_do_not_hold_up_the_interval(repository: Repository) -> None:
    def touch_the_index() -> None:
        (repository.top / ".git" / "index.lock").write_bytes(b"x")
        (repository.top / ".git" / "index.lock").unlink()

    async def disturb() -> None:
        while True:
            await anyio.to_thread.run_sync(touch_the_index)

    async def watch() -> None:
        hints = look_again(repository.cluster, timedelta(seconds=0.3))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(disturb)
            for _ in range(3):
                await next_hint(hints)
            tasks.cancel_scope.cancel()
        await hints.aclose()

    anyio.run(watch)


def test_without_a_repository_the_interval_goes_on_and_events_return_with_it(tmp_path: Path) -> None:
    async def watch() -> None:
        hints = look_again(tmp_path / "cluster", timedelta(seconds=0.05))
        await next_hint(hints)
        await next_hint(hints)
        repository = await anyio.to_thread.run_sync(a_repository, tmp_path)
        await next_hint(hints)
        await next_hint(hints)
        assert head(repository.cluster)
        await hints.aclose()

    anyio.run(watch)


def test_an_error_of_the_watch_is_survived(repository: Repository) -> None:
    heads = os.fsencode(repository.top / ".git" / "refs" / "heads")

    async def watch() -> None:
        hints = look_again(repository.cluster, timedelta(seconds=0.2))
        await next_hint(hints)
        (repository.top / ".git" / "refs" / "heads" / os.fsdecode(b"\xff")).touch()
        for _ in range(3):
            await next_hint(hints)
        os.unlink(heads + b"/\xff")  # noqa: PTH108  # a name that is not UTF-8
        await hints.aclose()

    anyio.run(watch)
    hints_after(repository.cluster, repository.commit)


def test_cancelling_ends_at_once(repository: Repository) -> None:
    async def watch() -> None:
        hints = look_again(repository.cluster, NEVER)
        await next_hint(hints)
        with anyio.fail_after(DEADLINE_SECONDS), anyio.move_on_after(0.01):
            await anext(hints)

    anyio.run(watch)
