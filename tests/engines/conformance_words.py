"""What every engine module must hold of the words that it launches with; the rest is in `conformance`.

A word that a launch sets is one that the program knows, and `args` may not set it again, unless `SET_AGAIN` says why.
None of it is left where a model is moved to another count, other nodes or another engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reconciler.domain.flag_tables import flag_table
from reconciler.domain.model_spec import Engine
from reconciler.engines.base import Launch, Vendor
from reconciler.engines.caches import kernel_caches
from reconciler.engines.fields import VENDORS, not_taken
from reconciler.engines.registry import launchable, support
from tests.engines.conformance import (
    ADAPTERS,
    OVER_NODES,
    OWN,
    TASKS,
    VISIBLE,
    a_declaration,
    a_site,
    launches,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reconciler.domain.declaration import Declaration
    from reconciler.domain.flags import FlagTable
    from reconciler.engines.base import EngineSupport

_WIDTH = "sizing reads it: in args it decides on the width of the slots instead of the adapters' own files"
_BESIDE = "which memory lies beside a GPU: a profile may know better than the node"
SET_AGAIN: Mapping[Engine, Mapping[str, str]] = {
    Engine.VLLM: {
        "--max-lora-rank": _WIDTH,
        "--max-cpu-loras": "room in host RAM for adapters that are loaded later; in args it widens what is counted",
        "--kv-cache-memory-bytes": "sizing reads it; written only on CPUs, where it follows from memory_gib",
        "--numa-bind": _BESIDE,
        "--numa-bind-nodes": _BESIDE,
    },
    Engine.SGLANG: {"--max-lora-rank": _WIDTH, "--numa-node": _BESIDE},
    Engine.LLAMACPP: {
        "--flash-attn": "sizing reads it; written only beside a quantized cache, which wants it on",
        "--batch-size": "sizing widens its estimate for it; written only where a whole input is one batch",
        "--ubatch-size": "sizing reads it; written only where a whole input is one batch",
        "--numa": _BESIDE,
        "--no-webui": "a page for people, which decides nothing",
        "--offline": "a switch that can only be given once more",
    },
}
"""Flags that a launch sets and `args` may set again, and why: all others that it sets are managed."""

FURTHER: Mapping[str, Any] = {"memory_share": 0.5, "dtype": "float16", "max_concurrency": 8, "context": 8192}
CACHES = {Engine.VLLM: "fp8", Engine.SGLANG: "fp8_e5m2", Engine.TRTLLM: "fp8", Engine.LLAMACPP: "q8_0"}
"""A type of each engine for its KV cache."""

PREFIXES = {
    Engine.VLLM: "VLLM_",
    Engine.SGLANG: "SGLANG_",
    Engine.TRTLLM: "TRTLLM_",
    Engine.LLAMACPP: "LLAMA_",
    Engine.COMFYUI: "COMFY",
}
"""How each engine's own variables begin."""


def every_launch(engine: EngineSupport) -> Iterator[Launch]:
    """Of every kind, and once with everything that a profile and a node may say."""
    for _, _, launch in launches(engine):
        yield launch
    for declaration in whole(engine.kind):
        rest = {} if declaration.mmproj is None else {"mmproj_path": "/weights/mmproj"}
        numa = {"numa_nodes": tuple(0 for _ in range(declaration.gpus))}
        for site in (a_site(declaration, directory=OWN, **rest), a_site(declaration, **numa, **rest)):
            yield engine.launch(declaration, site)


def whole(kind: Engine) -> Iterator[Declaration]:
    """Declarations with every field that the engine takes."""
    fields = {name: value for name, value in FURTHER.items() if not_taken(kind, name) is None}
    if kind in CACHES:
        fields["kv_cache_dtype"] = CACHES[kind]
    if not_taken(kind, "mmproj") is None:
        fields["mmproj"] = "file:/weights/mmproj"
    counts = (1,) if kind is Engine.COMFYUI else (1, 4)
    for count in counts:
        cut = {"expert_parallel": True} if not_taken(kind, "expert_parallel") is None and count > 1 else {}
        loaded = {} if kind is Engine.COMFYUI else {"adapters": ADAPTERS}
        yield a_declaration(kind, gpus=count, **fields, **cut, **loaded)


def what_a_launch_sets_is_known(engine: EngineSupport, table: FlagTable | None = None) -> None:
    table = table or flag_table(engine.kind)
    assert table.known
    unknown = {word for launch in every_launch(engine) for word in flags(launch)} - set(table.by_spelling)
    assert not unknown, f"{table.engine} {table.version} has none of {unknown}"


