"""Comparing engine versions."""

from __future__ import annotations

from reconciler.sizing.refusal import version_key


def at_least(version: str | None, least: str) -> bool:
    """Whether a version is this one or newer; one that is not named, or says no number, counts as the newest."""
    number = version_key(version) if version else ()
    return not number or number >= version_key(least)
