"""What lines of ComfyUI's log mean: the step of a start, the reason of an end.

Read in its public source (main.py, server.py, app/database) and in logs of public reports of 0.3; not run.
"""

from __future__ import annotations

import re

from reconciler.engines import failures
from reconciler.engines.progress import Progress, Stage

_STAGES: tuple[tuple[str, Stage], ...] = (
    ("Total VRAM ", Stage.STARTING),
    ("Import times for custom nodes", Stage.WARMING),
    ("To see the GUI go to: ", Stage.LOADED),
)
"""Part of a line → stage, in the order of a start. Weights are loaded by the first workflow that wants them."""

_STARTED = re.compile(r"^.*\bTotal VRAM .*$|^.*\bPrompt executed in .*$", re.MULTILINE)
"""First line of a start that got past its command line and found its GPU; or the end of a workflow, which it survived
whatever was said of it: a GPU that is full fails a request and no more."""

_FAILURES = failures.reasons(
    (
        (r"^\S.*: error: unrecognized arguments: (.+)$", "ComfyUI does not know the arguments {0}"),
        (r"^\S.*: error: argument (\S+?): (.+)$", "ComfyUI refuses the value of {0}: {1}"),
        (r"Database is locked|Could not acquire lock on database", "another ComfyUI holds its database"),
        (r"can't open file '([^'\n]+)'", "ComfyUI is not in {0}"),
    )
)
"""ComfyUI's own words, before those of PyTorch."""


def read_progress(line: str) -> Progress | None:
    """The step that a line announces; None for all others."""
    return next((Progress(stage) for part, stage in _STAGES if part in line), None)


def read_failure(tail: str) -> str | None:
    """One sentence on why the last start in this tail ended; None when its lines do not tell."""
    last = failures.last_start(tail, _STARTED)
    return failures.find((_FAILURES, failures.TORCH, failures.LAST_EXCEPTION), last)
