"""Weights per GPU against vLLM's own figures, and what profiles and locks change about them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.domain.lock import TensorRun
from reconciler.domain.model_spec import Engine, Task
from reconciler.domain.shape import Shape
from reconciler.engines.counting import counting_rules
from reconciler.sizing.config_shape import read_config
from reconciler.sizing.memory_ask import LoraAsk, MemoryAsk, Stored
from reconciler.sizing.weights import Weights, gpu_weights
from tests.sizing.builders import a_config, a_shape

TABLE = json.loads(Path(__file__).with_name("weights.json").read_text("utf-8"))
WITHIN = 0.001
"""Small parts that no config tells, such as scales of a cache or of one matrix."""
GIB = 2**30
MOST_ADDED = 0.01
SMALL = {
    "hidden_size": 1024,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 2048,
    "vocab_size": 6400,
    "max_position_embeddings": 0,
}
"""Small enough that no matrix has a segment of the allocator for itself, and without rotary tables."""


def shape_of(config: dict[str, Any]) -> Shape:
    shape = read_config(config)
    assert isinstance(shape, Shape)
    return shape


def small(**figures: Any) -> Shape:
    return a_shape(**(SMALL | figures))


def weights(shape: Shape, stored: Stored | None = None, engine: Engine = Engine.VLLM, **asked: Any) -> Weights:
    ask = MemoryAsk(**({"tensor": 1, "context": None} | asked))
    version = {Engine.VLLM: "0.32.0", Engine.SGLANG: "0.5.23", Engine.TRTLLM: "1.2.0"}[engine]
    return gpu_weights(shape, stored or Stored(), ask, counting_rules(engine, version))


def likely(shape: Shape, stored: Stored | None = None, engine: Engine = Engine.VLLM, **asked: Any) -> int:
    return weights(shape, stored, engine, **asked).fullest.likely


def part(found: Weights, name: str) -> int:
    return found.parts[name].likely if name in found.parts else 0


@pytest.mark.parametrize("row", TABLE["rows"], ids=lambda row: f"{row['kind']}, {row['width']}")
def test_ranks_hold_what_vllm_builds(row: dict[str, Any]) -> None:
    # The longest tables would hide a stage of a small model.
    shape = replace(shape_of(TABLE["configs"][row["config"]]), rotary=0)
    task = Task.EMBED if shape.encoder else Task.GENERATE
    stages = row.get("stages", [row.get("bytes")])
    found = weights(
        shape,
        tensor=row["width"],
        pipeline=len(stages),
        expert_parallel=row.get("whole_experts", False),
        task=task,
    )
    assert found.fullest.likely - found.added == pytest.approx(max(stages), rel=WITHIN)
    if len(stages) > 1:
        # What loading adds to each stage is counted besides: copies for latent attention, rests of segments.
        held = [each.likely for each in found.by_stage]
        assert held == pytest.approx(stages, rel=MOST_ADDED)
        assert all(counted >= built for counted, built in zip(held, stages, strict=True))


def test_a_profile_in_float32_doubles_what_is_plain() -> None:
    before, after = weights(small()), weights(small(), dtype="float32")
    assert after.fullest.likely - after.added == 2 * before.fullest.likely


@pytest.mark.parametrize("dtype", [None, "auto", "bfloat16", "half"])
def test_a_checkpoint_in_float32_is_loaded_in_16_bit(dtype: str | None) -> None:
    plain = small(torch_dtype="bfloat16")
    assert likely(small(torch_dtype="float32"), dtype=dtype) == likely(plain)
    stored = Stored(weight_bytes=2 * likely(plain))
    assert likely(small(torch_dtype="float32"), stored, dtype=dtype) == pytest.approx(likely(plain), rel=WITHIN)


def test_fp8_made_while_loading_halves_the_matrices_and_leaves_embedding_and_head() -> None:
    before, after = weights(small()), weights(small(), quantization="fp8")
    for name in ("attention", "mlp"):
        assert part(after, name) == pytest.approx(part(before, name) / 2, rel=WITHIN)
    for name in ("embedding", "output_head", "norms"):
        assert part(after, name) == part(before, name)


def test_a_quantization_that_is_not_known_is_counted_plain_and_named() -> None:
    found = weights(small(), quantization="unheard-of")
    assert found.fullest.likely == likely(small())
    assert found.doubts == ("what quantization unheard-of makes of 16-bit weights is not known: counted as 16 bit",)


def test_storage_that_is_not_known_takes_what_the_files_have() -> None:
    config = a_config(**SMALL, quantization_config={"quant_method": "unheard-of"})
    unknown = weights(shape_of(config))
    assert unknown.fullest.low < unknown.fullest.likely / 2
    assert "unheard-of" in unknown.doubts[0]
    stored = Stored(weight_bytes=unknown.fullest.likely * 2 // 3)
    told = weights(shape_of(config), stored)
    assert told.fullest.likely == pytest.approx(stored.weight_bytes, rel=WITHIN)
    assert part(told, "embedding") == part(unknown, "embedding")
    assert told.doubts == ()


def test_a_lock_that_says_another_size_decides_and_is_doubted() -> None:
    counted = likely(small())
    found = weights(small(), Stored(weight_bytes=counted * 3 // 2))
    assert found.fullest.likely == pytest.approx(counted * 1.5, rel=WITHIN)
    assert found.fullest.low <= counted
    assert "the lock's figure is used" in found.doubts[0]


@pytest.mark.parametrize("predicted", [0, 1])
def test_layers_that_predict_do_not_distort(predicted: int) -> None:
    plain = small(num_hidden_layers=4)
    with_more = replace(plain, predicted=1)
    layer = likely(small(num_hidden_layers=5)) - likely(plain)
    stored = Stored(weight_bytes=likely(plain) + predicted * layer)
    found = weights(with_more, stored)
    assert found.fullest.likely == pytest.approx(likely(plain), rel=WITHIN)
    assert found.doubts == ()


def test_a_tied_head_that_lies_in_the_files_is_loaded_once() -> None:
    tied = small(tie_word_embeddings=True)
    stored = Stored(weight_bytes=likely(small()))
    assert likely(tied, stored) == pytest.approx(likely(tied), rel=WITHIN)


def runs(shape: Shape, **more: int) -> tuple[TensorRun, ...]:
    """Rows of a lock with the shape's own bytes, and more of some."""
    found = weights(shape).parts
    names = dict.fromkeys([*found, *more])
    return tuple(
        TensorRun(group=name, dtype="bf16", bytes=part(weights(shape), name) + more.get(name, 0)) for name in names
    )


