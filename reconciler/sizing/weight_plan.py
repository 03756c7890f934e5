"""What of a model's weights does not depend on how it would run: counted once for each shape."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from reconciler.domain.shape import Scheme
from reconciler.sizing.families import family_of
from reconciler.sizing.held_types import FULL, HALF
from reconciler.sizing.holdings import Group, Place, holdings, small_table
from reconciler.sizing.rank_bytes import as_stored, rank_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.shape import Attention, QuantPart, Shape
    from reconciler.sizing.holdings import Holding

QUANTIZED_GROUPS = frozenset({Group.ATTENTION, Group.MLP, Group.EXPERTS, Group.OTHER})


@dataclass(frozen=True, slots=True)
class WeightPlan:
    """One shape's weights."""

    held: tuple[Holding, ...]
    latent: tuple[tuple[Attention, tuple[int, ...]], ...]
    """Latent attention, and the layers that have it."""
    mixed: bool
    """Whether it has routed experts."""
    files: Mapping[int, Mapping[Group, int]]
    """Bytes of its files by group, a tied embedding once; by the bytes of a plain value."""
    readings: tuple[int, ...]
    """Sizes its files may have: in 16 or 32 bit, with layers that predict, with a tied head written out."""
    opaque: bool
    """How its matrices are stored is not known; they are counted as plain ones."""
    undescribed: bool
    """It has towers that our tables do not describe."""
    lora_ends: bool
    """Adapters reach embedding and head."""

    def described(self, unit: int) -> int:
        """Bytes of what the shape describes."""
        return sum(self.files[unit].values())


@lru_cache(maxsize=2048)
def weight_plan(shape: Shape, loaded_as: QuantPart | None) -> WeightPlan:
    """The plan of a shape whose plain matrices are quantized to `loaded_as` while they are loaded."""
    plain = holdings(shape, None)
    files = {unit: _file_groups(plain, unit) for unit in (HALF, FULL)}
    parts = shape.quantization.parts if shape.quantization is not None else ()
    family = family_of(shape.architecture)
    hidden_towers = not shape.towers and bool(family) and ("towers" in family or bool(family.get("multimodal")))
    return WeightPlan(
        held=plain if loaded_as is None else holdings(shape, loaded_as),
        latent=_latent(shape),
        mixed=any(layer.experts is not None for layer in shape.unlike),
        files=files,
        readings=tuple(size for unit in (HALF, FULL) for size in _readings(shape, plain, files[unit], unit)),
        opaque=any(part.scheme is Scheme.UNKNOWN and part.bits is None for part in parts),
        undescribed=hidden_towers,
        lora_ends=bool(small_table(shape.architecture).get("lora_ends", False)),
    )


def _latent(shape: Shape) -> tuple[tuple[Attention, tuple[int, ...]], ...]:
    kinds: dict[Attention, list[int]] = {}
    for index, layer in enumerate(shape.layers):
        if layer.attention is not None and layer.attention.latent is not None:
            kinds.setdefault(layer.attention, []).append(index)
    return tuple((attention, tuple(layers)) for attention, layers in kinds.items())


def _file_groups(held: tuple[Holding, ...], unit: int) -> dict[Group, int]:
    sizes, ranks = dict.fromkeys(Group, 0), as_stored(unit)
    for holding in held:
        count = len(holding.layers) if holding.place is Place.LAYERS else 1
        sizes[holding.group] += rank_bytes(holding, ranks) * count
    return sizes


def _readings(shape: Shape, held: tuple[Holding, ...], groups: Mapping[Group, int], unit: int) -> list[int]:
    total, last, ranks = sum(groups.values()), len(shape.layers) - 1, as_stored(unit)
    # A layer that predicts is built like the last one; its few matrices besides are small.
    inside = (each for each in held if each.layers and each.layers[-1] == last)
    predicting = sum(rank_bytes(each, ranks) for each in inside) * shape.predicted
    head = groups[Group.EMBEDDING] if shape.tied else 0
    return list(dict.fromkeys([total, total + predicting, total + head, total + predicting + head]))
