"""The engine of `docs/adding-an-engine.md` conforms, as the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.engines.base import Answer, InFlight, Progress, Stage
from tests.engines import conformance

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = Path(__file__).parents[2] / "docs" / "adding-an-engine.md"
NEEDS_A_TABLE = conformance.what_a_launch_sets_is_known_and_refused_in_args
"""Of an engine that is made up there is no table of flags."""


def ember() -> Any:
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    module: dict[str, Any] = {"__name__": "ember"}
    exec(compile(code, str(PAGE), "exec"), module)
    return module["Ember"]()


@pytest.mark.parametrize("check", [each for each in conformance.CHECKS if each is not NEEDS_A_TABLE])
def test_the_page_s_engine_conforms(check: Callable[[Any], None]) -> None:
    check(ember())


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