def test_the_tensors_of_a_lock_decide_group_by_group() -> None:
    shape = small(num_hidden_layers=4)
    more = part(weights(shape), "mlp") // 20
    found = weights(shape, Stored(tensors=runs(shape, mlp=more)))
    assert part(found, "mlp") == part(weights(shape), "mlp") + more
    assert part(found, "attention") == part(weights(shape), "attention")


def test_tensors_under_another_group_are_not_lost() -> None:
    shape = small(num_hidden_layers=4)
    counted = weights(shape).parts
    moved = counted["mlp"].likely // 2
    rows = tuple(
        run.model_copy(update={"bytes": run.bytes + {"mlp": -moved, "attention": moved}.get(run.group, 0)})
        for run in runs(shape)
    )
    assert likely(shape, Stored(tensors=rows)) == pytest.approx(likely(shape), abs=len(rows))


def test_tensors_of_layers_beyond_the_models_own_are_left_aside() -> None:
    shape = small(num_hidden_layers=4)
    draft = TensorRun(group="experts", layers=(4, 4), dtype="bf16", bytes=GIB)
    aside = TensorRun(group="other", dtype="bf16", bytes=GIB)
    assert likely(shape, Stored(tensors=(*runs(shape), draft, aside))) == likely(shape)


def test_a_tower_that_no_table_describes_is_counted_from_the_lock() -> None:
    shape = small(architectures=["DeepseekVLV2ForCausalLM"], model_type="deepseek_vl_v2")
    counted = likely(shape)
    found = weights(shape, Stored(weight_bytes=counted + GIB), tensor=2)
    assert found.parts["towers"].likely == GIB // 2
    assert found.parts["towers"].high == GIB
    assert "its towers are not counted: how they are built is not known" in weights(shape).doubts


def test_towers_are_whole_where_the_profile_says_so() -> None:
    shape = shape_of(TABLE["configs"]["tower"])
    whole, split = weights(shape, tensor=4, towers_whole=True), weights(shape, tensor=4)
    assert part(whole, "towers") == part(weights(shape), "towers") > part(split, "towers")


