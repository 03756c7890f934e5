"""What a GPU holds of a model: every matrix and small part, by group, with how it is stored and in which layers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from reconciler.domain.tables import table
from reconciler.sizing.coverage import covered_layers
from reconciler.sizing.families import family_of
from reconciler.sizing.module import Module, Part, Split
from reconciler.sizing.modules import language_modules, tower_modules
from reconciler.sizing.small_parts import small_modules, tower_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reconciler.domain.shape import QuantPart, Shape


class Group(StrEnum):
    """The parts people read; the groups of a lock's tensors, with towers for its `vision`."""

    EMBEDDING = "embedding"
    OUTPUT_HEAD = "output_head"
    ATTENTION = "attention"
    MLP = "mlp"
    EXPERTS = "experts"
    NORMS = "norms"
    TOWERS = "towers"
    ADAPTERS = "adapters"
    OTHER = "other"
    """Recurrent mixers."""


class Place(StrEnum):
    """Which pipeline stages hold it."""

    LAYERS = "layers"
    FIRST = "first"
    LAST = "last"
    EVERY = "every"


_GROUPS = {
    Part.ATTENTION: Group.ATTENTION,
    Part.MLP: Group.MLP,
    Part.SHARED: Group.MLP,
    Part.EXPERTS: Group.EXPERTS,
    Part.RECURRENT: Group.OTHER,
    Part.TOWER: Group.TOWERS,
    Part.VOCABULARY: Group.EMBEDDING,
    Part.NORM: Group.NORMS,
}
_BIASES = {"qkv": "qkv_proj", "o": "o_proj", "experts": "experts"}


@dataclass(frozen=True, slots=True)
class Holding:
    """One matrix, stored one way, in every layer of `layers`; `copies` of it in each, or beside the layers."""

    group: Group
    place: Place
    module: Module
    part: QuantPart | None = None
    """None: in the type the model is loaded in."""
    layers: tuple[int, ...] = ()
    copies: int = 1
    experts: int = 0
    gated: bool = True
    """Experts: a gate beside the up projection."""
    biased: bool = False


@lru_cache(maxsize=512)
def holdings(shape: Shape, loaded_as: QuantPart | None = None) -> tuple[Holding, ...]:
    """All of a model; `loaded_as` is how plain matrices are quantized while they are loaded."""
    found = [*_vocabulary(shape), *_matrices(shape, loaded_as), *_small(shape), *_towers(shape)]
    return tuple(_merged(found))


def small_table(architecture: str) -> Mapping[str, Any]:
    """What our tables know of an architecture's small parts, over what they know of its family."""
    tables = table("weight_parts")
    family = table("architectures")["architectures"].get(architecture, {}).get("family", "")
    return {**tables["families"].get(family, {}), **tables["architectures"].get(architecture, {})}


def _vocabulary(shape: Shape) -> Iterator[Holding]:
    small = small_table(shape.architecture)
    whole = small.get("embedding_whole", False)
    for module in language_modules(shape):
        if module.part is Part.VOCABULARY:
            inputs = module.inputs * module.outputs[0]
            own = replace(module, split=Split.WHOLE, inputs=inputs, outputs=(1,)) if whole else module
            yield Holding(Group.EMBEDDING, Place.FIRST, own)
    if shape.beside is not None:
        rows, width = shape.beside
        module = Module(Part.VOCABULARY, Split.VOCABULARY, "embed_tokens_per_layer", width, (rows,))
        yield Holding(Group.EMBEDDING, Place.FIRST, module)
    if shape.vocabulary and not shape.tied and not shape.encoder and not small.get("no_head"):
        head = Module(Part.VOCABULARY, Split.VOCABULARY, "lm_head", shape.hidden, (shape.vocabulary,))
        holding = Holding(Group.OUTPUT_HEAD, Place.LAST, head, biased="head" in small.get("bias", ()))
        named = shape.quantization is not None and any("lm_head" in part.targets for part in shape.quantization.parts)
        yield from _stored(shape, holding, None) if named else (holding,)


