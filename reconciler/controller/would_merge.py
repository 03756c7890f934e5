"""Whether the gate would take a tree with one model changed: what `why` asks before it proposes a change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.finding import Severity
from reconciler.gate.check import judge

if TYPE_CHECKING:
    from reconciler.domain.desired import Desired, Where


class WouldMerge:
    """`planning.ways_out.Gate` by the rules themselves."""

    def refusal(self, desired: Desired, model: str) -> str | None:
        """The first error about the model or the whole tree; rules of one model alone are asked of this one only."""
        others = {each.name: () for each in desired.models if each.name != model}
        found = judge(desired, frozenset(), _nowhere, judged=others).findings
        errors = [each for each in found if each.severity is Severity.ERROR]
        mine = [each for each in errors if each.model == model] or errors
        return mine[0].message if mine else None


def _nowhere(_where: Where) -> tuple[None, None]:
    return None, None