def test_slots_of_adapters_are_as_wide_as_the_rank_and_split_on_one_side() -> None:
    shape = small(num_hidden_layers=1, architectures=["Qwen2ForCausalLM"], model_type="qwen2")
    asked = LoraAsk(slots=1, rank=16)
    hidden, queries, keys, width = 1024, 8 * 128, 2 * 128, 2048
    # Of each pair one factor is whole and the other split: outputs of the first two lines, inputs of the others.
    whole = 3 * hidden + 2 * hidden + hidden + hidden
    split = queries + 2 * keys + 2 * width + queries + width
    assert part(weights(shape, lora=asked), "adapters") == 16 * 2 * (whole + split)
    assert part(weights(shape, lora=asked, tensor=2), "adapters") == 16 * 2 * (whole + split // 2)
    assert part(weights(shape, lora=LoraAsk(slots=4, rank=16)), "adapters") == 4 * 16 * 2 * (whole + split)


def test_slots_reach_embedding_and_head_of_some_architectures() -> None:
    asked = LoraAsk(slots=2, rank=8)
    ends = part(weights(small(), lora=asked), "adapters") - part(
        weights(small(architectures=["Qwen2ForCausalLM"], model_type="qwen2"), lora=asked), "adapters"
    )
    assert ends == 2 * 2 * 8 * (6400 + 1024) * 2


def test_weights_in_host_ram_are_taken_off_the_layers() -> None:
    before, after = weights(small()), weights(small(), offload_bytes=10**7)
    assert after.fullest.likely == before.fullest.likely - 10**7
    assert part(after, "embedding") == part(before, "embedding")
    all_layers = weights(small(), offload_bytes=GIB)
    assert part(all_layers, "mlp") == 0
    assert all_layers.fullest.likely >= part(before, "embedding")


def test_data_parallel_ranks_share_experts_and_nothing_else() -> None:
    shape = shape_of(TABLE["configs"]["KV heads copied"])
    alone, shared = weights(shape), weights(shape, gpus=4, data=4)
    assert part(shared, "experts") == part(alone, "experts") / 4
    assert part(shared, "attention") == part(alone, "attention")


def test_sglang_copies_the_embedding_under_attention_dp() -> None:
    shape = shape_of(TABLE["configs"]["KV heads copied"])
    found = weights(shape, engine=Engine.SGLANG, tensor=2, gpus=8, data=4, expert_parallel=True)
    alone = weights(shape, engine=Engine.SGLANG, tensor=8)
    assert part(found, "embedding") == pytest.approx(8 * part(alone, "embedding"), rel=0.002)  # padding
    assert part(found, "output_head") == part(alone, "output_head")


@pytest.mark.parametrize(
    ("engine", "layers"),
    [(Engine.VLLM, [2, 3, 3, 2]), (Engine.SGLANG, [2, 2, 3, 3]), (Engine.TRTLLM, [3, 3, 2, 2])],
)
def test_each_engine_has_its_own_place_for_layers_left_over(engine: Engine, layers: list[int]) -> None:
    shape = small(num_hidden_layers=10)
    middle = replace(shape, vocabulary=0, hidden=1024)
    one = likely(replace(middle, layers=shape.layers[:1]), engine=engine) - 2 * 1024  # the last norm
    held = [each.likely for each in weights(middle, engine=engine, pipeline=4).by_stage]
    held[-1] -= 2 * 1024
    assert held == [count * one for count in layers]


def test_symmetric_experts_off_marlins_groups_have_no_zero_points() -> None:
    figures = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 192, "num_hidden_layers": 1}
    stored = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False}
    shape = small(architectures=["MixtralForCausalLM"], intermediate_size=192, **figures, quantization_config=stored)
    cells, scales = 3 * 192 * 1024 // 2, 3 * 192 * 1024 // 64 * 2  # groups of 128 are halved to divide 192
    assert part(weights(shape), "experts") == pytest.approx(4 * (cells + scales), rel=WITHIN)


def test_rotary_tables_are_as_long_as_the_model_not_as_the_request() -> None:
    plain = a_shape(**(SMALL | {"max_position_embeddings": 131_072}))
    stretched = a_shape(**(SMALL | {
        "max_position_embeddings": 131_072,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
    }))  # fmt: skip
    assert weights(plain).added - weights(small()).added == 131_072 * 128 * 2
    assert weights(stretched).added - weights(small()).added == 8 * 131_072 * 128 * 2


def test_a_rest_of_a_segment_counts_with_its_tensor() -> None:
    # 1024 x 5888 x 2 bytes are 11.5 MiB, hence half a MiB of a segment of 12; twice that for the gate are 23 of 24.
    shape = small(intermediate_size=5888, num_hidden_layers=1)
    assert weights(shape).added == 2**19 + 2**20


def test_a_shape_without_any_weights_is_doubted() -> None:
    bare = replace(small(), layers=(), hidden=0, vocabulary=0)
    found = weights(bare, Stored(weight_bytes=GIB))
    assert found.fullest.likely == 0
    assert found.doubts == ("the shape gives no weights: nothing is counted",)
