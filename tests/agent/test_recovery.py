"""The agent's start: no running engine looks gone, whichever part of the journal was lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.agent import lifecycle
from reconciler.agent.drivers.base import ProcessIdentity
from reconciler.agent.journal import Contents, file_stem
from reconciler.agent.processes import Running
from reconciler.agent.records import NodeRecord, ReplicaRecord
from reconciler.agent.recovery import Recovered, recover
from reconciler.domain.observed import ReplicaState
from tests.agent.entries import BOOT, MORNING, assignment, moment, pending, run_entry, stop_entry

ENTRY = run_entry()
HERE = ProcessIdentity(pid=10, started_at=5.0, boot_id=BOOT)
NODE = NodeRecord(agent_starts=4, epoch=9, accepted=(9, 1), assignment=assignment(ENTRY))
TORN = (Path("torn.json"),)


def running(*ports: int) -> dict[str, tuple[Running, ...]]:
    return {file_stem(ENTRY.id): (engine(*ports),)}


def engine(*ports: int, identity: ProcessIdentity = HERE, listens: bool = True) -> Running:
    return Running(identity, "llama-server --port 20000", ports, listens=listens)


def start(contents: Contents, runs: dict[str, tuple[Running, ...]] | None = None) -> Recovered:
    return recover(contents, runs or {}, moment(100), boot_id=BOOT, host="127.0.0.1")


def ready() -> ReplicaRecord:
    launched = lifecycle.launched(lifecycle.launching(pending(), 20_000, "http://127.0.0.1:20000", moment(1)), HERE)
    return lifecycle.became_ready(launched, moment(2))


def test_each_start_is_counted_and_epochs_go_on() -> None:
    node = start(Contents(node=NODE)).node
    assert (node.agent_starts, node.epoch, node.accepted) == (5, 9, (9, 1))


def test_a_journal_that_begins_anew_counts_from_a_number_never_used() -> None:
    """A state directory that was deleted must not repeat the revisions of the one before."""
    node = start(Contents()).node
    assert node.agent_starts == int(MORNING.timestamp()) + 100
    assert node.epoch == 0


def test_epochs_grow_even_when_the_node_record_is_lost() -> None:
    for contents in (Contents(unreadable=TORN), Contents(replicas={ENTRY.id: ready()})):
        assert start(contents).node.epoch == int(MORNING.timestamp()) + 100


def test_a_known_process_changes_nothing() -> None:
    recovered = start(Contents(node=NODE, replicas={ENTRY.id: ready()}), running(20_000))
    assert recovered.replicas == {ENTRY.id: ready()}
    assert recovered.strays == ()


def test_a_replica_whose_record_is_lost_is_found_by_assignment_and_process_table() -> None:
    record = start(Contents(node=NODE, unreadable=TORN), running(20_000)).replicas[ENTRY.id]
    assert record.entry == ENTRY
    assert record.identity == HERE
    assert record.state is ReplicaState.STARTING, "it is asked before it counts as ready"
    assert (record.port, record.url) == (20_000, "http://127.0.0.1:20000")
    assert record.launched_seconds_at is None


def test_a_replica_that_was_accepted_and_not_written_down_yet_is_held() -> None:
    assert start(Contents(node=NODE)).replicas[ENTRY.id].state is ReplicaState.PENDING


def test_a_stop_that_was_done_does_not_come_back() -> None:
    node = NODE.model_copy(update={"assignment": assignment(stop_entry(ENTRY))})
    assert start(Contents(node=node)).replicas == {}


def test_a_process_whose_start_was_not_recorded_is_found() -> None:
    """The agent was killed between the start and its record."""
    written = lifecycle.launching(pending(), 20_000, "http://127.0.0.1:20000", moment(1))
    for ports in ((), (20_000,)):
        record = start(Contents(node=NODE, replicas={ENTRY.id: written}), running(*ports)).replicas[ENTRY.id]
        assert record == lifecycle.launched(written, HERE)


def test_a_stop_finds_its_process_too() -> None:
    stopped = lifecycle.withdrawn(pending(), stop_entry(ENTRY), moment(1))
    record = start(Contents(node=NODE, replicas={ENTRY.id: stopped}), running(20_000)).replicas[ENTRY.id]
    assert record.stop is not None
    assert record.identity == HERE


@pytest.mark.parametrize("state", [ReplicaState.READY, ReplicaState.FAILED, ReplicaState.PENDING])
def test_a_process_that_the_record_does_not_know_is_starting_whatever_the_record_says(state: ReplicaState) -> None:
    """A journal of before, or one that could not be written."""
    other = HERE.model_copy(update={"pid": 9})
    before = ready().model_copy(update={"state": state, "identity": other})
    record = start(Contents(node=NODE, replicas={ENTRY.id: before}), running(20_777)).replicas[ENTRY.id]
    assert (record.state, record.identity) == (ReplicaState.STARTING, HERE)
    assert (record.port, record.url) == (20_777, "http://127.0.0.1:20777")


def test_of_several_engines_of_one_replica_one_is_kept_and_the_others_are_shown() -> None:
    """The one that listens, then the one that the record knows, then the oldest."""
    first, second, third = (HERE.model_copy(update={"pid": pid, "started_at": float(pid)}) for pid in (1, 2, 3))
    stem, known = file_stem(ENTRY.id), Contents(node=NODE, replicas={ENTRY.id: lifecycle.launched(ready(), third)})
    for listening, contents, kept in (
        ({1, 2, 3}, Contents(node=NODE), first),
        ({2, 3}, Contents(node=NODE), second),
        ({1, 2, 3}, known, third),
        ({1, 2}, known, first),
        (set[int](), Contents(node=NODE), first),
    ):
        engines = tuple(engine(20_000, identity=each, listens=each.pid in listening) for each in (third, first, second))
        recovered = start(contents, {stem: engines})
        assert recovered.replicas[ENTRY.id].identity == kept
        assert {each.identity for each in recovered.strays} == {first, second, third} - {kept}


def test_what_was_ready_is_known_from_the_replicas_when_the_node_record_is_lost() -> None:
    node = start(Contents(replicas={ENTRY.id: ready()})).node
    assert node.ready_digests == (ENTRY.digest,)
    assert [(each.model, each.seconds) for each in node.load_times] == [("tiny", 1.0)]


def test_an_engine_of_which_no_entry_is_left_is_foreign() -> None:
    recovered = start(Contents(unreadable=TORN), running(20_000))
    assert recovered.replicas == {}
    assert [(each.identity.pid, each.command) for each in recovered.strays] == [(10, "llama-server --port 20000")]
