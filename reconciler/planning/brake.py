"""When so much of the fleet vanishes at once that the fault is more likely between us and it than in it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from reconciler.domain.intent import IntentKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from reconciler.domain.desired import Desired
    from reconciler.domain.intent import Intent
    from reconciler.domain.observed import Observation, ReachableNode

WITHIN = timedelta(seconds=60)
SHARE = 0.3
"""More than one node and over 30 % of them within 60 s (design section 7): a switch, a credential, our own network."""

_NAMED = 3
"""Models that a sentence names."""

STARTS_IN_A_ROW = 3
"""Failed starts after which a node takes no new ones (design section 7): two can be the model, three are the node."""


def vanished(desired: Desired, observed: Observation) -> tuple[str, ...]:
    """Nodes that were heard, and fell silent together; () where it was one, or few. Drained ones are not missed."""
    missed = {name for name, node in desired.node_by_name.items() if not node.drain}
    silent = sorted(
        (node.silent_for, node.name)
        for node in observed.unreachable
        if node.silent_for is not None and node.last is not None and node.name in missed
    )
    most: list[tuple[timedelta, str]] = []
    for start in range(len(silent)):
        together = [each for each in silent[start:] if each[0] - silent[start][0] <= WITHIN]
        most = max(most, together, key=len)
    is_many = len(most) > 1 and len(most) > SHARE * len(observed.nodes)
    return tuple(sorted(name for _, name in most)) if is_many else ()


def given_up(observed: Observation, intents: Sequence[Intent], now: datetime) -> Mapping[str, str]:
    """Nodes on which starts failed one after the other, until one comes up or a person says retry; each with why."""
    asked_at = max((each.created_at for each in intents if each.kind is IntentKind.RETRY), default=None)
    found = {}
    for node in observed.reachable:
        failed = node.failed_starts
        if failed is None or failed.in_a_row < STARTS_IN_A_ROW:
            continue
        if asked_at is None or asked_at <= now - failed.last_for:
            found[node.name] = f"takes no new starts after {failed.in_a_row} failed in a row{_whose(node)}"
    return found


def _whose(node: ReachableNode) -> str:
    """Of which models, and what a person can do: the fault may be the model's own, and the node take others."""
    models = sorted({launch.model for launch in node.failed_launches})
    if not models:
        return ""
    shown = ", ".join(models[:_NAMED]) + (f" and {len(models) - _NAMED} more" if len(models) > _NAMED else "")
    return f" (of {shown}); reconciler retry {models[0]} opens it"