def what_a_launch_sets_is_refused_in_args(
    engine: EngineSupport, table: FlagTable | None = None, again: Mapping[str, str] | None = None
) -> None:
    table = table or flag_table(engine.kind)
    again = SET_AGAIN.get(engine.kind, {}) if again is None else again
    for word in sorted({word for launch in every_launch(engine) for word in flags(launch)}):
        flag = table.by_spelling[word]
        assert flag.managed or word in again, f"{word}: args may set it again, and nothing says why it may"
        assert not (flag.managed and word in again), f"{word} is refused in args: it needs no reason"
    for word, why in again.items():
        assert len(why.split()) > 3, word


def it_is_launched_on_gpus_of_its_makers_only_by_their_variable(engine: EngineSupport) -> None:
    """Whose GPUs it has no kernels for the gate refuses (`engines/fields.py`)."""
    by_vendor = {
        Vendor.NVIDIA: ("CUDA_VISIBLE_DEVICES", "GPU-3,GPU-4"),
        Vendor.AMD: ("ROCR_VISIBLE_DEVICES", "GPU-3,GPU-4"),
        Vendor.INTEL: ("HABANA_VISIBLE_MODULES", "3,4"),
    }
    assert VENDORS[engine.kind]
    for vendor in VENDORS[engine.kind]:
        declaration = a_declaration(engine.kind, gpus=2)
        launch = engine.launch(declaration, a_site(declaration, vendor=vendor))
        assert {name: value for name, value in launch.env.items() if name in VISIBLE} == dict([by_vendor[vendor]])


def moved_to_another_engine_count_or_nodes_nothing_of_its_words_is_left(engine: EngineSupport) -> None:
    """One declaration through all engines and counts and back: each launch is that of a model that was always there."""
    shared = kernel_caches(a_site(a_declaration(engine.kind))).keys()
    for first in whole(engine.kind):
        before = engine.launch(first, a_site(first, directory=OWN, mmproj_path="/weights/mmproj"))
        for kind in launchable():
            other = support(kind)
            assert other is not None
            table = flag_table(kind)
            for count, nodes in ((1, 1), (2, 1), (4, 1), (8, 1), (8, 2)):
                if (kind is Engine.COMFYUI and count > 1) or (nodes > 1 and kind not in OVER_NODES):
                    continue
                moved = moved_to(first, kind, count, nodes)
                after = launched(other, moved)
                strange = {word for word in flags(before) if word not in table.by_spelling}
                assert not strange & set(after.arguments), f"words of {engine.kind} under {kind}"
                assert set(flags(after)) <= set(table.by_spelling)
                foreign = tuple(prefix for each, prefix in PREFIXES.items() if each is not kind)
                left = {name for name in after.env if name.startswith(foreign)} - shared
                assert not left, f"of {engine.kind} under {kind}: {left}"
                fresh = a_declaration(kind, **moved.model_dump(exclude_unset=True, exclude={"engine"}))
                assert launched(other, fresh) == after, "it keeps nothing of where it was"
                if kind is engine.kind:
                    back = moved_to(moved, engine.kind, first.gpus, first.nodes)
                    assert (
                        launched(engine, back).arguments
                        == launched(engine, moved_to(first, kind, first.gpus)).arguments
                    )


def moved_to(declaration: Declaration, kind: Engine, gpus: int, nodes: int = 1) -> Declaration:
    """The same model on another engine, as a person would move it: what that one refuses is taken out."""
    written = declaration.model_dump(exclude_unset=True, by_alias=True)
    kept = {name: value for name, value in written.items() if not_taken(kind, name) is None}
    kept.pop("kv_cache_dtype", None)  # in each engine's own words
    if kind is Engine.COMFYUI or kind is Engine.TRTLLM:
        kept.pop("adapters", None)  # refs/adapter-architecture
    task = declaration.task if declaration.task in TASKS[kind] else TASKS[kind][0]
    return a_declaration(kind, **kept | {"engine": kind, "gpus": gpus, "nodes": nodes, "task": task})


def launched(engine: EngineSupport, declaration: Declaration) -> Launch:
    """On the first node of a replica."""
    addresses = ("10.0.0.1", "10.0.0.2")[: declaration.nodes] if declaration.nodes > 1 else ()
    return engine.launch(declaration, a_site(declaration, directory=OWN, addresses=addresses))


def flags(launch: Launch) -> tuple[str, ...]:
    """The words that are flags."""
    return tuple(word for word in launch.arguments if word.startswith("--"))


CHECKS = (
    what_a_launch_sets_is_known,
    what_a_launch_sets_is_refused_in_args,
    it_is_launched_on_gpus_of_its_makers_only_by_their_variable,
    moved_to_another_engine_count_or_nodes_nothing_of_its_words_is_left,
)
