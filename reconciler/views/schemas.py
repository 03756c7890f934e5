"""JSON Schemas of the files people write and of the JSON that commands print, generated from the types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reconciler.domain.base import DURATION_PATTERN, FORMAT_VERSION
from reconciler.domain.finding import GateReport
from reconciler.domain.fit import FitReport
from reconciler.domain.fleet_spec import FleetSpec, PoolSpec
from reconciler.domain.lock import Lock
from reconciler.domain.model_spec import ModelSpec
from reconciler.domain.plan import Plan
from reconciler.domain.status import FleetStatus
from reconciler.domain.why import Why
from reconciler.views.words import json_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic import BaseModel

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_HOME = f"urn:reconciler:schema:{FORMAT_VERSION}"

_WRITTEN: Mapping[str, tuple[type[BaseModel], str]] = {
    "cluster": (FleetSpec, "The fleet: cluster/cluster.yaml"),
    "pool": (PoolSpec, "Nodes that are alike: cluster/nodes/<pool>.yaml"),
    "model": (ModelSpec, "One model: cluster/models/<name>.yaml"),
}
"""What people write: an unknown field is a mistake."""

_READ: Mapping[str, tuple[type[BaseModel], str]] = {
    "lock": (Lock, "What a model's sources were found to be: cluster/locks/<name>.json"),
    "validate": (GateReport, "Answer of reconciler validate --format json"),
    "fit": (FitReport, "Answer of reconciler fit --format json"),
    "plan": (Plan, "Answer of reconciler plan --format json"),
    "status": (FleetStatus, "Answer of reconciler status --format json"),
    "why": (Why, "Answer of reconciler why --format json"),
}
"""What programs read: a later minor version may add fields, so readers let unknown ones pass."""

# What pydantic's types cannot say and an editor can show at once.
_MODEL_RULES = {"oneOf": [{"required": ["source"]}, {"required": ["external"]}]}


def schemas() -> Mapping[str, dict[str, Any]]:
    """Every schema by name: cluster, pool and model for editors, lock and the answers of commands for programs."""
    return {name: schema(name) for name in (*_WRITTEN, *_READ)}


def schema(name: str) -> dict[str, Any]:
    """One schema by name; KeyError when there is none."""
    model, title = {**_WRITTEN, **_READ}[name]
    written = name in _WRITTEN
    printed = not written and model is not Lock
    generated = model.model_json_schema(by_alias=True, mode="serialization" if printed else "validation")
    for part in _objects(generated):
        if written:
            _refuse_more(part)
        else:
            part.pop("additionalProperties", None)
        _tidy(part)
        if printed and "properties" in part:
            # Every key is printed, null where there is nothing to say.
            part["required"] = list(part["properties"])
    head = {"$schema": _DIALECT, "$id": f"{_HOME}:{name}", "title": title}
    rest = {key: value for key, value in generated.items() if key not in head}
    return head | rest | (_MODEL_RULES if name == "model" else {})


def _tidy(part: dict[str, Any]) -> None:
    for field in part.get("properties", {}).values():
        # Pydantic's title of a field repeats its name in other letters.
        field.pop("title", None)
    if part.get("pattern") == DURATION_PATTERN:
        # A plain 0 is a duration too: `idle_timeout: 0`.
        part.update({"type": ["string", "integer"], "minimum": 0, "maximum": 0})


def _refuse_more(part: dict[str, Any]) -> None:
    """A field without a value is no way to leave it out, and a map takes only keys of its pattern."""
    options = [option for option in part.get("anyOf", []) if option != {"type": "null"}]
    if len(options) < len(part.get("anyOf", [])):
        del part["anyOf"]
        part.update(options[0] if len(options) == 1 else {"anyOf": options})
        if part.get("default", ...) is None:
            del part["default"]
    if "patternProperties" in part:
        part["additionalProperties"] = False


def schema_text(name: str) -> str:
    """One schema as the text of `schemas/<name>.schema.json`."""
    return json_text(schema(name))


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in a JSON value, the outer ones first."""
    if isinstance(value, dict):
        yield value
        for each in list(value.values()):
            yield from _objects(each)
    elif isinstance(value, list):
        for each in value:
            yield from _objects(each)
