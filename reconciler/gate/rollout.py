"""The words of what may block a plan: the planner finds it with the fleet before it, the explanations are here."""

from __future__ import annotations

from reconciler.domain.finding import Severity
from reconciler.gate.rule import Rule, dashed, words


def _blocked(name: str, text: str) -> Rule:
    return Rule(f"rollout/{dashed(name)}", Severity.WARNING, *words(text))


NO_SURGE_ROOM = _blocked(
    "no-surge-room",
    """
    A surge starts the successor beside the running replica, so it needs room for one replica more on some node.

    Room is free GPUs of the class on one node, or host RAM and cores on CPUs, after all that runs there.

        strategy: surge                 blocked while every node is full
        strategy: surge_or_in_place     beside where there is room, else the running replica stops first

    In place the model has one replica less while the successor loads; with one replica it is away for that time.
    """,
)

FAILED = _blocked(
    "failed",
    """
    A launch that never answered, or died three times in a row, is not tried again by itself: it would fail again.

    What served before is kept. The message has the engine's own reason, and `reconciler status` shows it as well.

        weights missing, out of memory, an unknown argument     mend it and commit

    A new commit is tried at once, and so is another `reconciler apply`, for causes outside of git.
    """,
)

LIMITS = _blocked(
    "limits",
    """
    A tree without any model file would stop everything, which is more often a mistake than a wish.

    Nothing is stopped until cluster.yaml says that an empty catalog is meant:

        name: prod
        allow_empty: true

    To keep a model in the catalog without running it write scaling: {min: 0, max: 0} instead of deleting its file.
    """,
)
