"""A person's standing instruction that is not YAML; rows in the reconciler's state directory."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from reconciler.domain.base import Frozen, Name, Text


class IntentKind(StrEnum):
    """What a person asked for."""

    RESTART = "restart"
    """Replace every replica of the model by its rollout policy."""
    RETRY = "retry"
    """Launch what failed again."""


class Intent(Frozen):
    """One instruction; `model` None means every model."""

    id: Text
    kind: IntentKind
    model: Name | None = None
    author: Text
    reason: Text | None = None
    created_at: datetime
    expires_at: datetime | None = None
