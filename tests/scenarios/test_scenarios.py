"""One test for every script beside it: its transcript is what is in the `.txt` of its name, and no promise is broken.

`pytest --rewrite` writes what is seen now; read it as a story before committing it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reconciler.fleet.virtual_clock import run_virtually
from tests.conftest import compare
from tests.scenarios.script import play, read

SCRIPTS = sorted(Path(__file__).parent.glob("*.yaml"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_scenario(path: Path, state: Path, rewrite: bool) -> None:
    lines = run_virtually(play, read(path), state)
    compare(path.with_suffix(".txt"), "\n".join(lines) + "\n", rewrite=rewrite)


def test_every_story_stands_in_the_table_and_every_row_names_one_that_is_there() -> None:
    told = (Path(__file__).parent / "README.md").read_text("utf-8")
    rows = [line for line in told.splitlines() if line.startswith("| ")]
    named = {name for row in rows for name in re.findall(r"`([a-z0-9-]+)`", row)}
    assert named == {path.stem for path in SCRIPTS}
