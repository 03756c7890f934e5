"""The tensors of a source as rows of a lock: bytes by group and type, over runs of layers that are alike."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.domain.lock import TensorRun
from reconciler.weights.tensor_names import GROUPS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from reconciler.weights.tensor_names import Place


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor by name, type in lower case, and bytes without padding."""

    name: str
    dtype: str
    bytes: int


def tensor_runs(tensors: Iterable[Tensor], place: Callable[[str], Place]) -> tuple[TensorRun, ...]:
    """Rows whose bytes add up to those of all tensors; one group and one type each. `place` reads the names."""
    bytes_by_place: dict[tuple[str, str], dict[int | None, int]] = defaultdict(lambda: defaultdict(int))
    for tensor in tensors:
        group, layer = place(tensor.name)
        bytes_by_place[group, tensor.dtype][layer] += tensor.bytes
    places = sorted(bytes_by_place.items(), key=lambda item: (GROUPS.index(item[0][0]), item[0][1]))
    return tuple(run for (group, dtype), by_layer in places for run in _runs(group, dtype, by_layer))


def _runs(group: str, dtype: str, bytes_by_layer: Mapping[int | None, int]) -> Iterator[TensorRun]:
    outside = bytes_by_layer.get(None)
    if outside is not None:
        yield TensorRun(group=group, dtype=dtype, bytes=outside)
    layers = sorted(layer for layer in bytes_by_layer if layer is not None)
    first = 0
    for position, layer in enumerate(layers):
        following = layers[position + 1] if position + 1 < len(layers) else None
        alike = following == layer + 1 and bytes_by_layer[following] == bytes_by_layer[layer]
        if not alike:
            run = layers[first : position + 1]
            total = sum(bytes_by_layer[each] for each in run)
            yield TensorRun(group=group, layers=(run[0], run[-1]), dtype=dtype, bytes=total)
            first = position + 1
