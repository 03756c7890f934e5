"""Reads a model's shape from its parsed config.json; any JSON gives a shape or says why not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reconciler.domain.shape import Layer, Shape, Unreadable
from reconciler.sizing.attention import read_attention
from reconciler.sizing.context import read_trained
from reconciler.sizing.families import family_of
from reconciler.sizing.feed_forward import top_level_experts
from reconciler.sizing.fields import Fields, Remarks
from reconciler.sizing.layers import MOST_LAYERS, count_layers, read_layers
from reconciler.sizing.quantization import read_quantization
from reconciler.sizing.rotary import rotary_numbers
from reconciler.sizing.towers import read_towers

if TYPE_CHECKING:
    from collections.abc import Mapping

TEXT_SECTIONS = ("text_config", "llm_config", "language_config", "thinker_config", "decoder")
"""Where a composite config keeps its language model; Qwen-Omni nests it twice."""
PREDICTING_KEYS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
"""DeepSeek and GLM; Qwen3.5; MiniMax: layers that draft, which the config counts apart."""


def read_config(
    config: object, quant_config: object = None, *, model_max_length: float | None = None
) -> Shape | Unreadable:
    """The shape of a model from config.json and, where it has one, hf_quant_config.json or quantize_config.json.

    Values are checked one by one: a wrong one counts as missing and is named in `Shape.unknown`.
    """
    if not isinstance(config, dict):
        return Unreadable(f"the config is {_kind(config)}, expected an object")
    if not config:
        return Unreadable("the config is empty")
    remarks = Remarks()
    top = Fields(config, remarks)
    text = language_model(top)
    architecture = _architecture(config)
    family = family_of(architecture)
    if not family:
        remarks.wonder(f"architecture {architecture or 'without a name'!r} is not known: read as a plain decoder")
    hidden = text.whole("hidden_size", "n_embd", "d_model", "dim")
    vocabulary = text.whole("padded_vocab_size", "embedding_size", "vocab_size") if family.get("padded") else None
    vocabulary = vocabulary or text.whole("vocab_size", "padded_vocab_size")
    count = count_layers(text, family)
    if not hidden or not count:
        return Unreadable(f"the config has no {'hidden_size' if not hidden else 'num_hidden_layers'}")
    if count > MOST_LAYERS:
        return Unreadable(f"the config has {count} layers, expected at most {MOST_LAYERS}")
    if not vocabulary:
        remarks.wonder("vocab_size is not written: its split is not checked")
    attention = read_attention(text, family, hidden)
    layers = read_layers(text, family, attention, hidden, count)
    _wonder_about(layers, text, remarks)
    quantization = read_quantization(config, quant_config if isinstance(quant_config, dict) else None, remarks)
    return Shape(
        architecture=architecture,
        model_type=top.model_type,
        hidden=hidden,
        vocabulary=vocabulary or 0,
        heads=attention.heads if attention else 0,
        kv_heads=attention.kv_heads if attention and any(each.attention for each in layers) else 0,
        layers=layers,
        experts=top_level_experts(text),
        tied=_tied(text, top),
        towers=read_towers(top, text, family),
        quantization=quantization,
        trained=read_trained(text, top, model_max_length),
        dtype=text.text("dtype") or text.text("torch_dtype") or top.text("dtype") or top.text("torch_dtype"),
        encoder=family.get("body") == "encoder",
        gated=_gated(text, family),
        positions=_positions(text, family),
        beside=_beside(text, count, vocabulary or 0),
        rotary=rotary_numbers(text, attention),
        predicted=text.whole(*PREDICTING_KEYS) or 0,
        remote_code=isinstance(config.get("auto_map"), dict),
        assumed=tuple(remarks.assumed),
        unknown=tuple(remarks.unknown),
    )


def language_model(top: Fields) -> Fields:
    """The config of the language model inside a composite one; the config itself when it is one already."""
    fields = top
    for _ in range(3):  # thinker_config.text_config is the deepest there is
        name = next((name for name in TEXT_SECTIONS if isinstance(fields.raw.get(name), dict)), None)
        if name is None and fields.written("hidden_size", "n_embd", "d_model") is None:
            inner = fields.section(*TEXT_SECTIONS)
        else:
            inner = fields.section(name) if name is not None else None
        if inner is None or (name == "decoder" and fields.written("hidden_size", "d_model") is not None):
            return fields
        fields = inner
    return fields


def _architecture(config: Mapping[str, Any]) -> str:
    listed = config.get("architectures")
    named = listed[0] if isinstance(listed, list) and listed else listed
    return named if isinstance(named, str) else ""


def _gated(text: Fields, family: Mapping[str, Any]) -> bool:
    if "activation_gate" in family:  # some encoders choose by their activation function
        return text.text("activation_function") in family["activation_gate"]
    return bool(family.get("gated", True))


def _positions(text: Fields, family: Mapping[str, Any]) -> int | None:
    return text.whole("max_position_embeddings") if family.get("split_positions") else None


def _tied(text: Fields, top: Fields) -> bool:
    """What is written counts, in the language model's section first; then its family's default."""
    said = next((value for each in (text, top) if isinstance(value := each.written("tie_word_embeddings"), bool)), None)
    return text.flag("tie_word_embeddings", default=top.flag("tie_word_embeddings")) if said is None else said


def _beside(text: Fields, layers: int, vocabulary: int) -> tuple[int, int] | None:
    """Gemma 3n and the small Gemma 4 embed every token once more for each layer."""
    width = text.whole("hidden_size_per_layer_input")
    return (text.whole("vocab_size_per_layer_input") or vocabulary, width * layers) if width else None


def _wonder_about(layers: tuple[Layer, ...], text: Fields, remarks: Remarks) -> None:
    """Name what the arithmetic will have to do without."""
    if not any(each.attention or each.recurrent for each in layers):
        remarks.wonder("neither attention heads nor a recurrent part are written")
    if all(each.dense is None and each.experts is None for each in layers) and text.model_type not in (
        "mamba",
        "mamba2",
        "falcon_mamba",
    ):
        remarks.wonder("the width of the feed-forward part is not written: its split is not checked")


def _kind(value: object) -> str:
    names = {list: "a list", str: "text", bool: "true or false", type(None): "null", int: "a number", float: "a number"}
    return names.get(type(value), f"a {type(value).__name__}")
