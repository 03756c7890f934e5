"""What nodes said at one instant, in a file: `plan --save-observed` writes it, `plan --observed` plans against it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.controller.saved import check_version, parsed, read_json, write_json
from reconciler.domain.plan_file import SavedObservation
from reconciler.errors import UsageError
from reconciler.planning.difference import HIDDEN

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from reconciler.domain.observed import NodeObservation, Observation, ReachableNode


def write_observation(path: Path, fleet: str, observed: Observation, now: datetime) -> None:
    """Keep what nodes said; texts of variables are left out, since people write secrets there (promise 9)."""
    nodes = tuple(_discreet(node) for node in observed.nodes)
    write_json(path, SavedObservation(fleet=fleet, taken_at=now, nodes=nodes).model_dump(mode="json"))


def read_observation(path: Path, fleet: str) -> Observation:
    """What `write_observation` wrote, or a bare observation; UsageError for another fleet's."""
    content = read_json(path, "saved observation")
    check_version(path, content)
    saved = parsed(SavedObservation, path, content)
    if saved.fleet not in {None, fleet}:
        raise UsageError(f"{path} was taken of fleet {saved.fleet}, and this is fleet {fleet}")
    return saved.observation


def _discreet(node: NodeObservation) -> NodeObservation:
    if node.kind == "unreachable":
        return node if node.last is None else node.model_copy(update={"last": _without_texts(node.last)})
    return _without_texts(node)


def _without_texts(node: ReachableNode) -> ReachableNode:
    replicas = []
    for replica in node.replicas:
        declaration = replica.entry.declaration
        if declaration.env:
            env = {name: HIDDEN if isinstance(value, str) else value for name, value in declaration.env.items()}
            entry = replica.entry.model_copy(update={"declaration": declaration.model_copy(update={"env": env})})
            replicas.append(replica.model_copy(update={"entry": entry}))
        else:
            replicas.append(replica)
    return node.model_copy(update={"replicas": tuple(replicas)})
