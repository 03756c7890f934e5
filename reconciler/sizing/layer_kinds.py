"""Reads which layers look at all tokens, which at a window, which are recurrent and which have no mixer at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.shape import Recurrence

if TYPE_CHECKING:
    from reconciler.domain.shape import Attention, Recurrent
    from reconciler.sizing.fields import Fields

DELTA_INTERVAL = 4
"""Every fourth layer of gated delta models has attention (transformers, Qwen3NextConfig)."""

FULL, SLIDING, RECURRENT, NONE = "full", "sliding", "recurrent", "none"

KINDS = {
    "full_attention": FULL, "attention": FULL, "global": FULL, "hybrid": FULL, "sparse": FULL, "*": FULL,
    "deepseek_sparse_attention": FULL,
    "sliding_attention": SLIDING, "chunked_attention": SLIDING, "local": SLIDING, "sliding_window": SLIDING,
    "linear_attention": RECURRENT, "mamba": RECURRENT, "mamba2": RECURRENT, "conv": RECURRENT, "recurrent": RECURRENT,
    "kda": RECURRENT, "M": RECURRENT, "-": NONE, "E": NONE, "mlp": NONE, "moe": NONE,
}  # fmt: skip
"""Words of layer_types and layers_block_type, letters of Nemotron-H's hybrid_override_pattern."""


def written_kinds(fields: Fields, count: int) -> tuple[str, ...] | None:
    """One word or letter a layer, where the config has them."""
    pattern = fields.written("hybrid_override_pattern")
    if isinstance(pattern, str) and pattern:
        return tuple(pattern[:count])
    for name in ("layer_types", "layers_block_type", "layer_type_list"):
        listed = fields.items(name)
        if listed is not None and len(listed) >= count:
            return tuple(str(each) for each in listed[:count])
    return None


def layer_kinds(
    fields: Fields,
    written: tuple[str, ...] | None,
    count: int,
    *,
    attention: Attention | None,
    recurrent: Recurrent | None,
) -> list[str]:
    """What each layer is: FULL, SLIDING, RECURRENT or NONE, from written kinds or else from the rules of the family."""
    if written is not None:
        unknown = sorted({word for word in written if word not in KINDS})
        if unknown:
            fields.remarks.wonder(f"layer kind {unknown[0]!r} is not known: counted as full attention")
        return [KINDS.get(word, FULL) for word in written]
    if attention is None:
        return [RECURRENT if recurrent is not None else NONE] * count
    if recurrent is not None:
        return _mixed(fields, count, recurrent)
    return _windows(fields, count)


def _mixed(fields: Fields, count: int, recurrent: Recurrent) -> list[str]:
    """Layers with attention among recurrent ones."""
    full: set[int] | None = None
    every = fields.whole("full_attention_interval", "layer_group_size")
    if every is None and recurrent.kind is Recurrence.GATED_DELTA:
        fields.remarks.assume(
            f"full_attention_interval is not written: {DELTA_INTERVAL}, as {fields.model_type} has it"
        )
        every = DELTA_INTERVAL
    if every is not None:
        full = {index for index in range(count) if every and (index + 1) % every == 0}
    elif (period := fields.whole("attn_layer_period")) is not None:
        offset = fields.whole("attn_layer_offset") or 0
        full = {index for index in range(count) if index % (period or 1) == offset}
    elif (listed := fields.items("attn_layer_indices", "full_attn_idxs", "hybrid_layer_ids")) is not None:
        full = {each for each in listed if type(each) is int}
    elif (inner := fields.section("linear_attn_config")) is not None:
        # Kimi counts layers from 1.
        full = {each - 1 for each in inner.items("full_attn_layers") or () if type(each) is int}
    elif fields.model_type == "falcon_h1":
        full = set(range(count))
    if full is None:
        fields.remarks.wonder("which layers have attention and which are recurrent is not written: all counted as both")
        return [FULL] * count
    return [FULL if index in full else RECURRENT for index in range(count)]


_ALTERNATING = {"gemma2": 2, "gpt_oss": 2, "gemma3_text": 6, "cohere2": 4, "gemma3n_text": 5, "gemma4_text": 6,
                "llama4": 4, "llama4_text": 4}  # fmt: skip
"""Every so many layers one looks at all tokens, where the config writes no pattern of its own (transformers)."""


def _windows(fields: Fields, count: int) -> list[str]:
    window = fields.whole("sliding_window", "attention_chunk_size")
    if (
        not window
        or (fields.written("use_sliding_window") is False)
        or (fields.model_type in ("qwen2", "qwen2_moe", "qwen3", "qwen3_moe") and not fields.flag("use_sliding_window"))
    ):
        return [FULL] * count
    pattern = fields.written("sliding_window_pattern", "hybrid_layer_pattern", "_sliding_window_pattern")
    if isinstance(pattern, str) and pattern:  # EXAONE: LLLG, repeated
        return [FULL if pattern[index % len(pattern)] == "G" else SLIDING for index in range(count)]
    if isinstance(pattern, list) and len(pattern) >= count:  # MiMo-V2: 1 is sliding
        return [SLIDING if flag == 1 else FULL for flag in pattern[:count]]
    if (flags := fields.items("no_rope_layers")) is not None and len(flags) >= count:
        return [SLIDING if flag == 1 else FULL for flag in flags[:count]]  # Llama 4: layers with RoPE are chunked
    every = pattern if type(pattern) is int and pattern > 0 else _ALTERNATING.get(fields.model_type)
    if every is None and (first := fields.whole("max_window_layers")) is not None:
        return [FULL if index < first else SLIDING for index in range(count)]
    if every is None:
        return [SLIDING] * count
    return [FULL if (index + 1) % every == 0 else SLIDING for index in range(count)]