def _matrices(shape: Shape, loaded_as: QuantPart | None) -> Iterator[Holding]:
    """Matrices of the layers, once for each way in which they are stored."""
    family, small = family_of(shape.architecture), small_table(shape.architecture)
    told = set(small.get("bias", ()))
    biased = {_BIASES[name] for name in told & set(_BIASES)}
    for module in language_modules(shape):
        if module.part is Part.VOCABULARY:
            continue
        last = module.path.rsplit(".", 1)[-1]
        row = module.split is Split.ROW
        feeds = module.part in (Part.MLP, Part.SHARED) and ("down" if row else "up") in told
        holding = Holding(
            _GROUPS[module.part],
            Place.LAYERS if module.layers else Place.EVERY,
            module,
            copies=_copies(module, family),
            experts=_experts(shape, module),
            gated=shape.gated,
            biased=last in biased or feeds,
        )
        yield from _stored(shape, holding, loaded_as)


def _copies(module: Module, family: Mapping[str, Any]) -> int:
    """A decoder attends to its encoder as well; Gemma 3n projects three further streams in and out."""
    if module.path == "altup_projections":
        return 6
    return 2 if module.part is Part.ATTENTION and family.get("separate_cross") else 1


def _experts(shape: Shape, module: Module) -> int:
    if module.split is not Split.EXPERTS:
        return 0
    experts = shape.layers[module.layers[0]].experts
    return experts.count if experts is not None else 0


def _stored(shape: Shape, holding: Holding, loaded_as: QuantPart | None) -> Iterator[Holding]:
    module = holding.module
    if shape.quantization is None:
        yield replace(holding, part=loaded_as if module.quantized else None, layers=module.layers)
        return
    rest = set(module.layers)
    for part, layers in covered_layers(module, shape.quantization):
        own = tuple(layer for layer in layers if layer is not None)
        rest.difference_update(own)
        yield replace(holding, part=_plain(part), layers=own)
        if not module.layers:
            return
    if rest or not module.layers:
        yield replace(holding, layers=tuple(sorted(rest)))


@lru_cache(maxsize=4096)
def _plain(part: QuantPart) -> QuantPart:
    """Without its targets, so that the same way of storing counts once however many names it is written for."""
    return replace(part, targets=())


def _small(shape: Shape) -> Iterator[Holding]:
    for module, last in small_modules(shape, small_table(shape.architecture)):
        place = Place.LAYERS if module.layers else Place.LAST if last else Place.FIRST
        holding = Holding(_GROUPS[module.part], place, module, layers=module.layers)
        if module.quantized and shape.quantization is not None:
            yield from _stored(shape, holding, None)
        else:
            yield holding


def _towers(shape: Shape) -> Iterator[Holding]:
    for tower in shape.towers:
        copies = {bridge.name: bridge.copies for bridge in tower.bridges}
        for module in tower_modules(shape):
            if module.where != tower.name:
                continue
            count = copies.get(module.path.rsplit(".", 1)[0], tower.layers)
            holding = Holding(Group.TOWERS, Place.EVERY, module, copies=count)
            yield from _stored(shape, holding, None)
        for module in tower_parts(tower):
            yield Holding(Group.TOWERS, Place.EVERY, module)


def _merged(found: list[Holding]) -> Iterator[Holding]:
    """Layers that differ only in what weights do not depend on, such as a window, count together."""
    by_kind: dict[Holding, list[int]] = {}
    for holding in found:
        kind = replace(holding, module=replace(holding.module, layers=()), layers=())
        if holding.place is Place.LAYERS:
            by_kind.setdefault(kind, []).extend(holding.layers)
        else:
            yield kind
    for kind, layers in by_kind.items():
        yield replace(kind, layers=tuple(sorted(layers)))
