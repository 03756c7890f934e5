"""Claims: epochs only grow, one holder at a time, and a dead holder on this machine blocks nobody."""

from __future__ import annotations

import pytest

from reconciler.domain.assignment import ClaimRequest, Holder, Refusal
from reconciler.domain.claims import Claims, decide_claim, released, restored
from tests.agent.entries import BOOT, claim_request


def nobody_is_dead(_holder: Holder) -> bool:
    return False


def everybody_is_dead(_holder: Holder) -> bool:
    return True


def granted(claims: Claims, request: ClaimRequest, now: float, *, boot_id: str = BOOT, dead: bool = False) -> Claims:
    outcome = decide_claim(claims, request, now, boot_id=boot_id, is_dead=everybody_is_dead if dead else nobody_is_dead)
    assert isinstance(outcome, Claims), outcome
    return outcome


def refused(claims: Claims, request: ClaimRequest, now: float, *, boot_id: str = BOOT, dead: bool = False) -> Refusal:
    outcome = decide_claim(claims, request, now, boot_id=boot_id, is_dead=everybody_is_dead if dead else nobody_is_dead)
    assert isinstance(outcome, Refusal), outcome
    return outcome


def test_a_free_node_is_granted_with_the_next_epoch() -> None:
    claims = granted(Claims(epoch=7), claim_request(), 0)
    assert claims.epoch == 8
    assert claims.permits("apply-1", 8, 29.9)
    assert not claims.permits("apply-1", 8, 30.0), "it lapses after its time to live"
    assert not claims.permits("apply-1", 7, 1)
    assert not claims.permits("apply-2", 8, 1)


def test_a_live_holder_is_not_replaced_and_is_named_with_what_is_left() -> None:
    claims = granted(Claims(), claim_request("apply-1"), 0)
    refusal = refused(claims, claim_request("apply-2"), 10)
    assert refusal.reason == "held"
    assert refusal.holder is not None
    assert refusal.holder.id == "apply-1"
    assert refusal.expires_in_seconds == pytest.approx(20)
    assert "ada" in refusal.message
    assert "20 s" in refusal.message


def test_a_silent_holder_is_replaced_once_its_claim_has_lapsed() -> None:
    claims = granted(Claims(), claim_request("apply-1"), 0)
    assert granted(claims, claim_request("apply-2"), 30).epoch == 2


def test_a_renewal_keeps_the_epoch_and_starts_the_time_anew() -> None:
    claims = granted(Claims(), claim_request(), 0)
    claims = granted(claims, claim_request(epoch=1), 20)
    assert claims.epoch == 1
    assert claims.permits("apply-1", 1, 49)


def test_a_lapsed_claim_that_nobody_took_is_renewed() -> None:
    claims = granted(Claims(), claim_request(), 0)
    assert granted(claims, claim_request(epoch=1), 500).epoch == 1


def test_a_renewal_after_another_took_over_names_the_other() -> None:
    claims = granted(Claims(), claim_request("apply-1"), 0)
    claims = granted(claims, claim_request("apply-2"), 31)
    refusal = refused(claims, claim_request("apply-1", epoch=1), 32)
    assert refusal.reason == "held"
    assert refusal.holder is not None
    assert refusal.holder.id == "apply-2"


def test_a_renewal_of_an_epoch_that_was_never_issued_is_stale() -> None:
    claims = granted(Claims(), claim_request(), 0)
    assert refused(claims, claim_request(epoch=9), 1).reason == "stale"


def test_a_holder_that_asks_again_gets_a_higher_epoch() -> None:
    """Its first answer may have been lost on the way."""
    claims = granted(Claims(), claim_request(), 0)
    assert granted(claims, claim_request(), 1).epoch == 2


def test_a_dead_holder_on_this_machine_is_replaced_at_once() -> None:
    claims = granted(Claims(), claim_request("apply-1", boot_id=BOOT), 0)
    assert refused(claims, claim_request("apply-2"), 1).reason == "held"
    assert granted(claims, claim_request("apply-2"), 1, dead=True).epoch == 2


def test_a_holder_on_another_machine_is_waited_for_whatever_runs_here() -> None:
    claims = granted(Claims(), claim_request("apply-1", boot_id="elsewhere"), 0)
    assert refused(claims, claim_request("apply-2"), 1, dead=True).reason == "held"


def test_a_holder_on_this_machine_died_with_its_boot() -> None:
    before = granted(Claims(), claim_request("apply-1", boot_id=BOOT), 0)
    claims = restored(before.epoch, before.claim, 0)
    assert granted(claims, claim_request("apply-2"), 1, boot_id="boot-2").epoch == 2


def test_after_a_restart_of_the_agent_the_time_to_live_starts_anew() -> None:
    before = granted(Claims(), claim_request("apply-1"), 0)
    claims = restored(before.epoch, before.claim, 1_000)
    assert claims.permits("apply-1", 1, 1_029)
    assert refused(claims, claim_request("apply-2"), 1_029).reason == "held"
    assert granted(claims, claim_request("apply-2"), 1_030).epoch == 2


def test_a_released_claim_is_free_at_once_and_its_epoch_never_comes_back() -> None:
    claims = granted(Claims(), claim_request("apply-1"), 0)
    free = released(claims, "apply-1", 1)
    assert not free.permits("apply-1", 1, 1)
    assert granted(free, claim_request("apply-2"), 1).epoch == 2
    assert released(free, "apply-1", 1) == free, "asking twice is asking once"


@pytest.mark.parametrize(("name", "epoch"), [("apply-2", 1), ("apply-1", 0), ("apply-1", 2)])
def test_a_claim_is_released_only_by_its_holder_and_epoch(name: str, epoch: int) -> None:
    claims = granted(Claims(), claim_request("apply-1"), 0)
    assert released(claims, name, epoch) == claims
