"""One look at a file gives every reason: what is wrong with its form and what the rules say of the rest."""

from __future__ import annotations

import pytest

from reconciler.gate.check import check
from reconciler.sources.loader import load
from tests.sources.trees import a_tree

GOOD = """name: m
source: file:/m.gguf
context: 16
aliases: [m, other]
fallbacks: [nobody]
profiles:
  - {name: gpu, engine: llamacpp, gpu_class: h100-80gbb}
"""


def rules(text: str) -> list[tuple[str, int | None]]:
    loaded = load(a_tree({"cluster.yaml": "name: f\n", "models/m.yaml": text}))
    findings = (*loaded.findings, *check(loaded.partial, loaded.broken, loaded.locate, loaded.findings))
    assert loaded.desired is None or not loaded.findings
    return sorted((finding.rule, finding.line) for finding in findings)


RULED = [
    ("inventory/unknown-class", 7),
    ("lock/missing", 2),
    ("refs/alias-collision", 4),
    ("refs/fallback-missing", 5),
]


def test_the_rules_speak_of_a_file_whose_form_is_good() -> None:
    assert rules(GOOD) == RULED


@pytest.mark.parametrize(
    ("added", "told"),
    [
        ("contxt: 3\n", ("yaml/unknown-field", 8)),
        ("owner: 3\n", ("yaml/type", 8)),
        ("owner:\n", ("yaml/type", 8)),
        ("rollout: {max_surge: true, bake: soon}\n", ("yaml/type", 8)),
        ("adapters: [{name: a}]\n", ("yaml/type", 8)),
    ],
)
def test_and_of_one_whose_form_is_not(added: str, told: tuple[str, int]) -> None:
    seen = rules(GOOD + added)
    assert [each for each in seen if each in RULED] == RULED
    assert told in seen


def test_a_faulty_profile_is_not_judged_by_what_is_left_of_it() -> None:
    text = GOOD.replace("gpu_class: h100-80gbb", "gpu_class: 5, gpus: 2")
    assert [rule for rule, _ in rules(text)] == ["refs/alias-collision", "refs/fallback-missing", "yaml/type"]


@pytest.mark.parametrize("field", ["owner", "restart", "scaling", "fallbacks", "rollout"])
def test_a_field_without_a_value_is_refused_at_its_place(field: str) -> None:
    text = GOOD.replace("fallbacks: [nobody]\n", "") + f"{field}:\n"
    assert ("yaml/type", 7) in rules(text)
