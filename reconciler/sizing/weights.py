"""What the weights of a model take on each GPU of a replica: vLLM, SGLang and TensorRT-LLM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Engine
from reconciler.domain.tables import table
from reconciler.sizing.estimate import Estimate
from reconciler.sizing.held_types import loaded_part, loaded_unit
from reconciler.sizing.rank_bytes import Ranks
from reconciler.sizing.stage_weights import Stage, pieces, stage_weights
from reconciler.sizing.stages import stage_layers
from reconciler.sizing.stored_groups import scaled
from reconciler.sizing.weight_plan import weight_plan

if TYPE_CHECKING:
    from reconciler.domain.shape import Shape
    from reconciler.sizing.counting import CountingRules
    from reconciler.sizing.memory_ask import MemoryAsk, Stored
    from reconciler.sizing.weight_plan import WeightPlan


@dataclass(frozen=True, slots=True)
class Weights:
    """Bytes on the GPUs of one replica."""

    by_stage: tuple[Estimate, ...]
    """Of the fullest rank of each pipeline stage."""
    fullest: Estimate
    """Of the fullest of them."""
    parts: dict[str, Estimate]
    """Of that rank: embedding, output_head, attention, mlp, experts, norms, towers, adapters, other; add up to it."""
    added: int = 0
    """Of `other` in it: what the engine adds to the parameters it builds; likely bytes."""
    doubts: tuple[str, ...] = ()


def gpu_weights(shape: Shape, stored: Stored, ask: MemoryAsk, rules: CountingRules) -> Weights:
    """What each rank holds once the engine has loaded the model.

    The lock's bytes count where there are any, split in the proportion in which the engine splits the shape's matrices;
    what it copies to every rank, pads or adds while loading comes on top. Without them the shape alone is counted.
    """
    part, doubts = loaded_part(shape, ask)
    plan = weight_plan(shape, part)
    ranks = _ranks(shape, plan, ask, rules)
    scaling = scaled(shape, stored, plan)
    found = pieces(plan, ranks, ask)
    cut = stage_layers(len(shape.layers), ask.pipeline, rules.engine)
    held = [
        stage_weights(
            shape,
            plan,
            found,
            Stage(layers, first=index == 0, last=index == len(cut) - 1),
            ask=ask,
            ranks=ranks,
            scaling=scaling,
        )
        for index, layers in enumerate(cut)
    ]
    by_stage = tuple(each.total for each in held)
    fullest = max(range(len(held)), key=lambda index: by_stage[index].likely)
    parts = {group.value: size for group, size in held[fullest].parts.items() if size.high}
    added = held[fullest].added.likely
    return Weights(by_stage, by_stage[fullest], parts, added, (*doubts, *scaling.doubts))


def _ranks(shape: Shape, plan: WeightPlan, ask: MemoryAsk, rules: CountingRules) -> Ranks:
    """Attention is split over the ranks of one data-parallel rank, experts over all of them.

    vLLM: `fused_moe/config.py` makes one group of tensor and data ranks. SGLang's attention DP shares experts and head
    over all ranks as well, and copies the embedding (`layers/dp_attention.py`, `vocab_parallel_embedding.py`).
    """
    mixed = plan.mixed
    everyone = ask.tensor * (ask.data if mixed else 1)
    shared = rules.engine is Engine.SGLANG and mixed and ask.data > 1
    uneven = frozenset(tower.name for tower in shape.towers if tower.heads % ask.tensor)
    row = table("engine_models")["engines"][rules.engine.value]
    return Ranks(
        tensor=ask.tensor,
        unit=loaded_unit(ask),
        expert_width=1 if ask.expert_parallel else everyone,
        expert_ranks=everyone if ask.expert_parallel else 1,
        embedding=1 if shared else ask.tensor,
        head=everyone if shared else ask.tensor,
        tower=1 if ask.towers_whole else ask.tensor,
        whole_towers=uneven if shape.architecture in row["whole_if_uneven"] else frozenset(),
        whole_attention=uneven if shape.architecture in row["uneven_heads_whole"] else frozenset(),
        engine=rules.engine,
    )
