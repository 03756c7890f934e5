"""Where a replica runs, and the ids that follow from it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from pydantic import StringConstraints

from reconciler.domain.base import Count, Frozen, Name, Text, digest

if TYPE_CHECKING:
    from collections.abc import Sequence

SlotName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*/[0-9]+$")]
ReplicaId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*/[0-9]+@[0-9a-f]{8}$")]

_ID = re.compile(r"^(?P<model>[^/@]+)/(?P<ordinal>[0-9]+)@(?P<mark>[0-9a-f]{8})$")


class PlacedGpu(Frozen):
    """One GPU of a node: the UUID identifies it, the index is for display."""

    uuid: Text
    """The card's own id."""
    index: Count
    """Its number on the node, for display."""


class Shard(Frozen):
    """The part of a replica that runs on one node; no GPUs on CPUs."""

    node: Name
    """Name of the node."""
    gpus: tuple[PlacedGpu, ...] = ()
    """Of this node; none on CPUs."""


class Placement(Frozen):
    """One replica on its nodes and GPUs."""

    id: ReplicaId
    """Id of the replica."""
    shards: tuple[Shard, ...]
    """One for each node."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Its nodes, in shard order."""
        return tuple(shard.node for shard in self.shards)

    @property
    def gpu_uuids(self) -> frozenset[str]:
        """All its GPUs."""
        return frozenset(gpu.uuid for shard in self.shards for gpu in shard.gpus)


def slot_name(model: str, ordinal: int) -> str:
    """`llama-70b/0`: model and ordinal."""
    return f"{model}/{ordinal}"


def replica_id(
    model: str, ordinal: int, launch_digest: str, restart: str | None, intent: str | None, shards: Sequence[Shard]
) -> str:
    """`llama-70b/0@p`: p is 8 hex digits of sha256 over launch digest, restart token, intent id, nodes and GPU UUIDs.

    Deterministic, so that asking twice for the same start is asking once.
    """
    nodes = [shard.node for shard in shards]
    uuids = [gpu.uuid for shard in shards for gpu in shard.gpus]
    return f"{slot_name(model, ordinal)}@{digest([launch_digest, restart, intent, nodes, uuids])[:8]}"


def parse_replica_id(text: str) -> tuple[str, int]:
    """Model and ordinal of a replica id; ValueError when it is none."""
    found = _ID.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a replica id such as llama-70b/0@1a2b3c4d")
    return found["model"], int(found["ordinal"])
