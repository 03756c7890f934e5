"""The engine of `docs/adding-an-engine.md` conforms, as the page says."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.domain.flag_tables import flag_table
from reconciler.domain.flags import Flag, FlagKind, Managed
from reconciler.domain.model_spec import Engine
from reconciler.engines.base import Answer, InFlight
from reconciler.engines.fields import VENDORS
from reconciler.engines.flag_reading import _PROGRAM
from reconciler.engines.progress import Progress, Stage
from reconciler.engines.versions import MISSING
from reconciler.gate.loading import START_SECONDS
from reconciler.gate.not_taken import TASKS
from tests.engines import conformance, conformance_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reconciler.domain.flags import FlagTable

PAGE = Path(__file__).parents[2] / "docs" / "adding-an-engine.md"
DECIDES = {
    "--weights": "source",
    "--listen": None,
    "--names": "name and aliases",
    "--gpus": "gpus",
    "--tokens": "context",
    "--requests": "max_concurrency",
    "--pooling": "task",
    "--lora": "adapters",
}
"""Ember's flags, as its own table would have them: the field that decides each; its address the agent decides."""
OF_FLAGS = (conformance_words.what_a_launch_sets_is_known, conformance_words.what_a_launch_sets_is_refused_in_args)
CHECKS = [each for each in (*conformance.CHECKS, *conformance_words.CHECKS) if each not in OF_FLAGS]


def ember() -> Any:
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    module: dict[str, Any] = {"__name__": "ember"}
    exec(compile(code, str(PAGE), "exec"), module)
    return module["Ember"]()


def table_of_ember() -> FlagTable:
    flags = tuple(
        Flag((name,), FlagKind.VALUE, managed=Managed(field, "decides what the YAML says"))
        for name, field in DECIDES.items()
    )
    by_spelling = {flag.name: flag for flag in flags}
    return replace(
        flag_table(Engine.LLAMACPP), version="2.1", flags=flags, by_spelling=by_spelling, by_env={}, removed={}
    )


@pytest.mark.parametrize("check", CHECKS)
def test_the_page_s_engine_conforms(check: Callable[[Any], None]) -> None:
    check(ember())


def test_the_page_s_engine_sets_what_its_table_has_and_refuses() -> None:
    conformance_words.what_a_launch_sets_is_known(ember(), table_of_ember())
    conformance_words.what_a_launch_sets_is_refused_in_args(ember(), table_of_ember(), {})


def test_an_engine_whose_flag_may_be_set_again_without_a_reason_does_not_conform() -> None:
    table = table_of_ember()
    loose = replace(table.by_spelling["--tokens"], managed=None, memory="the KV cache")
    other = replace(table, by_spelling={**table.by_spelling, "--tokens": loose})
    with pytest.raises(AssertionError, match="--tokens: args may set it again"):
        conformance_words.what_a_launch_sets_is_refused_in_args(ember(), other, {})
    reasons = {"--tokens": "for once only the tests know why"}
    conformance_words.what_a_launch_sets_is_refused_in_args(ember(), other, reasons)


def test_the_page_s_engine_reads_what_it_says() -> None:
    engine = ember()
    page = b"ember_active 2\nember_waiting 1\n"
    assert engine.read_load(Answer(200, page)) == InFlight(2, 1)
    assert engine.read_progress("read shard 3 of 10") == Progress(Stage.LOADING, 3, 10, "shards")
    assert engine.read_failure("ember: unknown flag --x") == "ember does not know the flag --x"


def test_every_file_the_page_names_is_there() -> None:
    text = PAGE.read_text("utf-8")
    named = set(re.findall(r"`((?:tests|bench|domain|engines|agent)/[\w/.*-]+\.(?:py|json))`", text))
    root = PAGE.parents[1]
    missing = [
        name
        for name in named
        if "ember" not in name and not (root / name).exists() and not (root / "reconciler" / name).exists()
    ]
    assert len(named) > 5
    assert missing == []


def tables_by_engine(root: Path) -> Iterator[tuple[str, str]]:
    """File and name of everything at the top of a module that is written out with members of `Engine` in it."""
    for path in sorted(root.rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            value = getattr(node, "value", None)
            if isinstance(target, ast.Name) and value is not None and any(map(is_a_member, ast.walk(value))):
                yield path.relative_to(root).as_posix(), target.id


def is_a_member(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Engine"


def test_every_table_with_rows_by_engine_is_on_the_page() -> None:
    rows = [line.split("|") for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")]
    named = {(row[1].strip(" `"), name) for row in rows for name in re.findall(r"`(\w+)`", row[2])}
    found = set(tables_by_engine(PAGE.parents[1] / "reconciler"))
    assert len(found) > 10
    assert found - named == set()
    assert {(file, name) for file, name in named if not file.startswith("tests/") and name.isupper()} - found == set()


def test_tables_that_every_engine_is_looked_up_in_have_all_of_them() -> None:
    for table in (TASKS, START_SECONDS, _PROGRAM, VENDORS, MISSING):
        assert set(table) == set(Engine)


def test_tables_by_engine_that_are_data_are_on_the_page_too() -> None:
    tables = PAGE.parents[1] / "reconciler" / "domain" / "tables"
    text = PAGE.read_text("utf-8")
    keyed = [path.name for path in tables.rglob("*.json") if '"sglang"' in path.read_text("utf-8")]
    assert "counting.json" in keyed
    assert [name for name in keyed if name not in text and not name.startswith(tuple(Engine))] == []
