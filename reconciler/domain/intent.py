"""A person's standing instruction that is not YAML; rows in the reconciler's state directory."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator

from reconciler.domain.base import Frozen, Name, Text

if TYPE_CHECKING:
    from collections.abc import Iterable


LONGEST = 300
"""Characters of what a person says: it stands on one line of a plan, a status and a comment, beside much else."""


def _one_line(text: str) -> str:
    """Line breaks would begin a line of their own in every view, in Markdown a heading."""
    words = " ".join(text.split())
    return words if len(words) <= LONGEST else f"{words[: LONGEST - 1]}…"


Said = Annotated[Text, AfterValidator(_one_line)]


class IntentKind(StrEnum):
    """What a person asked for."""

    RESTART = "restart"
    """Replace every replica of the model by its rollout policy."""
    RETRY = "retry"
    """Launch what failed again, and start on nodes that were given up."""
    COMMIT = "commit"
    """A commit was taken: what failed under the ones before is launched again. Made by `run`, never a row."""
    SUSPEND = "suspend"
    """Change nothing about the model until this expires or is resumed."""
    WAKE = "wake"
    """Load one replica of an on-demand model, and keep it until this expires."""
    APPROVE = "approve"
    """Let disappear what `digest` stands for, over the limits."""


class Intent(Frozen):
    """One instruction; `model` None means every model."""

    id: Text
    """Unique; sorts by kind and time."""
    kind: IntentKind
    """What is asked for."""
    model: Name | None = None
    """Of which model; null for every one, and for approve."""
    digest: Text | None = None
    """What is approved; for approve only."""
    author: Said
    """The user who said it."""
    reason: Said | None = None
    """In their words."""
    created_at: datetime
    """When it was said."""
    expires_at: datetime | None = None
    """When it ends by itself; null where it does not."""

    def is_live(self, now: datetime) -> bool:
        """Whether it still asks for anything."""
        return self.expires_at is None or now < self.expires_at


def newest(intents: Iterable[Intent], kinds: Iterable[IntentKind], model: str | None, now: datetime) -> Intent | None:
    """The newest intent of some kinds for a model; None when there is none or it has expired.

    An expired one asks for nothing, and an older one does not come back to life behind it.
    """
    wanted = frozenset(kinds)
    ours = [intent for intent in intents if intent.kind in wanted and intent.model in {None, model}]
    if not ours:
        return None
    found = max(ours, key=lambda intent: (intent.created_at, intent.id))
    return found if found.is_live(now) else None
