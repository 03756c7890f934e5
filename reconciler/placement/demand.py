"""What one replica asks of a node: one demand for each profile of its model, in the order they are tried."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.domain.declaration import declare
from reconciler.placement.stock import selects

if TYPE_CHECKING:
    from reconciler.domain.declaration import Declaration
    from reconciler.domain.desired import Desired, Node
    from reconciler.domain.model_spec import ModelSpec, Profile


@dataclass(frozen=True, slots=True)
class Demand:
    """One way to run one replica."""

    profile: Profile
    declaration: Declaration
    digest: str
    """Launch digest of the declaration."""

    @property
    def digests(self) -> tuple[str, ...]:
        """Launch digests of processes that serve it: its own, and those with room for more adapters."""
        return (self.digest, *self.declaration.digests_with_more_room())

    @property
    def gpu_class(self) -> str | None:
        """None runs on CPUs."""
        return self.declaration.gpu_class

    @property
    def gpus(self) -> int:
        """On one node; 0 on CPUs."""
        return self.declaration.gpus

    @property
    def nodes(self) -> int:
        """Nodes that one replica spans."""
        return self.declaration.nodes

    def is_selected(self, node: Node) -> bool:
        """Whether the profile's `select` leaves a node."""
        return selects(self.profile.select or {}, node)

    @property
    def memory_gib(self) -> float:
        """Host RAM it reserves, 0 when the profile states none."""
        return self.profile.memory_gib or 0.0

    @property
    def cpu_cores(self) -> int:
        """CPU cores it reserves, 0 when the profile states none."""
        return self.profile.cpu_cores or 0


def demands(desired: Desired, model: ModelSpec) -> tuple[Demand, ...]:
    """The demands of a model; none for an external one, which is never launched."""
    if model.external is not None:
        return ()
    declared = ((profile, declare(desired, model, profile)) for profile in model.profiles)
    return tuple(Demand(profile, declaration, declaration.launch_digest()) for profile, declaration in declared)
