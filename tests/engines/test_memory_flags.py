"""What a profile asks of memory: YAML fields, and flags by the words that sizing has for them."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.domain.lock import LockedSource, WeightFormat
from reconciler.domain.model_spec import Engine, ModelSpec, Profile, Task
from reconciler.engines.flags import flag_table, read_args
from reconciler.engines.memory_flags import memory_ask, stored
from reconciler.engines.registry import support
from reconciler.sizing.memory_ask import LoraAsk, MemoryAsk, Stored
from tests.engines import conformance

GIB = 2**30


def asked(
    engine: str = "vllm",
    *args: str,
    gpus: int = 1,
    adapters: tuple[LockedSource | None, ...] = (),
    model: dict[str, Any] | None = None,
    **profile: Any,
) -> MemoryAsk:
    on = {} if "memory_gib" in profile and gpus == 0 else {"gpu_class": "h100-80gb"}
    fields = {"name": "p", "engine": engine, "args": args} | on | profile
    spec = Profile.model_validate(fields)
    described = {"name": "m", "source": "file:/weights", "context": 4096, "profiles": [spec]} | (model or {})
    read = read_args(flag_table(Engine(engine)), args)
    return memory_ask(ModelSpec.model_validate(described), spec, read, gpus=gpus, adapters=adapters)


def adapter(rank: int | None, weight_bytes: int) -> LockedSource:
    config = None if rank is None else {"r": rank}
    return LockedSource(
        source="file:/a", revision="1", format=WeightFormat.PEFT, weight_bytes=weight_bytes, adapter_config=config
    )


def test_yaml_fields_come_over_as_they_are() -> None:
    found = asked(
        gpus=4, nodes=2, pipeline_parallel=2, expert_parallel=True, memory_share=0.8, kv_cache_dtype="fp8",
        dtype="float32", quantization="fp8", max_concurrency=64, memory_gib=32.0, cpu_cores=8, model={"task": "embed"},
    )  # fmt: skip

    assert found == MemoryAsk(
        tensor=4, context=4096, gpus=8, pipeline=2, expert_parallel=True, share=0.8, kv_cache_dtype="fp8",
        dtype="float32", quantization="fp8", concurrency=64, host_bytes=32 * GIB, threads=8, task=Task.EMBED,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("engine", "gpus", "fields", "tensor", "ranks", "data"),
    [
        ("vllm", 8, {"data_parallel": 4}, 2, 8, 4),
        ("sglang", 8, {"data_parallel": 4}, 2, 2, 1),  # its ranks are engines of their own
        ("llamacpp", 4, {}, 1, 4, 1),  # layers are spread, matrices whole
        ("vllm", 0, {"memory_gib": 8.0, "nodes": 2}, 2, 0, 1),  # on CPUs a node is one rank
        ("vllm", 0, {"memory_gib": 8.0, "nodes": 2, "data_parallel": 2}, 1, 0, 2),
        ("trtllm", 8, {"pipeline_parallel": 2}, 4, 8, 1),
        ("vllm", 6, {"pipeline_parallel": 4}, 1, 6, 1),  # does not divide: refused elsewhere
        ("vllm", 0, {"memory_gib": 8.0}, 1, 0, 1),
    ],
)
def test_ranks_that_share_a_matrix_follow_from_gpus_stages_and_data_ranks(
    engine: str, gpus: int, fields: dict[str, Any], tensor: int, ranks: int, data: int
) -> None:
    found = asked(engine, gpus=gpus, **fields)

    assert (found.tensor, found.gpus, found.data) == (tensor, ranks, data)


@pytest.mark.parametrize(
    ("engine", "args", "expected"),
    [
        ("vllm", ("--max-num-batched-tokens", "4k"), {"batch_tokens": 4000}),
        ("vllm", ("--max-num-batched-tokens=4K",), {"batch_tokens": 4096}),
        ("vllm", ("--enforce-eager",), {"eager": True}),
        ("vllm", ("--enforce-eager", "--no-enforce-eager"), {"eager": False}),
        ("vllm", ("--block-size", "32"), {"block_tokens": 32}),
        ("vllm", ("--kv-cache-memory-bytes", "10G"), {"kv_cache_bytes": 10 * GIB}),
        ("vllm", ("--cpu-offload-gb", "1.5"), {"offload_bytes": int(1.5 * GIB)}),
        ("vllm", ("--mm-encoder-tp-mode", "data"), {"towers_whole": True}),
        ("vllm", ("--mm-encoder-tp-mode", "weights"), {"towers_whole": False}),
        ("vllm", ("-dcp", "2"), {"decode_context": 2}),
        ("vllm", ("--disable-hybrid-kv-cache-manager",), {"full_windows": True}),
        ("sglang", ("--chunked-prefill-size", "4096"), {"batch_tokens": 4096}),
        ("sglang", ("--chunked-prefill-size", "-1"), {"batch_tokens": None}),
        ("sglang", ("--disable-cuda-graph",), {"eager": True}),
        ("sglang", ("--page-size", "64"), {"block_tokens": 64}),
        ("sglang", ("--dcp-size", "2"), {"decode_context": 2}),
        ("sglang", ("--mm-enable-dp-encoder",), {"towers_whole": True}),
        ("sglang", ("--disable-hybrid-swa-memory",), {"full_windows": True}),
        ("trtllm", ("--max_num_tokens", "4096"), {"batch_tokens": 4096}),
        ("llamacpp", ("--ubatch-size", "1024"), {"batch_tokens": 1024}),
        ("llamacpp", ("--swa-full",), {"full_windows": True}),
        ("llamacpp", ("-fa", "off"), {"flash_attention": False}),
        ("llamacpp", ("-fa", "auto"), {"flash_attention": True}),
    ],
)
def test_flags_that_sizing_reads(engine: str, args: tuple[str, ...], expected: dict[str, Any]) -> None:
    found = asked(engine, *args)

    assert {name: getattr(found, name) for name in expected} == expected
    assert found.unsized == ()


def test_other_memory_flags_are_named_once_as_they_were_written() -> None:
    found = asked("vllm", "--kv-offloading-size", "8", "--kv_offloading_size", "9", "--kv-offloading-size", "7")

    assert found.unsized == ("--kv-offloading-size", "--kv_offloading_size")


@pytest.mark.parametrize(
    ("args", "adapters", "slots"),
    [
        ((), (adapter(8, 100), adapter(64, 200)), LoraAsk(2, 64, 300)),
        ((), (adapter(20, 100), None), LoraAsk(2, 32, 100)),  # the next width there is
        ((), (adapter(None, 100), None), LoraAsk(2, 16, 100)),
        (("--max-lora-rank", "128"), (adapter(8, 100), adapter(8, 100)), LoraAsk(2, 128, 200)),
    ],
)
def test_adapters_have_slots_as_wide_as_the_flag_or_the_widest_of_them(
    args: tuple[str, ...], adapters: tuple[LockedSource | None, ...], slots: LoraAsk
) -> None:
    served = [{"name": name, "source": f"file:/{name}"} for name in ("one", "two")]

    assert asked("vllm", *args, adapters=adapters, model={"adapters": served}).lora == slots


@pytest.mark.parametrize(("engine", "flag"), [("vllm", "--max-loras"), ("sglang", "--max-loras-per-batch")])
def test_sizing_counts_as_many_slots_as_the_launch_asks_for(engine: str, flag: str) -> None:
    served = [{"name": name, "source": f"file:/{name}"} for name in ("a", "b", "c")]
    counted = asked(engine, model={"adapters": served}, adapters=(None, None, None)).lora
    declaration = conformance.a_declaration(Engine(engine), adapters=served)
    module = support(Engine(engine))
    assert module is not None
    words = module.launch(declaration, conformance.a_site(declaration)).arguments
    assert counted is not None
    assert counted.slots == int(words[words.index(flag) + 1])
    assert counted.slots == (4 if engine == "sglang" else 3), "SGLang's requests without an adapter hold one"


def test_without_adapters_there_are_no_slots() -> None:
    assert asked("vllm", "--max-lora-rank", "64").lora is None


def test_weights_are_those_of_the_lock() -> None:
    locked = LockedSource(source="file:/w", revision="1", format=WeightFormat.GGUF, weight_bytes=7)

    assert stored(locked) == Stored(7, None, WeightFormat.GGUF)
    assert stored(None) == Stored()
