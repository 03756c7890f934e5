"""What outlives a command: intents as files, the roster, and how both end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from reconciler.controller.standing import (
    Ledger,
    add_intent,
    intent_id,
    prune_intents,
    read_standing,
    remove_intents,
    stamp,
)
from reconciler.domain.intent import IntentKind
from reconciler.domain.roster import RosterRow, roster_of
from reconciler.errors import StateError
from reconciler.planning.limits import approval
from tests.builders import NOON, a_desired, a_model, a_node, a_replica, an_intent, heard, observation

if TYPE_CHECKING:
    from pathlib import Path

HOUR = timedelta(hours=1)


def test_nothing_was_ever_said(tmp_path: Path) -> None:
    assert read_standing(tmp_path / "nowhere").intents == ()
    assert read_standing(tmp_path).roster is None


def test_a_later_word_about_the_same_takes_the_place_of_the_earlier(tmp_path: Path) -> None:
    add_intent(tmp_path, an_intent(IntentKind.SUSPEND, "m", id="suspend-1"))
    add_intent(tmp_path, an_intent(IntentKind.SUSPEND, "other", id="suspend-2"))
    add_intent(tmp_path, an_intent(IntentKind.RESTART, "m", id="restart-1"))
    add_intent(tmp_path, an_intent(IntentKind.SUSPEND, "m", id="suspend-3"))
    found = read_standing(tmp_path).intents
    assert [each.id for each in found] == ["restart-1", "suspend-2", "suspend-3"]
    assert stamp(tmp_path) == ("restart-1.json", "suspend-2.json", "suspend-3.json")
    remove_intents(tmp_path, found)
    remove_intents(tmp_path, found)
    assert read_standing(tmp_path).intents == ()


def test_only_its_owner_reads_an_intent(tmp_path: Path) -> None:
    add_intent(tmp_path, an_intent(IntentKind.RETRY, "m", id="r"))
    assert (tmp_path / "intents" / "r.json").stat().st_mode & 0o077 == 0


def test_what_has_expired_is_pruned_and_nothing_else(tmp_path: Path) -> None:
    over = an_intent(IntentKind.SUSPEND, "a", id="over", expires_at=NOON)
    holds = an_intent(IntentKind.SUSPEND, "b", id="holds", expires_at=NOON + HOUR)
    for each in (over, holds, an_intent(IntentKind.RETRY, "c", id="for-ever")):
        add_intent(tmp_path, each)
    prune_intents(tmp_path, read_standing(tmp_path).intents, NOON)
    assert [each.id for each in read_standing(tmp_path).intents] == ["for-ever", "holds"]


@pytest.mark.parametrize("content", [b"", b"{", b'{"id": "x", "kind": "dance"}', b"\xff"])
def test_an_intent_that_cannot_be_read_is_not_taken_for_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "intents").mkdir()
    (tmp_path / "intents" / "x.json").write_bytes(content)
    with pytest.raises(StateError, match=r"x\.json cannot be read"):
        read_standing(tmp_path)


def test_run_goes_on_with_what_it_read_last_and_says_so_once(tmp_path: Path) -> None:
    said: list[str] = []
    ledger = Ledger(tmp_path, said.append)
    add_intent(tmp_path, an_intent(IntentKind.SUSPEND, "m", id="s"))
    before = ledger.read()
    (tmp_path / "intents" / "torn.json").write_bytes(b"{")
    assert ledger.read() == before
    assert ledger.read() == before
    assert len(said) == 1
    (tmp_path / "intents" / "torn.json").unlink()
    assert ledger.read() == before


def test_two_commands_in_one_second_have_two_ids() -> None:
    at = datetime(2026, 11, 30, 12, tzinfo=UTC)
    ids = {intent_id(IntentKind.RETRY, at) for _ in range(50)}
    assert len(ids) == 50
    assert all(each.startswith("retry-20261130T120000-") for each in ids)


def test_the_roster_is_the_tree_until_something_is_gone_and_runs_on(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, lambda _: None)
    node = a_node("n1", gpus=4)
    a, b, c = a_model("a"), a_model("b", replicas=2, protect=True), a_model("c")
    full, less = a_desired([a, b, c], [node]), a_desired([c], [node])
    ledger.passed(full, observation(heard(node)))
    assert read_standing(tmp_path).roster == roster_of(full)
    add_intent(tmp_path, an_intent(IntentKind.APPROVE, id="approve-1", digest=approval({"a": 1, "b": 2})))
    add_intent(tmp_path, an_intent(IntentKind.APPROVE, id="approve-2", digest="00000000"))
    ledger.passed(less, observation(heard(node, a_replica(b, 1, "n1", [0]))))
    roster = read_standing(tmp_path).roster
    assert roster is not None
    assert roster.models["a"] == RosterRow(replicas=1)
    assert roster.models["b"] == RosterRow(replicas=2, protect=True)
    ledger.passed(less, observation(heard(node)))
    standing = read_standing(tmp_path)
    assert standing.roster == roster_of(less)
    assert [each.id for each in standing.intents] == ["approve-2"]


def test_what_a_pass_found_done_is_forgotten_and_nothing_else(tmp_path: Path) -> None:
    ledger, node = Ledger(tmp_path, lambda _: None), a_node("n1")
    done, stands = an_intent(IntentKind.RESTART, "a", id="restart-1"), an_intent(IntentKind.RETRY, "b", id="retry-1")
    for each in (done, stands):
        add_intent(tmp_path, each)
    once = an_intent(IntentKind.RETRY, id="apply-1")  # of the pass itself: no file
    ledger.passed(a_desired([a_model("a")], [node]), observation(heard(node)), (done, once))
    assert read_standing(tmp_path).intents == (stands,)


def test_a_disk_that_does_not_take_an_intent_says_so(tmp_path: Path) -> None:
    (tmp_path / "intents").touch()
    with pytest.raises(StateError, match="cannot be written"):
        add_intent(tmp_path, an_intent(IntentKind.RETRY, "m", id="r"))
