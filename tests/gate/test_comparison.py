"""What a change does, told from two trees: models, GPUs by class, and who must be replaced."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.model_spec import Strategy
from reconciler.domain.plan import Action
from reconciler.gate.comparison import model_changes, replaced
from reconciler.gate.ledger import ledger
from reconciler.gate.sides import Side
from reconciler.sources.loader import load
from tests.gate.locks import lock_text
from tests.gate.tree import tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.comparison import LedgerRow, ModelChange

MODEL = """\
name: llama
source: hf:org/llama@v1
context: 8192
scaling: {min: 2}
profiles:
  - {name: big, engine: vllm, version: 0.32.0, gpu_class: h100-80gb, gpus: 4}
rollout: {strategy: surge}
"""
POOLS = """\
pool: h100
gpus: {class: h100-80gb, count: 8}
nodes: ["gpu-[01-03]", {name: gpu-04, drain_gpus: [0, 1]}, {name: gpu-05, drain: true}]
"""
NAMES = ("a", "b", "c")


def files(**models: str | None) -> dict[str, str]:
    """A fleet with these models, each with a lock."""
    made = {"cluster.yaml": "name: prod\n", "nodes/h100.yaml": POOLS}
    for name, text in models.items():
        if text is not None:
            named = text.replace("llama\n", f"{name}\n", 1).replace("org/llama", f"org/{name}")
            made |= {
                f"models/{name}.yaml": named,
                f"locks/{name}.json": lock_text({"shape": "llama-8b"}, named),
            }
    return made


def side(texts: Mapping[str, str]) -> Side:
    loaded = load(tree(texts))
    refused = (each.model for each in loaded.findings if each.severity == "error")
    return Side(loaded.partial, loaded.broken | {model for model in refused if model is not None})


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, ModelChange]:
    return {each.model: each for each in model_changes(side(before), side(after))}


def rows(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, LedgerRow]:
    one, other = side(before), side(after)
    return {each.gpu_class: each for each in ledger(one, other, replaced(one, other))}


def edited(before: str, after: str) -> str:
    assert before in MODEL
    return MODEL.replace(before, after)


def adapted(*names: str) -> str:
    """The model with these adapters."""
    rows = ", ".join(f"{{name: {name}, source: 'hf:org/{name}@v1'}}" for name in names)
    return f"{MODEL}adapters: [{rows}]\n"


@pytest.mark.parametrize(
    ("text", "must_go"),
    [
        (MODEL, False),
        (edited("8192", "16384"), True),
        (edited("gpus: 4", "gpus: 8"), True),
        (edited("0.32.0", "0.30.0"), True),
        (MODEL + "restart: again\n", True),
        (MODEL + "owner: search\nclass: critical\n", False),
        (edited("min: 2", "min: 3"), False),
        (edited("name: big", "name: large"), False),
        (edited("strategy: surge", "strategy: in_place"), False),
        (edited("8192", "16384") + "suspend: true\n", False),
        (edited("min: 2", "min: 0, max: 0").replace("8192", "16384"), False),
        (edited("rollout:", "  - {name: new, engine: vllm, gpu_class: h100-80gb, gpus: 8}\nrollout:"), False),
    ],
    ids=[
        "nothing",
        "context",
        "gpus",
        "version",
        "restart token",
        "owner and class",
        "one more replica",
        "the name of a profile",
        "strategy",
        "suspended",
        "no replica any more",
        "another profile beside",
    ],
)
def test_who_must_be_replaced(text: str, must_go: bool) -> None:
    assert replaced(side(files(llama=MODEL)), side(files(llama=text))) == ({"llama"} if must_go else frozenset())


def test_a_new_default_version_replaces_those_that_name_none() -> None:
    unnamed = edited(", version: 0.32.0", "")
    before = files(a=unnamed, b=MODEL)
    after = before | {"cluster.yaml": 'name: prod\ndefaults: {engine_versions: {vllm: "0.30.0"}}\n'}

    assert replaced(side(before), side(after)) == {"a"}


def test_a_renamed_model_is_replaced_and_not_deleted_and_created() -> None:
    after = files(b=MODEL + "moved: a\n")

    assert replaced(side(files(a=MODEL)), side(after)) == {"b"}
    change = changes(files(a=MODEL), after)
    assert list(change) == ["b"]
    assert change["b"].action is Action.REPLACE


def test_the_change_of_a_model_says_what_restarts_and_what_it_takes() -> None:
    change = changes(files(llama=MODEL), files(llama=edited("gpus: 4", "gpus: 8").replace("8192", "16384")))["llama"]

    assert change.action is Action.REPLACE
    assert [(each.field, each.before, each.after) for each in change.fields] == [
        ("context", 8192, 16384),
        ("gpus", 4, 8),
    ]
    assert (change.strategy, change.outage_seconds) == (Strategy.SURGE, 0.0)
    assert change.before is not None
    assert change.after is not None
    assert (change.before.gpus, change.after.gpus) == (4, 8)
    assert (change.before.replicas, change.after.replicas) == (2, 2)
    assert change.before.gib_per_gpu is not None
    assert change.after.gib_per_gpu is not None
    assert change.before.gib_per_gpu > change.after.gib_per_gpu > 0
    assert (change.before.kv_tokens or 0) < (change.after.kv_tokens or 0)


@pytest.mark.parametrize(
    ("before", "after", "action"),
    [
        (None, MODEL, Action.CREATE),
        (MODEL, None, Action.DELETE),
        (MODEL, edited("min: 2", "min: 0, max: 0"), Action.DELETE),
        (edited("min: 2", "min: 0, max: 0"), MODEL, Action.CREATE),
        (MODEL, edited("min: 2", "min: 3"), Action.UPDATE),
        (MODEL, "name: llama\nexternal: {url: 'https://api.example/v1'}\n", Action.DELETE),
        (adapted("sql"), adapted("sql", "code"), Action.UPDATE),
        (adapted("sql", "code"), adapted("code"), Action.UPDATE),
        (MODEL, adapted("sql"), Action.REPLACE),
        (adapted("sql"), MODEL, Action.REPLACE),
        (adapted(*"abcdefgh"), adapted(*"abcdefghi"), Action.REPLACE),
    ],
    ids=[
        *("new", "gone", "off", "on", "more", "now external"),
        *("an adapter more", "one less", "the first", "the last", "beyond its room"),
    ],
)
def test_what_happens_to_a_model(before: str | None, after: str | None, action: Action) -> None:
    one, other = (files(llama=text, other=MODEL) for text in (before, after))

    assert {name: each.action for name, each in changes(one, other).items()} == {"llama": action}


def test_a_model_that_cannot_be_read_counts_as_it_was() -> None:
    before, after = files(a=MODEL, b=MODEL), files(a=MODEL + "typo: 1\n", b=MODEL)

    assert changes(before, after) == changes(after, before) == {}
    assert rows(before, after)["h100-80gb"].after == rows(before, before)["h100-80gb"].after == 16
    assert rows(after, before)["h100-80gb"].before == 16


def test_values_that_may_be_secret_are_not_told() -> None:
    env = edited("gpus: 4", "gpus: 4, env: {TOKEN: hunter2}, args: [--api-key, hunter3, --hf-token=hunter4]")
    url = env.replace("hf:org/llama@v1", "https://me:hunter5@example.com/llama")
    told = repr(changes(files(llama=MODEL), files(llama=url)))

    assert "hunter" not in told
    assert "--api-key" in told


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (MODEL, (30, 8, 8, 8, 0, 22)),
        (edited("8192", "16384"), (30, 8, 8, 12, 0, 22)),
        (edited("8192", "16384").replace("gpus: 4", "gpus: 8"), (30, 8, 16, 20, 0, 14)),
        (edited("strategy: surge", "strategy: in_place").replace("8192", "16384"), (30, 8, 8, 8, 0, 22)),
        (edited("strategy: surge", "max_surge: 2").replace("8192", "16384"), (30, 8, 8, 16, 0, 22)),
        (edited("min: 2", "min: 5"), (30, 8, 20, 20, 0, 10)),
        (edited("min: 2", "min: 9"), (30, 8, 36, 30, 6, 0)),
        (None, (30, 8, 0, 8, 0, 30)),
    ],
    ids=["nothing", "surge", "wider", "in place", "two at once", "more", "too many", "gone"],
)
def test_the_ledger_of_a_class(after: str | None, expected: tuple[int, ...]) -> None:
    row = rows(files(llama=MODEL), files(llama=after))["h100-80gb"]

    assert (row.total, row.before, row.after, row.peak, row.short, row.free) == expected


def test_a_class_that_no_node_has_stands_in_the_ledger() -> None:
    row = rows(files(), files(llama=edited("h100-80gb", "l40s")))["l40s"]

    assert (row.total, row.after, row.short, row.free) == (0, 8, 8, 0)


def test_a_model_counts_with_the_first_profile_that_a_node_takes() -> None:
    text = edited("profiles:\n", "profiles:\n  - {name: small, engine: vllm, gpu_class: l40s, gpus: 1}\n")

    assert rows(files(), files(llama=text))["h100-80gb"].after == 8


texts = st.sampled_from(
    [
        None,
        *(
            edited("8192", f"{context}").replace("min: 2", f"min: {count}")
            for context in (1024, 2048)
            for count in (0, 1, 3)
        ),
    ]
)
fleets = st.fixed_dictionaries(dict.fromkeys(NAMES, texts)).map(lambda models: files(**models))


@given(fleets, fleets)
def test_the_ledger_adds_up(before: dict[str, str], after: dict[str, str]) -> None:
    found, back = rows(before, after), rows(after, before)

    for name, row in found.items():
        assert row.before == back[name].after
        assert max(min(row.before, row.total), min(row.after, row.total)) <= row.peak <= row.total
        assert row.free == max(0, row.total - row.after)
        held = [
            int(size) * int(gpus)
            for size, gpus in re.findall(r"min: (\d+).*?gpus: (\d+)", "".join(after.values()), re.DOTALL)
        ]
        assert row.after == sum(held)


@given(fleets, fleets)
def test_nothing_changes_without_a_difference(before: dict[str, str], after: dict[str, str]) -> None:
    assert changes(before, before) == {}
    row = rows(before, before)["h100-80gb"]
    assert row.peak == min(row.after, row.total)
    assert set(changes(before, after)) == {name for name in NAMES if differ(name, before, after)}


def differ(name: str, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    return before.get(f"models/{name}.yaml") != after.get(f"models/{name}.yaml")
