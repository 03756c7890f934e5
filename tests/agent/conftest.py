from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.agent.machine import Machine
from tests.tiny_gguf import write_tiny_gguf

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def anyio_backend() -> str:
    """The agent runs on asyncio, which uvicorn needs."""
    return "asyncio"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A machine without an agent yet; every process of it is gone at the end, or the test fails."""
    weights = write_tiny_gguf(tmp_path / "tiny.gguf")
    made = Machine(tmp_path / "s", weights)
    yield made
    assert made.clear() == [], "a process was left behind"
