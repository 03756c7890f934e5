"""Desired and observed values for tests: say only what matters, the rest is plausible and consistent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from reconciler.domain.assignment import RunEntry
from reconciler.domain.declaration import declare
from reconciler.domain.desired import Desired, Node, Where
from reconciler.domain.fleet_spec import FleetSpec, GpuGroup
from reconciler.domain.intent import Intent, IntentKind
from reconciler.domain.model_spec import Engine, ModelSpec
from reconciler.domain.observed import (
    Observation,
    ObservedGpu,
    ObservedReplica,
    ReachableNode,
    ReplicaState,
    UnreachableNode,
)
from reconciler.domain.placement import PlacedGpu, Placement, Shard, parse_replica_id, replica_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from reconciler.domain.observed import NodeObservation

FLEET = "prod"
H100 = "h100-80gb"
SOURCE = "hf:org/model@6f6073b423013f6a7d4d9f39144961bfbfbc386b"
NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
LONG = timedelta(hours=1)
"""In a state for so long that no min_ready is left to wait for."""


def a_model(
    name: str = "m", *, replicas: int = 1, gpus: int | None = 1, gpu_class: str = H100, **fields: Any
) -> ModelSpec:
    """A model of one profile; `gpus` None runs on CPUs. Profile fields go into `profile`, model fields as they are."""
    profile: dict[str, Any] = {"name": "only", "engine": "vllm", "gpu_class": gpu_class, "gpus": gpus}
    if gpus is None:
        profile = {"name": "only", "engine": "llamacpp", "memory_gib": 4.0, "cpu_cores": 2}
    profile |= fields.pop("profile", {})
    spec = {"name": name, "source": SOURCE, "context": 4096, "scaling": {"min": replicas}, "profiles": [profile]}
    return ModelSpec.model_validate(spec | fields)


def a_node(name: str = "n1", *, gpus: int = 8, gpu_class: str = H100, **fields: Any) -> Node:
    """A node of one GPU class; `gpus` 0 is a CPU node."""
    groups = (GpuGroup.model_validate({"class": gpu_class, "count": gpus}),) if gpus else ()
    return Node(name=name, pool="pool", where=Where("nodes/pool.yaml"), gpus=fields.pop("groups", groups), **fields)


def a_desired(models: Iterable[ModelSpec] = (), nodes: Iterable[Node] = (), **fleet: Any) -> Desired:
    """A desired side, sorted as the loader sorts it."""
    return Desired(
        fleet=FleetSpec.model_validate({"name": FLEET} | fleet),
        nodes=tuple(sorted(nodes, key=lambda node: node.name)),
        models=tuple(sorted(models, key=lambda model: model.name)),
    )


def uuid(node: str, index: int) -> str:
    """The UUID that every builder gives a GPU."""
    return f"GPU-{node}-{index}"


def gpus_of(node: Node, **fields: Any) -> tuple[ObservedGpu, ...]:
    """What an agent reports of the GPUs that the inventory states."""
    return tuple(
        ObservedGpu(uuid=uuid(node.name, index), index=index, gpu_class=gpu_class, **fields)
        for index, gpu_class in enumerate(node.gpu_class_by_index())
    )


def heard(node: Node, *replicas: ObservedReplica, **fields: Any) -> ReachableNode:
    """A node that answers, with every engine installed."""
    plausible = {"boot_id": f"boot-{node.name}", "gpus": gpus_of(node), "engines": tuple(Engine)}
    return ReachableNode(name=node.name, replicas=replicas, **(plausible | fields))


def lost(node: Node, *replicas: ObservedReplica) -> UnreachableNode:
    """A node that does not answer, and what it last said."""
    return UnreachableNode(name=node.name, reason="connection refused", last=heard(node, *replicas))


def observation(*nodes: NodeObservation) -> Observation:
    """An observation, sorted as the observer sorts it."""
    return Observation(nodes=tuple(sorted(nodes, key=lambda node: node.name)))


def shards_of(node: str, gpus: Sequence[int]) -> tuple[Shard, ...]:
    """A placement on one node by GPU indices."""
    return (Shard(node=node, gpus=tuple(PlacedGpu(uuid=uuid(node, index), index=index) for index in gpus)),)


def an_entry(
    model: ModelSpec, ordinal: int, node: str, gpus: Sequence[int] = (), *, profile: int = 0, **fields: Any
) -> RunEntry:
    """What an agent was told when this model, as given here, was placed there."""
    fleet = fields.get("fleet", FLEET)
    desired = Desired(FleetSpec(name=fleet))
    declaration = declare(desired, model, model.profiles[profile])
    digest = fields.pop("digest", declaration.launch_digest())
    restart = fields.pop("restart", model.restart)
    shards = fields.pop("shards", None) or shards_of(node, gpus)
    id_ = replica_id(model.name, ordinal, digest, restart, fields.get("intent"), shards)
    return RunEntry(
        id=id_,
        model=model.name,
        ordinal=ordinal,
        placement=Placement(id=id_, shards=shards),
        declaration=declaration,
        digest=digest,
        restart=restart,
        ready_timeout=timedelta(minutes=30),
        **({"fleet": fleet} | fields),
    )


def a_replica(
    model: ModelSpec,
    ordinal: int,
    node: str,
    gpus: Sequence[int] = (),
    state: ReplicaState = ReplicaState.READY,
    *,
    entry: dict[str, Any] | None = None,
    **fields: Any,
) -> ObservedReplica:
    """A replica of this model, as given here, on a node; long in its state unless told otherwise."""
    told = an_entry(model, ordinal, node, gpus, **(entry or {}))
    served = state in {ReplicaState.READY, ReplicaState.UNHEALTHY}
    plausible = {"state_for": LONG, "ever_ready": served, "routable": state is ReplicaState.READY}
    if state is ReplicaState.FAILED:
        plausible |= {"failure": "out of memory", "failures_in_a_row": 1}
    return ObservedReplica(entry=told, state=state, **(plausible | fields))


def an_intent(kind: IntentKind, model: str | None = None, *, id: str = "i1", **fields: Any) -> Intent:  # noqa: A002
    """A person's instruction, made at noon."""
    return Intent(id=id, kind=kind, model=model, author="a. person", **({"created_at": NOON} | fields))


def slot_of(id_: str) -> str:
    """`m/0` of `m/0@1a2b3c4d`."""
    model, ordinal = parse_replica_id(id_)
    return f"{model}/{ordinal}"
