"""What the README shows of a catalog is one: put where it says that it belongs, it passes the gate."""

from __future__ import annotations

import json
import re
from pathlib import Path

from reconciler.domain.finding import Severity
from tests.gate.tree import judged

README = (Path(__file__).parent.parent.parent / "README.md").read_text("utf-8")
_PATH = re.compile(r"^# cluster/(?P<path>\S+\.yaml)", re.MULTILINE)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def files(block: str) -> dict[str, str]:
    """The files of one block, each from the line that names it to the next such line."""
    starts = [*_PATH.finditer(block)]
    ends = [*(each.start() for each in starts), len(block)][1:]
    return {each["path"]: block[each.start() : end] for each, end in zip(starts, ends, strict=True)}


def a_catalog(name: str) -> dict[str, str]:
    found = [files(block) for block in blocks("yaml")]
    return next(each for each in found if name in each)


def test_the_model_on_gpus_passes_with_the_lock_written_by_hand() -> None:
    (lock,) = (block for block in blocks("json") if "weight_bytes" in block)
    tree = a_catalog("models/llama-70b.yaml") | {"locks/llama-70b.json": lock}
    tree["cluster.yaml"] = 'name: prod\ndefaults: {engine_versions: {vllm: "0.32.0"}}\n'
    assert [each.message for each in judged(tree).findings] == []


def test_the_lock_lacks_nothing_and_the_model_has_no_other_source() -> None:
    (lock,) = (block for block in blocks("json") if "weight_bytes" in block)
    model = a_catalog("models/llama-70b.yaml")["models/llama-70b.yaml"]
    assert re.findall(r"source: (\S+?)}?$", model, re.MULTILINE) == [
        each["source"] for each in json.loads(lock)["sources"]
    ]


def test_the_catalog_to_begin_with_lacks_nothing_but_its_lock() -> None:
    findings = judged(a_catalog("models/tiny.yaml")).findings
    assert [each.rule for each in findings if each.severity is Severity.ERROR] == ["lock/missing"]


def test_the_external_model_passes() -> None:
    tree = a_catalog("models/gpt-4o.yaml") | {"cluster.yaml": "name: prod\n"}
    assert [each.rule for each in judged(tree).findings if each.severity is Severity.ERROR] == []
