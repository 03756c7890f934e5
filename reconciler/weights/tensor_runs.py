"""The tensors of a GGUF file as rows of a lock: bytes by group, over runs of layers that are alike."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from reconciler.domain.lock import TensorRun

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from reconciler.weights.gguf_header import Tensor

GROUPS = ("embedding", "output_head", "attention", "mlp", "experts", "norms", "vision", "other")
"""In the order of the rows."""

_LAYER = re.compile(r"^(?:enc\.|dec\.)?blk\.(?P<layer>\d{1,6})\.(?P<rest>.+)$")

_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), group)
    for pattern, group in (
        (r"^(v|mm|a)\.|^vis_", "vision"),  # sound encoders (a.) stand on the vision side: both come with mmproj
        (r"norm", "norms"),
        (r"^(per_layer_)?token_embd\.|^token_types\.|^position_embd\.", "embedding"),
        (r"^output\.|^cls\.", "output_head"),
        (r"^ffn_\w+_c?h?exps(\.|$)|^exp_probs_b", "experts"),
        (r"^ffn_", "mlp"),
        (r"^(attn|indexer)[._]", "attention"),
        (r"", "other"),
    )
)
"""Names by llama.cpp's convention (gguf.TENSOR_NAMES), first match wins; norms before what they belong to."""


def tensor_runs(tensors: Iterable[Tensor]) -> tuple[TensorRun, ...]:
    """Rows whose bytes add up to those of all tensors; one dtype and one group each."""
    bytes_by_place: dict[tuple[str, str], dict[int | None, int]] = defaultdict(lambda: defaultdict(int))
    for tensor in tensors:
        found = _LAYER.match(tensor.name)
        layer, rest = (int(found["layer"]), found["rest"]) if found else (None, tensor.name)
        bytes_by_place[group_of(rest), tensor.dtype][layer] += tensor.bytes
    places = sorted(bytes_by_place.items(), key=lambda item: (GROUPS.index(item[0][0]), item[0][1]))
    return tuple(run for (group, dtype), by_layer in places for run in _runs(group, dtype, by_layer))


def group_of(name: str) -> str:
    """The group of a tensor by its name, the layer's prefix taken off."""
    return next(group for pattern, group in _RULES if pattern.search(name))


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
