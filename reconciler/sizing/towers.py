"""Reads the encoders beside a language model, by what the architecture's row in our tables says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reconciler.domain.shape import Bridge, Sense, Tower
from reconciler.sizing.fields import Fields

if TYPE_CHECKING:
    from collections.abc import Mapping

VISION_SECTIONS = ("vision_config", "visual", "vision_tower_config", "vit_config", "image_config")
SIGLIP_STEP = 64
COLOURS = 3
CONVOLUTION = 3
"""Taps of the convolution that reads sound (Whisper)."""
LEARNED_POSITIONS = ("siglip", "clip", "intern", "llama4", "idefics", "smolvlm")
"""Model types of towers with a learned table, one row a patch."""
AUDIO_SECTIONS = ("audio_config", "audio_encoder_config", "speech_config", "encoder_config")


def read_towers(top: Fields, text: Fields, family: Mapping[str, Any]) -> tuple[Tower, ...]:
    """All towers in the order of the tables; for an unknown architecture those that the config describes."""
    if "towers" in family:
        return tuple(tower for row in family["towers"] if (tower := _known(top, text, row)) is not None)
    if family and not family.get("multimodal"):
        return ()
    outer = top.section("thinker_config") or top
    towers = [
        _tower(section, {"sense": sense.value, "path": sense.value}, text, top)
        for sense, names in ((Sense.VISION, VISION_SECTIONS), (Sense.AUDIO, AUDIO_SECTIONS))
        if (section := next((outer.section(name) for name in names if name in outer.raw), None)) is not None
    ]
    found = tuple(tower for tower in towers if tower is not None)
    for tower in found:
        top.remarks.wonder(f"how the {tower.sense} tower of this architecture is split is not known")
    return found


def _known(top: Fields, text: Fields, row: Mapping[str, Any]) -> Tower | None:
    outer = top.section("thinker_config") if "thinker_config" in top.raw else top
    if outer is None:
        return None
    names = row.get("section")
    if "fixed" in row:  # the model file has the tower's figures, not the config
        section: Fields | None = Fields(row["fixed"], top.remarks, path=f"{row.get('path', 'vision')}.")
    elif names == "":
        section = outer
    else:
        section = outer.section(*(names or VISION_SECTIONS))
    return None if section is None else _tower(section, row, text, top)


def _tower(section: Fields, row: Mapping[str, Any], text: Fields, top: Fields) -> Tower | None:
    hidden = section.whole(*row.get("hidden", ("hidden_size", "embed_dim", "width", "d_model")))
    names = row.get("heads", ("num_attention_heads", "num_heads", "heads", "encoder_attention_heads"))
    heads = section.whole(*names) if names else None
    if not hidden:
        section.remarks.wonder(f"{section.path}hidden_size is not written: the tower's split is not checked")
        return None
    if not heads and names:
        section.remarks.wonder(f"{section.path}num_attention_heads is not written: its split is not checked")
    width = _width(section, row, hidden)
    return Tower(
        sense=Sense(row.get("sense", "vision")),
        name=row.get("path", "vision_tower"),
        layers=section.whole("num_hidden_layers", "depth", "layers", "encoder_layers", "num_layers") or 0,
        hidden=hidden,
        heads=heads or 0,
        head_dim=section.whole("head_dim") or (hidden // heads if heads else 0),
        width=width,
        gated=bool(row.get("gated", False)) or section.model_type in row.get("gated_types", ()),
        bridges=tuple(_bridges(section, row, hidden, text, top)),
        unquantized=_unquantized(section, row, hidden, width),
        patch=_patch(section),
        positions=_positions(section),
        whole=bool(row.get("whole", False)),
    )


def _unquantized(section: Fields, row: Mapping[str, Any], hidden: int, width: int) -> tuple[str, ...]:
    """What the model file builds without a quantization config; SigLIP's MLP too unless it is even (siglip.py)."""
    parts = tuple(row.get("unquantized", ()))
    siglip = section.model_type in types if isinstance(types := row.get("siglip"), list) else bool(types)
    return (*parts, "mlp") if siglip and (hidden % SIGLIP_STEP or width % SIGLIP_STEP) else parts


def _width(section: Fields, row: Mapping[str, Any], hidden: int) -> int:
    names = row.get("width", ("intermediate_size", "encoder_ffn_dim", "mlp_dim", "ffn_dim"))
    if names and (written := section.whole(*names)):
        return written
    ratio = section.number("mlp_ratio")
    return int(hidden * ratio) if ratio else 0


def _patch(section: Fields) -> int:
    """Values that one patch joins: channels x side x side x frames; mel bins x taps for sound."""
    if (bins := section.whole("num_mel_bins")) is not None:  # two convolutions over time
        return (bins + (section.whole("d_model") or 0)) * CONVOLUTION
    side = section.whole("patch_size", "spatial_patch_size")
    channels = section.whole("num_channels", "in_channels") or COLOURS
    return channels * side * side * (section.whole("temporal_patch_size") or 1) if side else 0


def _positions(section: Fields) -> int:
    """Rows of a learned table; towers with rotary positions write none of these."""
    if rows := section.whole("num_position_embeddings", "max_source_positions"):
        return rows
    if (table := section.whole("position_embedding_size")) is not None:
        return 2 * table  # Gemma 4: one table for each axis
    height, width = section.whole("init_pos_emb_height"), section.whole("init_pos_emb_width")
    if height and width:
        return height * width
    image, side = section.whole("image_size"), section.whole("patch_size")
    learned = section.model_type.startswith(LEARNED_POSITIONS)
    return (image // side) ** 2 if learned and image and side else 0


def _bridges(section: Fields, row: Mapping[str, Any], hidden: int, text: Fields, top: Fields) -> list[Bridge]:
    language = text.whole("hidden_size", "n_embd", "d_model", "dim") or 0
    alignment = (top.whole("alignment_intermediate_size") or 0) // 2  # Cohere 2 gates half of it
    out: list[Bridge] = []
    for bridge in row.get("bridges", ()):
        sizes = {"hidden": hidden, "language": language, "alignment": alignment}
        sizes["language_width"] = text.whole("intermediate_size") or 0
        merge = section.whole("spatial_merge_size") or bridge.get("merge", 1)
        sizes["merged"] = hidden * merge * merge
        sizes["shuffled"] = hidden * (top.whole("scale_factor") or 1) ** 2  # Idefics 3 joins so many patches
        sizes["out"] = section.whole("out_hidden_size", "projection_dim", "output_dim", "vision_output_dim") or language
        for name in bridge.get("keys", ()):
            sizes[name] = section.whole(name) or 0
        source, middle, target = (_size(bridge[side], sizes) for side in ("source", "middle", "target"))
        copies = len(section.items(bridge["each"]) or ()) if "each" in bridge else 1
        if copies:
            gated = bool(bridge.get("gated", False))
            whole = bool(bridge.get("whole", False))
            out.append(Bridge(bridge["name"], source, middle, target, gated, copies, whole))
    return out


def _size(name: str | int, sizes: Mapping[str, int]) -> int:
    """A size by name, a plain number, or a name times a number written `hidden*2`."""
    if isinstance(name, int):
        return name
    base, _, factor = name.partition("*")
    return sizes.get(base, 0) * (int(factor) if factor else 1)
