"""Which layers have a plain feed-forward part, which have experts, and how wide both are.

The keys are those of the config classes in transformers 5.19 and vLLM 0.32; each model file reads its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reconciler.domain.shape import Experts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.sizing.fields import Fields

COUNT_KEYS = ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")
"""In the order of vLLM's model_arch_config_convertor.py; expert parallel needs one of them."""
ACTIVE_KEYS = ("num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_topk", "moe_top_k", "moe_k")
MOST_DIGITS = 5
"""Of a layer's index in a list written as text."""
SHARED_COUNT_KEYS = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert")


@dataclass(frozen=True, slots=True)
class FeedForward:
    """The feed-forward parts of one layer."""

    dense: int | None
    experts: Experts | None


def top_level_experts(fields: Fields) -> int:
    """Routed experts as an engine finds them before it builds anything."""
    for name in COUNT_KEYS:
        value = fields.written(name)
        if isinstance(value, list):
            return next((each for each in value if type(each) is int), 0)
    return fields.whole(*COUNT_KEYS) or _most_in_blocks(fields)


def _most_in_blocks(fields: Fields) -> int:
    counts = [
        count
        for block in fields.items("block_configs") or ()
        if isinstance(block, dict) and type(count := block.get("n_routed_experts")) is int
    ]
    return max(counts, default=0)


def read_experts(fields: Fields, family: Mapping[str, Any]) -> Experts | None:
    """Figures of the routed experts; None for a dense model."""
    inner = fields.section("ffn_config") if fields.raw.get("ffn_config") else None
    source = inner if inner is not None and inner.written("moe_num_experts") else fields
    count = top_level_experts(source)
    if count <= 1:
        return None
    width = _first(source, *family.get("expert_width", ("moe_intermediate_size", "expert_ffn_hidden_size")))
    if width is None:
        width = source.whole("ffn_hidden_size", "intermediate_size") or 0
    active = _first(source, *ACTIVE_KEYS) or 0
    return Experts(
        count=count,
        active=active,
        width=width,
        shared_width=_shared_width(fields, family, width),
        hidden=fields.whole("moe_latent_size") or None,
    )


def _first(fields: Fields, *names: str) -> int | None:
    """The first written figure; of a list, as Ernie and Hunyuan write one, its first."""
    for name in names:
        value = fields.written(name)
        if isinstance(value, list):
            value = next((each for each in value if type(each) is int), None)
            if value is not None:
                return int(value)
    return fields.whole(*names)


def _shared_width(fields: Fields, family: Mapping[str, Any], width: int) -> int:
    if family.get("shared") == "as_routed":
        return width
    if family.get("shared") == "none":
        return 0
    count = _first(fields, *SHARED_COUNT_KEYS) or 0
    own = fields.whole("moe_shared_expert_intermediate_size")
    if own:
        return own * (count or 1)
    direct = fields.whole("shared_expert_intermediate_size", "shared_intermediate_size", "share_expert_dim")
    if direct and not (count and family.get("shared") == "counted"):
        return direct
    return width * count


def plan_feed_forward(
    fields: Fields, family: Mapping[str, Any], layers: int, kinds: tuple[str, ...] | None
) -> list[FeedForward]:
    """The feed-forward parts of every layer; `kinds` holds one letter or word a layer where the config has them."""
    if family.get("body") == "recurrent":  # Mamba writes the width of its own values as intermediate_size
        return [FeedForward(None, None)] * layers
    experts = read_experts(fields, family)
    dense = _dense_width(fields, family)
    if kinds is not None and family.get("one_part_a_layer"):
        return [_by_kind(kind, dense, experts) for kind in kinds]
    if experts is None:
        return [FeedForward(dense, None)] * layers
    sparse = _sparse_layers(fields, layers)
    both = family.get("dense_beside_experts", False)
    return [
        FeedForward(dense if both else None, experts) if sparse is None or index in sparse else FeedForward(dense, None)
        for index in range(layers)
    ]


def _by_kind(kind: str, dense: int | None, experts: Experts | None) -> FeedForward:
    """Nemotron-H: a layer is one of Mamba (M), attention (*), feed-forward (-) or experts (E)."""
    if kind in ("-", "mlp"):
        return FeedForward(dense, None)
    if kind in ("E", "moe"):
        return FeedForward(None, experts)
    return FeedForward(None, None)


def _dense_width(fields: Fields, family: Mapping[str, Any]) -> int | None:
    names = family.get("dense_width", ("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "decoder_ffn_dim"))
    width = _first(fields, *names)
    if width:
        return width // int(family.get("dense_divisor", 1))
    multiple = family.get("dense_multiple")
    hidden = fields.whole("hidden_size", "n_embd", "d_model")
    return int(multiple) * hidden if multiple and hidden else width


def _sparse_layers(fields: Fields, layers: int) -> frozenset[int] | None:
    """Indices of the layers with experts; None when all have them."""
    if (kinds := fields.items("mlp_layer_types")) is not None:
        return frozenset(index for index, kind in enumerate(kinds[:layers]) if kind == "sparse")
    if (enumerated := fields.text("moe_layers_enum")) is not None:
        named = (each.strip() for each in enumerated.split(",")[:layers])
        return frozenset(
            int(each) for each in named if each.isdecimal() and each.isascii() and len(each) <= MOST_DIGITS
        )
    if (listed := fields.items("moe_layers")) is not None:
        return frozenset(each for each in listed if type(each) is int)
    if (step := fields.whole("interleave_moe_layer_step")) is not None:
        return frozenset(range(step - 1, layers, step)) if step else frozenset()
    if (period := fields.whole("expert_layer_period")) is not None:
        offset = fields.whole("expert_layer_offset") or 0
        return frozenset(index for index in range(layers) if index % (period or 1) == offset)
    if (start := fields.whole("moe_layer_start_index")) is not None:
        return _between(fields, start, layers)
    if fields.written("decoder_sparse_step") is not None or fields.written("mlp_only_layers") is not None:
        step = fields.whole("decoder_sparse_step") or 1
        plain = {each for each in fields.items("mlp_only_layers") or () if type(each) is int}
        return frozenset(index for index in range(layers) if index not in plain and (index + 1) % step == 0)
    first = fields.whole("first_k_dense_replace", "num_dense_layers") or 0
    return _after_first(fields, first, layers)


def _between(fields: Fields, start: int, layers: int) -> frozenset[int]:
    """Ernie: every `moe_layer_interval`th layer from start to end, both included."""
    end = fields.written("moe_layer_end_index")
    last = end if type(end) is int and 0 <= end < layers else layers - 1
    step = fields.whole("moe_layer_interval") or 1
    return frozenset(index for index in range(start, last + 1) if (index + 1) % step == 0)


def _after_first(fields: Fields, first: int, layers: int) -> frozenset[int] | None:
    frequency = fields.written("moe_layer_freq")
    if isinstance(frequency, list):
        return frozenset(index for index, flag in enumerate(frequency[:layers]) if flag == 1)
    step = frequency if type(frequency) is int and frequency > 0 else 1
    if first == 0 and step == 1:
        return None
    return frozenset(index for index in range(first, layers) if index % step == 0)
