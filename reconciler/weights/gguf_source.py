"""A source that names a GGUF file: one, or the first of several parts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from reconciler.domain.lock import LockedSource, WeightFormat
from reconciler.errors import WeightsError
from reconciler.weights.files import Stream, locked_files
from reconciler.weights.gguf_header import read_header
from reconciler.weights.plain_json import plain_object
from reconciler.weights.tensor_names import gguf_place
from reconciler.weights.tensor_runs import tensor_runs

if TYPE_CHECKING:
    from reconciler.weights.files import Files
    from reconciler.weights.gguf_header import GgufHeader

MOST_PARTS = 1_000
"""The name has room for 99,999, each a file to look for; 1,000 parts of 4 GB, as they are usual, are 4 TB."""

_PART = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf$", re.DOTALL)


def lock_gguf(files: Files, source: str, path: str) -> LockedSource:
    """Read the header of the file, and of its other parts where it says or its name says that it has some."""
    first = read_header(Stream(files, path))
    paths = (path, *_others(path, first))
    headers = (first, *(read_header(Stream(files, each)) for each in paths[1:]))
    tensors = tuple(tensor for header in headers for tensor in header.tensors)
    told = first.metadata.get("split.tensors.count")
    if type(told) is int and told != len(tensors):
        raise WeightsError(f"{path} says that all parts have {told} tensors together; they have {len(tensors)}")
    stated = first.metadata.get("general.license")
    rows = locked_files(files, paths)
    return LockedSource(
        source=source,
        revision=files.revision(rows),
        format=WeightFormat.GGUF,
        weight_bytes=sum(tensor.bytes for tensor in tensors),
        config=plain_object(dict(first.metadata), f"the GGUF header of {path}"),
        tensors=tensor_runs(tensors, gguf_place),
        files=rows,
        licence=stated if isinstance(stated, str) else files.licence,
        chat_template_sha256=first.chat_template_sha256,
    )


def _others(path: str, header: GgufHeader) -> tuple[str, ...]:
    """The further parts, by the names that llama.cpp gives them."""
    told = header.metadata.get("split.count")
    told = told if type(told) is int and told > 1 else 1
    found = _PART.match(path)
    count = int(found["count"]) if found else 1
    if told not in {1, count}:
        raise WeightsError(
            f"{path} says that it is one of {told} parts, which its name does not",
            hint=f"llama.cpp finds the others by name: NAME-00001-of-{told:05d}.gguf",
        )
    if found is None or count == 1:
        return ()
    if count > MOST_PARTS:
        raise WeightsError(f"{path} would be one of {count:,} parts; at most {MOST_PARTS:,} are read")
    if int(found["number"]) != 1:
        first = f"{found['stem']}-00001-of-{found['count']}.gguf"
        raise WeightsError(f"{path} is part {int(found['number'])} of {count}", hint=f"name the first: {first}")
    return tuple(f"{found['stem']}-{number:05d}-of-{found['count']}.gguf" for number in range(2, count + 1))
