"""What replicas ask of nodes, and what nodes offer, as plain numbers: all that packing looks at."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from reconciler.domain.desired import Desired, Node
    from reconciler.domain.model_spec import ModelSpec, Profile

MICRO = 1_000_000
"""Host RAM is counted in millionths of a GiB: whole numbers, so that 0.1 and 0.2 fit into 0.3."""

MOST_GPUS = 64
"""GPUs of a class on one node (design section 3); a slip of the pen beyond it makes no list longer."""


@dataclass(frozen=True, slots=True)
class Need:
    """One way to run one replica: what it takes of each of its nodes."""

    gpu_class: str | None
    """None runs on CPUs."""
    gpus: int
    """On each node; 0 on CPUs."""
    nodes: int
    memory: int
    """Host RAM on each node, millionths of a GiB."""
    cpu_cores: int
    """On each node."""
    select: frozenset[tuple[str, str]]
    """Labels that a node must have, and their values; the label `node` is its name."""


@dataclass(frozen=True, slots=True)
class Ask:
    """So many replicas of one model, each in one of these ways; which way each takes is free."""

    model: str
    count: int
    needs: tuple[Need, ...]


@dataclass(frozen=True, slots=True)
class Bin:
    """What one node offers."""

    name: str
    gpus: Mapping[str, int]
    """By class."""
    memory: int | None
    """Host RAM, millionths of a GiB; None where the inventory does not say, which is no limit."""
    cpu_cores: int | None
    labels: Mapping[str, str]


def need_of(profile: Profile) -> Need:
    """What a replica under this profile takes."""
    return Need(
        gpu_class=profile.gpu_class,
        gpus=0 if profile.gpu_class is None else 1 if profile.gpus is None else profile.gpus,
        nodes=profile.nodes,
        memory=round((profile.memory_gib or 0.0) * MICRO),
        cpu_cores=profile.cpu_cores or 0,
        select=frozenset((profile.select or {}).items()),
    )


def minimum_of(model: ModelSpec) -> Ask:
    """The replicas of a model that must always run; none of an external one."""
    profiles = () if model.external is not None else model.profiles
    return Ask(model.name, model.replicas, tuple(dict.fromkeys(need_of(profile) for profile in profiles)))


def minimums(desired: Desired) -> tuple[Ask, ...]:
    """Those of every model that has any, in order of the models."""
    return tuple(ask for ask in map(minimum_of, desired.models) if ask.count)


def bins_of(nodes: Iterable[Node], *, drained: bool) -> tuple[Bin, ...]:
    """What the nodes offer; with `drained` also what takes no new replicas today, since a drain ends."""
    return tuple(_bin(node, drained=drained) for node in nodes if drained or not node.drain)


def _bin(node: Node, *, drained: bool) -> Bin:
    gpus: Counter[str] = Counter()
    first = 0
    for group in node.gpus:
        size = min(max(group.count, 0), MOST_GPUS)
        out = 0 if drained else sum(1 for index in set(node.drain_gpus) if first <= index < first + size)
        gpus[f"{group.gpu_class}/{group.mig}" if group.mig else group.gpu_class] += size - out
        first += size
    memory = None if node.memory_gib is None else round(node.memory_gib * MICRO)
    return Bin(node.name, gpus, memory, node.cpu_cores, {**node.labels, "node": node.name})
