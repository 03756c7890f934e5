"""Which assignments are taken: fenced, complete, and never two engines on one GPU."""

from __future__ import annotations

import pytest

from reconciler.domain.admission import Held, refuse
from reconciler.domain.assignment import Assignment, PrefetchEntry, Refusal, RunEntry
from reconciler.domain.claims import ClaimRecord, Claims
from tests.agent.entries import BOOT, NODE, assignment, holder, run_entry, stop_entry

CLAIMS = Claims(
    epoch=3,
    claim=ClaimRecord(fleet="test", holder=holder("apply-1"), epoch=3, ttl_seconds=30, boot_id=BOOT),
    expires_at_seconds=30,
)


def held(*entries: RunEntry, has_process: bool = True, stopping: bool = False) -> dict[str, Held]:
    return {entry.id: Held(entry, has_process=has_process, stopping=stopping) for entry in entries}


def answer(
    sent: Assignment,
    holds: dict[str, Held] | None = None,
    *,
    now: float = 1,
    accepted: tuple[int, int] = (3, 4),
    before: Assignment | None = None,
) -> Refusal | None:
    return refuse(sent, node=NODE, claims=CLAIMS, now=now, accepted=accepted, before=before, held=holds or {})


def sent(*entries: object, generation: int = 5, epoch: int = 3, **rest: object) -> Assignment:
    return assignment(*entries, epoch=epoch, generation=generation, **rest)  # type: ignore[arg-type]  # any entry


def reason(refusal: Refusal | None) -> str | None:
    return None if refusal is None else refusal.reason


def test_the_next_generation_is_taken() -> None:
    assert answer(sent(run_entry())) is None


def test_a_higher_epoch_begins_its_generations_anew() -> None:
    assert answer(sent(run_entry(), generation=0), accepted=(2, 900)) is None


def test_the_same_assignment_twice_is_fine_and_another_body_is_not() -> None:
    first = sent(run_entry(), generation=4)
    assert answer(first, before=first) is None
    assert reason(answer(sent(run_entry(1), generation=4), before=first)) == "stale"


@pytest.mark.parametrize("generation", [3, 4])
def test_an_older_generation_is_stale_and_told_what_was_taken(generation: int) -> None:
    refusal = answer(sent(run_entry(), generation=generation))
    assert refusal is not None
    assert refusal.reason == "stale"
    assert "generation 4" in refusal.message
    assert refusal.holder is not None


@pytest.mark.parametrize(("epoch", "name"), [(2, "apply-1"), (4, "apply-1"), (3, "apply-2")])
def test_without_the_claim_nothing_is_taken(epoch: int, name: str) -> None:
    refusal = answer(sent(epoch=epoch, generation=99, name=name))
    assert refusal is not None
    assert refusal.reason == "stale"
    assert refusal.holder is not None
    assert refusal.holder.id == "apply-1"


def test_a_lapsed_claim_permits_nothing() -> None:
    refusal = answer(sent(), now=30)
    assert refusal is not None
    assert refusal.reason == "stale"
    assert "nobody" in refusal.message


def test_an_assignment_for_another_node_is_refused_by_name() -> None:
    refusal = answer(sent(node="there"))
    assert refusal is not None
    assert refusal.reason == "wrong-node"
    assert "there" in refusal.message
    assert NODE in refusal.message


def test_nothing_is_stopped_by_omission() -> None:
    kept, forgotten = run_entry(0), run_entry(1)
    refusal = answer(sent(kept), held(kept, forgotten))
    assert refusal is not None
    assert refusal.reason == "omits"
    assert refusal.missing == (forgotten.id,)
    assert forgotten.id in refusal.message


def test_what_is_stopping_or_failed_must_be_named_too() -> None:
    one = run_entry()
    assert reason(answer(sent(), held(one, has_process=False, stopping=True))) == "omits"
    assert answer(sent(stop_entry(one)), held(one, has_process=False, stopping=True)) is None


def test_replicas_of_another_fleet_are_not_this_ones_to_name() -> None:
    assert answer(sent(), held(run_entry(fleet="other"))) is None


def test_a_stop_of_what_is_gone_and_a_prefetch_are_taken() -> None:
    prefetch = PrefetchEntry(source="file:/weights/tiny.gguf")
    assert answer(sent(stop_entry(run_entry()), prefetch)) is None


def test_one_id_stands_for_one_body() -> None:
    one = run_entry()
    other = one.model_copy(update={"restart": "tuesday"})
    assert reason(answer(sent(other), held(one))) == "conflict"


@pytest.mark.parametrize("change", [{"attempt": 3}, {"retry": "r-1"}, {"ready_timeout": 5.0}])
def test_what_may_change_while_a_replica_lives_is_no_other_body(change: dict[str, object]) -> None:
    assert answer(sent(run_entry(**change)), held(run_entry())) is None  # type: ignore[arg-type]  # one field each


def test_a_stop_that_was_asked_for_cannot_be_taken_back() -> None:
    one = run_entry()
    refusal = answer(sent(one), held(one, stopping=True))
    assert refusal is not None
    assert refusal.reason == "conflict"
    assert "being stopped" in refusal.message


def test_naming_a_replica_twice_is_a_conflict() -> None:
    one = run_entry()
    assert reason(answer(sent(one, stop_entry(one)), held(one))) == "conflict"


def test_a_gpu_of_a_live_replica_is_not_given_away() -> None:
    """Whatever the reconciler believes: this is the guard that holds when two of them disagree."""
    theirs = run_entry(fleet="other", model="big", gpus=(0, 1))
    refusal = answer(sent(run_entry(gpus=(1,))), held(theirs))
    assert refusal is not None
    assert refusal.reason == "conflict"
    assert "GPU-1" in refusal.message
    assert theirs.id in refusal.message


def test_a_gpu_may_be_given_on_while_its_replica_is_being_stopped() -> None:
    old = run_entry(model="big", gpus=(0,))
    assert answer(sent(stop_entry(old), run_entry(gpus=(0,))), held(old)) is None
    assert answer(sent(stop_entry(old), run_entry(gpus=(0,))), held(old, stopping=True)) is None


def test_one_assignment_cannot_give_a_gpu_twice() -> None:
    assert reason(answer(sent(run_entry(0, gpus=(0,)), run_entry(1, gpus=(0,))))) == "conflict"


def test_cpu_replicas_share_a_node() -> None:
    assert answer(sent(run_entry(0), run_entry(1)), held(run_entry(0))) is None
