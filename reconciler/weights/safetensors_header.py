"""The header of a safetensors file: its tensors with type and bytes, read without touching the weights.

Eight bytes of length, then JSON: {name: {dtype, shape, data_offsets}}. Checked as the format's own library checks it:
offsets run from 0 to the end of the file without a hole, so that bytes are counted once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reconciler.errors import WeightsError
from reconciler.weights.files import size_of
from reconciler.weights.plain_json import read_object
from reconciler.weights.tensor_runs import Tensor

if TYPE_CHECKING:
    from reconciler.weights.files import Files

MOST_HEADER_BYTES = 25_000_000
"""huggingface_hub refuses longer ones too: at about 120 bytes a tensor it is 200,000 tensors in one file."""

FIRST_READ_BYTES = 2**17
"""97 % of headers are below 100 kB, as huggingface_hub counted; a longer one costs a second request."""

_LENGTH_BYTES = 8
_METADATA = "__metadata__"


def read_tensors(files: Files, path: str) -> tuple[Tensor, ...]:
    """The tensors in the order of the file; WeightsError when the header is damaged or the file too short for it."""
    size = size_of(files, path)
    begin = files.read(path, 0, min(size, FIRST_READ_BYTES)) if size else b""
    length = int.from_bytes(begin[:_LENGTH_BYTES], "little")
    if len(begin) < _LENGTH_BYTES or length > size - _LENGTH_BYTES:
        raise _damaged(path, "it ends behind the end of the file")
    if length > MOST_HEADER_BYTES:
        raise _damaged(path, f"it would be {length:,} bytes long; at most {MOST_HEADER_BYTES:,} are read")
    header = begin[_LENGTH_BYTES : _LENGTH_BYTES + length]
    if len(header) < length:
        header += files.read(path, len(begin), length - len(header))
    rows = read_object(header, f"the safetensors header of {path}")
    rows.pop(_METADATA, None)
    tensors = [_tensor(path, name, row) for name, row in rows.items()]
    tensors.sort()
    _check(path, tensors, size - _LENGTH_BYTES - length)
    return tuple(Tensor(name, dtype, end - begin) for begin, end, name, dtype in tensors)


def _tensor(path: str, name: str, row: Any) -> tuple[int, int, str, str]:
    """Where a tensor begins and ends, its name and its type."""
    dtype = row.get("dtype") if isinstance(row, dict) else None
    span = row.get("data_offsets") if isinstance(row, dict) else None
    if not isinstance(dtype, str) or not isinstance(span, list) or [type(each) for each in span] != [int, int]:
        raise _damaged(path, f"tensor {name} has no type or no place")
    return span[0], span[1], name, dtype.lower()


def _check(path: str, tensors: list[tuple[int, int, str, str]], available: int) -> None:
    """The tensors, sorted, follow each other without a hole from 0 to the end of the file."""
    position = 0
    for begin, end, name, _ in tensors:
        if begin != position or end < begin:
            raise _damaged(path, f"tensor {name} overlaps another or follows a hole")
        position = end
    if position > available:
        missing = position - available
        raise WeightsError(f"{path} is incomplete: {missing:,} of {position:,} bytes of tensors are missing")
    if position < available:
        raise _damaged(path, f"{available - position:,} bytes follow its last tensor")


def _damaged(path: str, reason: str) -> WeightsError:
    return WeightsError(f"the safetensors header of {path} is damaged: {reason}")
