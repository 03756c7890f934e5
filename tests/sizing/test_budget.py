"""Whether one way to run a model fits, and every reason why not: both sides of each rule."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.model_spec import Engine, Task
from reconciler.domain.shape import Shape, Unreadable
from reconciler.domain.tables import gpu_classes
from reconciler.engines.counting import counting_rules
from reconciler.sizing.budget import size
from reconciler.sizing.config_shape import read_config
from reconciler.sizing.memory_ask import Card, MemoryAsk, Stored
from reconciler.sizing.sized import FitVerdict, MemoryReason, Sized

MIB, GIB = 2**20, 2**30
LLAMA_8B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
    "torch_dtype": "bfloat16", "max_position_embeddings": 131072,
}  # fmt: skip
BYTES_8B = 16_060_522_496
LLAMA_70B = LLAMA_8B | {
    "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64, "intermediate_size": 28672,
}  # fmt: skip
BYTES_70B = 141_107_412_992
HYBRID: dict[str, Any] = {
    "architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "hidden_size": 2048,
    "num_hidden_layers": 48, "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256,
    "intermediate_size": 5120, "num_experts": 512, "num_experts_per_tok": 10, "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512, "full_attention_interval": 4, "linear_num_key_heads": 16,
    "linear_num_value_heads": 32, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4, "vocab_size": 151936, "max_position_embeddings": 262144, "torch_dtype": "bfloat16",
}  # fmt: skip
ENCODER: dict[str, Any] = {
    "architectures": ["XLMRobertaModel"], "model_type": "xlm-roberta", "hidden_size": 1024, "num_hidden_layers": 24,
    "num_attention_heads": 16, "intermediate_size": 4096, "vocab_size": 250002, "max_position_embeddings": 8194,
    "torch_dtype": "float32",
}  # fmt: skip


def a_card(name: str) -> Card:
    known = gpu_classes()[name]
    return Card(name, known.memory_mib * MIB, known.engine_mib * MIB)


def shape_of(config: dict[str, Any]) -> Shape:
    shape = read_config(config)
    assert isinstance(shape, Shape)
    return shape


def sized(
    config: dict[str, Any] = LLAMA_8B,
    card: str | None = "h100-80gb",
    engine: Engine = Engine.VLLM,
    version: str | None = "0.32.0",
    weight_bytes: int | None = BYTES_8B,
    **ask: Any,
) -> Sized:
    asked = MemoryAsk(**({"tensor": 1, "context": 8192, "gpus": ask.get("tensor", 1)} | ask))
    rules = counting_rules(engine, version)
    return size(shape_of(config), Stored(weight_bytes), asked, a_card(card) if card else None, rules)


def reasons(found: Sized) -> set[MemoryReason]:
    return {each.reason for each in found.remarks}


def certain(found: Sized) -> set[MemoryReason]:
    return {each.reason for each in found.remarks if each.certain}


def test_what_fits_has_a_breakdown_and_no_remark() -> None:
    found = sized()

    assert (found.verdict, found.remarks, found.doubts) == (FitVerdict.FITS, (), ())
    held = found.per_gpu
    assert held is not None
    assert held.usable == held.reserves == pytest.approx(0.92 * held.total, abs=1)
    assert held.kv_one_request == 8192 * 131_072  # 32 layers x 8 heads x 2 x 128 x 2 bytes
    assert held.needs.likely == (
        held.weights.likely + held.activations.likely + held.graphs.likely + held.runtime.likely + held.kv_one_request
    )
    assert held.kv_cache.likely == held.usable - (held.needs.likely - held.kv_one_request)
    assert found.kv_bytes_per_token == 131_072
    assert found.longest_request == 131_072
    assert found.basis == "vllm 0.16 to before 0.34, dense: 16 published starts"


def test_weights_alone_too_big() -> None:
    found = sized(LLAMA_70B, weight_bytes=BYTES_70B)

    assert (found.verdict, certain(found)) == (FitVerdict.REFUSED, {MemoryReason.WEIGHTS})
    assert found.remarks[0].message == "the weights alone take 131.4 of 72.8 GiB a GPU"


def test_weights_fit_and_one_request_beside_them_does_not() -> None:
    found = sized(LLAMA_70B, weight_bytes=BYTES_70B, tensor=2, context=32768)

    assert (found.verdict, certain(found)) == (FitVerdict.REFUSED, {MemoryReason.REQUEST})
    assert found.remarks[0].message.startswith("needs ")
    assert "5.0 for one request of 32,768 tokens" in found.remarks[0].message


def test_inside_the_band_it_is_tight() -> None:
    # 20.25 GiB usable on an L4: 15 weights leave 2.7 to 4.6 for the cache, and 30,000 tokens take 3.7
    found = sized(card="l4", context=30_000)

    assert (found.verdict, reasons(found), certain(found)) == (FitVerdict.TIGHT, {MemoryReason.TIGHT}, set())
    assert "it may be" in found.remarks[0].message
    assert sized(card="l4", context=20_000).verdict is FitVerdict.FITS
    assert sized(card="l4", context=40_000).verdict is FitVerdict.REFUSED


@pytest.mark.parametrize(
    ("share", "refused"), [(0.0, True), (-0.5, True), (92.0, True), (inf, True), (nan, True), (0.9, False)]
)
def test_a_share_outside_0_to_1(share: float, refused: bool) -> None:
    found = sized(share=share)

    assert (found.verdict is FitVerdict.REFUSED) == refused
    assert (MemoryReason.SHARE in certain(found)) == refused


@pytest.mark.parametrize(
    ("card", "share", "expected"),
    [
        ("h100-80gb", 0.95, None),
        ("h100-80gb", 0.98, True),  # from here on an error on every card
        ("h100-80gb", 0.97, None),  # 2.4 GiB beside it: the context takes 0.5
        ("t4", 0.97, False),  # 0.4 GiB beside it: the context takes 0.2 to 0.6
    ],
)
def test_what_must_fit_beside_the_share(card: str, share: float, expected: bool | None) -> None:
    found = [each for each in sized(card=card, share=share).remarks if each.reason is MemoryReason.STARTUP_SLACK]

    assert [each.certain for each in found] == ([] if expected is None else [expected])


def test_graphs_come_on_top_of_the_share_of_older_versions() -> None:
    older = sized(LLAMA_70B, weight_bytes=BYTES_70B, version="0.19.0", tensor=4, share=0.95)
    newer = sized(LLAMA_70B, weight_bytes=BYTES_70B, version="0.33.0", tensor=4, share=0.95)

    assert (older.verdict, reasons(older)) == (FitVerdict.TIGHT, {MemoryReason.STARTUP_SLACK})
    assert (newer.verdict, reasons(newer)) == (FitVerdict.FITS, set())


def test_fewer_tokens_than_the_declared_requests_need_is_said_and_fits() -> None:
    found = sized(card="l4", concurrency=200)  # 30,000 tokens; 200 requests of 512 need 102,400

    assert (found.verdict, reasons(found), certain(found)) == (FitVerdict.FITS, {MemoryReason.POOL}, set())
    assert "max_concurrency is 200" in found.remarks[0].message
    assert reasons(sized(card="l4", concurrency=40)) == set()


def test_a_hybrid_needs_a_block_for_each_request_at_once() -> None:
    on: dict[str, Any] = {"config": HYBRID, "card": "rtx-pro-6000", "weight_bytes": 162_700_000_000, "tensor": 2}
    many = sized(**on, concurrency=4000)  # the cache has a thousand blocks of 6.4 MiB
    few = sized(**on, concurrency=64)
    eager = sized(**on, concurrency=4000, eager=True)

    assert (many.verdict, certain(many)) == (FitVerdict.REFUSED, {MemoryReason.POOL})
    assert "max_concurrency has to be" in many.remarks[0].message
    assert MemoryReason.POOL not in reasons(few)
    assert certain(eager) == set()


def test_a_cache_of_a_written_size_has_to_hold_one_request() -> None:
    small, large = sized(kv_cache_bytes=GIB // 2), sized(kv_cache_bytes=2 * GIB)

    assert certain(small) == {MemoryReason.REQUEST}
    assert "the cache is set to 0.5 GiB" in small.remarks[0].message
    assert (large.verdict, large.kv_tokens) == (FitVerdict.FITS, 16_384)


def test_sglang_would_cut_long_requests_without_a_word_and_we_refuse() -> None:
    fits = sized(engine=Engine.SGLANG, version=None, card="l4", share=0.9, context=8192)
    cut = sized(engine=Engine.SGLANG, version=None, card="l4", share=0.9, context=131_072)

    assert fits.verdict is not FitVerdict.REFUSED
    assert (cut.verdict, MemoryReason.REQUEST in certain(cut)) == (FitVerdict.REFUSED, True)


def test_tensorrt_llm_gives_a_request_only_its_share_of_the_rest() -> None:
    whole = sized(engine=Engine.TRTLLM, version=None, context=131_072, share=0.9)
    little = sized(engine=Engine.TRTLLM, version=None, context=131_072, share=0.2)

    assert whole.verdict is FitVerdict.FITS
    assert (little.verdict, certain(little)) == (FitVerdict.REFUSED, {MemoryReason.REQUEST})


def test_an_encoder_caches_nothing_and_does_not_fill_its_share() -> None:
    found = sized(ENCODER, "l4", weight_bytes=2_271_064_064, task=Task.EMBED)

    assert (found.verdict, found.kv_tokens, found.concurrency) == (FitVerdict.FITS, None, None)
    assert found.per_gpu is not None
    assert found.per_gpu.kv_one_request == found.per_gpu.kv_cache.likely == 0
    assert found.per_gpu.reserves == found.per_gpu.needs.likely < found.per_gpu.usable


def test_on_cpus_the_reserved_host_ram_is_what_there_is() -> None:
    fits = sized(card=None, gpus=0, host_bytes=32 * GIB)
    refused = sized(card=None, gpus=0, host_bytes=15 * GIB)

    assert (fits.verdict, refused.verdict) == (FitVerdict.FITS, FitVerdict.REFUSED)
    assert certain(refused) == {MemoryReason.HOST_RAM}
    assert "GiB of host RAM: 15.0 weights, 1.0 for one request of 8,192 tokens" in refused.remarks[0].message


@pytest.mark.parametrize(
    ("shape", "weight_bytes", "verdict", "found"),
    [
        (None, None, FitVerdict.UNKNOWN, {MemoryReason.UNKNOWN}),
        (Unreadable("the config is empty"), BYTES_8B, FitVerdict.UNKNOWN, {MemoryReason.UNKNOWN}),
        (None, BYTES_70B, FitVerdict.REFUSED, {MemoryReason.WEIGHTS, MemoryReason.UNKNOWN}),
    ],
)
def test_without_a_shape_only_weights_alone_can_be_judged(
    shape: Unreadable | None, weight_bytes: int | None, verdict: FitVerdict, found: set[MemoryReason]
) -> None:
    ask = MemoryAsk(tensor=1, context=8192)
    answer = size(shape, Stored(weight_bytes), ask, a_card("h100-80gb"), counting_rules(Engine.VLLM, None))

    assert (answer.verdict, reasons(answer), answer.per_gpu) == (verdict, found, None)


def test_a_class_without_a_memory_and_a_cpu_profile_without_host_ram_are_unknown() -> None:
    assert sized(card=None, gpus=1).verdict is FitVerdict.UNKNOWN
    assert sized(card=None, gpus=0).verdict is FitVerdict.UNKNOWN


def test_how_comfyui_uses_memory_is_not_judged() -> None:
    assert sized(engine=Engine.COMFYUI, version=None, weight_bytes=10**15).verdict is FitVerdict.UNKNOWN


def test_a_flag_that_is_not_counted_widens_the_band_and_is_named() -> None:
    plain, other = sized(), sized(unsized=("--speculative-config",))

    assert plain.per_gpu is not None
    assert other.per_gpu is not None
    assert other.per_gpu.needs.low < plain.per_gpu.needs.low
    assert other.per_gpu.needs.high > plain.per_gpu.needs.high
    assert other.doubts == ("--speculative-config moves memory in a way that is not counted",)


def test_a_version_nobody_read_is_doubted() -> None:
    assert any("0.60.0 was not read" in doubt for doubt in sized(version="0.60.0").doubts)


ORDER = {FitVerdict.FITS: 0, FitVerdict.TIGHT: 1, FitVerdict.REFUSED: 2}
ENGINES = st.sampled_from([Engine.VLLM, Engine.SGLANG, Engine.TRTLLM])
CARDS = st.sampled_from(["l4", "rtx-4090", "l40s", "a100-80gb", "h100-80gb", "h200", "mi300x"])
CONFIGS = st.sampled_from([(LLAMA_8B, BYTES_8B), (LLAMA_70B, BYTES_70B), (HYBRID, 162_700_000_000)])


@given(ENGINES, CARDS, CONFIGS, st.sampled_from([1, 2, 4, 8]), st.floats(0.3, 0.97), st.floats(0.3, 0.97))
def test_more_share_never_gives_fewer_tokens(
    engine: Engine, card: str, model: tuple[dict[str, Any], int], tensor: int, one: float, other: float
) -> None:
    shares = sorted((one, other))
    less, more = (
        sized(model[0], card, engine, None, model[1], tensor=tensor, share=share).kv_tokens or 0 for share in shares
    )

    assert less <= more


@given(ENGINES, CARDS, CONFIGS, st.sampled_from([1, 2, 4, 8]), st.integers(1, 131_072), st.integers(1, 131_072))
def test_a_longer_context_never_fits_better(
    engine: Engine, card: str, model: tuple[dict[str, Any], int], tensor: int, one: int, other: int
) -> None:
    shorter, longer = (
        sized(model[0], card, engine, None, model[1], tensor=tensor, context=context, batch_tokens=2048)
        for context in sorted((one, other))
    )

    assert ORDER[shorter.verdict] <= ORDER[longer.verdict]


@given(ENGINES, CARDS, CONFIGS, st.sampled_from([1, 2, 4, 8]), st.integers(1, 131_072), st.booleans())
def test_every_estimate_is_in_order_and_the_parts_add_up(
    engine: Engine, card: str, model: tuple[dict[str, Any], int], tensor: int, context: int, eager: bool
) -> None:
    held = sized(model[0], card, engine, None, model[1], tensor=tensor, context=context, eager=eager).per_gpu

    assert held is not None
    for each in (held.weights, held.activations, held.graphs, held.runtime, held.kv_cache, held.needs):
        assert each.low <= each.likely <= each.high
    parts = held.weights + held.activations + held.graphs + held.runtime
    assert held.needs.likely >= parts.likely + held.kv_one_request
    assert held.usable <= held.total


@given(st.integers(1, 131_072))
def test_the_longest_request_that_is_named_fits_the_likely_cache(context: int) -> None:
    found = sized(card="rtx-4090", context=context)

    assert found.longest_request is not None
    assert found.per_gpu is not None
    again = sized(card="rtx-4090", context=found.longest_request)
    assert again.per_gpu is not None
    assert again.per_gpu.kv_one_request <= replace(found.per_gpu).kv_cache.likely
