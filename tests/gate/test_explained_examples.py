"""What `reconciler explain RULE` shows as an example does what it says: it is written down, and the gate is asked.

`explained.yaml` has the surroundings of each example. Rules whose examples are figures or a story told in words are in
IN_WORDS; the case files show both sides of those, as of every rule.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from reconciler.gate.check import RULES
from tests.gate.locks import lock_text
from tests.gate.tree import judged

PLAYED: dict[str, list[dict[str, Any]]] = YAML(typ="safe").load(
    Path(__file__).with_name("explained.yaml").read_text("utf-8")
)
IN_WORDS = re.compile(
    r"context/|heads/|memory/(?!share)|refs/(?!fallback-missing)|lock/(?!revision-unpinned)"
    r"|inventory/(cpu-profile|fabric|mig|mixed-cards|node-too-small|overcommitted|unsupported)"
    r"|rollout/(failed|limits|no-surge-room|nodes-vanished|not-heard|protected)"
    r"|yaml/(alias|directive|duplicate-key|duplicate-name|syntax)"
)

COMMIT = "0e9e39f249a16976918f6564b8830bc894c89659"
FILES: dict[str, dict[str, Any]] = {
    "cluster": {"name": "prod"},
    "pool": {"pool": "h100", "gpus": {"class": "h100-80gb", "count": 8}, "nodes": ["gpu-01"]},
    "profile": {"name": "p", "engine": "vllm", "gpu_class": "h100-80gb"},
    "model": {"name": "m", "source": f"hf:org/m@{COMMIT}", "context": 8192},
}


def examples(slug: str) -> list[str]:
    """Lines of the explanation that are set in, without the words beside them."""
    set_in = (line for line in RULES[slug].explanation.splitlines() if line.startswith("    "))
    return [re.split(r" {2,}", line.strip())[0] for line in set_in]


@pytest.mark.parametrize("slug", RULES)
def test_every_example_of_a_rule_is_played_or_told_in_words(slug: str) -> None:
    shown = [row.get("example", row.get("words")) for row in PLAYED.get(slug, ())]
    assert shown == ([] if IN_WORDS.match(slug) else examples(slug))


@pytest.mark.parametrize(
    ("slug", "row"),
    [
        pytest.param(slug, row, id=f"{slug} {at}: {row['example']}")
        for slug, rows in PLAYED.items()
        for at, row in enumerate(rows, 1)
        if "in" in row
    ],
)
def test_an_example_does_what_its_rule_says(slug: str, row: dict[str, Any]) -> None:
    findings = judged(written(row)).findings
    told = [f"{each.rule}: {each.message}" for each in findings]
    assert (slug in {each.rule for each in findings}) == row["found"], told


def written(row: dict[str, Any]) -> dict[str, str]:
    """The files, with the example in its place as it stands."""
    line = row.get("line", row["example"]).replace("…", row.get("place", "…"))
    parts = {name: body(name, row, line) for name in FILES}
    profile = "".join(f"    {each}\n" for each in parts["profile"].splitlines())
    model = parts["model"]
    if "profiles" not in row.get("model", {}):
        model += f"profiles:\n  -\n{profile}"
    locks = {"locks/m.json": lock_text({"shape": "plain", "revision": COMMIT}, model)} if "source" in model else {}
    return {"cluster.yaml": parts["cluster"], "nodes/h100.yaml": parts["pool"], "models/m.yaml": model} | locks


def body(name: str, row: dict[str, Any], line: str) -> str:
    """One file or profile as lines `field: JSON`; the example takes the place of its field."""
    fields = FILES[name] | row.get("with" if name == "profile" else name, {})
    fields.pop("profiles", None)
    own = line if row["in"] == name else ""
    kept = {key: value for key, value in fields.items() if value is not None and not own.startswith(f"{key}:")}
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in kept.items()) + (f"{own}\n" if own else "")
