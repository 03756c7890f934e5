"""Fleets that could exist: no GPU holds two replicas, ids are those of what runs, states are plausible."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from reconciler.domain.intent import IntentKind
from reconciler.domain.observed import FailedLaunch, FailedStarts, ForeignProcess, ObservedReplica, ReplicaState
from tests.builders import (
    H100,
    a_desired,
    a_model,
    a_node,
    a_replica,
    an_intent,
    gpus_of,
    heard,
    lost,
    observation,
)

if TYPE_CHECKING:
    from reconciler.domain.desired import Desired, Node
    from reconciler.domain.intent import Intent
    from reconciler.domain.model_spec import ModelSpec
    from reconciler.domain.observed import NodeObservation, Observation

L40S = "l40s"
NAMES = ("a", "b", "c")
STRATEGIES = ("surge", "surge_or_in_place", "in_place")
LIVE = (ReplicaState.READY, ReplicaState.READY, ReplicaState.READY, ReplicaState.STARTING, ReplicaState.UNHEALTHY)
ANY_STATE = (*LIVE, ReplicaState.PENDING, ReplicaState.DRAINING, ReplicaState.STOPPING, ReplicaState.FAILED)


@dataclass(frozen=True)
class Fleet:
    """One desired side with one observation."""

    desired: Desired
    observed: Observation
    intents: tuple[Intent, ...] = ()


@st.composite
def models(draw: st.DrawFn, name: str, *, calm: bool = False) -> ModelSpec:
    """One model; a calm one is not suspended, can always be rolled out and needs at most two GPUs."""
    gpus = draw(st.sampled_from([None, 1, 1, 2]))
    rollout: dict[str, Any] = {
        "strategy": draw(st.sampled_from(STRATEGIES)),
        "max_surge": draw(st.sampled_from([1, 1, 2] if calm else [0, 1, 1, 2])),
        "min_ready": draw(st.sampled_from(["0s", "10s"])),
    }
    unavailable = draw(st.sampled_from([None, None, 0, 1, 2]))
    if unavailable is not None:
        rollout["max_unavailable"] = unavailable
    fields: dict[str, Any] = {"context": draw(st.sampled_from([1024, 2048])), "rollout": rollout}
    if draw(st.integers(0, 9)) == 0 and not calm:
        fields["suspend"] = True
    if draw(st.integers(0, 5)) == 0:
        fields["restart"] = draw(st.sampled_from(["r1", "r2"]))
    if draw(st.integers(0, 4)) == 0 and not calm:
        rollout["bake"] = "1m"
    if draw(st.integers(0, 3)) == 0:
        fields["class"] = draw(st.sampled_from(["critical", "opportunistic"]))
    if gpus is not None and draw(st.integers(0, 3)) == 0:
        fields["profiles"] = [
            {"name": "first", "engine": "vllm", "gpu_class": L40S, "gpus": gpus},
            {"name": "second", "engine": "vllm", "gpu_class": H100, "gpus": gpus},
        ]
    gpu_class = draw(st.sampled_from([H100, L40S]))
    if gpus is not None and draw(st.integers(0, 6)) == 0:
        gpu_class = H100  # which two nodes have
        fields["profile"] = {"nodes": 2}
    count = draw(st.integers(0, 3))
    if draw(st.integers(0, 4)) == 0 and not calm:
        target = draw(st.sampled_from([None, 4.0]))
        fields["scaling"] = {"min": count, "max": count + draw(st.integers(0, 2)), "target": target}
    return a_model(name, replicas=count, gpus=gpus, gpu_class=gpu_class, **fields)


@st.composite
def inventories(draw: st.DrawFn, *, calm: bool = False) -> list[Node]:
    """A CPU node and up to three GPU nodes; calm ones are large and nothing is drained."""
    cpu = a_node("cpu", gpus=0, memory_gib=100.0 if calm else draw(st.sampled_from([4.0, 8.0, 100.0])), cpu_cores=64)
    nodes = [cpu]
    for index, gpu_class in enumerate((H100, L40S, H100)[: 3 if calm else draw(st.integers(1, 3))]):
        rare = not calm and draw(st.integers(0, 4)) == 0
        nodes.append(
            a_node(
                f"n{index}",
                gpus=20 if calm else draw(st.integers(1, 4)),
                gpu_class=gpu_class,
                drain=rare and draw(st.booleans()),
                drain_gpus=(0,) if rare else (),
            )
        )
    return nodes


@st.composite
def replicas(
    draw: st.DrawFn, model: ModelSpec, node: Node, free: list[int], *, calm: bool, stale: bool
) -> ObservedReplica | None:
    """A replica of this model, or of what it once was, on free GPUs of a node; None where it does not fit."""
    context = 512 if stale else draw(st.sampled_from([model.context, model.context, 512]))
    once = model.model_copy(update={"context": context})
    if draw(st.integers(0, 5)) == 0:
        once = once.model_copy(update={"restart": "long ago"})
    fitting = [
        index
        for index, profile in enumerate(once.profiles)
        if profile.nodes == 1
        and (profile.gpus or 0) <= len(free)
        and (profile.gpu_class is None or node.count(profile.gpu_class) > 0)
    ]
    if not fitting:
        return None
    profile = draw(st.sampled_from(fitting))
    gpus = free[: once.profiles[profile].gpus or 0]
    state = draw(st.sampled_from((*LIVE, ReplicaState.DRAINING) if calm else ANY_STATE))
    entry: dict[str, Any] = {"profile": profile}
    if not calm and draw(st.integers(0, 14)) == 0:
        entry["fleet"] = "another"
    if draw(st.integers(0, 4)) == 0:
        entry["intent"] = "i1"
    seen: dict[str, Any] = {"state_for": timedelta(seconds=draw(st.sampled_from([0, 3, 10, 500, 5000])))}
    if draw(st.booleans()):
        seen["idle_for"] = timedelta(seconds=draw(st.sampled_from([0, 5000])))
    if state is ReplicaState.FAILED:
        seen |= {"ever_ready": draw(st.booleans()), "failures_in_a_row": draw(st.integers(1, 4))}
    return a_replica(once, draw(st.integers(0, 3)), node.name, gpus, state, entry=entry, **seen)


@st.composite
def fleets(draw: st.DrawFn, *, calm: bool = False) -> Fleet:
    """A whole fleet; a calm one answers, has room for all and nothing in it has failed."""
    inventory = draw(inventories(calm=calm))
    wanted = [draw(models(name, calm=calm)) for name in NAMES[: draw(st.integers(1, len(NAMES)))]]
    running = [*wanted, draw(models("gone", calm=calm))]
    stale = draw(st.sets(st.sampled_from(NAMES)))  # models that the newest commit has touched
    nodes: list[NodeObservation] = []
    for node in inventory:
        free = list(range(len(node.gpu_class_by_index())))
        held: dict[str, ObservedReplica] = {}
        for model in draw(st.lists(st.sampled_from(running), max_size=4)):
            replica = draw(replicas(model, node, free, calm=calm, stale=model.name in stale))
            if replica is not None and replica.id not in held:
                held[replica.id] = replica
                free = free[len(replica.entry.placement.gpu_uuids) :]
        nodes.append(_observed(draw, node, list(held.values()), free, calm=calm))
    known = inventory if calm or draw(st.integers(0, 5)) else inventory[:-1]  # the last may have left
    intents = []
    if draw(st.integers(0, 3)) == 0:
        intents.append(an_intent(IntentKind.RESTART, draw(st.sampled_from([None, "a"])), id="i1"))
    if draw(st.integers(0, 3)) == 0:
        intents.append(an_intent(IntentKind.RETRY, id="i2"))
    if draw(st.integers(0, 3)) == 0 and not calm:
        intents.append(an_intent(IntentKind.WAKE, draw(st.sampled_from(NAMES)), id="i4"))
    if draw(st.integers(0, 5)) == 0 and not calm:
        intents.append(an_intent(IntentKind.SUSPEND, draw(st.sampled_from([*NAMES, "gone"])), id="i3"))
    if draw(st.integers(0, 5)) == 0 and len(wanted) == len(NAMES):
        wanted[-1] = wanted[-1].model_copy(update={"moved": "gone"})
    limit = draw(st.sampled_from(["100%"] if calm else ["100%", "20%", 0]))
    at_once = draw(st.sampled_from(["10%", "10%", 1, 2]))
    limits = {"models_removed": limit, "replicas_removed": limit, "concurrent_starts": at_once}
    allow_empty = draw(st.booleans())
    models_ = wanted if draw(st.integers(0, 9)) or calm else []
    desired = a_desired(models_, known, allow_empty=allow_empty, limits=limits)
    return Fleet(desired, observation(*nodes), tuple(intents))


def _observed(
    draw: st.DrawFn, node: Node, held: list[ObservedReplica], free: list[int], *, calm: bool
) -> NodeObservation:
    if not calm and draw(st.integers(0, 5)) == 0:
        return lost(node, *held)
    gpus = gpus_of(node)
    foreign: tuple[ForeignProcess, ...] = ()
    if free and not calm and draw(st.integers(0, 3)) == 0:
        odd = gpus[free[-1]].uuid
        match draw(st.sampled_from(["foreign", "busy", "silent"])):
            case "foreign":
                foreign = (ForeignProcess(pid=1, command="train", gpus=(odd,)),)
            case "busy":
                gpus = tuple(gpu.model_copy(update={"used_mib": 9_000 * (gpu.uuid == odd)}) for gpu in gpus)
            case _:
                gpus = tuple(gpu.model_copy(update={"answers": gpu.uuid != odd}) for gpu in gpus)
    if held and not calm and draw(st.integers(0, 4)) == 0:
        silent = draw(st.sampled_from(sorted(gpu.uuid for gpu in gpus) or [""]))
        gpus = tuple(gpu.model_copy(update={"answers": gpu.answers and gpu.uuid != silent}) for gpu in gpus)
    failed_starts = FailedStarts(in_a_row=3) if not calm and draw(st.integers(0, 9)) == 0 else None
    return heard(
        node, *held, gpus=gpus, foreign=foreign, failed_starts=failed_starts, failed_launches=_failed_launches(held)
    )


def _failed_launches(held: list[ObservedReplica]) -> tuple[FailedLaunch, ...]:
    """What an agent remembers of launches that never came up."""
    return tuple(
        FailedLaunch(
            model=each.entry.model,
            ordinal=each.entry.ordinal,
            digest=each.entry.digest,
            retry=each.entry.retry,
            failure="out of memory",
        )
        for each in held
        if each.state is ReplicaState.FAILED and not each.ever_ready
    )


def turned(fleet: Fleet) -> Fleet:
    """The same fleet with every document, node, replica and intent in the opposite order."""
    desired = a_desired([], [], **fleet.desired.fleet.model_dump(exclude={"name"}, exclude_unset=True))
    object.__setattr__(desired, "models", fleet.desired.models[::-1])
    object.__setattr__(desired, "nodes", fleet.desired.nodes[::-1])
    nodes = tuple(
        node.model_copy(update={"replicas": node.replicas[::-1], "gpus": node.gpus[::-1]})
        if node.kind == "reachable"
        else node
        for node in reversed(fleet.observed.nodes)
    )
    return Fleet(desired, fleet.observed.model_copy(update={"nodes": nodes}), fleet.intents[::-1])
