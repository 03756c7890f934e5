"""One test for every file in cases/: the plan as a person reads it, the orders, and the course until it ends.

`pytest --rewrite` writes what is seen now below `expect:`; read the difference before committing it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ruamel.yaml import YAML

from tests.planning.casefile import course, orders_text, read

if TYPE_CHECKING:
    from collections.abc import Sequence

CASES = sorted((Path(__file__).parent / "cases").glob("*.yaml"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path: Path, rewrite: bool) -> None:
    case = read(path)
    assert case.why
    decision = case.decide(case.observed)
    seen: dict[str, Any] = {
        "plan": case.text(decision),
        "orders": orders_text(decision),
        "course": course(case),
    }
    if not decision.plan.acts:
        assert case.why_nothing, "a plan that does nothing must say why"
    text = path.read_text("utf-8")
    if rewrite:
        given, _, _ = text.partition("\nexpect:")
        text = given.rstrip() + "\n\n" + expected_text(seen)
        path.write_text(text, "utf-8")
    assert YAML(typ="safe").load(text)["expect"] == seen


def test_there_are_cases() -> None:
    assert len(CASES) >= 35


def expected_text(seen: dict[str, Any]) -> str:
    """The part of a case file that is seen, not given."""
    plan = "\n".join(f"    {line}".rstrip() for line in seen["plan"].split("\n"))
    return f"expect:\n  plan: |-\n{plan}\n" + _list("orders", seen["orders"]) + _list("course", seen["course"])


def _list(name: str, lines: Sequence[str]) -> str:
    return f"  {name}: []\n" if not lines else f"  {name}:\n" + "".join(f"    - '{line}'\n" for line in lines)
