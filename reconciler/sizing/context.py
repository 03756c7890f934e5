"""The length a model was trained for, with RoPE scaling, as engines derive it from the config.

vLLM 0.32 (`config/model.py::_get_and_verify_max_len`) takes the smallest of several keys and multiplies by the RoPE
factor unless the scaling already counts in it; SGLang's get_context_length and llama.cpp's `context_length` agree where
a config has one key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reconciler.domain.shape import Trained

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reconciler.sizing.fields import Fields

LENGTH_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
LARGEST_FACTOR = 2**20
"""No model stretches its context a million times."""
COUNTED_ALREADY = frozenset({
    "su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling", "default", "mrope", "proportional",
})  # fmt: skip
"""RoPE types whose length keys hold the scaled length; for others the factor multiplies it."""


def read_trained(text: Fields, top: Fields, model_max_length: float | None = None) -> Trained | None:
    """The trained length; None when the config has no such key.

    `model_max_length` is the tokenizer's and counts for encoders with absolute positions only, as in vLLM.
    """
    written = [name for name in LENGTH_KEYS if text.written(name) is not None]
    # A class default beside a written key is mostly that key's own shadow (ChatGLM), so it counts only alone.
    found = [(value, name) for name in written or LENGTH_KEYS if (value := text.whole(name))]
    if not found:
        return None
    tokens, key = min(found, key=lambda pair: pair[0])
    if preferred := text.whole("model_max_length"):  # Cohere keeps the true length there
        tokens, key = preferred, "model_max_length"
    absolute = text.text("position_embedding_type") == "absolute"
    if absolute and model_max_length is not None and 0 < model_max_length < tokens:
        tokens, key = int(model_max_length), "the tokenizer's model_max_length"
    override = top.whole("model_max_length")
    stretch = 1.0 if "gemma3" in text.model_type else _stretch(text)
    return Trained(tokens, key, stretch, override)


def _stretch(text: Fields) -> float:
    """The factor that length keys do not hold yet; the last layer type with one decides."""
    factor = 1.0
    for scaling in _scalings(text.raw):
        kind = scaling.get("rope_type", scaling.get("type"))
        value = scaling.get("factor")
        if kind is not None and not isinstance(kind, str):
            text.remarks.wonder("the RoPE type is not text: its factor is counted as 1")
        if not isinstance(kind, str) or kind in COUNTED_ALREADY:
            continue
        if isinstance(value, int | float) and 1 <= value < LARGEST_FACTOR:
            factor = float(value)
        elif value is not None:
            text.remarks.wonder("the RoPE factor is not a number from 1: counted as 1")
    return factor


def _scalings(raw: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """RoPE settings, one a layer type where they are nested."""
    for name in ("rope_parameters", "rope_scaling"):
        value = raw.get(name)
        if not isinstance(value, dict) or not value:
            continue
        nested = [inner for inner in value.values() if isinstance(inner, dict)]
        yield from nested or [value]
        return
