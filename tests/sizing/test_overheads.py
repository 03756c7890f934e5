"""What an engine holds beside weights and cache: hand-worked steps, and which row of the table is taken."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.domain.model_spec import Engine, Task
from reconciler.domain.shape import Shape
from reconciler.domain.tables import gpu_classes, table
from reconciler.engines.counting import counting_rules
from reconciler.sizing.config_shape import read_config
from reconciler.sizing.estimate import NOTHING, Estimate
from reconciler.sizing.host_memory import LEAST_CACHE, beside_weights, cache_bytes
from reconciler.sizing.memory_ask import Card, MemoryAsk
from reconciler.sizing.overhead_rows import Place, chosen
from reconciler.sizing.overheads import Batch, Overheads, batch, overheads

MIB, GIB = 2**20, 2**30
LLAMA_8B = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
    "torch_dtype": "bfloat16", "max_position_embeddings": 131072,
}  # fmt: skip
MIXTURE = LLAMA_8B | {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_experts": 128, "num_experts_per_tok": 8,
    "moe_intermediate_size": 768,
}  # fmt: skip
ENCODER = {
    "architectures": ["BertModel"], "model_type": "bert", "hidden_size": 1024, "num_hidden_layers": 24,
    "num_attention_heads": 16, "intermediate_size": 4096, "vocab_size": 30522, "max_position_embeddings": 512,
    "torch_dtype": "float16",
}  # fmt: skip


def shape_of(config: dict[str, Any]) -> Shape:
    shape = read_config(config)
    assert isinstance(shape, Shape)
    return shape


def a_card(name: str) -> Card:
    size = gpu_classes()[name]
    return Card(name, size.memory_mib * MIB, size.engine_mib * MIB)


def held(
    config: dict[str, Any] = LLAMA_8B, version: str = "0.19.0", card: str | None = "h100-80gb", **ask: Any
) -> Overheads:
    asked = MemoryAsk(**({"tensor": 1, "context": 8192, "gpus": 1} | ask))
    return overheads(shape_of(config), asked, a_card(card) if card else None, counting_rules(Engine.VLLM, version))


def mib(size: Estimate) -> int:
    return round(size.likely / MIB)


def test_sampling_decides_the_step_of_a_dense_model() -> None:
    # 36 + 8192 tokens x 4096 x 2 (64) + 128256 words x 1024 sequences x (2 + 12.65) (1834.9); a layer takes 864
    assert mib(held().activations) == 1935


def test_a_layer_decides_where_few_sequences_are_sampled() -> None:
    # 36 + 64 + 8192 x 2 x (3 x 14336 + 3 x 4096)
    assert mib(held(concurrency=16).activations) == 36 + 64 + 864


def test_ranks_share_a_layer_and_not_the_sampling() -> None:
    assert mib(held(tensor=4, gpus=4).activations) == 1935
    # 36 + 64 + 8192 x 2 x (3 x 3584 + 3 x 4096)
    assert mib(held(tensor=4, gpus=4, concurrency=16).activations) == 36 + 64 + 360


def test_all_active_experts_of_a_token_are_inside_a_layer() -> None:
    # 8 x (768 + 4096) values of the experts, 3 x 4096 beside them
    assert mib(held(MIXTURE, concurrency=16).activations) == 36 + 64 + round(8192 * 2 * (8 * 4864 + 3 * 4096) / MIB)


def test_an_encoder_samples_nothing_and_takes_whole_prompts() -> None:
    found = held(ENCODER, task=Task.EMBED, context=512, card="l4")

    # 36 + 2048 tokens x 1024 x 2 (4) + 2048 x 2 x (3 x 4096 + 3 x 1024) (60)
    assert mib(found.activations) == 36 + 4 + 60


def test_values_in_32_bit_take_twice_the_room() -> None:
    # 36 + 128 + words x (4 + 12.65)
    assert mib(held(dtype="float32").activations) == 36 + 128 + round(128256 * 1024 * 16.65 / MIB)


def test_eager_runs_have_no_graphs_and_stages_share_them() -> None:
    assert held(eager=True).graphs == NOTHING
    assert mib(held().graphs) == round(387 + 32 * 15.4)
    assert mib(held(pipeline=2, gpus=2).graphs) == round(387 + 16 * 15.4)


def test_ranks_that_talk_hold_communicators_by_the_kind_of_card() -> None:
    alone, four, apart = held(), held(tensor=4, gpus=4), held(tensor=2, gpus=2, card="rtx-4090")

    assert mib(four.runtime) - mib(alone.runtime) == 1870
    assert mib(apart.runtime) - mib(held(card="rtx-4090").runtime) == 400
    assert mib(four.startup) - mib(alone.startup) == 1044


def test_on_cpus_there_is_neither_context_nor_graph() -> None:
    found = held(card=None, gpus=0)

    assert (found.startup, found.graphs) == (NOTHING, NOTHING)
    assert found.activations.likely > 0


def test_on_cpus_the_engines_own_processes_take_host_ram_and_the_vocabulary_lies_there_twice() -> None:
    rules = counting_rules(Engine.VLLM, "0.32.0")
    alone = held(card=None, gpus=0, version="0.32.0").runtime

    assert alone == beside_weights(rules, 1, 0)
    assert mib(alone) == 1000 + 530
    assert mib(beside_weights(rules, 2, 0)) == 1000 + 2 * 530
    # Llama 8B: 128,256 x 4096 x 2 bytes, twice; where no kernel wants another form there is no copy
    twice = overheads(
        shape_of(LLAMA_8B), MemoryAsk(tensor=1, context=8192, gpus=0), None, rules, vocabulary=2004 * MIB
    ).runtime
    assert (mib(twice), twice.low) == (1530 + 2004, alone.low)


@pytest.mark.parametrize(
    ("reserved", "weights", "beside", "cache"), [(8, 2, 1.5, 4.5), (4, 2, 1.75, 0.25), (3, 2, 1.5, 0), (1, 0, 1.5, 0)]
)
def test_the_cache_on_cpus_is_what_is_left(reserved: int, weights: int, beside: float, cache: float) -> None:
    found = cache_bytes(reserved * GIB, weights * GIB, int(beside * GIB))

    assert found == (int(cache * GIB) or LEAST_CACHE)


@pytest.mark.parametrize(
    ("version", "card", "ask", "expected"),
    [
        ("0.19.0", "h100-80gb", {}, Batch(8192, 1024)),
        ("0.19.0", "a100-80gb", {}, Batch(2048, 256)),
        ("0.32.0", "l4", {}, Batch(2048, 256)),
        ("0.32.0", "b200", {}, Batch(16384, 1024)),
        ("0.6.4", "h100-80gb", {"context": 29000}, Batch(29000, 256)),  # prompts were not cut
        ("0.6.4", "h100-80gb", {"context": 35000}, Batch(2048, 256)),  # from here on they were
        ("0.19.0", "h100-80gb", {"batch_tokens": 512}, Batch(512, 512)),
        ("0.19.0", "h100-80gb", {"concurrency": 32}, Batch(8192, 32)),
        ("0.32.0", "l4", {"task": Task.EMBED, "context": 32768}, Batch(32768, 256)),
        ("0.32.0", None, {"gpus": 0}, Batch(2048, 128)),
        ("0.32.0", None, {"gpus": 0, "tensor": 2}, Batch(4096, 256)),  # for each rank
    ],
)
def test_a_step_is_what_the_profile_says_else_the_version_s_own_for_the_card(
    version: str, card: str | None, ask: dict[str, Any], expected: Batch
) -> None:
    asked = MemoryAsk(**({"tensor": 1, "context": 8192, "gpus": 1} | ask))

    assert batch(asked, a_card(card) if card else None, counting_rules(Engine.VLLM, version)) == expected


def test_a_version_outside_the_table_takes_the_nearest_row_and_says_so() -> None:
    assert held(version="0.19.0").doubts == ()
    assert held(version="0.60.0").activations == held(version="0.33.0").activations
    assert held(version="0.60.0").doubts == ("vllm 0.60.0 was not read: overheads are those of 0.16 to before 0.34",)


ROWS: list[dict[str, Any]] = [
    {"engine": "any", "from": "0", "before": "99", "of": "all"},
    {"engine": "vllm", "from": "0.10", "before": "0.20", "of": "older"},
    {"engine": "vllm", "from": "0.20", "before": "0.30", "of": "newer"},
    {"engine": "vllm", "from": "0.20", "before": "0.30", "families": ["moe"], "of": "mixtures"},
    {"engine": "vllm", "from": "0.20", "before": "0.30", "capabilities": ["9.0"], "of": "hopper"},
    {"engine": "vllm", "from": "0.20", "before": "0.30", "classes": ["h200"], "of": "h200"},
    {"engine": "vllm", "from": "0.20", "before": "0.30", "families": ["dense"], "kind": "observed", "of": "seen"},
]


@pytest.mark.parametrize(
    ("engine", "version", "gpu_class", "families", "expected"),
    [
        (Engine.SGLANG, "0.5", "l4", {"dense"}, "all"),
        (Engine.VLLM, "0.15", "l4", {"dense"}, "older"),
        (Engine.VLLM, "0.22", "l4", {"latent"}, "newer"),
        (Engine.VLLM, "0.22", "l4", {"moe"}, "mixtures"),
        (Engine.VLLM, "0.22", "h100-80gb", {"moe"}, "hopper"),
        (Engine.VLLM, "0.22", "h200", {"moe"}, "h200"),
        (Engine.VLLM, "0.22", "h200", {"dense"}, "seen"),  # what agents saw counts before all else
        (Engine.VLLM, "0.22", None, {"latent"}, "newer"),
    ],
)
def test_the_narrowest_row_that_holds_is_taken(
    engine: Engine, version: str, gpu_class: str | None, families: set[str], expected: str
) -> None:
    assert chosen(ROWS, Place(engine, version, gpu_class, frozenset(families)))["of"] == expected


@pytest.mark.parametrize(("version", "expected"), [("0.3", "older"), ("0.31", "newer"), ("0.19.1", "older")])
def test_without_a_row_of_the_version_the_nearest_is_taken(version: str, expected: str) -> None:
    rows = [each for each in ROWS if each["of"] in ("older", "newer")]

    assert chosen(rows, Place(Engine.VLLM, version, "l4", frozenset({"dense"})))["of"] == expected


def test_every_row_says_whence_it_is_and_in_which_order_its_figures_are() -> None:
    for term, rows in table("overheads").items():
        if term in ("about", "batch"):
            continue
        for each in rows:
            assert each["source"], (term, each)
            assert each["kind"] in ("read", "fitted", "estimated", "observed"), (term, each)
            for figures in (value for value in each.values() if isinstance(value, list) and len(value) == 3):
                assert all(isinstance(figure, str) for figure in figures) or figures == sorted(figures), (term, each)
