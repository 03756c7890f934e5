"""Engines run beside the memory of their GPUs where a node knows it: told to, by themselves, or through numactl."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from reconciler.domain.model_spec import Engine
from reconciler.engines.registry import support
from tests.engines.conformance import ON_CPUS, a_declaration, a_site

if TYPE_CHECKING:
    from reconciler.engines.base import Launch

ON_ONE = ("numactl", "--cpunodebind=1", "--preferred=1")


def launch(kind: Engine, numa_nodes: tuple[int, ...], **fields: Any) -> Launch:
    engine, declaration = support(kind), a_declaration(kind, **fields)
    assert engine is not None
    return engine.launch(declaration, a_site(declaration, numa_nodes=numa_nodes))


@pytest.mark.parametrize(
    ("kind", "fields"),
    [(Engine.LLAMACPP, {"gpus": 2}), (Engine.COMFYUI, {}), (Engine.VLLM, {"gpus": 2, "version": "0.31.2"})],
)
def test_numactl_starts_what_does_not_bind_itself(kind: Engine, fields: dict[str, Any]) -> None:
    count = fields.get("gpus", 1)
    found, free = launch(kind, (1,) * count, **fields), launch(kind, (), **fields)
    assert (found.launcher, free.launcher) == (ON_ONE, ())
    assert (found.arguments, found.env, found.url) == (free.arguments, free.env, free.url)


@pytest.mark.parametrize("kind", [Engine.LLAMACPP, Engine.VLLM])
def test_one_process_over_gpus_of_two_nodes_is_bound_to_neither(kind: Engine) -> None:
    assert launch(kind, (0, 1), gpus=2, version="0.17.0").launcher == ()


def test_a_node_that_is_known_of_some_gpus_only_is_not_known() -> None:
    assert launch(Engine.LLAMACPP, (1,), gpus=2).launcher == ()


def test_vllm_and_sglang_are_told_the_node_of_each_gpu() -> None:
    for kind, flag in ((Engine.VLLM, "--numa-bind-nodes"), (Engine.SGLANG, "--numa-node")):
        words = launch(kind, (1, 0), gpus=2).arguments
        assert words[words.index(flag) + 1 : words.index(flag) + 3] == ("1", "0")
        assert launch(kind, (1, 1), gpus=2).launcher == ()


def test_ranks_of_trtllm_bind_themselves_and_would_take_back_what_numactl_did() -> None:
    assert launch(Engine.TRTLLM, (0, 1), gpus=2).env["TLLM_NUMA_AWARE_WORKER_AFFINITY"] == "1"
    assert launch(Engine.TRTLLM, (1, 1), gpus=2).launcher == ()
    assert "TLLM_NUMA_AWARE_WORKER_AFFINITY" not in launch(Engine.TRTLLM, (), gpus=2).env


@pytest.mark.parametrize("kind", sorted(ON_CPUS))
def test_nothing_is_bound_on_cpus(kind: Engine) -> None:
    assert launch(kind, (), gpu_class=None).launcher == ()
