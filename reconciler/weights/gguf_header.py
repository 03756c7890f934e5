"""The header of a GGUF file: metadata and tensor list, read without touching the weights.

Not by `gguf.GGUFReader`: it makes an array of every token (2.0 s and 190 MiB for a vocabulary of 49,152; this reader
0.1 s) and walks off into 2^64 elements on a damaged file. The package gives the sizes and names of the types.
"""

from __future__ import annotations

import hashlib
import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reconciler.errors import WeightsError
from reconciler.weights.tensor_runs import Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.weights.files import Stream

VERSIONS = (2, 3)
"""Version 1 (32-bit lengths) was in use for two weeks of 2023."""

MAX_ITEMS = 2**24
"""Of one array or table: the largest vocabularies are 64 times smaller. Bounds the time spent on a damaged file."""

MAX_TEXT_BYTES = 2**24
"""Of one key or string: the longest, whole tokenizers as JSON, are about 10 MiB."""

_MAX_DIMENSIONS = 4
_MAX_DEPTH = 3
_ALIGNMENT = 32
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_TEMPLATE = "tokenizer.chat_template"


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What a GGUF file says of itself."""

    metadata: Mapping[str, Any]
    """As plain JSON data, without the tokenizer's arrays and templates; floats that JSON lacks are text."""
    tensors: tuple[Tensor, ...]
    chat_template_sha256: str | None


def read_header(file: Stream) -> GgufHeader:
    """Read the header; WeightsError when it is no GGUF, damaged, or the file shorter than its tensors need."""
    return _Reader(file).header()


class _Reader:
    """Walks through one file; every length is checked against what is left of it before it is used."""

    def __init__(self, file: Stream) -> None:
        self._file = file
        self._name = file.path.rpartition("/")[2]
        self._size = file.size

    def header(self) -> GgufHeader:
        if self._take(4) != b"GGUF":
            raise WeightsError(f"{self._name} is no GGUF file")
        version = self._scalar("I")
        if version not in VERSIONS:
            raise WeightsError(f"{self._name} is GGUF version {version}; versions 2 and 3 are read")
        tensor_count, pair_count = self._count(), self._count()
        metadata: dict[str, Any] = {}
        template: str | None = None
        for _ in range(pair_count):
            key, kind = self._text(), self._scalar("I")
            if key in metadata:
                raise self._damaged(f"{key} stands in it twice")
            value = self._value(kind, keep=not (key.startswith("tokenizer.") and kind == _ARRAY))
            if key == _TEMPLATE and isinstance(value, str):
                template = hashlib.sha256(value.encode()).hexdigest()
            if value is not None and not _of_tokenizer(key, value):
                metadata[key] = value
        tensors = self._tensors(tensor_count, metadata.get("general.alignment", _ALIGNMENT))
        return GgufHeader(metadata, tensors, template)

    def _tensors(self, count: int, alignment: object) -> tuple[Tensor, ...]:
        if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
            raise self._damaged(f"its alignment is {alignment}")
        tensors, end = [], 0
        for _ in range(count):
            tensor, offset = self._tensor()
            tensors.append(tensor)
            end = max(end, offset + tensor.bytes)
        start = -(-self._file.tell() // alignment) * alignment
        if start + end > self._size:
            missing = start + end - self._size
            raise WeightsError(f"{self._name} is incomplete: {missing:,} of {start + end:,} bytes are missing")
        return tuple(tensors)

    def _tensor(self) -> tuple[Tensor, int]:
        name, dimensions = self._text(), self._scalar("I")
        if dimensions > _MAX_DIMENSIONS:
            raise self._damaged(f"tensor {name} has {dimensions} dimensions")
        elements = math.prod(self._scalar("Q") for _ in range(dimensions))
        dtype, block, block_bytes = _tensor_type(self._scalar("I"), self._name)
        if elements % block:
            raise self._damaged(f"tensor {name} has {elements} elements, no multiple of {block}")
        return Tensor(name, dtype, elements // block * block_bytes), self._scalar("Q")

    def _value(self, kind: int, *, keep: bool, depth: int = 0) -> Any:
        """One value as plain data; None, having passed over it, when it is not kept."""
        if kind == _STRING:
            return self._text()
        if kind != _ARRAY:
            return _plain(self._scalar(self._format(kind)))
        if depth == _MAX_DEPTH:
            raise self._damaged(f"arrays lie more than {_MAX_DEPTH} deep")
        element, count = self._scalar("I"), self._count()
        if element in {_STRING, _ARRAY}:
            values = [self._value(element, keep=keep, depth=depth + 1) for _ in range(count)]
            return values if keep else None
        code = self._format(element)
        raw = self._take(count * struct.calcsize(code))
        return [_plain(value) for value in struct.unpack(f"<{count}{code}", raw)] if keep else None

    def _format(self, kind: int) -> str:
        code = _SCALARS.get(kind)
        if code is None:
            raise self._damaged(f"{kind} is no type of value")
        return code

    def _scalar(self, code: str) -> Any:
        return struct.unpack(f"<{code}", self._take(struct.calcsize(code)))[0]

    def _count(self) -> int:
        count: int = self._scalar("Q")
        if count > MAX_ITEMS:
            raise self._damaged(f"it counts {count:,} items")
        return count

    def _text(self) -> str:
        length: int = self._scalar("Q")
        if length > MAX_TEXT_BYTES:
            raise self._damaged(f"a text in it is {length:,} bytes long")
        return self._take(length).decode("utf-8", errors="replace")

    def _take(self, count: int) -> bytes:
        taken = self._file.read(count) if count <= self._size else b""
        if len(taken) < count:
            raise self._damaged("it ends too early")
        return taken

    def _damaged(self, reason: str) -> WeightsError:
        return WeightsError(f"the GGUF header of {self._name} is damaged: {reason}")


def _tensor_type(number: int, name: str) -> tuple[str, int, int]:
    """Type in lower case, elements a block, bytes a block."""
    try:
        from gguf import GGML_QUANT_SIZES, GGMLQuantizationType  # noqa: PLC0415  # optional: the message names the extra
    except ImportError as error:
        raise WeightsError("reading GGUF files needs the gguf package", hint="pip install 'reconciler[hub]'") from error
    try:
        kind = GGMLQuantizationType(number)
    except ValueError:
        raise WeightsError(
            f"{name} has tensors of type {number}, which the installed gguf package does not know",
            hint="pip install --upgrade gguf",
        ) from None
    block, block_bytes = GGML_QUANT_SIZES[kind]
    return kind.name.lower(), block, block_bytes


def _plain(value: Any) -> Any:
    """JSON has no infinities and no NaN."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _of_tokenizer(key: str, value: object) -> bool:
    """Templates and whole tokenizers in one text: long, and nothing that arithmetic needs."""
    return key.startswith(("tokenizer.chat_template", "tokenizer.huggingface.", "tokenizer.rwkv.")) and isinstance(
        value, str | list
    )
