"""Cache types, versions, widths and stages, each worked out by hand from the engines' formulas."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.domain.model_spec import Engine, Task
from reconciler.domain.shape import Shape
from reconciler.engines.counting import counting_rules
from reconciler.sizing.config_shape import read_config
from reconciler.sizing.counting import CountingRules
from reconciler.sizing.kv import KvCache, kv_cache
from reconciler.sizing.kv_plan import ANY_LENGTH
from reconciler.sizing.memory_ask import MemoryAsk

GIB = 2**30
NEWEST = {Engine.VLLM: "0.32.0", Engine.SGLANG: "0.5.23", Engine.TRTLLM: "1.2.1"}
LLAMA_8B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128256,
    "intermediate_size": 14336}  # fmt: skip
GEMMA_27B: dict[str, Any] = {
    "architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "text_config": {
    "model_type": "gemma3_text", "num_hidden_layers": 62, "hidden_size": 5376, "num_attention_heads": 32,
    "num_key_value_heads": 16, "head_dim": 128, "sliding_window": 1024, "sliding_window_pattern": 6}}  # fmt: skip
GPT_OSS_20B: dict[str, Any] = {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "num_hidden_layers": 24,
               "hidden_size": 2880, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
               "sliding_window": 128}  # fmt: skip
DEEPSEEK: dict[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "num_hidden_layers": 61,
    "hidden_size": 7168, "num_attention_heads": 128, "num_key_value_heads": 128, "kv_lora_rank": 512,
    "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "q_lora_rank": 1536}  # fmt: skip
SPARSE = DEEPSEEK | {"architectures": ["DeepseekV32ForCausalLM"], "model_type": "deepseek_v32",
                     "index_head_dim": 128, "index_n_heads": 64, "index_topk": 2048}  # fmt: skip
QWEN_35B: dict[str, Any] = {
    "architectures": ["Qwen3_5MoeForConditionalGeneration"], "model_type": "qwen3_5_moe", "text_config": {
    "model_type": "qwen3_5_moe_text", "num_hidden_layers": 40, "hidden_size": 2048, "num_attention_heads": 16,
    "num_key_value_heads": 2, "head_dim": 256, "linear_num_value_heads": 32, "linear_num_key_heads": 16,
    "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
    "full_attention_interval": 4, "mamba_ssm_dtype": "float32"}}  # fmt: skip


def rules_of(engine: Engine, version: str | None = None) -> CountingRules:
    return counting_rules(engine, version or NEWEST[engine])


def cache_of(config: dict[str, Any], engine: Engine = Engine.VLLM, version: str | None = None, **asked: Any) -> KvCache:
    shape = read_config(config)
    assert isinstance(shape, Shape)
    ask = MemoryAsk(**({"tensor": 1, "context": 8192, "batch_tokens": 8192} | asked))
    cache = kv_cache(shape, ask, rules_of(engine, version))
    assert cache is not None
    return cache


@pytest.mark.parametrize(
    ("kind", "head"),
    [
        ("auto", 512),
        ("bfloat16", 512),
        ("fp8", 256),
        ("fp8_e4m3", 256),
        ("fp8_e5m2", 256),
        ("fp8_inc", 256),
        ("int8_per_token_head", 256 + 8),
        ("fp8_per_token_head", 256 + 8),
        ("int4_per_token_head", 128 + 8),
        ("nvfp4", 2 * (64 + 8)),
        ("nvfp4_4over6", 2 * (64 + 8)),
        ("ultraquant_4bit", 136),
    ],
)
def test_a_head_of_128_takes_what_its_type_stores(kind: str, head: int) -> None:
    """VLLM 0.32: a float32 scale a side for token-head types, one byte for 16 numbers for nvfp4."""
    assert cache_of(LLAMA_8B, kv_cache_dtype=kind).bytes_per_token == 32 * 8 * head


@pytest.mark.parametrize(
    ("kind", "head"),
    [
        ("turboquant_k8v4", 128 + 68),
        ("turboquant_4bit_nc", 66 + 68),
        ("turboquant_k3v4_nc", 50 + 68),
        ("turboquant_3bit_nc", 50 + 52),
    ],
)
def test_turboquant_leaves_the_first_and_last_two_layers_alone(kind: str, head: int) -> None:
    assert cache_of(LLAMA_8B, kv_cache_dtype=kind).bytes_per_token == 8 * (28 * head + 4 * 512)


def test_a_model_run_in_float32_caches_in_float32_and_one_stored_so_does_not() -> None:
    assert cache_of(LLAMA_8B, dtype="float32").bytes_per_token == 32 * 8 * 2 * 128 * 4
    assert cache_of(LLAMA_8B | {"torch_dtype": "float32"}).bytes_per_token == 131_072


def test_kv_heads_are_split_and_then_repeated() -> None:
    rates = [cache_of(LLAMA_8B, tensor=width).bytes_per_token for width in (1, 2, 4, 8, 16, 32)]
    assert rates == [131_072, 65_536, 32_768, 16_384, 16_384, 16_384]


@pytest.mark.parametrize("engine", NEWEST)
def test_latent_attention_is_never_split(engine: Engine) -> None:
    for width in (1, 4, 16):
        assert cache_of(DEEPSEEK, engine, tensor=width).bytes_per_token == 61 * 576 * 2


def test_latent_caches_in_fp8_are_packed_only_behind_sparse_attention() -> None:
    assert cache_of(DEEPSEEK, kv_cache_dtype="fp8").bytes_per_token == 61 * 576
    assert cache_of(SPARSE).bytes_per_token == 61 * (576 * 2 + 132)
    assert cache_of(SPARSE, kv_cache_dtype="fp8").bytes_per_token == 61 * (656 + 132)
    assert cache_of(SPARSE, kv_cache_dtype="nvfp4_ds_mla").bytes_per_token == 61 * (352 + 132)
    assert cache_of(SPARSE, Engine.SGLANG, kv_cache_dtype="fp8_e4m3").bytes_per_token == 61 * (656 + 132)


def test_indexers_shared_between_layers_are_counted_once() -> None:
    """Every fourth layer chooses for the three after it; the first ones choose for themselves."""
    shared = cache_of(SPARSE | {"index_topk_freq": 4, "index_skip_topk_offset": 3})
    choosing = [index for index in range(61) if max(index - 2, 0) % 4 == 0]
    assert shared.bytes_per_token == 61 * 1152 + len(choosing) * 132
    lettered = cache_of(SPARSE | {"index_topk_pattern": "FS" * 30 + "F"})
    assert lettered.bytes_per_token == 61 * 1152 + 31 * 132


def test_ranks_that_share_a_request_divide_its_cache() -> None:
    """Decode context parallel; vLLM alone does so for every rank's pool."""
    alone, shared = cache_of(DEEPSEEK, tensor=8), cache_of(DEEPSEEK, tensor=8, decode_context=8)
    assert shared.bytes_per_token == -(-alone.bytes_per_token // 8)
    assert shared.request_bytes(8192) == alone.request_bytes(1024)
    assert shared.tokens_in(8 * GIB) == pytest.approx(8 * alone.tokens_in(8 * GIB), rel=0.001)


def scheme(**keys: Any) -> dict[str, Any]:
    return LLAMA_8B | {"quantization_config": keys}


@pytest.mark.parametrize(
    ("keys", "vllm", "sglang", "trtllm"),
    [
        ({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}, 1, 1, 1),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, 2, 2, 2),
        ({"quant_method": "modelopt", "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}, 1, 1, 1),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4",
          "kv_cache_scheme": {"type": "float", "num_bits": 8, "dynamic": False}}, 1, 1, 1),
        ({"quant_method": "compressed-tensors", "config_groups": {},
          "kv_cache_scheme": {"type": "float", "num_bits": 8}}, 1, 2, 2),
        ({"quant_method": "compressed-tensors", "config_groups": {}, "kv_cache_scheme": None}, 2, 2, 2),
        ({"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}, 2, 2, 2),
    ],
)  # fmt: skip
def test_an_auto_cache_is_fp8_only_where_the_checkpoint_says_so_and_the_engine_listens(
    keys: dict[str, Any], vllm: int, sglang: int, trtllm: int
) -> None:
    number = 32 * 8 * 2 * 128
    for engine, size in ((Engine.VLLM, vllm), (Engine.SGLANG, sglang), (Engine.TRTLLM, trtllm)):
        assert cache_of(scheme(**keys), engine).bytes_per_token == number * size
        assert cache_of(scheme(**keys), engine, kv_cache_dtype="bfloat16").bytes_per_token == number * 2


@pytest.mark.parametrize(
    ("config", "version", "gib", "asked", "tokens", "requests"),
    [
        # Start logs of vLLM 0.19.0 on an H100: blocks over groups x 16 tokens, windows like full layers.
        (GEMMA_27B, "0.19.0", 19.53, {}, 36_560, 4.46),
        (GPT_OSS_20B, "0.19.0", 59.32, {"tensor": 2}, 2_591_776, 316.07),
        (LLAMA_8B, "0.19.0", 58.11, {"kv_cache_dtype": "fp8"}, 952_032, 116.21),
        (LLAMA_8B, "0.19.0", 42.80, {"dtype": "float32"}, 175_296, 21.40),
        # 0.19: one state a request; 0.20: two, blocks still printed; 0.24: requests x length.
        (QWEN_35B, "0.19.1", 6.90, {"context": 262_144}, 89_760, 1.36),
        (QWEN_35B, "0.24.0", 6.01, {"context": 131_072, "kv_cache_dtype": "fp8"}, 569_878, 4.35),
    ],
)
def test_a_known_pool_gives_the_tokens_that_the_engine_printed(
    config: dict[str, Any], version: str, gib: float, asked: dict[str, Any], tokens: int, requests: float
) -> None:
    cache = cache_of(config, version=version, **asked)
    pool = int(gib * GIB)
    assert cache.tokens_in(pool) == pytest.approx(tokens, rel=0.002)
    assert cache.concurrency(pool, asked.get("context", 8192)) == pytest.approx(requests, rel=0.003)


def test_what_is_in_flight_is_kept_by_windows() -> None:
    """A window of 128 with batches of 2,048: one before 0.26, two since, one for pooling; blocks of 16 and one more."""
    for version, task, in_flight in (
        ("0.25.0", Task.GENERATE, 2048), ("0.26.0", Task.GENERATE, 4096), ("0.32.0", Task.EMBED, 2048),
    ):  # fmt: skip
        cache = cache_of(GPT_OSS_20B, version=version, task=task, batch_tokens=2048, context=131_072)
        window = -(-(127 + in_flight) // 16) + 1
        assert cache.request_bytes(131_072) == (8192 + window) * 12 * 16 * 2048


def test_without_the_hybrid_manager_windows_are_cached_in_full() -> None:
    for engine, off in ((Engine.VLLM, True), (Engine.TRTLLM, False)):
        cache = cache_of(GPT_OSS_20B, engine, context=131_072, full_windows=off)
        assert cache.bytes_per_token == 24 * 2048
    assert cache_of(GPT_OSS_20B, version="0.9.2").bytes_per_token == 24 * 2048
    assert cache_of(GPT_OSS_20B).bytes_per_token == 12 * 2048


def test_an_unknown_batch_is_named_where_windows_depend_on_it() -> None:
    assert cache_of(LLAMA_8B, batch_tokens=None).doubts == ()
    assert cache_of(GPT_OSS_20B, batch_tokens=None).doubts == (
        "windows are counted with batches of 2,048 tokens: the batch size is not known",
    )


def test_the_fullest_stage_decides() -> None:
    """61 layers over four stages: 15, 15, 16, 15; TensorRT-LLM gives the odd one to the first."""
    for engine in NEWEST:
        assert cache_of(DEEPSEEK, engine, pipeline=4).bytes_per_token == 16 * 1152
    assert cache_of(LLAMA_8B, pipeline=2).tokens_in(8 * GIB) == 2 * cache_of(LLAMA_8B).tokens_in(8 * GIB)


def test_sglang_cuts_the_request_one_token_short_of_its_pool() -> None:
    """k and v of 8.23 GiB: 94 layers, one KV head a GPU, 48,128 bytes a token (a start log of 367,404 tokens)."""
    config = LLAMA_8B | {"num_hidden_layers": 94, "num_key_value_heads": 4, "num_attention_heads": 64}
    cache = cache_of(config, Engine.SGLANG, tensor=4)
    pool = int(16.46 * GIB)
    assert cache.bytes_per_token == 48_128
    assert cache.tokens_in(pool) == pool // 48_128 == pytest.approx(367_404, rel=0.001)
    assert cache.longest(pool) == cache.tokens_in(pool) - 1
    assert cache_of(config, Engine.SGLANG, tensor=4, block_tokens=64).tokens_in(pool) == pool // 48_128 // 64 * 64


def test_sglang_gives_windows_four_fifths_of_the_tokens() -> None:
    """full 12 x 2,048, windows 12 x 2,048 x 0.8: 44,236.8 bytes a token of the whole."""
    cache = cache_of(GPT_OSS_20B, Engine.SGLANG)
    assert cache.tokens_in(8 * GIB) == int(8 * GIB // 44_236.8)
    assert cache.concurrency(8 * GIB, 131_072) == pytest.approx(8 * GIB / 44_236.8 / 131_072, rel=1e-4)
    unpooled = cache_of(GEMMA_27B, Engine.SGLANG)  # not an architecture whose windows get a pool
    assert unpooled.bytes_per_token == 62 * 16 * 2 * 128 * 2


def test_sglang_sets_states_apart_at_nine_to_ten() -> None:
    """30 layers x (8,192 x 3 x 2 + 32 x 128 x 128 x 4) bytes a slot; 0.9 / 1.9 of the memory, one slot for padding."""
    cache = cache_of(QWEN_35B, Engine.SGLANG)
    slot = 30 * (8192 * 3 * 2 + 32 * 128 * 128 * 4)
    assert cache.state_bytes == slot
    slots = int((20 * GIB * 0.9 / 1.9 - slot) // slot)
    assert cache.tokens_in(20 * GIB) == (20 * GIB - (slots + 1) * slot) // 20_480
    assert cache.longest(4 * slot) == 0


def test_tensorrt_llm_takes_whole_blocks_of_32_and_a_token_more() -> None:
    cache = cache_of(LLAMA_8B, Engine.TRTLLM)
    assert cache.request_bytes(31) == 32 * 131_072
    assert cache.request_bytes(32) == 64 * 131_072
    assert cache.tokens_in(8 * GIB) == 65_536
    assert cache.longest(8 * GIB) == 65_535


def test_windows_and_states_alone_hold_requests_of_any_length() -> None:
    mistral = LLAMA_8B | {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": 4096}
    assert cache_of(mistral).longest(8 * GIB) == ANY_LENGTH
    assert cache_of(mistral).longest(GIB) < 8192
    assert cache_of(mistral).bytes_per_token == 0


def test_no_pool_is_too_large_to_look_for_the_longest_request_in() -> None:
    assert cache_of(LLAMA_8B).longest(10**30) == ANY_LENGTH


def test_layers_that_share_a_cache_hold_none() -> None:
    config = GEMMA_27B["text_config"] | {"architectures": ["Gemma3nForCausalLM"], "num_kv_shared_layers": 22}
    held = cache_of(config | {"num_hidden_layers": 40, "model_type": "gemma3n_text"})
    whole = cache_of(config | {"num_hidden_layers": 18, "model_type": "gemma3n_text", "num_kv_shared_layers": 0})
    assert held.request_bytes(4096) == whole.request_bytes(4096)


def test_encoders_cache_nothing() -> None:
    shape = read_config({"architectures": ["BertModel"], "model_type": "bert", "hidden_size": 768,
                         "num_hidden_layers": 12, "num_attention_heads": 12})  # fmt: skip
    assert isinstance(shape, Shape)
    for engine in NEWEST:
        assert kv_cache(shape, MemoryAsk(1, None, task=Task.EMBED), rules_of(engine)) is None
