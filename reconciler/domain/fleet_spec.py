"""The fleet and its nodes as `cluster.yaml` and `nodes/<pool>.yaml` state them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StringConstraints

from reconciler.domain.base import Count, Duration, Flag, Frozen, Gibs, Mibs, Name, Parts, Positive, Text, Whole
from reconciler.domain.model_spec import Engine, Rollout

LOCAL = "local"
"""The address of a node whose agent is started on this machine, on a Unix socket."""

GpuClassName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(/[a-z0-9.]+)?$")]
Percent = Annotated[str, StringConstraints(pattern=r"^(100|[0-9]{1,2})%$")]
Address = Annotated[str, StringConstraints(pattern=r"^(local|unix:/\S+|https?://\S+)$")]


class GpuClass(Frozen):
    """One kind of GPU: what the driver reports and what an engine sees of it, in MiB."""

    memory_mib: Mibs
    """Total memory the driver reports, MiB."""
    engine_mib: Mibs
    """Total memory an engine sees (the CUDA runtime's figure), MiB."""


class GpuGroup(Frozen):
    """Some GPUs of one class in a node."""

    gpu_class: GpuClassName = Field(alias="class")
    """A built-in class or one of cluster.yaml's gpu_classes."""
    count: Whole = Field(json_schema_extra={"minimum": 1, "maximum": 64})
    """How many, 1 to 64."""
    mig: Annotated[str, StringConstraints(pattern=r"^\d+g\.\d+gb(\+me)?$")] | None = None
    """MIG profile: makes slices of class CLASS/PROFILE."""


def _as_list(value: object) -> object:
    """One GPU group may be written without the list."""
    return [value] if isinstance(value, dict | GpuGroup) else value


GpuGroups = Annotated[
    tuple[GpuGroup, ...],
    BeforeValidator(_as_list, json_schema_input_type=GpuGroup | tuple[GpuGroup, ...]),
]


class NodeDefaults(Frozen):
    """What a pool may state for all its nodes, and a node for itself."""

    gpus: GpuGroups | None = None
    """GPUs of each node: {class, count, mig} or a list of them; none for a CPU node."""
    memory_gib: Gibs | None = None
    """Host RAM that models may reserve, GiB."""
    cpu_cores: Parts | None = None
    """CPU cores that models may reserve."""
    address: Address | None = None
    """Where the agent answers: https://{node}.example:7443, unix:/path or local."""
    labels: dict[Text, Text] | None = None
    """Labels for a profile's select."""
    drain: Flag | None = None
    """Take no new replicas and move the running ones away."""
    drain_gpus: tuple[Count, ...] | None = None
    """GPUs by index that take no new replicas."""


class NodeEntry(NodeDefaults):
    """One node, or a range of nodes such as gpu-[01-16]; what it does not say comes from its pool."""

    name: Text
    """Name, or a range as Slurm and Ansible write it."""


def _as_entry(value: Any) -> Any:
    """A node may be written as its name alone."""
    return {"name": value} if isinstance(value, str) else value


class PoolSpec(NodeDefaults):
    """Nodes that are alike; one pool a file, whose stem is its name."""

    pool: Name
    """Name of the pool."""
    nodes: tuple[Annotated[NodeEntry, BeforeValidator(_as_entry, json_schema_input_type=Text | NodeEntry)], ...]
    """Its nodes."""


class FleetDefaults(Frozen):
    """What models inherit."""

    engine_versions: dict[Engine, Text] | None = None
    """Version per engine for profiles that name none."""
    rollout: Rollout = Rollout()
    """Rollout fields for models that do not write them."""
    idle_timeout: Duration | None = None
    """For on-demand models that do not write one."""


class Limits(Frozen):
    """How much may disappear from the tree in one change before a person must approve, and how much starts at once."""

    models_removed: Percent | Count = "20%"
    """Models whose file is gone: a share of all, or a count; always at least 1."""
    replicas_removed: Percent | Count = "20%"
    """Their replicas: a share of all, or a count; always at least 1."""
    concurrent_starts: Percent | Positive = "10%"
    """Replicas that may be starting at once: a share of the nodes, then at least 8, or a count. 4 on one node."""


class FleetSpec(Frozen):
    """The fleet: `cluster/cluster.yaml`."""

    name: Name
    """Name of the fleet."""
    allow_empty: Flag = False
    """Allow a tree without any model file, which stops everything."""
    defaults: FleetDefaults = FleetDefaults()
    """What models inherit."""
    limits: Limits = Limits()
    """How much may disappear, and start, at once."""
    gpu_classes: dict[GpuClassName, GpuClass] | None = None
    """GPU classes beyond the built-in ones."""
