"""What one pipeline stage holds: the weights of its layers and ends, by group, and what loading adds to them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Engine, Task
from reconciler.sizing.estimate import NOTHING, Estimate
from reconciler.sizing.held_types import FULL
from reconciler.sizing.holdings import Group, Place
from reconciler.sizing.lora_slots import end_bytes, slot_bytes
from reconciler.sizing.rank_bytes import block_slack, rank_bytes
from reconciler.sizing.stages import within

if TYPE_CHECKING:
    from reconciler.domain.shape import Shape
    from reconciler.sizing.holdings import Holding
    from reconciler.sizing.memory_ask import MemoryAsk
    from reconciler.sizing.rank_bytes import Ranks
    from reconciler.sizing.stored_groups import Scaling
    from reconciler.sizing.weight_plan import WeightPlan

ABSORBED_BYTES = 2
"""Of a value in the copies that latent attention makes (vLLM, mla_attention.py): the model's own 16-bit type."""
_LAYERED = (Group.ATTENTION, Group.MLP, Group.EXPERTS, Group.NORMS, Group.OTHER)


@dataclass(frozen=True, slots=True)
class Piece:
    """One holding as a rank has it, in one layer: bytes, the allocator's rest behind them, a slot for an adapter."""

    holding: Holding
    size: int
    slack: int
    slot: int


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a replica's pipeline."""

    layers: range
    first: bool
    last: bool


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes of a stage by group; `added` is what of them the engine adds to the parameters it builds."""

    parts: dict[Group, Estimate]
    added: Estimate = NOTHING

    @property
    def total(self) -> Estimate:
        """Of all groups."""
        total = NOTHING
        for each in self.parts.values():
            total += each
        return total


def pieces(plan: WeightPlan, ranks: Ranks, ask: MemoryAsk) -> tuple[Piece, ...]:
    """Every holding as the fullest rank has it, whatever the stage.

    vLLM and SGLang take the head off a model that embeds (adapters.py::as_embedding_model).
    """
    headless = ask.task in (Task.EMBED, Task.RERANK)
    rank = ask.lora.rank if ask.lora is not None else 0
    return tuple(
        Piece(each, rank_bytes(each, ranks), block_slack(each, ranks), slot_bytes(each, ranks, rank) if rank else 0)
        for each in plan.held
        if not (headless and each.group is Group.OUTPUT_HEAD)
    )


def stage_weights(
    shape: Shape,
    plan: WeightPlan,
    found: tuple[Piece, ...],
    stage: Stage,
    *,
    ask: MemoryAsk,
    ranks: Ranks,
    scaling: Scaling,
) -> Held:
    """What the fullest rank of a stage holds on its GPU."""
    sizes = dict.fromkeys(Group, 0)
    slots = slack = 0
    for piece in found:
        count = _count(piece.holding, stage, tied=shape.tied)
        if count:
            sizes[piece.holding.group] += piece.size * count
            slack += piece.slack * count
            slots += piece.slot * count
    parts = {group: scaling.apply(group, size) for group, size in sizes.items()}
    table_unit = (
        ranks.unit if ranks.engine is Engine.VLLM else FULL
    )  # SGLang keeps sines in 32 bit on CUDA; TensorRT-LLM was not read
    copies = _absorbed(plan, ranks, stage.layers) + shape.rotary * table_unit
    added = Estimate(copies, copies + slack, copies + slack)
    parts[Group.OTHER] += added
    if ask.lora is not None:
        if plan.lora_ends:
            slots += end_bytes(shape.vocabulary, shape.hidden, ask.lora.rank) * (stage.first + stage.last)
        parts[Group.ADAPTERS] = Estimate.exactly(slots * ask.lora.slots)
    if scaling.tower_bytes:
        split = scaling.tower_bytes // ranks.tower
        parts[Group.TOWERS] += Estimate(split, split, scaling.tower_bytes)
    return Held(_offloaded(parts, ask.offload_bytes) if ask.offload_bytes else parts, added)


def _count(holding: Holding, stage: Stage, *, tied: bool) -> int:
    """How often a stage holds it; a tied embedding is on both ends."""
    match holding.place:
        case Place.LAYERS:
            return within(holding.layers, stage.layers)
        case Place.FIRST:
            return int(stage.first or (stage.last and tied and holding.module.path == "embed_tokens"))
        case Place.LAST:
            return int(stage.last)
        case Place.EVERY:
            return 1


def _absorbed(plan: WeightPlan, ranks: Ranks, layers: range) -> int:
    """Latent attention keeps both halves of kv_b_proj once more, turned for decoding (mla_attention.py)."""
    total = 0
    for attention, found in plan.latent:
        latent = attention.latent
        if latent is not None:
            numbers = -(-attention.heads // ranks.tensor) * latent.kv_rank * (latent.nope_dim + latent.value_dim)
            total += numbers * ABSORBED_BYTES * within(found, layers)
    return total


def _offloaded(parts: dict[Group, Estimate], budget: int) -> dict[Group, Estimate]:
    """Less what lies in host RAM: layers only, in equal measure (vLLM's --cpu-offload-gb)."""
    layered = [group for group in _LAYERED if parts[group].likely]
    total = sum(parts[group].likely for group in layered)
    out, rest = dict(parts), max(0, total - budget)
    left = rest
    for position, group in enumerate(layered):
        before = parts[group]
        likely = rest if position == len(layered) - 1 else before.likely * left // total
        rest -= likely
        taken = before.likely - likely
        out[group] = replace(before, low=max(0, before.low - taken), likely=likely, high=max(0, before.high - taken))
    return out
