"""What our tables know of architectures: the family a model is built like, and its own differences."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from reconciler.domain.tables import table

if TYPE_CHECKING:
    from collections.abc import Mapping


@lru_cache(maxsize=1024)
def family_of(architecture: str) -> Mapping[str, Any]:
    """The row of an architecture over the row of its family; empty when the tables do not know it."""
    tables = table("architectures")
    row = tables["architectures"].get(architecture)
    if row is None:
        return {}
    return {**tables["families"][row["family"]], **row}
