"""Reading a directory as it lies: everything is listed, only files are read, no link is followed."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from reconciler.errors import SourceError
from reconciler.sources.loader import load
from reconciler.sources.repository import read_tree
from reconciler.sources.tree import FILE_LIMIT_BYTES, FILES_LIMIT, FileKind
from reconciler.sources.worktree import read_worktree
from tests.sources.repositories import FILES, Repository, a_repository


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """A cluster directory without git."""
    repository = Repository(tmp_path)
    for path, text in FILES.items():
        repository.write(path, text)
    return repository.cluster


def test_reads_what_lies_there(cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(cluster.parent)
    tree = read_worktree(Path("cluster"))
    assert {file.path: file.data.decode() for file in tree.files} == FILES
    assert (tree.prefix, tree.commit, tree.tree_id) == ("cluster", None, None)
    assert load(tree).desired is not None


def test_files_are_named_relative_to_the_git_root_or_to_the_working_directory(
    cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(cluster / "models")
    assert read_worktree(cluster).prefix == ".."
    Repository(tmp_path).git("init")
    assert read_worktree(cluster).prefix == "cluster"
    assert read_worktree(Path("..")).shown("cluster.yaml") == "cluster/cluster.yaml"


def test_a_cluster_at_the_git_root_does_not_hold_the_repository(cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Repository(cluster).git("init")
    monkeypatch.chdir(cluster)
    tree = read_worktree(cluster)
    assert tree.prefix == ""
    assert [file.path for file in tree.files] == sorted(FILES)
    assert tree.shown("cluster.yaml") == "cluster.yaml"


def test_a_clean_work_tree_reads_as_its_commit(tmp_path: Path) -> None:
    repository = a_repository(tmp_path)
    committed = read_tree(repository.cluster)
    lying = read_worktree(repository.cluster)
    assert (lying.files, lying.prefix) == (committed.files, committed.prefix)


def test_only_files_are_read(cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(cluster / "models")
    (cluster / "models" / "link.yaml").symlink_to("llama.yaml")
    (cluster / "models" / "dangling").symlink_to("nowhere")
    (cluster / "folder").symlink_to(tmp_path)
    os.mkfifo(cluster / "models" / "fifo.yaml")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("socket.yaml")
    Repository(cluster / "models").git("init", "--quiet", "nested")
    (cluster / "models" / "big.yaml").write_bytes(b"#" * (FILE_LIMIT_BYTES + 1))
    (cluster / os.fsdecode(b"models/\xff.yaml")).write_bytes(b"x")
    found = {file.path: (file.kind, file.size) for file in read_worktree(cluster).files if file.path not in FILES}
    listener.close()
    assert found == {
        "models/link.yaml": (FileKind.SYMLINK, 0),
        "models/dangling": (FileKind.SYMLINK, 0),
        "folder": (FileKind.SYMLINK, 0),
        "models/fifo.yaml": (FileKind.OTHER, 0),
        "models/socket.yaml": (FileKind.OTHER, 0),
        "models/nested": (FileKind.SUBMODULE, 0),
        "models/big.yaml": (FileKind.FILE, FILE_LIMIT_BYTES + 1),
        "models/\udcff.yaml": (FileKind.FILE, 1),
    }


def test_a_directory_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="there is no directory") as caught:
        read_worktree(tmp_path / "clusters")
    assert caught.value.hint == "give the cluster directory with -C DIR"


def test_a_file_is_no_directory(cluster: Path) -> None:
    with pytest.raises(SourceError, match="there is no directory"):
        read_worktree(cluster / "cluster.yaml")


def test_a_cluster_directory_that_is_a_symlink(cluster: Path, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(cluster)
    with pytest.raises(SourceError, match="is a symlink"):
        read_worktree(tmp_path / "linked")


def test_a_symlink_between_the_git_root_and_the_cluster_directory(cluster: Path, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repo")
    repository.top.mkdir()
    repository.git("init")
    (repository.top / "fleets").symlink_to(cluster.parent)
    with pytest.raises(SourceError, match="fleets is a symlink"):
        read_worktree(repository.top / "fleets" / "cluster")


def test_a_symlink_above_the_git_root_is_the_machine_s_own_affair(tmp_path: Path) -> None:
    a_repository(tmp_path / "repo")
    (tmp_path / "home").symlink_to(tmp_path / "repo")
    assert read_worktree(tmp_path / "home" / "cluster").prefix == "cluster"


def test_listing_ends_after_one_file_too_many(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    for number in range(FILES_LIMIT + 5):
        (tmp_path / "models" / f"{number}").symlink_to("nowhere")
    tree = read_worktree(tmp_path)
    assert len(tree.files) == FILES_LIMIT + 1
    assert [finding.rule for finding in load(tree).findings] == ["yaml/too-large"]


def test_a_file_that_may_not_be_read(cluster: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    (cluster / "cluster.yaml").chmod(0)
    with pytest.raises(SourceError, match=r"cluster\.yaml cannot be read"):
        read_worktree(cluster)
