"""The words that design section 2 bans, because another word is the one word for the thing."""

from __future__ import annotations

import re

BANNED = re.compile(r"\b(workers?|hosts?|backends?|pods?|jobs?|services?|instances?)\b", re.IGNORECASE)

ALLOWED = re.compile(r"host RAM|(?<!\S)--?[\w-]+", re.IGNORECASE)
"""The design's own name for the memory of a node, and flags, which programs name as they like."""


def banned_words(text: str) -> list[str]:
    """The banned words in a text."""
    return BANNED.findall(ALLOWED.sub("", text))
