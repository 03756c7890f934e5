"""What several fields must agree on, for one model, pool or fleet, and for all nodes together.

The types check each field by itself; here is what no single field can know. What the inventory, an engine or another
model would have to be asked is the gate's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.domain.desired import resolve_rollout
from reconciler.domain.fleet_spec import LOCAL
from reconciler.domain.model_spec import Strategy, Task

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reconciler.domain.desired import Node, Path, Where
    from reconciler.domain.fleet_spec import FleetSpec, PoolSpec
    from reconciler.domain.model_spec import ModelSpec, Profile, Rollout

TYPE = "yaml/type"
UNKNOWN_FIELD = "yaml/unknown-field"
DUPLICATE_NAME = "yaml/duplicate-name"

# Nothing is launched for an external model. suspend, protect and moved are harmless and may outlive a change of mind.
_NOT_EXTERNAL = ("profiles", "adapters", "scaling", "rollout", "restart", "unverified")

# What a rendered address must look like; the port is checked as a number.
_URL = re.compile(
    r"https?://(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?)(:(?P<port>[0-9]+))?(/[^?#{}]*)?"
)
_UNIX = re.compile(r"unix:/[^{}]+")
_MAX_PORT = 65_535


@dataclass(frozen=True, slots=True)
class Inconsistency:
    """One disagreement: the field to change, and what to do."""

    path: Path
    rule: str
    message: str
    hint: str | None = None


def model_inconsistencies(model: ModelSpec, fleet_rollout: Rollout | None) -> list[Inconsistency]:
    """What the fields of one model disagree on; without the fleet's rollout, what depends on it is left out."""
    found = list(_weights(model))
    if model.external is None:
        found += _served(model)
        found += _profiles(model.profiles)
        if fleet_rollout is not None and "rollout" in model.model_fields_set:
            found += _rollout(fleet_rollout, model.rollout, ("rollout",))
    else:
        found += [
            _does_not_apply((name,), "to an external model") for name in _NOT_EXTERNAL if name in model.model_fields_set
        ]
    if model.moved == model.name:
        found.append(Inconsistency(("moved",), TYPE, "moved names the model itself", "write its former name"))
    return found


def pool_inconsistencies(pool: PoolSpec) -> list[Inconsistency]:
    """What the fields of one pool disagree on, before its ranges are expanded."""
    labelled = [((), pool.labels), *((("nodes", index), entry.labels) for index, entry in enumerate(pool.nodes))]
    return [
        Inconsistency(
            (*path, "labels", "node"), TYPE, "the label node is taken: it selects by name", "rename the label"
        )
        for path, labels in labelled
        if labels and "node" in labels
    ]


def fleet_inconsistencies(fleet: FleetSpec) -> list[Inconsistency]:
    """What the fields of `cluster.yaml` disagree on."""
    found = list(_rollout(fleet.defaults.rollout, None, ("defaults", "rollout")))
    for slug, gpu_class in (fleet.gpu_classes or {}).items():
        if gpu_class.engine_mib > gpu_class.memory_mib:
            message = f"an engine cannot see {gpu_class.engine_mib:,} MiB of {gpu_class.memory_mib:,} MiB"
            hint = f"write at most {gpu_class.memory_mib}"
            found.append(Inconsistency(("gpu_classes", slug, "engine_mib"), TYPE, message, hint))
    return found


@dataclass(frozen=True, slots=True)
class NodeInconsistency:
    """One disagreement about a node; the path is of the file that its pool is in."""

    node: Node
    problem: Inconsistency
    other: Node | None = None
    """The node it disagrees with."""


def node_inconsistencies(nodes: Sequence[Node]) -> list[NodeInconsistency]:
    """What all nodes together disagree on, in the order given: of two nodes, the second is at fault.

    One entry of a pool may be a range of many nodes; each mistake in it is told once.
    """
    found: dict[tuple[Where, Path], NodeInconsistency] = {}
    by_name: dict[str, Node] = {}
    by_address: dict[str, Node] = {}
    for node in nodes:
        namesake = by_name.setdefault(node.name, node)
        if namesake is not node:
            problems = [NodeInconsistency(node, _namesake(node), namesake)]
        else:
            problems = [NodeInconsistency(node, problem) for problem in (*_address(node), *_drained(node))]
        if not problems and node.address is not None:
            neighbour = by_address.setdefault(node.address, node)
            if neighbour is not node:
                problems = [NodeInconsistency(node, _shared(node, node.address), neighbour)]
        for each in problems:
            found.setdefault((node.where, each.problem.path), each)
    return list(found.values())


