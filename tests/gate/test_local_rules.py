"""What a local rule says of a model hangs on nothing that other models do: else it could not be kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reconciler.domain.finding import Severity
from reconciler.gate.check import RULES, check, is_local, judge
from reconciler.sources.loader import load
from tests.gate.test_cases import cases
from tests.gate.tree import tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.finding import Finding
    from reconciler.gate.check import Judgement

CASES = [pytest.param(case.values[1], id=str(case.id)) for case in cases()]
OTHER = """\
name: zz-other
source: hf:org/zz-other@v1
context: 4096
unverified: true
scaling: {min: 3}
aliases: [zz]
profiles:
  - {name: a, engine: vllm, gpu_class: h100-80gb, gpus: 8}
  - {name: b, engine: sglang, gpu_class: l40s, gpus: 2, args: [--seed, "7"]}
"""


def judged(files: Mapping[str, str], known: Mapping[str, tuple[Finding, ...]] | None = None) -> Judgement:
    loaded = load(tree(files))
    return judge(loaded.partial, loaded.broken, loaded.locate, loaded.findings, known or {})


@pytest.mark.parametrize("files", CASES)
def test_another_model_beside_it_changes_nothing(files: dict[str, str]) -> None:
    alone = judged(files).each_alone
    beside = judged({**files, "models/zz-other.yaml": OTHER}).each_alone

    assert {name: found for name, found in beside.items() if name in alone} == alone


@pytest.mark.parametrize("files", CASES)
def test_what_was_judged_before_is_judged_the_same(files: dict[str, str]) -> None:
    fresh = judged(files)

    assert judged(files, fresh.each_alone) == fresh
    for model in fresh.each_alone:
        rest = {name: found for name, found in fresh.each_alone.items() if name != model}
        assert judged(files, rest) == fresh


def test_what_was_judged_before_is_not_asked_again() -> None:
    files = {"cluster.yaml": "name: prod\n", "models/zz-other.yaml": OTHER}
    kept = judged(files).findings[0].model_copy(update={"message": "kept", "severity": Severity.NOTE})

    assert kept in judged(files, {"zz-other": (kept,)}).findings


def test_check_is_what_judge_finds() -> None:
    loaded = load(tree({"cluster.yaml": "name: prod\n", "models/zz-other.yaml": OTHER}))
    asked = (loaded.partial, loaded.broken, loaded.locate, loaded.findings)

    assert check(*asked) == judge(*asked).findings != ()


def test_there_are_local_rules_and_others() -> None:
    local = {slug for slug, rule in RULES.items() if rule.check is not None and is_local(slug)}

    assert {"heads/kv-split", "context/beyond-trained", "args/unknown-flag", "inventory/unsupported"} <= local
    assert {"refs/fallback-cycle", "inventory/unknown-class"} <= RULES.keys() - local
