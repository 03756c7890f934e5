"""Memory in the gate: what is shown as a way out is one, one cause is told once, and more GPUs never need more."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from reconciler.domain.finding import Finding, Severity
from reconciler.domain.fleet_spec import GpuClass
from reconciler.domain.tables import gpu_classes
from reconciler.gate.card import card
from reconciler.gate.check import RULES
from reconciler.gate.subject import context_of
from reconciler.sizing.memory_ask import Card
from reconciler.sizing.sized import MemoryReason
from tests.gate.fleet import a_fleet, a_model, a_node, found

ABOUT_ROOM = {"memory/weights", "memory/request", "memory/tight", "memory/pool", "context/slots"}
NODES = [
    a_node("gpu-01", "h100-80gb", 8, memory_gib=512.0, cpu_cores=64),
    a_node("gpu-02", "l4", 4, memory_gib=128.0, cpu_cores=32),
    a_node("gpu-03", "h200", 8, memory_gib=512.0, cpu_cores=64),
    a_node("gpu-04", "a100-40gb", 8, memory_gib=512.0, cpu_cores=64),
]

engines = st.sampled_from(["vllm", "sglang", "trtllm"])
shapes = st.sampled_from(
    ["llama-8b", "llama-2-13b", "llama-70b", "qwen-3-30b-a3b", "deepseek-v2-lite", "gpt-oss-20b", "nemotron-h-8b"]
)
on_gpus = st.fixed_dictionaries(
    {
        "engine": engines,
        "gpu_class": st.sampled_from(["l4", "a100-40gb", "h100-80gb"]),
        "gpus": st.sampled_from([1, 2, 4]),
    },
    optional={
        "memory_share": st.sampled_from([0.2, 0.5, 0.8, 0.97, 0.99]),
        "max_concurrency": st.sampled_from([1, 8, 64, 512]),
    },
)
llamacpp = st.one_of(
    st.fixed_dictionaries(
        {"engine": st.just("llamacpp"), "gpu_class": st.sampled_from(["l4", "a100-40gb"])},
        optional={"gpus": st.sampled_from([1, 2, 3]), "max_concurrency": st.sampled_from([1, 4, 32])},
    ),
    st.fixed_dictionaries(
        {
            "engine": st.just("llamacpp"),
            "gpu_class": st.none(),
            "memory_gib": st.sampled_from([1.0, 16.0, 20.0, 32.0]),
            "cpu_cores": st.just(8),
        },
        optional={"max_concurrency": st.sampled_from([1, 4, 32])},
    ),
)
contexts = st.sampled_from([512, 2048, 4096, 8192])


def judged(written: dict[str, Any], context: int, shape: str) -> tuple[Finding, ...]:
    return found([a_model("llama", written, context=context)], NODES, shape)


def errors(findings: tuple[Finding, ...]) -> set[str]:
    """Rules that refuse it, apart from those on its lock, which no change here has to do with."""
    return {each.rule for each in findings if each.severity is Severity.ERROR and not each.rule.startswith("lock/")}


def proposals(hint: str) -> list[dict[str, Any]]:
    """The changes that a hint names, each as fields."""
    written = (each.removesuffix(" (tight)").replace(" with ", "\n") for each in hint.split("; or "))
    return [YAML(typ="safe").load(text) for text in written]


def check_proposals(written: dict[str, Any], context: int, shape: str) -> None:
    for finding in judged(written, context, shape):
        if finding.rule not in ABOUT_ROOM | {"memory/host-ram", "memory/startup-slack"} or finding.hint is None:
            continue
        for fields in proposals(finding.hint):
            length = fields.pop("context", context)
            again = judged({**written, **fields}, length, shape)
            assert not errors(again), f"{finding.rule} names {fields or length}, which is refused"
            told = {each.rule for each in again if each.severity is not Severity.NOTE}
            assert finding.rule not in told, f"{fields or length} does not mend {finding.rule}"


@settings(deadline=None, max_examples=40)
@given(on_gpus, contexts, shapes)
def test_every_change_that_is_shown_passes_when_it_is_made(written: dict[str, Any], context: int, shape: str) -> None:
    check_proposals(written, context, shape)


@settings(deadline=None, max_examples=25)
@given(llamacpp, st.sampled_from([512, 4096, 32768, 131072]))
def test_so_does_every_change_for_llama_cpp(written: dict[str, Any], context: int) -> None:
    check_proposals(written, context, "llama-8b-gguf")


@settings(deadline=None, max_examples=60)
@given(on_gpus | llamacpp, contexts, shapes)
def test_one_cause_is_told_once(written: dict[str, Any], context: int, shape: str) -> None:
    shape = "llama-8b-gguf" if written["engine"] == "llamacpp" else shape
    told = [each.rule for each in judged(written, context, shape) if each.rule.startswith(("memory/", "context/slots"))]

    assert len(told) == len(set(told))
    assert len(set(told) & ABOUT_ROOM) <= 1


@settings(deadline=None, max_examples=60)
@given(on_gpus, contexts, shapes)
def test_twice_the_gpus_never_hold_less(written: dict[str, Any], context: int, shape: str) -> None:
    """Where twice as many split. What lies beside the share grows with the width, and is another rule's matter."""
    once = judged(written, context, shape)
    twice = judged({**written, "gpus": written["gpus"] * 2}, context, shape)
    assume(not any(rule.startswith(("heads/", "inventory/")) for rule in errors(once) | errors(twice)))

    if not errors(once) & ABOUT_ROOM:
        assert not errors(twice) & ABOUT_ROOM