def _weights(model: ModelSpec) -> Iterator[Inconsistency]:
    if model.source is None and model.external is None:
        hint = "write source: hf:ORG/NAME@REVISION, or external: {url: …} for a model that somebody else serves"
        yield Inconsistency((), TYPE, "source is missing", hint)
    if model.source is not None and model.external is not None:
        yield Inconsistency(("external",), TYPE, "source and external exclude each other", "remove one")


def _served(model: ModelSpec) -> Iterator[Inconsistency]:
    if model.context is None and model.task is not Task.IMAGE:
        hint = "write context: TOKENS, what one request may use, prompt and answer together"
        yield Inconsistency(("context",), TYPE, "context is missing", hint)
    if not model.profiles:
        hint = "write at least one profile: profiles: [{name: …, engine: …}]"
        yield Inconsistency(("profiles",), TYPE, "profiles are missing", hint)
    lowest, highest = model.scaling.min, model.scaling.max
    if highest is not None and highest < lowest:
        message = f"scaling.max is {highest}, below scaling.min {lowest}"
        hint = f"write at least {lowest} here, or scaling.min: {highest}"
        yield Inconsistency(("scaling", "max"), TYPE, message, hint)


def _profiles(profiles: Sequence[Profile]) -> Iterator[Inconsistency]:
    index_by_name: dict[str, int] = {}
    for index, profile in enumerate(profiles):
        first = index_by_name.setdefault(profile.name, index)
        if first != index:
            message = f"profile {profile.name} is declared twice: profiles[{first}] has the name too"
            yield Inconsistency(("profiles", index, "name"), DUPLICATE_NAME, message, "rename one")
        if profile.gpu_class is None and profile.memory_share is not None:  # gpus: see inventory/cpu-profile
            path = ("profiles", index, "memory_share")
            yield _does_not_apply(path, "without gpu_class", "add gpu_class, or remove it")


def _rollout(fleet: Rollout, model: Rollout | None, path: Path) -> Iterator[Inconsistency]:
    """A policy that allows neither one replica more nor one less can never replace anything."""
    policy = resolve_rollout(fleet, fleet if model is None else model)
    if policy.max_unavailable > 0:
        return
    if policy.strategy is Strategy.IN_PLACE:
        message = "in place with max_unavailable 0 can never replace a replica"
        yield Inconsistency((*path, "max_unavailable"), TYPE, message, "write max_unavailable: 1, or strategy: surge")
    elif policy.strategy is Strategy.SURGE and policy.max_surge == 0:
        message = "surge with max_surge 0 and max_unavailable 0 can never replace a replica"
        yield Inconsistency((*path, "max_surge"), TYPE, message, "write max_surge: 1, or max_unavailable: 1")


def _does_not_apply(path: Path, where: str, hint: str = "remove it") -> Inconsistency:
    return Inconsistency(path, UNKNOWN_FIELD, f"{path[-1]} does not apply {where}", hint)


def _namesake(node: Node) -> Inconsistency:
    message = f"node {node.name} is declared twice"
    return Inconsistency(node.where.at("name").path, DUPLICATE_NAME, message, "remove or rename one")


def _address(node: Node) -> Iterator[Inconsistency]:
    """Why a node's address, with its name filled in, is none."""
    address = node.address
    if address is None or address == LOCAL or _UNIX.fullmatch(address):
        return
    url = _URL.fullmatch(address)
    if url is None or (url["port"] is not None and not 0 < int(url["port"][:6]) <= _MAX_PORT):
        hint = "write https://HOST:PORT, where {node} stands for the node's name; no user, query or other braces"
        yield Inconsistency(node.where.at("address").path, TYPE, f"the address of {node.name} is not valid", hint)


def _shared(node: Node, address: str) -> Inconsistency:
    path = node.where.at("address").path
    if address == LOCAL:
        return Inconsistency(path, TYPE, "only one node can have address: local", "remove the other node")
    hint = "write {node} where the name belongs: https://{node}.example:7443"
    return Inconsistency(path, TYPE, f"node {node.name} has the address of another node", hint)


def _drained(node: Node) -> Iterator[Inconsistency]:
    count = len(node.gpu_class_by_index()) if node.drain_gpus else 0
    for index in node.drain_gpus:
        if index >= count:
            message = f"node {node.name} has no GPU {index}"
            hint = f"it has GPUs 0 to {count - 1}" if count else "it has no GPUs"
            yield Inconsistency(node.where.at("drain_gpus").path, TYPE, message, hint)
