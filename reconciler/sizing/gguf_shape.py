"""Reads a model's shape from GGUF metadata: a flat mapping whose keys begin with the architecture's name.

Keys as llama.cpp's `gguf-py/gguf/constants.py` names them. Figures may be one number or one a layer. The tokenizer's
arrays are not needed; without them the vocabulary may stay unknown, which no rule of llama.cpp asks for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reconciler.domain.shape import (
    Attention,
    Experts,
    Latent,
    Layer,
    Quantization,
    QuantPart,
    Recurrence,
    Recurrent,
    Scheme,
    Shape,
    Trained,
    Unreadable,
)
from reconciler.domain.tables import table
from reconciler.sizing.fields import LARGEST_FIGURE
from reconciler.sizing.layers import MOST_LAYERS

if TYPE_CHECKING:
    from collections.abc import Mapping

ARCHITECTURE_KEY = "general.architecture"


def is_gguf(metadata: object) -> bool:
    """Whether a lock's `config` is GGUF metadata rather than a config.json."""
    return isinstance(metadata, dict) and isinstance(metadata.get(ARCHITECTURE_KEY), str)


def read_gguf(metadata: object) -> Shape | Unreadable:
    """The shape that a GGUF header describes, or why it describes none."""
    if not isinstance(metadata, dict):
        return Unreadable("the GGUF metadata is no object")
    name = metadata.get(ARCHITECTURE_KEY)
    if not isinstance(name, str) or not name:
        return Unreadable(f"the GGUF metadata has no {ARCHITECTURE_KEY}")
    header = _Header(metadata, name)
    count, hidden = header.whole("block_count"), header.whole("embedding_length")
    if not count or not hidden:
        return Unreadable(f"the GGUF metadata has no {name}.{'embedding_length' if count else 'block_count'}")
    if count > MOST_LAYERS:
        return Unreadable(f"the GGUF metadata has {count} layers, expected at most {MOST_LAYERS}")
    # Layers that predict further tokens stand at the end; they are not loaded unless asked for.
    count = max(1, count - (header.whole("nextn_predict_layers") or 0))
    layers = tuple(_layer(header, hidden, index) for index in range(count))
    first = next((layer.attention for layer in layers if layer.attention is not None), None)
    vocabulary = header.whole("vocab_size") or _tokens(metadata)
    if not vocabulary:
        header.unknown[f"{name}.vocab_size is not written"] = None
    trained = header.whole("context_length")
    return Shape(
        architecture=name,
        model_type=name,
        hidden=hidden,
        vocabulary=vocabulary or 0,
        heads=first.heads if first is not None else 0,
        kv_heads=first.kv_heads if first is not None else 0,
        layers=layers,
        experts=header.whole("expert_count") or 0,
        quantization=Quantization("gguf", (QuantPart(Scheme.GGUF),)),
        trained=Trained(trained, f"{name}.context_length") if trained else None,
        encoder=metadata.get(f"{name}.attention.causal") is False,
        gated=name not in table("llamacpp_models")["ungated"],
        file="gguf",
        unknown=tuple(header.unknown),
    )


class _Header:
    """Figures of one architecture; of a list, one a layer."""

    __slots__ = ("metadata", "name", "unknown")

    def __init__(self, metadata: Mapping[str, Any], name: str) -> None:
        self.metadata = metadata
        self.name = name
        self.unknown: dict[str, None] = {}

    def whole(self, key: str, layer: int = 0) -> int | None:
        value = self.metadata.get(f"{self.name}.{key}")
        if isinstance(value, list):
            value = value[min(layer, len(value) - 1)] if value else None
        if value is None:
            return None
        if type(value) is int and 0 <= value <= LARGEST_FIGURE:
            return value
        self.unknown[f"{self.name}.{key} is not a whole number"] = None
        return None


def _tokens(metadata: Mapping[str, Any]) -> int | None:
    tokens = metadata.get("tokenizer.ggml.tokens")
    return len(tokens) if isinstance(tokens, list) else None


