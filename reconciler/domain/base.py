"""The frozen base model, the scalar types of `cluster/`, and canonical JSON with its digest."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError

FORMAT_VERSION = "1.0"
"""Of every JSON output and of locks: readers ignore unknown keys and refuse a higher major."""

NAME_PATTERN = r"^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$"
DURATION_PATTERN = r"^[0-9]{1,6}[smhd]$"

_SECONDS_BY_UNIT = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


class Frozen(BaseModel):
    """Base of all models: immutable, unknown keys refused, input values kept out of error texts: they may be secret."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=True)


def parse_duration(value: object) -> timedelta:
    """Read `90s`, `30m`, `2h` or `1d`; a timedelta passes through; `0` is taken for `0s`."""
    if isinstance(value, timedelta):
        return value
    if type(value) is int and value == 0:
        return timedelta()
    if isinstance(value, str) and re.fullmatch(DURATION_PATTERN, value):
        return timedelta(seconds=int(value[:-1]) * _SECONDS_BY_UNIT[value[-1]])
    raise PydanticCustomError("duration", "expected a duration such as 90s, 30m, 2h or 1d")


def format_duration(value: timedelta) -> str:
    """Write the shortest form that `parse_duration` reads back: the largest unit that divides."""
    seconds = int(value.total_seconds())
    for unit in ("d", "h", "m"):
        if seconds and seconds % _SECONDS_BY_UNIT[unit] == 0:
            return f"{seconds // _SECONDS_BY_UNIT[unit]}{unit}"
    return f"{seconds}s"


Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
"""A name of a fleet, pool, node, model, profile or adapter."""

Text = Annotated[str, Field(min_length=1)]

Whole = Annotated[int, Field(strict=True)]
"""A whole number: `true`, `"4"` and `4.0` are refused. Its range is a matter of a rule or of the field."""

Count = Annotated[int, Field(strict=True, ge=0)]
Positive = Annotated[int, Field(strict=True, ge=1)]

MOST_REPLICAS = 10_000
"""Of one model: beyond every fleet in reach, and small enough that a slip of the keyboard does not exhaust memory."""

Replicas = Annotated[int, Field(strict=True, ge=0, le=MOST_REPLICAS)]
MOST_TOKENS = 100_000_000
"""Of one request: ten times the longest context that any published model has."""

Tokens = Annotated[int, Field(strict=True, ge=1, le=MOST_TOKENS)]

MOST_PARTS = 1_000_000
"""What one replica is divided into, serves at once or reserves, GiB of host RAM too: beyond any machine in reach, and
small enough that nothing overflows that is worked out from it."""

Parts = Annotated[int, Field(strict=True, ge=1, le=MOST_PARTS)]
Mibs = Annotated[int, Field(strict=True, ge=1, le=MOST_PARTS * 1_024)]
Gibs = Annotated[float, Field(strict=True, gt=0, le=MOST_PARTS, allow_inf_nan=False)]

Flag = Annotated[bool, Field(strict=True)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
PositiveNumber = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]

Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": DURATION_PATTERN}),
]


def canonical_json(value: Any) -> bytes:
    """Serialise plain JSON data so that equal data gives equal bytes: sorted keys, no spaces, UTF-8."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def digest(value: Any) -> str:
    """64 hex digits of sha256 over the canonical JSON of plain data."""
    return hashlib.sha256(canonical_json(value)).hexdigest()
