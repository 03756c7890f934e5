"""Every field of the files people write: where it belongs, what it takes, what a change of it does."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from reconciler.domain.base import DURATION_PATTERN, NAME_PATTERN
from reconciler.domain.effects import FLEET_EFFECTS, MODEL_EFFECTS, POOL_EFFECTS, Effect
from reconciler.domain.source import SOURCE_FORMS
from reconciler.views.schemas import schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TABLES = {
    "model": ("models/<name>.yaml", MODEL_EFFECTS),
    "pool": ("nodes/<pool>.yaml", POOL_EFFECTS),
    "cluster": ("cluster.yaml", FLEET_EFFECTS),
}

_PATTERNS = {
    DURATION_PATTERN: "duration such as 90s, 30m, 2h or 1d",
    NAME_PATTERN: "name (a-z and 0-9, inside also . _ -; 63 characters at most)",
}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of one kind of file."""

    root: str
    """model, pool or cluster."""
    path: str
    """Dotted, without list positions: profiles.gpus."""
    file: str
    meaning: str
    takes: str
    default: str
    effect: Effect

    @property
    def name(self) -> str:
        """With its root, so that no two fields have one name: model.profiles.gpus."""
        return f"{self.root}.{self.path}"


@cache
def fields() -> tuple[Field, ...]:
    """Every field of model, pool and cluster files, in the order of the types."""
    return tuple(
        Field(root, path, file, part["description"], _takes(part, defs), _default(part, required), effects[path])
        for root, (file, effects) in _TABLES.items()
        for whole in [schema(root)]
        for defs in [whole["$defs"]]
        for path, part, required in _walk(whole, defs, "")
    )


def _walk(part: Mapping[str, Any], defs: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Every field below a part of a schema: dotted path, its schema, whether it is required."""
    for inner in _inner(part, defs):
        for name, field in inner.get("properties", {}).items():
            yield f"{prefix}{name}", _described(field, inner, defs), name in inner.get("required", [])
            yield from _walk(field, defs, f"{prefix}{name}.")


def _inner(part: Mapping[str, Any], defs: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The objects a value can be, through references, lists and maps; each once."""
    found: dict[str, Mapping[str, Any]] = {}
    queue = [part]
    while queue:
        each = queue.pop(0)
        if "properties" in each:
            found.setdefault(json.dumps(each), each)
        if "$ref" in each:
            queue.append(_resolved(each, defs))
        queue.extend(each.get("anyOf", []))
        queue.extend(value for key in ("items", "additionalProperties") if isinstance(value := each.get(key), dict))
        queue.extend(each.get("patternProperties", {}).values())
    return list(found.values())


def _described(field: dict[str, Any], owner: Mapping[str, Any], defs: Mapping[str, Any]) -> dict[str, Any]:
    """With a description: the field's own, else that of its type, else that of what it belongs to."""
    resolved = _resolved(field, defs) if "$ref" in field else field
    return field | {"description": field.get("description") or resolved.get("description") or owner["description"]}


def _resolved(part: Mapping[str, Any], defs: Mapping[str, Any]) -> Mapping[str, Any]:
    resolved: Mapping[str, Any] = defs[part["$ref"].rpartition("/")[2]]
    return resolved


def _takes(part: Mapping[str, Any], defs: Mapping[str, Any]) -> str:
    """What a value of this schema may be, in words."""
    if "$ref" in part:
        return _takes(_resolved(part, defs), defs)
    if "anyOf" in part:
        return ", or ".join(_takes(option, defs) for option in part["anyOf"])
    if "enum" in part:
        return f"one of {', '.join(part['enum'])}"
    if "properties" in part:
        return f"{{{', '.join(part['properties'])}}}"
    match part.get("type"):
        case "array":
            return f"list of {_takes(part['items'], defs)}"
        case "object":
            values = [*part.get("patternProperties", {}).values(), part.get("additionalProperties")]
            return f"map of names to {_takes(values[0], defs)}"
        case "boolean":
            return "true or false"
        case "integer":
            return f"whole number{_range(part)}"
        case "number":
            return f"number{_range(part)}"
        case _:
            return _text(part.get("pattern", ""))


def _text(pattern: str) -> str:
    if "%" in pattern:
        return "share such as 20%"
    return _PATTERNS.get(pattern) or (SOURCE_FORMS if "package:" in pattern else "text")


def _range(part: Mapping[str, Any]) -> str:
    if "maximum" in part and "minimum" in part:
        return f", {part['minimum']} to {part['maximum']:,}"
    if "maximum" in part:
        return f" above {part['exclusiveMinimum']}, at most {part['maximum']:,}"
    if "minimum" in part:
        return f", {part['minimum']} or more"
    return f" above {part['exclusiveMinimum']}" if "exclusiveMinimum" in part else ""


def _default(part: Mapping[str, Any], required: bool) -> str:
    if required:
        return "none: it is required"
    default = part.get("default")
    if default is None or default == [] or isinstance(default, dict):
        return "not set"
    return default if isinstance(default, str) else json.dumps(default)
