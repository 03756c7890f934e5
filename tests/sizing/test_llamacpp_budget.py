"""What llama.cpp would hold on a card, what is said of it, and the way round: which context fits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.lock import TensorRun, WeightFormat
from reconciler.domain.model_spec import Engine, Task
from reconciler.domain.shape import Shape
from reconciler.sizing.counting import CountingRules, Division, Windows
from reconciler.sizing.llamacpp_budget import size_layers
from reconciler.sizing.memory_ask import Card, LoraAsk, MemoryAsk, Stored
from reconciler.sizing.sized import FitVerdict, MemoryReason, Sized
from tests.sizing.builders import a_shape

GIB = 2**30
RULES = CountingRules(Engine.LLAMACPP, "b11434", Division.AS_NEEDED, 1.0, Windows.CELLS, 256)
L4 = Card("l4", 23034 * 2**20, 22 * GIB)
LLAMA_8B = a_shape(
    hidden_size=4096,
    num_hidden_layers=32,
    num_attention_heads=32,
    num_key_value_heads=8,
    intermediate_size=14336,
    vocab_size=128256,
    max_position_embeddings=131072,
)
F16 = Stored(weight_bytes=16_060_522_496, format=WeightFormat.GGUF)


def sized(
    shape: Shape = LLAMA_8B, stored: Stored = F16, card: Card | None = L4, rules: CountingRules = RULES, **ask: Any
) -> Sized:
    plain: dict[str, Any] = {"tensor": 1, "context": 8192}
    return size_layers(shape, stored, MemoryAsk(**(plain | ask)), card, rules)


def reasons(found: Sized) -> list[tuple[MemoryReason, bool]]:
    return [(each.reason, each.certain) for each in found.remarks]


def test_a_model_with_room_fits() -> None:
    found = sized()
    assert found.verdict is FitVerdict.FITS
    assert found.remarks == ()
    assert found.kv_bytes_per_token == 131_072
    assert found.kv_tokens == 8192
    assert found.concurrency == 1.0
    per_gpu = found.per_gpu
    assert per_gpu is not None
    assert per_gpu.kv_one_request == per_gpu.kv_cache.likely == GIB
    # The embedding stays in host RAM: 128,256 x 4,096 in 16 bit.
    assert per_gpu.weights.likely == pytest.approx(16_060_522_496 - 128256 * 4096 * 2, rel=0.001)
    assert per_gpu.needs.likely == per_gpu.reserves


def test_every_slot_has_a_context_of_its_own() -> None:
    found = sized(concurrency=4)
    assert found.per_gpu is not None
    assert found.per_gpu.kv_one_request == GIB
    assert found.per_gpu.kv_cache.likely == 4 * GIB
    assert found.kv_tokens == 4 * 8192


def test_slots_that_do_not_fit_are_said_with_those_that_do() -> None:
    found = sized(concurrency=16)
    assert found.verdict is FitVerdict.REFUSED
    assert reasons(found) == [(MemoryReason.SLOTS, True)]
    said = found.remarks[0].message
    assert said.startswith("takes 30.")
    assert "14.0 weights, 16.0 for 16 slots of 8,192 tokens" in said
    assert said.endswith("; 7 slots fit")


def test_one_request_too_long_is_refused_with_its_parts() -> None:
    found = sized(context=131_072)
    assert reasons(found) == [(MemoryReason.REQUEST, True)]
    assert "14.0 weights, 16.0 for one request of 131,072 tokens" in found.remarks[0].message
    assert found.longest_request is not None
    assert 55_000 < found.longest_request < 65_536
    assert found.longest_request % 256 == 0
    fits, over = (sized(context=found.longest_request + more).per_gpu for more in (0, 256))
    assert fits is not None
    assert over is not None
    assert fits.reserves <= fits.usable < over.reserves


def test_weights_alone() -> None:
    found = sized(card=Card("t4", 16 * GIB, 13 * GIB))
    assert reasons(found) == [(MemoryReason.WEIGHTS, True)]
    assert found.remarks[0].message == "the weights alone take 14.0 of 13.0 GiB a GPU"
    assert found.longest_request == 0


def test_inside_the_band_it_is_tight_and_not_refused() -> None:
    found = sized(context=57_344)
    assert found.verdict is FitVerdict.TIGHT
    assert reasons(found) == [(MemoryReason.TIGHT, False)]
    assert "(it may be " in found.remarks[0].message


def test_layers_and_their_cache_go_over_the_cards() -> None:
    one, two = sized(context=32_768), sized(context=32_768, gpus=2)
    assert one.per_gpu is not None
    assert two.per_gpu is not None
    assert two.per_gpu.weights.likely == pytest.approx(one.per_gpu.weights.likely / 2, rel=0.1)
    assert two.per_gpu.kv_cache.likely in (4 * GIB * 15 // 32, 4 * GIB * 17 // 32)
    # Micro-batches follow each other through the cards: every input is there four times.
    assert two.per_gpu.activations.likely > one.per_gpu.activations.likely


def test_cards_beyond_the_layers_stay_empty_and_change_nothing() -> None:
    few, many = sized(gpus=64), sized(gpus=4096)
    assert few.per_gpu is not None
    assert many.per_gpu is not None
    assert many.per_gpu.needs.likely <= few.per_gpu.needs.likely
    assert sized(gpus=100_000).per_gpu == many.per_gpu


def test_the_file_s_own_rows_say_where_bytes_are() -> None:
    rows = (
        TensorRun(group="embedding", dtype="f16", bytes=128256 * 4096 * 2),
        TensorRun(group="norms", dtype="f32", bytes=4096 * 4),
        TensorRun(group="mlp", layers=(0, 31), dtype="q4_k", bytes=32 * 100 * 2**20),
    )
    found = sized(stored=Stored(tensors=rows, format=WeightFormat.GGUF), gpus=2)
    assert found.per_gpu is not None
    # No output head in the file: the last card has a copy of the embedding, and 15 of 32 layers.
    assert found.per_gpu.weights.likely == 15 * 100 * 2**20 + 128256 * 4096 * 2 + 4096 * 4
    assert found.per_gpu.weights.low == found.per_gpu.weights.high


def test_a_run_of_absurd_length_takes_no_time_and_adds_no_layers() -> None:
    rows = (
        TensorRun(group="mlp", layers=(0, 31), dtype="q4_k", bytes=32 * 100 * 2**20),
        TensorRun(group="mlp", layers=(0, 10**17), dtype="q4_k", bytes=2**20),
        TensorRun(group="mlp", layers=(10**17, 10**18), dtype="q4_k", bytes=2**30),
        TensorRun(group="mlp", layers=(9, 3), dtype="q4_k", bytes=2**30),
    )
    found = sized(stored=Stored(tensors=rows, format=WeightFormat.GGUF), gpus=1)
    assert found.per_gpu is not None
    assert found.per_gpu.weights.likely == 32 * 100 * 2**20


def test_adapters_and_an_mmproj_are_held_as_they_are() -> None:
    bare = sized().per_gpu
    more = sized(lora=LoraAsk(2, 16, file_bytes=GIB), projector=Stored(weight_bytes=2 * GIB)).per_gpu
    assert bare is not None
    assert more is not None
    assert more.weights.likely - bare.weights.likely == 3 * GIB
    assert more.runtime.high > bare.runtime.high


def test_on_cpus_all_of_it_lies_in_host_ram() -> None:
    found = sized(card=None, gpus=0, host_bytes=20 * GIB)
    assert found.verdict is FitVerdict.FITS
    assert found.per_gpu is not None
    assert found.per_gpu.total == 20 * GIB
    assert found.per_gpu.weights.likely == pytest.approx(16_060_522_496, rel=0.001)
    short = sized(card=None, gpus=0, host_bytes=15 * GIB)
    assert reasons(short) == [(MemoryReason.HOST_RAM, True)]
    assert "of 15.0 GiB of host RAM" in short.remarks[0].message


def test_host_ram_beside_the_gpus_is_checked_where_it_is_reserved() -> None:
    assert sized(host_bytes=8 * GIB).verdict is FitVerdict.FITS
    found = sized(host_bytes=GIB // 2)
    assert reasons(found) == [(MemoryReason.HOST_RAM, True)]
    assert "of 0.5 GiB of host RAM beside the GPUs" in found.remarks[0].message


def test_builds_before_june_2026_hold_logits_of_the_whole_micro_batch() -> None:
    before = sized(rules=replace(RULES, version="b9444")).per_gpu
    after = sized(rules=replace(RULES, version="2026.10.11549")).per_gpu
    assert before is not None
    assert after is not None
    logits = 128256 * 512 * 4
    assert logits * 0.6 < before.activations.likely - after.activations.likely < logits


def test_embeddings_take_a_whole_input_in_one_micro_batch() -> None:
    answers, vectors = sized().per_gpu, sized(task=Task.EMBED).per_gpu
    assert answers is not None
    assert vectors is not None
    assert vectors.activations.likely > 8192 * 128256 * 4 > answers.activations.likely


def test_without_flash_attention_scores_are_held() -> None:
    fused, plain = sized().per_gpu, sized(flash_attention=False).per_gpu
    assert fused is not None
    assert plain is not None
    assert plain.activations.likely > 32 * 8192 * 512 * 4 > fused.activations.likely


def test_a_quantized_cache_is_unpacked_beside_the_attention_on_gpus() -> None:
    found = sized(context=65_536, kv_cache_dtype="q8_0")
    assert found.per_gpu is not None
    assert found.per_gpu.kv_cache.likely == 65_536 * 69_632
    assert found.per_gpu.activations.likely > 65_536 * 2 * 1024 * 2


def test_unsized_flags_widen_the_band_and_are_named() -> None:
    found = sized(unsized=("--n-cpu-moe",))
    assert found.per_gpu is not None
    assert found.per_gpu.needs.low <= 0.8 * found.per_gpu.needs.likely
    assert "--n-cpu-moe moves memory in a way that is not counted" in found.doubts


@pytest.mark.parametrize("ask", [{"gpus": 1}, {"gpus": 0}])
def test_without_memory_to_divide_nothing_is_known(ask: dict[str, Any]) -> None:
    found = sized(card=None, **ask)
    assert found.verdict is FitVerdict.UNKNOWN
    assert found.per_gpu is None


def test_bytes_that_nobody_knows_refuse_nothing_that_may_fit() -> None:
    found = sized(stored=Stored(format=WeightFormat.GGUF), card=Card("t4", 16 * GIB, 13 * GIB))
    assert found.verdict is FitVerdict.TIGHT
    assert "the bytes of the weights are not known: counted in 16 bit" in found.doubts
