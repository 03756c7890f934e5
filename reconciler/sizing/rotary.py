"""The tables of sines and cosines that engines keep for rotary positions: one for each setting, whole on every GPU.

They are as long as the model's own length, not the context asked for: half a GiB for Gemma 3, more for Llama 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reconciler.domain.shape import Attention
    from reconciler.sizing.fields import Fields

LONGEST = 2**34
"""Numbers of one table; more is a typing error."""
MROPE_FACTOR = 4
"""Tables for positions in images are so many times longer (rotary_embedding/mrope.py)."""
STRETCHED = frozenset({"linear", "yarn", "deepseek_yarn"})
"""Types whose table is longer by the factor: linear from the trained length, YaRN from the original one."""


def rotary_numbers(text: Fields, attention: Attention | None) -> int:
    """Numbers of all tables together; 0 without rotary positions (vLLM 0.32, layers/rotary_embedding)."""
    length = text.whole("max_position_embeddings", "seq_length", "n_positions")
    if attention is None or not length:
        return 0
    tables = {_table(text, attention, kind, setting, length) for kind, setting in _settings(text)}
    return sum(rows * width for _, rows, width in tables)


def _settings(text: Fields) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Rotary settings, one for each kind of layer where they differ."""
    written = (text.raw.get(name) for name in ("rope_parameters", "rope_scaling"))
    found: Mapping[str, Any] = next((value for value in written if isinstance(value, dict)), {})
    nested: dict[str, Mapping[str, Any]] = {kind: each for kind, each in found.items() if isinstance(each, dict)}
    yield from (nested or {"": found}).items()
    local = text.raw.get("rope_local_base_freq")
    if not nested and local is None and text.model_type == "gemma3_text":
        local = 10_000.0  # transformers' default
    if local is not None and not nested:
        yield "sliding_attention", {"rope_theta": local}


def _table(
    text: Fields, attention: Attention, kind: str, setting: Mapping[str, Any], length: int
) -> tuple[str, int, int]:
    """What tells tables apart, rows, and width."""
    named = setting.get("rope_type", setting.get("type"))
    factor = setting.get("factor")
    rows = length
    if isinstance(named, str) and named in STRETCHED and isinstance(factor, int | float) and 1 <= factor < LONGEST:
        original = setting.get("original_max_position_embeddings")
        first = original if named != "linear" and type(original) is int and 0 < original <= length else length
        rows = int(first * factor)
    if "mrope_section" in setting:
        rows *= MROPE_FACTOR
    width = attention.latent.rope_dim if attention.latent is not None else attention.head_dim
    if kind == "full_attention" and attention.latent is None:
        width = text.whole("global_head_dim") or width
    partial = setting.get("partial_rotary_factor", text.number("partial_rotary_factor") or text.number("rotary_pct"))
    if isinstance(partial, int | float) and 0 < partial < 1 and attention.latent is None:
        width = int(width * partial)
    theta = setting.get("rope_theta", text.raw.get("rope_theta"))
    numbers = rows * width
    return (f"{named} {theta}", rows, width) if numbers <= LONGEST else ("", 0, 0)
