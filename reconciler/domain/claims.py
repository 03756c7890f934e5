"""Who may change this node: the fenced, lapsing claim of one reconciler. Pure: the time is an argument.

Epochs only ever grow, and every change must carry the newest one: a reconciler that lost its claim cannot change
anything any more, however late its request arrives.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pydantic import ConfigDict

from reconciler.domain.assignment import Holder, Refusal
from reconciler.domain.base import Count, Frozen, Name, Text

if TYPE_CHECKING:
    from collections.abc import Callable

    from reconciler.domain.assignment import ClaimRequest


class ClaimRecord(Frozen):
    """The claim that was last granted, as an agent keeps it; unknown keys are ignored, a newer agent may write some."""

    model_config = ConfigDict(extra="ignore")

    fleet: Name
    holder: Holder
    epoch: Count
    ttl_seconds: float
    boot_id: Text
    """Of the agent's machine when it was granted: a holder on the same boot died with it."""


@dataclass(frozen=True, slots=True)
class Claims:
    """The newest claim, the highest epoch ever issued, and when the claim lapses on the monotonic clock."""

    epoch: int = 0
    claim: ClaimRecord | None = None
    expires_at_seconds: float = 0.0

    def holder(self, now: float) -> Holder | None:
        """Whose claim is live."""
        return self.claim.holder if self.claim is not None and now < self.expires_at_seconds else None

    def permits(self, holder_id: str, epoch: int, now: float) -> bool:
        """Whether this holder may change the node with this epoch."""
        holder = self.holder(now)
        return holder is not None and holder.id == holder_id and epoch == self.epoch

    def expires_in(self, now: float) -> float:
        """Seconds until the live claim lapses; 0 when none is live."""
        return max(self.expires_at_seconds - now, 0.0)


def restored(epoch: int, claim: ClaimRecord | None, now: float) -> Claims:
    """The claims after the agent restarted: how long it was away is not known, so the time to live starts anew."""
    return Claims(epoch, claim, 0.0 if claim is None else now + claim.ttl_seconds)


def decide_claim(
    claims: Claims, request: ClaimRequest, now: float, *, boot_id: str, is_dead: Callable[[Holder], bool]
) -> Claims | Refusal:
    """Grant or renew the claim, or say who holds it.

    `is_dead` tells of a holder on this machine and boot whether its process is gone; it is replaced at once.
    """
    own = claims.claim is not None and claims.claim.holder.id == request.holder.id
    if request.epoch is not None:
        if not own or request.epoch != claims.epoch:
            return _lost(claims, request, now)
        return _granted(claims, request, claims.epoch, now, boot_id)
    holder = claims.holder(now)
    if holder is not None and not own and not _died(claims.claim, boot_id, is_dead):
        return _held(claims, holder, now)
    return _granted(claims, request, claims.epoch + 1, now, boot_id)


def released(claims: Claims, holder_id: str, epoch: int) -> Claims:
    """The claims without the one named, if it is still the newest; asking twice changes nothing more."""
    if claims.claim is not None and claims.claim.holder.id == holder_id and claims.epoch == epoch:
        return replace(claims, claim=None, expires_at_seconds=0.0)
    return claims


def _granted(claims: Claims, request: ClaimRequest, epoch: int, now: float, boot_id: str) -> Claims:
    before = claims.claim
    renewal = before is not None and before.epoch == epoch
    record = ClaimRecord(
        fleet=request.fleet,
        holder=before.holder if before is not None and renewal else request.holder,
        epoch=epoch,
        ttl_seconds=request.ttl_seconds,
        boot_id=boot_id,
    )
    return Claims(epoch, record, now + request.ttl_seconds)


def _died(claim: ClaimRecord | None, boot_id: str, is_dead: Callable[[Holder], bool]) -> bool:
    """Whether the holder ran on this machine and is gone; of other machines nothing is known."""
    if claim is None or claim.holder.boot_id != claim.boot_id:
        return False
    return claim.boot_id != boot_id or is_dead(claim.holder)


def _held(claims: Claims, holder: Holder, now: float) -> Refusal:
    seconds = claims.expires_in(now)
    return Refusal(
        reason="held",
        message=f"held by `{holder.command}` of {holder.user} on {holder.machine} (pid {holder.pid}); "
        f"lapses in {seconds:.0f} s unless renewed",
        holder=holder,
        expires_in_seconds=seconds,
    )


def _lost(claims: Claims, request: ClaimRequest, now: float) -> Refusal:
    holder = claims.holder(now)
    if holder is not None and holder.id != request.holder.id:
        return _held(claims, holder, now)
    return Refusal(
        reason="stale",
        message=f"the claim with epoch {request.epoch} is not held any more; the newest epoch is {claims.epoch}",
        holder=holder,
    )
