"""What was read before is not read again, says the same, and what may be secret is never written down."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.desired import Where
from reconciler.domain.model_spec import ModelSpec
from reconciler.sources.loader import load
from reconciler.sources.readings import Readings
from reconciler.sources.recent import Recent
from tests.sources.trees import FLEET, MODEL, POOL, a_tree

if TYPE_CHECKING:
    from reconciler.sources.loaded import Loaded
    from reconciler.sources.tree import Tree

ENV = "    env: {TOKEN: hunter2}\n"
LOCK = '{"sources": []}'


def again(tree: Tree) -> Loaded:
    """The tree as a later process loads it, with what the first wrote down."""
    first = Readings()
    load(tree, first)
    return load(tree, Readings(json.loads(json.dumps(first.plain_values()))))


def trees() -> st.SearchStrategy[Tree]:
    """Trees of files that are right, wrong, broken and masked, in every mixture."""
    models = [
        MODEL,
        MODEL + ENV,
        MODEL + "    gpus: yes\n",
        MODEL + "    gpus: 4\n    args: [--seed, '7']\n    memory_gib: 1.5\n",
        MODEL.replace("context", "contxt"),
        MODEL.replace("hf:org/llama@6f6073b423013f6a7d4d9f39144961bfbfbc386b", "https://me:hunter2@example.com/llama"),
        "name: [",
        "",
    ]
    pools = [POOL, POOL.replace("count: 8", "count: 8, mig: 1g.10gb"), POOL.replace("[01-03]", "[03-01]")]
    return st.builds(
        lambda model, other, pool, fleet: a_tree(
            {
                "cluster.yaml": fleet,
                "nodes/gpu.yaml": pool,
                "models/llama.yaml": model,
                "models/other.yaml": other.replace("llama\n", "other\n", 1),
                "locks/llama.json": LOCK,
            }
        ),
        st.sampled_from(models),
        st.sampled_from(models),
        st.sampled_from(pools),
        st.sampled_from([FLEET, "name: prod\nallow_empty: yes\n"]),
    )


@given(trees())
def test_a_tree_that_was_read_before_says_the_same(tree: Tree) -> None:
    fresh, later = load(tree), again(tree)

    assert (later.desired, later.partial, later.findings) == (fresh.desired, fresh.partial, fresh.findings)
    assert (later.broken, later.texts) == (fresh.broken, fresh.texts)
    for name, where in fresh.partial.where_by_model.items():
        for place in (where, where.at("profiles", 0, "gpus"), where.at("context"), Where(f"nowhere/{name}")):
            assert later.locate(place) == fresh.locate(place)


@given(trees())
def test_nothing_secret_is_written_down(tree: Tree) -> None:
    readings = Readings()
    load(tree, readings)

    assert "hunter2" not in json.dumps(readings.plain_values())


@pytest.mark.parametrize(
    "line",
    [
        "    env: {A: plain}\n",
        "    args: [--api-key, abc]\n",
        "    args: [--hf-token=abc]\n",
        "    args: [hf_abcdefghijklmnopqrst]\n",
        "# password: x\n",
    ],
)
def test_a_file_that_may_hold_a_secret_is_read_again_instead(line: str) -> None:
    readings = Readings()
    readings.yaml(ModelSpec, (MODEL + line).encode())

    assert readings.plain_values() == {}


@pytest.mark.parametrize("line", ["", "    args: [--max-num-batched-tokens, '8192', --tokenizer, x]\n"])
def test_a_plain_file_is_written_down(line: str) -> None:
    readings = Readings()
    readings.yaml(ModelSpec, (MODEL + line).encode())

    assert len(readings.plain_values()) == 1


def test_a_file_is_read_once_for_each_type_and_content() -> None:
    readings = Readings()
    first = readings.yaml(ModelSpec, MODEL.encode())

    assert readings.yaml(ModelSpec, MODEL.encode()) is first
    readings.turn()
    assert readings.yaml(ModelSpec, MODEL.encode()) is first
    assert readings.yaml(ModelSpec, MODEL.encode() + b"\n") is not first


def test_what_two_turns_did_not_use_is_forgotten() -> None:
    recent: Recent[str, int] = Recent()
    recent.keep("a", 1)
    recent.keep("b", 2)
    recent.turn()
    assert recent.find("a") == 1
    recent.turn()

    assert recent.find("b") is None
    assert recent.find("a") == 1
    assert dict(recent.in_use()) == {"a": 1}
