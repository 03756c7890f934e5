"""Where all models run together: packings of a tree, and what an earlier tree of the same nodes had of them already.

Most commits change nothing that packing looks at. Then the packings of the tree before are those of this one, and so
are the answers about room for one replica more, which were asked in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from reconciler.gate.beside import Beside
from reconciler.gate.capacity import Inventory
from reconciler.gate.together import Together
from reconciler.placement.needs import minimum_of
from reconciler.planning.aim import importance

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Mapping

    from reconciler.domain.desired import Desired
    from reconciler.domain.finding import Finding
    from reconciler.domain.model_spec import ModelSpec
    from reconciler.placement.needs import Need

Trial = tuple["tuple[Need, ...] | None", int, "tuple[Need, ...]"]
"""The ways in which a model is written to run, its replicas, and the ways that are tried instead."""

ROOM_RULES = frozenset({"rollout/no-surge-room", "rollout/outage"})
"""Rules that say of a model what its own file and lock and the room in the fleet decide."""


@dataclass(slots=True)
class Room:
    """One tree's nodes and its packings; what is asked of them is kept."""

    inventory: Inventory
    together: Together
    beside: Beside
    told: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)
    """What the room rules say by model, compared with no base; none of what they say is found again of these."""

    trials: dict[Trial, bool] = field(default_factory=dict)
    """Whether a model has no room with another count (`gate.among_others`)."""

    def of_unchanged(self, models: Collection[str]) -> Room:
        """The same for a later tree, in which files and locks of these models are what they were."""
        return replace(self, told={model: found for model, found in self.told.items() if model in models})


def room_of(desired: Desired, earlier: Room | None = None) -> Room:
    """The room of a tree; `earlier` is that of one with the same cluster.yaml and nodes."""
    if earlier is None:
        together = Together(desired)
        return Room(Inventory(desired.nodes), together, Beside(together))
    if _stand_alike(earlier.together.desired, desired):
        # Of the tree at hand, so that no older one stays in memory. Ways out of a conflict are asked for anew.
        earlier.together.desired, earlier.together.asked = desired, 0
        return earlier
    together = Together(desired)
    together.bins, together.bins_in_service = earlier.together.bins, earlier.together.bins_in_service
    return Room(earlier.inventory, together, Beside(together))


def _stand_alike(before: Desired, after: Desired) -> bool:
    """Whether packing and the rules about room see the same models, in the same order."""
    return len(before.models) == len(after.models) and all(
        one is other or _standing(before, one) == _standing(after, other)
        for one, other in zip(before.models, after.models, strict=True)
    )


def _standing(desired: Desired, model: ModelSpec) -> tuple[Hashable, ...]:
    """All that they look at of one model."""
    return minimum_of(model), importance(model), desired.policy(model), model.suspend
