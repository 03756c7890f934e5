"""What every test shares: the flag that rewrites golden files, and how hypothesis runs here."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pathlib import Path

# No deadline: two busy cores make a fast example slow now and then. No database: tests leave nothing in the tree.
# The gate tries the same examples each time, so that it answers for the commit and not for the day; other ones are
# tried by `make search` (`--hypothesis-profile search`), each week and by whoever has changed what they are about.
settings.register_profile("same", deadline=None, database=None, print_blob=True, derandomize=True)
settings.register_profile("search", deadline=None, database=None, print_blob=True, derandomize=False)
settings.load_profile("same")

# On a machine with GPUs the tests' nodes have what they declare, as everywhere else.
os.environ.setdefault("RECONCILER_GPUS", "declared")

# A shell without job control starts what runs in the background with Ctrl-C ignored, and every command of ours would
# inherit that: tests that interrupt one would wait for ever. With a handler here children begin as from a terminal.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        default=False,
        help="write what is seen now into golden files and generated schemas; read the difference before committing",
    )


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be rewritten."""
    return bool(request.config.getoption("--rewrite"))


def compare(path: Path, seen: str, *, rewrite: bool) -> None:
    """Hold a golden file against what is seen now; with the flag, write it first."""
    if rewrite:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(seen, "utf-8")
    assert path.read_text("utf-8") == seen, f"{path.name} is not what is seen now; pytest --rewrite writes it"
