"""What is staged is read from git's index, whatever lies in the work tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reconciler.errors import SourceError
from reconciler.sources.repository import read_tree
from reconciler.sources.staged import read_staged
from reconciler.sources.tree import FILE_LIMIT_BYTES, FileKind
from tests.sources.repositories import a_repository
from tests.sources.trees import FLEET, MODEL

if TYPE_CHECKING:
    from pathlib import Path

    from tests.sources.repositories import Repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return a_repository(tmp_path / "r")


def staged(repository: Repository, **environ: str) -> dict[str, bytes]:
    return {file.path: file.data for file in read_staged(repository.cluster, environ).files}


def test_right_after_a_commit_the_index_holds_the_commit(repository: Repository) -> None:
    tree = read_staged(repository.cluster)

    assert tree.files == read_tree(repository.cluster).files
    assert (tree.prefix, tree.commit, tree.tree_id) == ("cluster", None, None)


def test_edits_that_are_not_added_are_not_seen(repository: Repository) -> None:
    repository.write("cluster.yaml", "name: other\n")
    repository.write("models/new.yaml", MODEL)
    (repository.cluster / "models/llama.yaml").unlink()

    assert staged(repository) == {"cluster.yaml": FLEET.encode(), "models/llama.yaml": MODEL.encode()}


def test_what_is_added_and_removed_is_seen_before_it_is_committed(repository: Repository) -> None:
    repository.write("cluster.yaml", "name: other\n")
    repository.git("add", "cluster/cluster.yaml")
    repository.git("rm", "--quiet", "cluster/models/llama.yaml")
    repository.write("cluster.yaml", "name: third\n")

    assert staged(repository) == {"cluster.yaml": b"name: other\n"}


def test_what_is_only_announced_is_left_out_as_the_commit_leaves_it_out(repository: Repository) -> None:
    repository.write("models/later.yaml", MODEL)
    repository.git("add", "--intent-to-add", "cluster/models/later.yaml")

    assert "models/later.yaml" not in staged(repository)


def test_links_are_listed_and_not_followed_and_large_files_not_read(repository: Repository) -> None:
    (repository.cluster / "models/link.yaml").symlink_to("/etc/hostname")
    repository.write("models/large.yaml", "#" * (FILE_LIMIT_BYTES + 1))
    repository.git("add", "--all")
    files = {file.path: file for file in read_staged(repository.cluster).files}

    assert (files["models/link.yaml"].kind, files["models/link.yaml"].data) == (FileKind.SYMLINK, b"")
    assert (files["models/large.yaml"].data, files["models/large.yaml"].size) == (b"", FILE_LIMIT_BYTES + 1)


def test_a_submodule_is_listed_as_one(repository: Repository) -> None:
    sha = repository.git("rev-parse", "HEAD")
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{sha},cluster/models/sub")
    kinds = {file.path: file.kind for file in read_staged(repository.cluster).files}

    assert kinds["models/sub"] is FileKind.SUBMODULE


def test_the_index_that_a_hook_is_given_is_read(repository: Repository) -> None:
    """`git commit FILE` makes a commit of that file alone, from an index of its own, and tells the hook its name."""
    other = repository.top / ".git" / "next-index-1.lock"
    other.write_bytes((repository.top / ".git" / "index").read_bytes())
    repository.write("cluster.yaml", "name: other\n")
    repository.git("add", "--all")

    assert staged(repository)["cluster.yaml"] == b"name: other\n"
    assert staged(repository, GIT_INDEX_FILE=str(other))["cluster.yaml"] == FLEET.encode()


def test_the_index_of_another_repository_is_not_taken_for_ours(repository: Repository, tmp_path: Path) -> None:
    elsewhere = a_repository(tmp_path / "other")
    elsewhere.write("cluster.yaml", "name: elsewhere\n")
    elsewhere.git("add", "--all")

    assert staged(repository, GIT_INDEX_FILE=str(elsewhere.top / ".git" / "index"))["cluster.yaml"] == FLEET.encode()


def test_a_directory_that_only_the_index_holds_is_read(repository: Repository) -> None:
    for path in sorted(repository.cluster.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    repository.cluster.rmdir()

    assert set(staged(repository)) == {"cluster.yaml", "models/llama.yaml"}


def test_a_conflict_is_refused_by_name(repository: Repository) -> None:
    repository.git("checkout", "--quiet", "-b", "side")
    repository.write("cluster.yaml", "name: side\n")
    repository.commit()
    repository.git("checkout", "--quiet", "-")
    repository.write("cluster.yaml", "name: main\n")
    repository.commit()
    with pytest.raises(AssertionError):
        repository.git("merge", "--quiet", "side")

    with pytest.raises(SourceError, match=r"cluster/cluster\.yaml is in conflict"):
        read_staged(repository.cluster)


@pytest.mark.parametrize("name", ["nothing", "cluster/models/none"])
def test_a_directory_of_which_nothing_is_staged_is_refused(repository: Repository, name: str) -> None:
    with pytest.raises(SourceError, match=f"nothing of {name} is staged"):
        read_staged(repository.top / name)


def test_outside_of_git_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()

    with pytest.raises(SourceError, match="not in a git repository"):
        read_staged(tmp_path / "cluster")
