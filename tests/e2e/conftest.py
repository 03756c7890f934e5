from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A machine whose every process is gone at the end, or the test fails."""
    machine = Site(tmp_path / "m")
    yield machine
    assert machine.clear() == [], "a process was left behind"
