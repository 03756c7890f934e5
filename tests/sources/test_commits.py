"""Reading one commit of a real repository, in every state that repositories are found in."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from reconciler.errors import SourceError
from reconciler.sources.loader import load
from reconciler.sources.recent import Recent
from reconciler.sources.repository import common_dir, git_dir, head, read_tree, uncommitted
from reconciler.sources.tree import FILE_LIMIT_BYTES, FileKind, Tree
from tests.sources.repositories import FILES, Repository, a_repository
from tests.sources.trees import FLEET, MODEL

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return a_repository(tmp_path / "repo")


def contents(tree: Tree) -> dict[str, str]:
    return {file.path: file.data.decode() for file in tree.files}


def test_a_tree_is_the_bytes_of_one_commit(repository: Repository) -> None:
    sha = repository.git("rev-parse", "HEAD")
    tree = read_tree(repository.cluster)
    assert contents(tree) == FILES
    assert tree.prefix == "cluster"
    assert tree.tree_id == repository.git("rev-parse", "HEAD:cluster")
    assert tree.commit is not None
    assert (tree.commit.sha, tree.commit.subject, tree.commit.author) == (sha, "a fleet", "A. Author")
    assert tree.commit.committed_at == datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
    assert load(tree).desired is not None


def test_what_lies_in_the_work_tree_does_not_matter(repository: Repository) -> None:
    repository.write("models/llama.yaml", "half of a")
    repository.write("models/new.yaml", "name: new\n")
    (repository.cluster / "cluster.yaml").unlink()
    repository.git("add", "--all")
    assert contents(read_tree(repository.cluster)) == FILES


def test_an_older_commit(repository: Repository) -> None:
    first = repository.git("rev-parse", "HEAD")
    repository.write("models/llama.yaml", MODEL + "owner: search\n")
    second = repository.commit()
    assert contents(read_tree(repository.cluster, first)) == FILES
    assert contents(read_tree(repository.cluster, "HEAD~1")) == FILES
    assert contents(read_tree(repository.cluster, second))["models/llama.yaml"].endswith("owner: search\n")
    assert head(repository.cluster) == second


@pytest.mark.parametrize("state", ["packed", "detached", "shallow", "worktree", "deep", "gone", "root"])
def test_every_state_of_a_repository(tmp_path: Path, repository: Repository, state: str) -> None:
    cluster = repository.cluster
    prefix = "cluster"
    match state:
        case "packed":
            repository.git("pack-refs", "--all")
            repository.git("gc", "--quiet")
        case "detached":
            repository.git("checkout", "--quiet", "--detach")
        case "shallow":
            repository.commit("second")
            url = repository.top.as_uri()
            repository.git("clone", "--quiet", "--depth", "1", "--no-local", url, str(tmp_path / "clone"))
            cluster = tmp_path / "clone" / "cluster"
        case "worktree":
            repository.git("worktree", "add", "--quiet", str(tmp_path / "linked"), "-b", "linked")
            cluster = tmp_path / "linked" / "cluster"
        case "deep":
            repository.git("mv", "cluster", "moved")
            (repository.top / "a" / "b").mkdir(parents=True)
            repository.git("mv", "moved", "a/b/cluster")
            repository.commit()
            cluster, prefix = repository.top / "a" / "b" / "cluster", "a/b/cluster"
        case "gone":
            for path in FILES:
                (repository.cluster / path).unlink()
            (repository.cluster / "models").rmdir()
            repository.cluster.rmdir()
        case _:
            cluster, prefix = repository.top, ""
    tree = read_tree(cluster)
    assert tree.prefix == prefix
    expected = {f"cluster/{path}": text for path, text in FILES.items()} if state == "root" else FILES
    assert contents(tree) == expected
    assert tree.commit is not None
    assert head(cluster) == tree.commit.sha


def test_symlinks_submodules_and_odd_names_are_listed_and_not_read(repository: Repository) -> None:
    repository.commit_entry("120000", "cluster/models/link.yaml", b"/etc/passwd")
    repository.commit_entry("160000", "cluster/models/sub", repository.git("rev-parse", "HEAD").encode())
    repository.commit_entry("100644", "cluster/models/\udcff.yaml", b"name: x\n")
    repository.commit_entry("100755", "cluster/models/run.yaml", b"name: run\n")
    repository.commit_entry("100644", "cluster/models/big.yaml", b"#" * (FILE_LIMIT_BYTES + 1))
    tree = read_tree(repository.cluster)
    found = {file.path: (file.kind, file.data, file.size) for file in tree.files if file.path not in FILES}
    assert found == {
        "models/link.yaml": (FileKind.SYMLINK, b"", 11),
        "models/sub": (FileKind.SUBMODULE, b"", 0),
        "models/\udcff.yaml": (FileKind.FILE, b"name: x\n", 8),
        "models/run.yaml": (FileKind.FILE, b"name: run\n", 10),
        "models/big.yaml": (FileKind.FILE, b"", FILE_LIMIT_BYTES + 1),
    }
    rules = [finding.rule for finding in load(tree).findings]
    assert rules.count("yaml/not-a-file") == 3
    assert rules.count("yaml/too-large") == 1


def test_a_symlink_is_not_read_even_where_a_file_has_its_bytes(repository: Repository) -> None:
    repository.commit_entry("120000", "cluster/link", FILES["cluster.yaml"].encode())
    found = {file.path: file.data for file in read_tree(repository.cluster).files}
    assert found["link"] == b""
    assert found["cluster.yaml"] == FILES["cluster.yaml"].encode()


def refusal(directory: Path, revision: str = "HEAD") -> str:
    with pytest.raises(SourceError) as caught:
        read_tree(directory, revision)
    assert caught.value.hint is None or "\n" not in caught.value.hint
    return f"{caught.value.message} ({caught.value.hint})"


def test_no_repository(tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    assert refusal(tmp_path / "cluster") == (
        "the cluster directory is not in a git repository (git init makes one; plan --worktree shows a plan without)"
    )


@pytest.mark.parametrize("ask", [read_tree, head, git_dir])
def test_no_directory(tmp_path: Path, ask: Callable[[Path], object]) -> None:
    missing = tmp_path / "does" / "not" / "exist"
    with pytest.raises(SourceError) as caught:
        ask(missing)
    assert caught.value.message == f"there is no directory {missing}"
    assert caught.value.hint == "give the cluster directory with -C DIR"


def test_no_commit_yet(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.git("init")
    repository.write("cluster.yaml", "name: x\n")
    assert refusal(repository.cluster).startswith("there is no commit yet (commit the cluster directory")


def test_a_directory_that_a_commit_does_not_hold_is_a_failure_to_read(repository: Repository) -> None:
    sha = repository.git("rev-parse", "HEAD")
    assert refusal(repository.top / "clusters") == (
        f"there is no directory clusters, neither here nor in commit {sha[:8]} (give the cluster directory with -C DIR)"
    )
    (repository.top / "clusters").mkdir()
    assert refusal(repository.top / "clusters") == (
        f"clusters is not in commit {sha[:8]} (commit it, or give another directory with -C DIR)"
    )
    repository.git("rm", "-r", "--quiet", "cluster")
    repository.commit()
    assert "there is no directory cluster, neither here nor in commit" in refusal(repository.cluster)


def test_a_cluster_directory_that_is_a_file_or_a_symlink(repository: Repository) -> None:
    sha = repository.commit_entry("120000", "linked", b"cluster")
    assert refusal(repository.top / "linked") == f"linked is not a directory in commit {sha[:8]} (None)"
    repository.git("checkout", "--quiet", "linked")
    assert refusal(repository.top / "linked") == f"linked is not a directory in commit {sha[:8]} (None)"


@pytest.mark.parametrize(
    "revision",
    [
        "nonsense",
        "HEAD~7",
        "",
        "--help",
        "-c",
        "HEAD\n",
        "a\x00b",
        "HEAD:cluster",
        "0" * 40,
        "@{upstream}",
        "HEAD^{tree}",
    ],
)
def test_no_such_revision(repository: Repository, revision: str) -> None:
    assert "revision" in refusal(repository.cluster, revision) or "commit" in refusal(repository.cluster, revision)


def test_a_name_that_means_two_things(repository: Repository) -> None:
    repository.git("branch", "v1")
    repository.commit("second")
    repository.git("tag", "v1")
    assert refusal(repository.cluster, "v1") == "v1 is both a branch and a tag (give refs/heads/v1)"
    assert read_tree(repository.cluster, "refs/heads/v1").commit is not None


def test_a_revision_that_a_shallow_clone_lacks(tmp_path: Path, repository: Repository) -> None:
    repository.commit("second")
    repository.git("clone", "--quiet", "--depth", "1", "--no-local", repository.top.as_uri(), str(tmp_path / "clone"))
    assert "git fetch --unshallow" in refusal(tmp_path / "clone" / "cluster", "HEAD~1")


def test_object_names_that_gitpython_does_not_read(tmp_path: Path) -> None:
    repository = a_repository(tmp_path / "sha256", form="sha256")
    assert refusal(repository.cluster).startswith("this repository names its objects by SHA-256, which is not read")
    assert head(repository.cluster) == repository.git("rev-parse", "HEAD")


def test_a_lost_blob_is_a_failure_to_read(repository: Repository) -> None:
    sha = repository.git("rev-parse", "HEAD:cluster/cluster.yaml")
    (repository.top / ".git" / "objects" / sha[:2] / sha[2:]).unlink()
    with pytest.raises(SourceError):
        read_tree(repository.cluster)


def test_a_hook_s_environment_points_nowhere_else(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = a_repository(tmp_path / "other")
    other.write("cluster.yaml", "name: other\n")
    other.commit()
    monkeypatch.setenv("GIT_DIR", str(other.top / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.top))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert contents(read_tree(repository.cluster)) == FILES


def test_replaced_objects_are_not_taken(repository: Repository) -> None:
    blob = repository.git("rev-parse", "HEAD:cluster/cluster.yaml")
    other = repository.git("hash-object", "-w", "--stdin", stdin=b"name: other\n")
    repository.git("replace", blob, other)
    assert contents(read_tree(repository.cluster)) == FILES


def test_what_a_repository_configures_is_not_run(repository: Repository, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n", "utf-8")
    script.chmod(0o755)
    for name in ("core.fsmonitor", "diff.external", "core.pager", "pager.log", "gpg.program", "diff.x.textconv"):
        repository.git("config", name, str(script))
    repository.git("config", "log.showSignature", "true")
    (repository.top / ".git" / "info" / "attributes").write_text("* diff=x\n", "utf-8")
    repository.write("cluster.yaml", "name: other\n")
    read_tree(repository.cluster)
    uncommitted(repository.cluster, "HEAD")
    assert not ran.exists()


def test_nothing_stays_open(repository: Repository) -> None:
    read_tree(repository.cluster)
    before = psutil.Process().num_fds()
    for _ in range(5):
        read_tree(repository.cluster)
        refusal(repository.top / "missing")
    gc.collect()
    assert psutil.Process().num_fds() <= before
    assert [child for child in psutil.Process().children() if "git" in child.name()] == []


def test_only_the_cluster_directory_is_listed(repository: Repository) -> None:
    sha = repository.git("hash-object", "-w", "--stdin", stdin=b"x")
    many = "".join(f"100644 {sha}\tother/{n // 100}/{n}\0" for n in range(20_000))
    repository.git("update-index", "-z", "--index-info", stdin=many.encode())
    repository.git("commit", "--quiet", "-m", "many")
    assert contents(read_tree(repository.cluster)) == FILES


def test_what_is_uncommitted(repository: Repository) -> None:
    sha = repository.git("rev-parse", "HEAD")
    assert uncommitted(repository.cluster, sha) == ()
    repository.write("models/staged.yaml", "x")
    repository.git("add", "cluster")
    repository.write("models/untracked é.yaml", "x")
    repository.write("models/llama.yaml", "changed")
    (repository.top / "elsewhere").write_text("x", "utf-8")
    (repository.top / ".gitignore").write_text("*.swp\n", "utf-8")
    repository.write("models/.llama.yaml.swp", "x")
    (repository.cluster / "cluster.yaml").unlink()
    assert uncommitted(repository.cluster, sha) == (
        "cluster/cluster.yaml",
        "cluster/models/llama.yaml",
        "cluster/models/staged.yaml",
        "cluster/models/untracked é.yaml",
    )


def test_what_differs_from_another_commit_than_head(repository: Repository) -> None:
    first = repository.git("rev-parse", "HEAD")
    repository.write("cluster.yaml", "name: other\n")
    second = repository.commit()
    assert uncommitted(repository.cluster, first) == ("cluster/cluster.yaml",)
    assert uncommitted(repository.cluster, second) == ()


def test_an_unchanged_file_that_was_written_again_is_not_uncommitted(repository: Repository) -> None:
    repository.write("cluster.yaml", FILES["cluster.yaml"])
    os.utime(repository.cluster / "cluster.yaml", (1, 1))
    assert uncommitted(repository.cluster, "HEAD") == ()


def test_a_bare_repository_has_nothing_uncommitted(repository: Repository, tmp_path: Path) -> None:
    repository.git("clone", "--quiet", "--bare", str(repository.top), str(tmp_path / "bare.git"))
    assert uncommitted(tmp_path / "bare.git" / "cluster", "HEAD") == ()
    assert contents(read_tree(tmp_path / "bare.git" / "cluster")) == FILES


def test_where_a_repository_keeps_its_files(repository: Repository, tmp_path: Path) -> None:
    repository.git("worktree", "add", "--quiet", str(tmp_path / "linked"), "-b", "linked")
    own = (repository.top / ".git").resolve()
    assert git_dir(repository.cluster) == common_dir(repository.cluster) == own
    assert git_dir(tmp_path / "linked" / "cluster") == own / "worktrees" / "linked"
    assert common_dir(tmp_path / "linked" / "cluster") == own


def test_a_repository_of_another_user_says_what_to_do(repository: Repository) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a repository away")
    os.chown(repository.top, 12345, 12345)
    os.chown(repository.top / ".git", 12345, 12345)
    message = refusal(repository.cluster)
    assert message.startswith("git does not read this repository: it belongs to another user")
    assert f"git config --global --add safe.directory {repository.top}" in message


def test_without_git_it_says_so(repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert refusal(repository.cluster).startswith("git is not installed")


def test_the_module_can_be_imported_without_git(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import reconciler.sources.repository, reconciler.sources.loader"]
    subprocess.run(command, env={"PATH": str(tmp_path)}, cwd=Path(__file__).parents[2], check=True)


def test_blobs_that_were_read_before_are_not_read_again(tmp_path: Path) -> None:
    repository = a_repository(tmp_path / "r")
    blobs: Recent[str, bytes] = Recent()
    first = read_tree(repository.cluster, "HEAD", blobs)
    repository.write("cluster.yaml", "name: other\n")
    repository.commit()
    (sha,) = (sha for sha, data in blobs.in_use().items() if data == MODEL.encode())
    blobs.keep(sha, b"from memory")
    second = {file.path: file.data for file in read_tree(repository.cluster, "HEAD", blobs).files}

    assert [file.data for file in first.files] == [FLEET.encode(), MODEL.encode()]
    assert second == {"cluster.yaml": b"name: other\n", "models/llama.yaml": b"from memory"}
