"""One test for every script beside it: its transcript is what is in the `.txt` of its name, and no promise is broken.

`pytest --rewrite` writes what is seen now; read it as a story before committing it.
"""

from __future__ import annotations

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


def test_there_are_scenarios() -> None:
    assert len(SCRIPTS) >= 25