def test_a_profile_may_be_asked_about_with_other_values_than_its_file_has() -> None:
    context = context_of(a_fleet([a_model("llama", {"gpus": 2}, context=4096)], NODES, "llama-8b"), frozenset())
    (use,) = context.uses
    sized = context.knowledge.sized

    assert sized(use.changed(gpus=1)).per_gpu != sized(use).per_gpu
    assert sized(use.changed(context=8192)).per_gpu != sized(use).per_gpu
    assert sized(use.changed(gpu_class="h200")).per_gpu != sized(use).per_gpu
    assert sized(use.changed(memory_share=0.5)).per_gpu != sized(use).per_gpu
    assert sized(use.changed(kv_cache_dtype="fp8")).kv_bytes_per_token != sized(use).kv_bytes_per_token
    assert sized(use.changed(gpus=2)) is sized(use)


def test_models_that_are_alike_are_sized_once() -> None:
    models = [a_model(name, {"gpus": 2}, context=4096) for name in ("first", "second")]
    context = context_of(a_fleet(models, NODES, "llama-8b"), frozenset())
    first, second = context.uses

    assert context.knowledge.sized(first) is context.knowledge.sized(second)


@pytest.mark.parametrize(
    ("gpu_class", "gib"),
    [  # as `nvidia-smi mig -lgip` lists them, where one was found
        ("h100-80gb/1g.10gb", 9.75),
        ("h100-80gb/1g.10gb+me", 9.75),
        ("h100-80gb/2g.20gb", 19.62),
        ("h100-80gb/3g.40gb", 39.50),
        ("h100-80gb/7g.80gb", 79.25),
        ("a100-40gb/1g.5gb", 4.75),
        ("a100-80gb/1g.10gb", 9.5),
    ],
)
def test_a_slice_has_its_part_of_the_card_and_never_looks_smaller_than_it_is(gpu_class: str, gib: float) -> None:
    found_card = card(gpu_classes(), gpu_class)

    assert found_card is not None
    assert -0.01 <= found_card.engine_bytes / 2**30 - gib <= 0.35


def test_a_class_of_the_fleets_own_wins_and_an_unknown_one_has_no_memory() -> None:
    own = {**gpu_classes(), "h100-80gb/1g.10gb": GpuClass(memory_mib=100, engine_mib=90)}

    assert card(own, "h100-80gb/1g.10gb") == Card("h100-80gb/1g.10gb", 100 * 2**20, 90 * 2**20)
    assert card(own, "h100") is None
    assert card(own, "h100/1g.10gb") is None
    assert card(own, "h100-80gb/1g.1gb") is None


def test_every_reason_that_sizing_gives_of_memory_is_a_rule() -> None:
    assert {reason.value for reason in MemoryReason} <= set(RULES)
