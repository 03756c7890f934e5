"""The journal: whole or unchanged, private, and nothing that cannot be read is taken for empty."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from reconciler.agent.journal import Journal, JournalUnwritable, file_stem, read_journal
from reconciler.agent.records import NodeRecord
from reconciler.errors import AgentError
from tests.agent.disk import full_disk
from tests.agent.entries import assignment, pending, run_entry, stop_entry

if TYPE_CHECKING:
    from pathlib import Path

NODE_RECORD = NodeRecord(agent_starts=4, epoch=9, accepted=(9, 2), ready_digests=("d",))


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    opened = Journal(tmp_path / "agent")
    opened.open()
    return opened


def test_what_was_saved_is_read_back(journal: Journal, tmp_path: Path) -> None:
    entry = run_entry(gpus=(0, 1), env={"A": "b"})
    node = NODE_RECORD.model_copy(update={"assignment": assignment(entry, stop_entry(run_entry(1)))})
    journal.save_node(node)
    journal.save_replica(pending(entry))
    contents = read_journal(tmp_path / "agent")
    assert contents.node == node
    assert contents.replicas == {entry.id: pending(entry)}
    assert contents.unreadable == ()


def test_a_removed_replica_is_forgotten_and_removing_it_twice_is_fine(journal: Journal, tmp_path: Path) -> None:
    journal.save_replica(pending())
    for _ in range(2):
        journal.remove_replica(pending().id)
    assert read_journal(tmp_path / "agent").replicas == {}


def test_a_missing_directory_is_an_empty_journal(tmp_path: Path) -> None:
    contents = read_journal(tmp_path / "nothing")
    assert (contents.node, contents.replicas, contents.unreadable) == (None, {}, ())
    assert not (tmp_path / "nothing").exists()


def test_only_the_owner_reads_it(journal: Journal, tmp_path: Path) -> None:
    journal.save_node(NODE_RECORD)
    journal.save_replica(pending())
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "agent").rglob("*.json")}
    directories = {path.stat().st_mode & 0o777 for path in (tmp_path / "agent", tmp_path / "agent/replicas")}
    assert (modes, directories) == ({0o600}, {0o700})


@pytest.mark.parametrize("content", [b"", b"{", b'{"agent_starts": 4', b"[]", b"\x00" * 64, b'{"agent_starts": "x"}'])
def test_a_torn_node_record_is_set_aside_and_the_replicas_are_still_there(
    journal: Journal, tmp_path: Path, content: bytes
) -> None:
    journal.save_replica(pending())
    path = tmp_path / "agent/node.json"
    path.write_bytes(content)
    contents = Journal(tmp_path / "agent").open()
    assert contents.node is None
    assert contents.unreadable == (path,)
    assert set(contents.replicas) == {pending().id}
    assert path.with_name("node.json.unreadable-1").read_bytes() == content
    assert not path.exists()


def test_what_is_set_aside_twice_is_kept_twice(journal: Journal, tmp_path: Path) -> None:
    journal.save_node(NODE_RECORD)
    path = tmp_path / "agent/node.json"
    for text in ("one", "two"):
        path.write_text(text)
        Journal(tmp_path / "agent").open()
    kept = sorted(each.read_text() for each in path.parent.glob("node.json.unreadable-*"))
    assert kept == ["one", "two"]


def test_reading_alone_sets_nothing_aside(journal: Journal, tmp_path: Path) -> None:
    journal.save_node(NODE_RECORD)
    path = tmp_path / "agent/node.json"
    path.write_text("{")
    assert read_journal(tmp_path / "agent").unreadable == (path,)
    assert path.read_text() == "{"


def test_unknown_keys_of_a_later_version_are_ignored(journal: Journal, tmp_path: Path) -> None:
    (tmp_path / "agent/node.json").write_text('{"agent_starts": 4, "invented_later": {"x": 1}}')
    contents = journal.open()
    assert contents.node == NodeRecord(agent_starts=4)


def test_what_a_dead_writer_left_is_cleared_away(journal: Journal, tmp_path: Path) -> None:
    journal.save_node(NODE_RECORD)
    (tmp_path / "agent/.node.json.abc123").write_text("half")
    (tmp_path / "agent/replicas/.tiny-0@12345678.json.abc123").write_text("half")
    assert Journal(tmp_path / "agent").open().node == NODE_RECORD
    assert not list((tmp_path / "agent").rglob(".*"))


def test_a_full_disk_leaves_what_was_there(journal: Journal, tmp_path: Path) -> None:
    journal.save_replica(pending())
    with full_disk(), pytest.raises(JournalUnwritable) as refused:
        journal.save_replica(pending().model_copy(update={"failure": "x"}))
    assert os.strerror(errno.EFBIG) in refused.value.message
    assert refused.value.hint is not None
    assert read_journal(tmp_path / "agent").replicas == {pending().id: pending()}
    assert not list((tmp_path / "agent").rglob(".*"))


def test_a_directory_that_cannot_be_made_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AgentError, match="cannot be written"):
        Journal(tmp_path / "file/agent").open()


@pytest.mark.parametrize(
    ("replica_id", "stem"), [("tiny/0@1a2b3c4d", "tiny-0@1a2b3c4d"), ("a-1/0@1a2b3c4d", "a-1-0@1a2b3c4d")]
)
def test_a_replicas_name_on_disk(replica_id: str, stem: str) -> None:
    assert file_stem(replica_id) == stem
