"""What was expected and what was found, in words that give no secret away."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from reconciler.domain.base import NAME_PATTERN
from reconciler.gate.secrets import kind_of
from reconciler.sources.fault import shorten
from reconciler.sources.scalars import BOOLEAN_WORDS

if TYPE_CHECKING:
    from reconciler.sources.fields import ObjectPath

NAME_IN_WORDS = "a name: at most 63 of a-z, 0-9, dot, dash and underscore, with a letter or digit at both ends"

# By the pattern that pydantic reports; a test holds that no pattern of the schema is missing here.
PATTERNS_IN_WORDS = {
    NAME_PATTERN: NAME_IN_WORDS,
    r"^[A-Za-z_][A-Za-z0-9_]*$": "the name of an environment variable: letters, digits and underscores, no digit first",
    r"^https?://[^\s]+$": "a URL: https://HOST/PATH",
    r"^[^\s]{1,256}$": "a name without spaces, of at most 256 characters",
    r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(/[a-z0-9.]+)?$": "a GPU class such as h100-80gb: a-z, 0-9, dots and dashes",
    r"^(100|[0-9]{1,2})%$": "a share such as 20%",
    r"^(local|unix:/\S+|https?://\S+)$": "an address: https://{node}.example:7443, unix:/PATH or local",
    r"^\d+g\.\d+gb(\+me)?$": "a MIG profile such as 1g.10gb",
}

# Where the type alone would not say what to write. By place in the schema; more than one form is a union.
FORMS: dict[ObjectPath, str] = {
    ("profiles", "env", "*"): "text, or {secret: NAME}",
    ("limits", "models_removed"): "a share such as 20%, or a count",
    ("limits", "replicas_removed"): "a share such as 20%, or a count",
    ("limits", "concurrent_starts"): "a share of the nodes such as 10%, or a count of at least 1",
    ("nodes",): "a list of nodes: names, ranges such as gpu-[01-16], or mappings with name",
    ("gpus",): "{class: GPU_CLASS, count: N}, or a list of these",
    ("nodes", "gpus"): "{class: GPU_CLASS, count: N}, or a list of these",
    ("scaling",): "fields, such as {min: 1}",
    ("profiles",): "a list of profiles, each with name and engine",
    ("adapters",): "a list of {name, source}",
    ("external",): "fields, such as {url: https://HOST/v1}",
}
ITEM_FORMS: dict[ObjectPath, str] = {
    ("nodes",): "a node's name, a range such as gpu-[01-16], or a mapping with name",
    ("profiles",): "fields, such as {name: h100, engine: vllm}",
    ("adapters",): "fields: {name: …, source: …}",
}
"""The same for one item of a list."""

# Values below these are never repeated: they may be secrets, whether or not they should be there.
_SECRET_FIELDS = frozenset({"env", "api_key_env", "url", "address", "args", "source", "mmproj"})


def is_secret(path: ObjectPath) -> bool:
    """Whether a value at this place in the schema may be a secret, or hold one."""
    return not _SECRET_FIELDS.isdisjoint(path)


def found(value: Any, written: str | None, *, secret: bool) -> str:
    """What stands in the document, by kind; short scalars are repeated unless they may be secret."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return "a number" if secret else f"the number {written or value}"
        case str():
            return "text" if secret else f'the text "{shorten(value)}"'
        case list():
            return "a list"
        case _:
            return "fields"


def as_number(value: Any, *, fraction: bool) -> str | None:
    """How a number would be written that stands there as something else."""
    if isinstance(value, float) and value.is_integer():
        return f"write {int(value)}"
    numeral = r"[0-9]{1,18}(\.[0-9]{1,18})?" if fraction else r"[0-9]{1,18}"
    text = value.strip() if isinstance(value, str) else ""
    return f"write {text}" if re.fullmatch(numeral, text) else None


def as_boolean(value: Any) -> str | None:
    """How true or false would be written that stands there as something else."""
    if isinstance(value, str):
        word = value.strip()
        if word.lower() in {"true", "false"}:
            return f"write {word.lower()}, without quotes"
        return f"write {str(BOOLEAN_WORDS[word]).lower()}" if word in BOOLEAN_WORDS else None
    if type(value) is int and value in {0, 1}:
        return f"write {str(bool(value)).lower()}"
    return None


def as_text(value: Any, written: str | None, *, secret: bool) -> str | None:
    """How text would be written that YAML takes for something else."""
    if value is None:
        return "write a value, or remove the field"
    if isinstance(value, list | dict):
        return None
    shown = written if isinstance(value, int | float) and not isinstance(value, bool) else str(value).lower()
    return f'put it in quotes: "{shown}"' if shown and not secret else "put it in quotes"


def as_name(value: Any) -> str | None:
    """The name that a misspelt one is nearest to."""
    if not isinstance(value, str) or kind_of(value):
        return None
    name = re.sub(r"[^a-z0-9._-]+", "-", value[:64].lower()).strip("-._")[:63].rstrip("-._")
    return f"write {name}" if name and re.fullmatch(NAME_PATTERN, name) else None
