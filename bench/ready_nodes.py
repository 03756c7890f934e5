"""What nodes of a bench say: eight GPUs of one class each, and replicas that are ready on the first of them."""  # noqa: INP001  # a script's part

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from reconciler.domain.assignment import RunEntry
from reconciler.domain.declaration import declare
from reconciler.domain.observed import ObservedGpu, ObservedReplica, ReachableNode, ReplicaState
from reconciler.domain.placement import PlacedGpu, Placement, Shard, replica_id

if TYPE_CHECKING:
    from reconciler.domain.desired import Desired, Node
    from reconciler.domain.model_spec import ModelSpec

CLASS = "h100-80gb"
GPUS = 8
"""On each node."""


def heard(each: Node, *replicas: ObservedReplica) -> ReachableNode:
    """A node that answers."""
    gpus = tuple(ObservedGpu(uuid=f"{each.name}-{index}", index=index, gpu_class=CLASS) for index in range(GPUS))
    return ReachableNode(name=each.name, boot_id="b", gpus=gpus, engines=("vllm",), replicas=replicas)


def running(desired: Desired, spec: ModelSpec, where: Node) -> ObservedReplica:
    """The first replica of a model, ready on the first cards of a node."""
    declaration = declare(desired, spec, spec.profiles[0])
    gpus = tuple(PlacedGpu(uuid=f"{where.name}-{index}", index=index) for index in range(declaration.gpus))
    shards = (Shard(node=where.name, gpus=gpus),)
    id_ = replica_id(spec.name, 0, declaration.launch_digest(), None, None, shards)
    entry = RunEntry(
        id=id_,
        fleet="bench",
        model=spec.name,
        ordinal=0,
        placement=Placement(id=id_, shards=shards),
        declaration=declaration,
        digest=declaration.launch_digest(),
        ready_timeout=timedelta(minutes=30),
    )
    return ObservedReplica(entry=entry, state=ReplicaState.READY, state_for=timedelta(hours=1), ever_ready=True)
