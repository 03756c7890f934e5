"""What a tensor belongs to, by its name: the group of a lock's row, and the layer it lies in.

Two conventions: llama.cpp's, which is one for all architectures, and that of checkpoints, where every architecture
has its own names. For those the rules look for the words that all of them are made of; tests hold them against the
names of many families. A name that no rule knows is `other`: its bytes are counted and never lost.

`other` holds what is neither attention nor feed-forward: recurrent mixers, rotary tables, heads that predict further
tokens, and models that a checkpoint carries beside the one that is served (speech output).
"""

from __future__ import annotations

import re

GROUPS = ("embedding", "output_head", "attention", "mlp", "experts", "norms", "vision", "other")
"""In the order of the rows. Sound encoders stand with vision: both are towers beside the language model."""

Place = tuple[str, int | None]
"""A group, and the layer; None outside the layers of the language model."""

Rules = tuple[tuple[re.Pattern[str], str], ...]


def _rules(*rows: tuple[str, str]) -> Rules:
    return tuple((re.compile(pattern), group) for pattern, group in rows)


_GGUF_LAYER = re.compile(r"^(?:enc\.|dec\.)?blk\.(?P<layer>\d{1,6})\.(?P<rest>.+)$")

_GGUF = _rules(
    (r"^(v|mm|a)\.|^vis_", "vision"),
    (r"norm", "norms"),
    (r"^(per_layer_)?token_embd\.|^token_types\.|^position_embd\.", "embedding"),
    (r"^output\.|^cls\.", "output_head"),
    (r"^ffn_\w+_c?h?exps(\.|$)|^exp_probs_b", "experts"),
    (r"^ffn_", "mlp"),
    (r"^(attn|indexer)[._]", "attention"),
)
"""Names by gguf.TENSOR_NAMES, first match wins; norms before what they belong to."""


def gguf_place(name: str) -> Place:
    """Group and layer of a tensor in a GGUF file."""
    found = _GGUF_LAYER.match(name)
    return _group(_GGUF, found["rest"] if found else name), int(found["layer"]) if found else None


_LAYER = re.compile(r"^(?P<above>(?:.*?\.)??)(?:layers?|h|blocks?)\.(?P<layer>\d{1,6})\.(?P<rest>.+)$")
"""The first stack in the name: T5 has another one, of sublayers, inside each."""

_TOWER = re.compile(
    r"(?:^|\.)(?:[^.]*(?:vision|visual|image|video|audio|speech)[^.]*|vit|vpm|apm|tts|resampler|perceiver|aligner"
    r"|connector|(?:mm_|multi_modal_)?projector|mlp1|patch_merger|merger|sam_model|qformer|query_tokens"
    r"|language_projection)\."
)
_ASIDE = re.compile(r"(?:^|\.)(?:mtp\w*|talker|token2wav|code2wav)\.")
"""Heads that predict further tokens, and speech output: with layers of their own that are not the model's."""

_NORM = r"(?:^|\.)(?:[^.]*norm[^.]*|(?:[^.]*_)?ln(?:_?[a-z]{1,4}|_?\d)?)(?:\.[^.]+)?$"
"""The module itself, not one that it lies in: DBRX has attention inside a `norm_attn_norm`."""

_IN_LAYER = _rules(
    (rf"(?i:{_NORM})", "norms"),
    (r"(?:^|\.)(?:\w*shared?_experts?\w*|shared_mlp)(?:\.|$)", "mlp"),
    (r"(?:^|\.)(?:\w*_)?experts?(?:\.|$)|e_score_correction_bias", "experts"),
    (r"(?:^|\.)(?:block_sparse_)?moe\.(?:(?:in|out)put_linear|(?:gate|up|down)_proj)(?:\.|$)", "experts"),
    (r"(?:^|\.)(?:linear_attn|mamba\w*|ssm|rglru|recurrent\w*|time_mix\w*)\.", "other"),
    (r"(?i:attn|attention)|(?:^|\.)(?:att_proj|mixer\.[qkvo]_proj)(?:\.|$)", "attention"),
    (r"mlp|ffn|feed_?forward|(?:^|\.)(?:ff|fc|w|c_fc|dense_)\w*\d\w*\.|(?:^|\.)ff(?:_\w+)?\.", "mlp"),
    (r"(?:^|\.)(?:gate|up|down|gate_up)_proj(?:\.|$)|(?:^|\.)(?:intermediate|output)\.dense\.|[Dd]enseR", "mlp"),
    (r"moe|router", "mlp"),
)
"""Experts before the module they lie in; BERT's feed-forward is `intermediate` and `output`, T5's `DenseReluDense`."""

_OUTSIDE = _rules(
    (rf"(?i:{_NORM})", "norms"),
    (r"rotary|rope|inv_freq|alibi", "other"),
    (
        r"(?:^|\.)(?:lm_head|embed_out|output_layer|output|score|classifier|qa_outputs|cls|head|ff_out)(?:\.|$)",
        "output_head",
    ),
    (r"emb|(?:^|\.)(?:wte|wpe|shared)\.", "embedding"),
)


def checkpoint_place(name: str) -> Place:
    """Group and layer of a tensor in a checkpoint."""
    found = _LAYER.match(name)
    above = found["above"] if found else name
    if _TOWER.search(above):
        return "vision", None
    if _ASIDE.search(above):
        return "other", None
    if found is None:
        return _group(_OUTSIDE, name), None
    return _group(_IN_LAYER, found["rest"]), int(found["layer"])


def _group(rules: Rules, name: str) -> str:
    return next((group for pattern, group in rules if pattern.search(name)), "other")