def _layer(header: _Header, hidden: int, index: int) -> Layer:
    experts = _experts(header, index)
    recurrent = _recurrent(header, hidden)
    attention = _attention(header, hidden, index)
    interval = header.whole("full_attention_interval") or table("llamacpp_models")["intervals"].get(header.name)
    if recurrent is not None and interval:
        full = (index + 1) % interval == 0
        attention, recurrent = (attention, None) if full else (None, recurrent)
    if header.name.startswith("nemotron_h") and header.whole("feed_forward_length", index):
        attention = recurrent = None  # its layers are one of the three
    if recurrent is not None and recurrent.kind is not Recurrence.SHORT_CONVOLUTION and attention is not None:
        # Hybrids write KV heads a layer: 0 marks the recurrent ones; llama.cpp's Falcon-H1 has both in each.
        recurrent = recurrent if header.name == "falcon-h1" or not _is_listed(header) else None
    return Layer(
        attention, recurrent, None if experts is not None else header.whole("feed_forward_length", index), experts
    )


def _is_listed(header: _Header) -> bool:
    return isinstance(header.metadata.get(f"{header.name}.attention.head_count_kv"), list)


def _attention(header: _Header, hidden: int, index: int) -> Attention | None:
    heads = header.whole("attention.head_count", index)
    kv_heads = header.whole("attention.head_count_kv", index)
    if not heads or kv_heads == 0:
        return None
    window = _window(header, index)
    narrower = "_swa" if window is not None else ""
    width = header.whole(f"attention.key_length{narrower}") or header.whole("attention.key_length") or hidden // heads
    rank = header.whole("attention.kv_lora_rank")
    latent = None
    if rank:
        rope = header.whole("rope.dimension_count") or 0
        value = header.whole("attention.value_length_mla") or header.whole("attention.value_length") or width
        nope = max(0, (header.whole("attention.key_length_mla") or width) - rope)
        latent = Latent(rank, rope, nope, value, header.whole("attention.q_lora_rank") or None)
    return Attention(
        heads,
        kv_heads or heads,
        width,
        header.whole(f"attention.value_length{narrower}") or header.whole("attention.value_length") or width,
        window=window,
        latent=latent,
        shares_cache=index >= (header.whole("block_count") or 0) - (header.whole("attention.shared_kv_layers") or 0),
    )


def _window(header: _Header, index: int) -> int | None:
    """The window of one layer: a pattern of flags or of every nth layer says which look at all.

    Without a pattern llama.cpp has one for each architecture; without that it keeps all layers whole.
    """
    known = table("llamacpp_models")["windows"].get(header.name)
    written = header.whole("attention.sliding_window")
    window = known["window"] if known and "window" in known and written != 0 else written
    pattern = header.metadata.get(f"{header.name}.attention.sliding_window_pattern")
    if isinstance(pattern, list) and index < len(pattern):
        return window if pattern[index] else None
    if type(pattern) is not int or pattern < 0:
        if known is None:
            return None
        pattern = known["every"]
    if pattern == 0:
        return window or None
    full = index % pattern == 0 if known and known.get("first") else (index + 1) % pattern == 0
    return None if full else window or None


def _experts(header: _Header, index: int) -> Experts | None:
    count = header.whole("expert_count")
    if not count or index < (header.whole("leading_dense_block_count") or 0):
        return None
    if (index + 1) % (header.whole("interleave_moe_layer_step") or 1):
        return None
    if header.name.startswith("nemotron_h") and not header.whole("feed_forward_length", index):
        return None
    width = header.whole("expert_feed_forward_length") or header.whole("feed_forward_length", index) or 0
    shared = header.whole("expert_shared_feed_forward_length") or width * (header.whole("expert_shared_count") or 0)
    return Experts(count, header.whole("expert_used_count") or 0, width, shared)


def _recurrent(header: _Header, hidden: int) -> Recurrent | None:
    if taps := header.whole("shortconv.l_cache"):
        return Recurrent(Recurrence.SHORT_CONVOLUTION, inner=hidden, convolution=taps)
    inner = header.whole("ssm.inner_size")
    if not inner:
        return None
    rank, groups = header.whole("ssm.time_step_rank") or 0, header.whole("ssm.group_count") or 0
    state, taps = header.whole("ssm.state_size") or 0, header.whole("ssm.conv_kernel") or 0
    if not groups:
        return Recurrent(Recurrence.MAMBA1, inner=inner, state=state, convolution=taps, rank=rank)
    kind = Recurrence.GATED_DELTA if header.name.startswith("qwen3") else Recurrence.MAMBA2
    return Recurrent(
        kind,
        inner=inner,
        heads=rank,
        head_dim=inner // rank if rank else 0,
        groups=groups,
        state=state,
        convolution=taps,
    )
