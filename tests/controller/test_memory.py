"""What is remembered from tree to tree changes no answer: each is what a process that remembers nothing says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.controller.aim import check_tree
from reconciler.controller.memory import Memory
from tests.gate.locks import lock_text
from tests.gate.tree import tree

if TYPE_CHECKING:
    from reconciler.domain.finding import GateReport

COMMIT = "0e9e39f249a16976918f6564b8830bc894c89659"
NAMES = ("chat", "code", "embed")

nodes = st.sampled_from(["[gpu-01]", "[gpu-01, gpu-02]", "[gpu-01, {name: gpu-02, drain: true}]"])
model = st.fixed_dictionaries(
    {
        "gpus": st.sampled_from([1, 2, 3, 4, 8]),
        "least": st.integers(0, 3),
        "strategy": st.sampled_from(["surge", "surge_or_in_place", "in_place"]),
        "priority": st.sampled_from(["critical", "standard", "opportunistic"]),
        "suspend": st.booleans(),
        "context": st.sampled_from([4096, 8192]),
        "lines": st.integers(0, 1),
    }
)
trees = st.tuples(nodes, st.dictionaries(st.sampled_from(NAMES), model, min_size=1))


def files(written: tuple[str, dict[str, dict[str, Any]]]) -> dict[str, str]:
    """A small fleet; 3 GPUs are refused, with the counts that pass beside the others."""
    listed, models = written
    texts = {
        "cluster.yaml": 'name: prod\ndefaults: {engine_versions: {vllm: "0.32.0"}}\n',
        "nodes/h100.yaml": f"pool: h100\ngpus: {{class: h100-80gb, count: 8}}\nnodes: {listed}\n",
    }
    for name, each in models.items():
        blank = "\n" * each["lines"]
        texts[f"models/{name}.yaml"] = (
            f"name: {name}\n{blank}source: hf:org/{name}@{COMMIT}\ncontext: {each['context']}\n"
            f"class: {each['priority']}\nsuspend: {str(each['suspend']).lower()}\n"
            f"scaling: {{min: {each['least']}, max: {max(1, each['least'])}}}\n"
            f"rollout: {{strategy: {each['strategy']}}}\n"
            f"profiles: [{{name: p, engine: vllm, gpu_class: h100-80gb, gpus: {each['gpus']}}}]\n"
        )
        texts[f"locks/{name}.json"] = lock_text({"shape": "llama-8b", "revision": COMMIT}, texts[f"models/{name}.yaml"])
    return texts


def answer(report: GateReport) -> GateReport:
    """Without how long it took."""
    return report.model_copy(update={"summary": report.summary.model_copy(update={"seconds": 0.0})})


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(trees, st.none() | trees), min_size=2, max_size=4))
def test_a_tree_is_judged_alike_whatever_was_judged_before(
    asked: list[tuple[tuple[str, dict[str, Any]], tuple[str, dict[str, Any]] | None]],
) -> None:
    """Also where some trees are compared with a base, and where a model goes back to what it was."""
    memory = Memory()
    for written, base in [*asked, *asked[::-1]]:
        against = None if base is None else tree(files(base))
        remembered = check_tree(tree(files(written)), against, memory)

        assert answer(remembered.report) == answer(check_tree(tree(files(written)), against).report)
