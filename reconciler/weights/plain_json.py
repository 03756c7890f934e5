"""JSON from anywhere → plain data that a lock can hold and that is read back from it as it was."""

from __future__ import annotations

import json
import math
from typing import Any

from reconciler.errors import WeightsError

DEEPEST = 24
"""Levels of one JSON file. Locks are read to a depth of 32, and a config lies a few levels down in one."""

_EXACT_DIGITS = 18
"""Longer integers, the sign counted, are floats where locks are read (`sources.locks`): tokenizers write 10^30."""


def read_object(data: bytes, name: str) -> dict[str, Any]:
    """Read one JSON object; WeightsError says why it is none. `name` is the file, for that message."""
    try:
        value = json.loads(data)
    except UnicodeDecodeError:
        raise WeightsError(f"{name} is not UTF-8") from None
    except RecursionError:
        raise WeightsError(f"{name} is nested too deep") from None
    except ValueError as error:  # JSONDecodeError, and integers of thousands of digits
        raise WeightsError(f"{name} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise WeightsError(f"{name} is not a JSON object")
    return plain_object(value, name)


def plain_object(value: dict[str, Any], name: str) -> dict[str, Any]:
    """An object as JSON can hold it: no NaN or infinity, no integer that would be read back as another number."""
    made: dict[str, Any] = {_text(key, name): _plain(inner, name, 1) for key, inner in value.items()}
    return made


def _plain(value: Any, name: str, depth: int) -> Any:
    if depth > DEEPEST:
        raise WeightsError(f"{name} is nested more than {DEEPEST} deep")
    if isinstance(value, dict):
        return {_text(key, name): _plain(inner, name, depth + 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner, name, depth + 1) for inner in value]
    if isinstance(value, str):
        return _text(value, name)
    if type(value) is int and len(str(value)) > _EXACT_DIGITS:
        value = float(str(value))  # from text, which never overflows
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # Mamba configs have Infinity as an upper bound; as text it cannot be taken for a number
    return value


def _text(value: str, name: str) -> str:
    """Half of a surrogate pair can be written as an escape, and nowhere else."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise WeightsError(f"{name} has an escape that is half of a surrogate pair") from None
    return value
