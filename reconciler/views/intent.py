"""What a person said, on one line: what, about which model, until when, who, when and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from reconciler.domain.intent import Intent


def intent_text(intent: Intent, now: datetime | None = None) -> str:
    """`suspend qwen-32b until 14:30, said by ada 13:30: the vendor is looking at it`."""
    what = " ".join(filter(None, [intent.kind, intent.model or intent.digest]))
    until = f" until {instant_text(intent.expires_at, now)}" if intent.expires_at is not None else ""
    reason = f": {intent.reason}" if intent.reason else ""
    return f"{what}{until}, said by {intent.author} {instant_text(intent.created_at, now)}{reason}"


def instant_text(instant: datetime, now: datetime | None = None) -> str:
    """In `now`'s time zone, without the date where it is today's; as it is given where no `now` is, UTC named so."""
    if now is None:
        return f"{instant:%Y-%m-%d %H:%M}{'' if instant.utcoffset() else ' UTC'}"
    local = instant.astimezone(now.tzinfo)
    return f"{local:%H:%M}" if local.date() == now.date() else f"{local:%Y-%m-%d %H:%M}"
