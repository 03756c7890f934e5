"""Data tables as JSON, read through importlib.resources; each row carries or follows a source."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from reconciler.domain.fleet_spec import GpuClass

if TYPE_CHECKING:
    from collections.abc import Mapping


@cache
def gpu_classes() -> Mapping[str, GpuClass]:
    """Built-in GPU classes by slug."""
    return {slug: GpuClass.model_validate(_sizes(row)) for slug, row in table("gpu_classes")["classes"].items()}


def _sizes(row: Mapping[str, Any]) -> dict[str, int]:
    return {"memory_mib": row["memory_mib"], "engine_mib": row["engine_mib"]}


@cache
def table(name: str) -> Any:
    """One table by file stem, as parsed JSON."""
    return json.loads(files(__name__).joinpath(f"{name}.json").read_text("utf-8"))
