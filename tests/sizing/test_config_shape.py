"""Configs of each kind of model, read into shapes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from reconciler.domain.shape import Attention, Experts, Latent, Recurrence, Sense, Shape, Unreadable
from reconciler.sizing.config_shape import read_config


def read(**config: Any) -> Shape:
    shape = read_config(config)
    assert isinstance(shape, Shape), shape
    return shape


def llama(**figures: Any) -> dict[str, Any]:
    plain = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 4096,
        "num_hidden_layers": 4,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "vocab_size": 128256,
    }
    return plain | figures


def windows(shape: Shape) -> list[int | None]:
    return [layer.attention.window if layer.attention else -1 for layer in shape.layers]


def test_grouped_queries() -> None:
    shape = read(**llama(tie_word_embeddings=True, torch_dtype="bfloat16"))
    assert (shape.heads, shape.kv_heads, shape.vocabulary, shape.tied, shape.dtype) == (32, 8, 128256, True, "bfloat16")
    assert {layer.attention for layer in shape.layers} == {Attention(32, 8, 128, 128)}
    assert {layer.dense for layer in shape.layers} == {14336}
    assert not shape.unknown


def test_equal_layers_are_one_object() -> None:
    shape = read(**llama())
    assert all(layer is shape.layers[0] for layer in shape.layers)


def test_what_the_config_leaves_out_comes_from_its_family_and_is_said() -> None:
    shape = read(architectures=["LlamaForCausalLM"], model_type="llama")
    assert (shape.heads, shape.kv_heads, shape.hidden, len(shape.layers)) == (32, 32, 4096, 32)
    assert "num_attention_heads is not written: 32, as llama has it" in shape.assumed


def test_other_spellings_of_a_family_count() -> None:
    shape = read(architectures=["GPT2LMHeadModel"], model_type="gpt2", n_embd=1600, n_head=25, n_layer=48)
    assert (shape.hidden, shape.heads, len(shape.layers), shape.layers[0].dense) == (1600, 25, 48, 6400)
    assert shape.gated is False


@pytest.mark.parametrize(
    ("figures", "kv_heads"),
    [
        ({"multi_query": True, "new_decoder_architecture": False}, 1),
        ({"multi_query": True, "new_decoder_architecture": True, "num_kv_heads": 8}, 8),
    ],
)
def test_falcon_has_one_kv_head_or_as_many_as_it_says(figures: dict[str, Any], kv_heads: int) -> None:
    shape = read(**llama(architectures=["FalconForCausalLM"], model_type="falcon", **figures))
    assert shape.kv_heads == kv_heads


def test_latent_attention() -> None:
    shape = read(
        **llama(
            architectures=["DeepseekV3ForCausalLM"],
            model_type="deepseek_v3",
            num_attention_heads=128,
            kv_lora_rank=512,
            q_lora_rank=1536,
            qk_nope_head_dim=128,
            qk_rope_head_dim=64,
            v_head_dim=128,
            n_routed_experts=256,
            num_experts_per_tok=8,
            moe_intermediate_size=2048,
            n_shared_experts=1,
            first_k_dense_replace=3,
        )
    )
    attention = shape.layers[0].attention
    assert attention is not None
    assert attention.latent == Latent(kv_rank=512, rope_dim=64, nope_dim=128, value_dim=128, query_rank=1536)
    assert [layer.dense for layer in shape.layers] == [14336, 14336, 14336, None]
    assert shape.layers[3].experts == Experts(count=256, active=8, width=2048, shared_width=2048)


@pytest.mark.parametrize(
    ("figures", "sparse"),
    [
        ({"decoder_sparse_step": 2}, [False, True, False, True]),
        ({"decoder_sparse_step": 1, "mlp_only_layers": [0]}, [False, True, True, True]),
        ({"first_k_dense_replace": 1}, [False, True, True, True]),
        ({"moe_layer_freq": [0, 1, 0, 1]}, [False, True, False, True]),
        ({"interleave_moe_layer_step": 2}, [False, True, False, True]),
        ({"expert_layer_period": 2, "expert_layer_offset": 1}, [False, True, False, True]),
        ({"moe_layer_start_index": 1, "moe_layer_end_index": 2}, [False, True, True, False]),
        ({"moe_layers_enum": "2,3"}, [False, False, True, True]),
        ({"mlp_layer_types": ["dense", "sparse", "dense", "sparse"]}, [False, True, False, True]),
        ({}, [True, True, True, True]),
    ],
)
def test_layers_with_experts(figures: dict[str, Any], sparse: list[bool]) -> None:
    plain = {"architectures": ["SomeMoeForCausalLM"], "model_type": "", "num_experts": 8, "moe_intermediate_size": 512}
    shape = read(**llama(**plain | figures))
    assert [layer.experts is not None for layer in shape.layers] == sparse


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ({"model_type": "mistral", "sliding_window": 4096}, [4096] * 4),
        ({"model_type": "mistral", "sliding_window": None}, [None] * 4),
        ({"model_type": "gemma2", "sliding_window": 4096}, [4096, None, 4096, None]),
        ({"model_type": "gemma3_text", "sliding_window": 1024, "sliding_window_pattern": 2}, [1024, None, 1024, None]),
        ({"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": False}, [None] * 4),
        (
            {"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 3},
            [None, None, None, 4096],
        ),
        ({"model_type": "exaone4", "sliding_window": 4096, "sliding_window_pattern": "LLG"}, [4096, 4096, None, 4096]),
        (
            {"sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"] * 2},
            [128, None, 128, None],
        ),
        (
            {"model_type": "llama4_text", "attention_chunk_size": 8192, "no_rope_layers": [1, 1, 1, 0]},
            [8192] * 3 + [None],
        ),
    ],
)
def test_windows_of_both_styles(figures: dict[str, Any], expected: list[int | None]) -> None:
    assert windows(read(**llama(**figures))) == expected


def test_layers_that_share_a_cache_hold_none() -> None:
    shape = read(**llama(architectures=["Gemma3nForCausalLM"], model_type="gemma3n_text", num_kv_shared_layers=2))
    assert [layer.attention is not None and layer.attention.shares_cache for layer in shape.layers] == [
        False,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("config", "kind", "attention_layers"),
    [
        ({"architectures": ["MambaForCausalLM"], "model_type": "mamba", "state_size": 16, "hidden_size": 2560,
          "num_hidden_layers": 4, "vocab_size": 50280}, Recurrence.MAMBA1, 0),
        ({"architectures": ["Mamba2ForCausalLM"], "model_type": "mamba2", "num_heads": 128, "n_groups": 8,
          "hidden_size": 4096, "num_hidden_layers": 4, "vocab_size": 32768}, Recurrence.MAMBA2, 0),
        (llama(architectures=["JambaForCausalLM"], model_type="jamba", attn_layer_period=4, attn_layer_offset=1),
         Recurrence.MAMBA1, 1),
        (llama(architectures=["NemotronHForCausalLM"], model_type="nemotron_h", hybrid_override_pattern="M-M*",
               mamba_num_heads=64, mamba_head_dim=64, n_groups=8, ssm_state_size=128), Recurrence.MAMBA2, 1),
        (llama(architectures=["GraniteMoeHybridForCausalLM"], model_type="granitemoehybrid", mamba_n_heads=128,
               layer_types=["mamba", "mamba", "attention", "mamba"]), Recurrence.MAMBA2, 1),
        (llama(architectures=["Qwen3NextForCausalLM"], model_type="qwen3_next"), Recurrence.GATED_DELTA, 1),
        (llama(architectures=["KimiLinearForCausalLM"], model_type="kimi_linear",
               linear_attn_config={"num_heads": 32, "head_dim": 128, "short_conv_kernel_size": 4,
                                   "full_attn_layers": [4]}), Recurrence.KIMI_DELTA, 1),
        (llama(architectures=["Lfm2ForCausalLM"], model_type="lfm2", conv_L_cache=3,
               layer_types=["conv", "conv", "full_attention", "conv"]), Recurrence.SHORT_CONVOLUTION, 1),
    ],
)  # fmt: skip
def test_recurrent_layers(config: dict[str, Any], kind: Recurrence, attention_layers: int) -> None:
    shape = read(**config)
    kinds = Counter(layer.recurrent.kind for layer in shape.layers if layer.recurrent is not None)
    assert set(kinds) == {kind}
    assert sum(layer.attention is not None for layer in shape.layers) == attention_layers


def test_falcon_h1_has_attention_and_a_recurrent_part_in_every_layer() -> None:
    shape = read(**llama(architectures=["FalconH1ForCausalLM"], model_type="falcon_h1", mamba_n_heads=32))
    assert all(layer.attention is not None and layer.recurrent is not None for layer in shape.layers)


@pytest.mark.parametrize("section", ["text_config", "llm_config", "language_config"])
def test_a_nested_language_model_is_found(section: str) -> None:
    inner = {key: value for key, value in llama().items() if key != "architectures"}
    shape = read(architectures=["LlavaForConditionalGeneration"], model_type="llava", **{section: inner})
    assert (shape.heads, shape.hidden) == (32, 4096)


def test_a_thinker_nests_it_twice_and_keeps_the_tower_between() -> None:
    vision = {"hidden_size": 1280, "num_heads": 16, "intermediate_size": 3456, "out_hidden_size": 4096}
    thinker = {"text_config": llama(), "vision_config": vision}
    shape = read(architectures=["Qwen2_5OmniForConditionalGeneration"], thinker_config=thinker)
    assert shape.heads == 32
    assert [(tower.sense, tower.heads, tower.width, tower.gated) for tower in shape.towers] == [
        (Sense.VISION, 16, 3456, True)
    ]


def test_a_tower_with_its_merger() -> None:
    vision = {"hidden_size": 1152, "num_heads": 16, "intermediate_size": 4304, "out_hidden_size": 2048}
    shape = read(**llama(architectures=["Qwen3VLForConditionalGeneration"], vision_config=vision))
    tower = shape.towers[0]
    assert (tower.heads, tower.head_dim, tower.width) == (16, 72, 4304)
    assert [(each.source, each.middle, each.target) for each in tower.bridges] == [(4608, 4608, 2048)]


def test_the_tower_of_an_unknown_architecture_is_read_and_named_as_uncertain() -> None:
    vision = {"hidden_size": 1152, "num_attention_heads": 16}
    shape = read(**llama(architectures=["FancyForConditionalGeneration"], vision_config=vision))
    assert shape.towers[0].heads == 16
    assert any("tower" in each for each in shape.unknown)
    assert any("FancyForConditionalGeneration" in each for each in shape.unknown)


def test_an_encoder_decoder() -> None:
    shape = read(
        architectures=["WhisperForConditionalGeneration"],
        model_type="whisper",
        d_model=1280,
        encoder_attention_heads=20,
        decoder_attention_heads=20,
        decoder_layers=4,
        encoder_layers=32,
    )
    assert (shape.heads, len(shape.layers)) == (20, 4)
    assert [(tower.sense, tower.heads) for tower in shape.towers] == [(Sense.TEXT, 20)]


def test_an_encoder_splits_its_position_table() -> None:
    shape = read(architectures=["BertModel"], model_type="bert", max_position_embeddings=512)
    assert (shape.encoder, shape.positions) == (True, 512)


@pytest.mark.parametrize(
    ("config", "because"),
    [
        ([], "the config is a list, expected an object"),
        (None, "the config is null, expected an object"),
        ("{}", "the config is text, expected an object"),
        ({}, "the config is empty"),
        ({"model_type": "nothing_known"}, "the config has no hidden_size"),
        ({"hidden_size": 8}, "the config has no num_hidden_layers"),
        (llama(num_hidden_layers=10**9), "the config has 1000000000 layers, expected at most 1024"),
    ],
)
def test_what_cannot_be_read_says_why(config: object, because: str) -> None:
    assert read_config(config) == Unreadable(because)


@pytest.mark.parametrize("wrong", ["32", 32.5, -32, True, [32], 10**30, {}])
def test_a_figure_of_the_wrong_kind_is_named_and_not_used(wrong: object) -> None:
    shape = read(**llama(architectures=["FancyForCausalLM"], model_type="", num_attention_heads=wrong))
    assert shape.heads == 0
    assert any(each.startswith("num_attention_heads is") for each in shape.unknown)


@pytest.mark.parametrize(
    ("figures", "gate"),
    [
        ({"architectures": ["LagunaForCausalLM"], "gating": True}, 1),
        ({"architectures": ["LagunaForCausalLM"], "gating": "per-element"}, 128),
        ({"architectures": ["LagunaForCausalLM"], "gating": False}, 0),
        ({"architectures": ["Step3p5ForCausalLM"]}, 0),
        ({"architectures": ["Step3p5ForCausalLM"], "use_head_wise_attn_gate": True}, 1),
        ({"architectures": ["AfmoeForCausalLM"]}, 128),
        ({}, 0),
    ],
)
def test_a_gate_on_what_attention_gives(figures: dict[str, Any], gate: int) -> None:
    assert {layer.attention.gate for layer in read(**llama(**figures)).layers if layer.attention} == {gate}


def test_heads_of_single_layers() -> None:
    kinds = {"layer_types": ["full_attention", "sliding_attention"] * 2, "sliding_window": 512}
    other = {"attention_type": "sliding_attention", "num_attention_heads": 96, "num_attention_groups": 4}
    by_kind = read(**llama(**kinds, attention_other_setting=other))
    listed = read(**llama(num_attention_heads_per_layer=[32, 48, 32, 48]))
    numbered = read(**llama(per_layer_config={"02": {"head_dim": 512}}))
    assert [(a.heads, a.kv_heads) for layer in by_kind.layers if (a := layer.attention)] == [(32, 8), (96, 4)] * 2
    assert [layer.attention.heads for layer in listed.layers if layer.attention] == [32, 48, 32, 48]
    assert [layer.attention.head_dim for layer in numbered.layers if layer.attention] == [128, 128, 512, 128]


def test_mamba_has_no_feed_forward_part() -> None:
    """Its intermediate_size is the width of its own values."""
    figures = {"hidden_size": 768, "intermediate_size": 1536, "num_hidden_layers": 2, "state_size": 16}
    shape = read(architectures=["FalconMambaForCausalLM"], model_type="falcon_mamba", vocab_size=1024, **figures)
    assert [(layer.dense, layer.recurrent.inner) for layer in shape.layers if layer.recurrent] == [(None, 1536)] * 2
    assert not shape.unknown
