"""The gate as a whole: order, severities, what would pass, and what it says of half an inventory."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.domain.desired import Node, Where
from reconciler.domain.finding import Finding, Severity, sort_key
from reconciler.gate.capacity import GPU_COUNTS
from reconciler.gate.check import check, report
from tests.gate.fleet import a_fleet, a_model, a_node, found
from tests.gate.vocabulary import banned_words

classes = st.sampled_from(["h100-80gb", "l40s", "h200", "H100", "h100-80gb/1g.10gb", None])
profiles = st.fixed_dictionaries(
    {"gpu_class": classes, "engine": st.sampled_from(["vllm", "sglang", "comfyui", "llamacpp"])},
    optional={
        "gpus": st.integers(min_value=-1, max_value=70),
        "nodes": st.integers(min_value=1, max_value=4),
        "pipeline_parallel": st.integers(min_value=1, max_value=3),
        "data_parallel": st.integers(min_value=1, max_value=2),
        "expert_parallel": st.booleans(),
        "memory_gib": st.sampled_from([1.0, 64.0, 4096.0]),
        "cpu_cores": st.sampled_from([1, 64, 4096]),
        "select": st.dictionaries(
            st.sampled_from(["node", "rack"]), st.sampled_from(["gpu-00", "r1", "x"]), max_size=2
        ),
    },
)
shapes = st.sampled_from(["plain", "llama-70b", "qwen-3-30b-a3b", "deepseek-v3", "nemotron-h-8b"])
nodes = st.lists(
    st.tuples(
        st.sampled_from(["h100-80gb", "l40s", None]),
        st.integers(min_value=-1, max_value=70),
        st.booleans(),
        st.sampled_from([None, 64.0, 1024.0]),
        st.sampled_from([{}, {"rack": "r1"}]),
    ),
    max_size=4,
).map(
    lambda rows: [
        a_node(f"gpu-{number:02}", gpu_class, count, drain=drain, memory_gib=memory_gib, labels=labels)
        for number, (gpu_class, count, drain, memory_gib, labels) in enumerate(rows)
    ]
)


@given(st.lists(profiles, min_size=1, max_size=3), nodes, shapes)
def test_findings_are_sorted_told_once_and_speak_the_projects_words(
    written: list[dict[str, Any]], fleet: list[Node], shape: str
) -> None:
    findings = found([a_model("llama", *written)], fleet, shape)

    assert list(findings) == sorted(findings, key=sort_key)
    assert len(set(findings)) == len(findings)
    for each in findings:
        assert not banned_words(f"{each.message} {each.hint or ''}")
        assert not each.message.endswith(".")
        assert each.model in ("llama", None)


@settings(deadline=None, max_examples=60)  # one example asks all rules 64 times
@given(profiles, nodes, shapes)
def test_a_count_that_is_said_to_pass_passes_and_no_other_does(
    written: dict[str, Any], fleet: list[Node], shape: str
) -> None:
    """`valid` is neither a promise that is broken nor a list with gaps."""
    told = {each.valid for each in found([a_model("llama", written)], fleet, shape)} - {None}
    assert len(told) <= 1, "one profile, one answer"
    if not told:
        return

    valid = told.pop() or ()
    for count in GPU_COUNTS:
        again = found([a_model("llama", {**written, "gpus": count})], fleet, shape)
        refused = {each.rule for each in again if each.severity is Severity.ERROR and each.model}
        assert (count in valid) == (not refused), f"{count}: {refused}"


def test_a_gpu_count_of_one_is_meant_where_none_is_written() -> None:
    assert found([a_model("llama", {})], [a_node("gpu-01", count=2)]) == ()


def test_lines_come_from_the_loader() -> None:
    desired = a_fleet([a_model("llama", {"gpus": 10})], [a_node("gpu-01")])
    asked = []

    def locate(where: Where) -> tuple[int, int]:
        asked.append(where)
        return (8, 11)

    (finding,) = check(desired, frozenset(), locate)

    assert (finding.file, finding.line, finding.column) == ("models/llama.yaml", 8, 11)
    assert asked == [Where("models/llama.yaml", ("profiles", 0, "gpus"))]


def test_half_an_inventory_refuses_nothing() -> None:
    desired = a_fleet([a_model("llama", {"gpus": 8}, {"gpus": 99}, {"gpu_class": None})])
    broken = Finding(rule="yaml/syntax", severity=Severity.ERROR, message="x", file="cluster/nodes/h100.yaml")

    whole = check(desired, frozenset(), lambda _: (None, None))
    half = check(desired, frozenset(), lambda _: (None, None), [broken])

    assert {each.rule for each in whole} == {
        "inventory/node-too-small",
        "inventory/gpus-range",
        "inventory/cpu-profile",
    }
    assert {(each.rule, each.valid) for each in half} == {
        ("inventory/gpus-range", None),
        ("inventory/cpu-profile", None),
    }


def test_a_broken_model_leaves_the_inventory_whole() -> None:
    desired = a_fleet([a_model("llama", {"gpus": 8})])
    broken = Finding(rule="yaml/syntax", severity=Severity.ERROR, message="x", file="cluster/models/nodes.yaml")

    assert check(desired, frozenset(), lambda _: (None, None), [broken])


def test_the_report_counts_and_sorts_and_says_whether_it_passes() -> None:
    desired = a_fleet([a_model("llama", {})], [a_node("gpu-01"), a_node("gpu-02")])
    late = Finding(rule="refs/x", severity=Severity.WARNING, message="w", file="z.yaml", line=1, column=1)
    early = Finding(rule="refs/x", severity=Severity.NOTE, message="n", file="a.yaml", line=1, column=1)

    passing = report([late, early], desired, 0.12345)
    failing = report([late.model_copy(update={"severity": Severity.ERROR})], desired, 0.1, broken={"qwen"})

    assert passing.ok
    assert passing.findings == (early, late)
    assert not failing.ok
    assert json.loads(passing.summary.model_dump_json()) == {
        "errors": 0,
        "warnings": 1,
        "notes": 1,
        "models": 1,
        "nodes": 2,
        "seconds": 0.123,
    }
    assert (failing.summary.errors, failing.summary.models) == (1, 2)
