"""Small changes that might unblock a model, the smallest first: each a whole desired and observed side to plan with.

Nothing here says whether one helps; `planning.why` plans each and looks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from reconciler.domain.intent import Intent, IntentKind
from reconciler.domain.model_spec import Strategy
from reconciler.domain.observed import Observation, ObservedGpu, ReachableNode
from reconciler.planning.aim import importance, importance_rank
from reconciler.planning.reaching import reach_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from reconciler.domain.desired import Desired, Node
    from reconciler.domain.model_spec import ModelSpec
    from reconciler.domain.plan import Blocked
    from reconciler.placement.demand import Demand

LACKS_ROOM = frozenset({"inventory/overcommitted", "rollout/no-surge-room"})
"""Rules that say that there is no place for a replica."""

NOT_HEARD = "rollout/not-heard"
"""Rule that says that no node which could run it answers."""

OF_A_KIND = 4
"""Changes of one kind that are proposed: each is planned, and a person waits."""

AS_LISTED = ", if it is as the inventory says and nothing runs there"
"""What is taken for granted of nodes that were never heard."""

LEGAL_COUNTS = (1, 2, 4, 8, 16, 32)
"""GPU counts that are asked about: heads of nearly every model split over powers of two, and the gate has the word."""


@dataclass(frozen=True, slots=True)
class Case:
    """What a plan is made of."""

    desired: Desired
    observed: Observation
    intents: tuple[Intent, ...]
    now: datetime


@dataclass(frozen=True, slots=True)
class Candidate:
    """One change in words, and the case as it would be then."""

    words: str
    case: Case
    subject: str
    """What it is about: of several changes of one thing only the first that helps is of interest."""
    edited: str | None = None
    """The model whose file it changes: the gate is asked about it."""
    provided: str = ""
    """What is taken for granted, as a clause behind the outcome."""


def candidates(case: Case, model: str, demands: Sequence[Demand], blocked: Sequence[Blocked]) -> Iterator[Candidate]:
    """Changes for a model that lacks room or is held back, the smallest first."""
    spec = case.desired.model_by_name.get(model)
    rules = {each.rule for each in blocked}
    yield from _words_of_a_person(case, model, spec, blocked)
    if spec is None or not demands:
        return
    able = _of_class(case.desired.nodes, demands)
    if not rules & LACKS_ROOM:
        yield from islice(_answering(case, able), OF_A_KIND)
        if NOT_HEARD in rules:
            yield from islice(_elsewhere(case, spec, demands), OF_A_KIND)
        return
    if "rollout/no-surge-room" in rules and spec.rollout.strategy is not Strategy.SURGE_OR_IN_PLACE:
        rollout = spec.rollout.model_copy(update={"strategy": Strategy.SURGE_OR_IN_PLACE})
        yield _edited(
            case, spec.model_copy(update={"rollout": rollout}), "rollout.strategy: surge_or_in_place", "strategy"
        )
    others: list[ModelSpec] = []
    holds = any(_would_hold(node, demand) for demand in demands for node in able)
    if holds:
        yield from islice(_returned(case, able, demands), OF_A_KIND)
        yield from islice(_freed(case, able), OF_A_KIND)
        yield from islice(_installed(case, able, demands), OF_A_KIND)
        yield from islice(_answering(case, able), OF_A_KIND)
        others = _others(case, model, able)[:OF_A_KIND]
    yield from islice(_fewer_replicas(case, spec, others), 2 * OF_A_KIND)
    yield from _fewer_gpus(case, spec)
    yield from islice(_elsewhere(case, spec, demands), OF_A_KIND)
    for other in others:
        yield from _fewer_gpus(case, other)
    if holds:
        yield from _one_node_more(case, able)


def _words_of_a_person(
    case: Case, model: str, spec: ModelSpec | None, blocked: Sequence[Blocked]
) -> Iterator[Candidate]:
    """Suspensions that end, failures that are tried again, limits that are approved."""
    if spec is not None and spec.suspend:
        yield _edited(case, spec.model_copy(update={"suspend": False}), "remove suspend: true", "suspend")
    kept = tuple(each for each in case.intents if each.kind is not IntentKind.SUSPEND or each.model != model)
    if len(kept) < len(case.intents):
        yield Candidate(f"reconciler resume {model}", replace(case, intents=kept), "suspend")
    if any(each.rule == "rollout/failed" for each in blocked):
        yield Candidate(f"reconciler retry {model}", _with_intent(case, IntentKind.RETRY, model=model), "retry")
    for each in blocked:
        if each.digest is not None:
            words = f"reconciler approve {each.digest}"
            yield Candidate(words, _with_intent(case, IntentKind.APPROVE, digest=each.digest), "approve")


def _with_intent(case: Case, kind: IntentKind, *, model: str | None = None, digest: str | None = None) -> Case:
    told = Intent(id=f"why-{kind}", kind=kind, model=model, digest=digest, author="why", created_at=case.now)
    return replace(case, intents=(*case.intents, told))


def _returned(case: Case, able: Sequence[Node], demands: Sequence[Demand]) -> Iterator[Candidate]:
    """Drained GPUs and nodes back in service."""
    wanted = {demand.gpu_class for demand in demands}
    for node in able:
        classes = node.gpu_class_by_index()
        for index in node.drain_gpus:
            if not node.drain and index < len(classes) and classes[index] in wanted:
                left = tuple(each for each in node.drain_gpus if each != index)
                returned = replace(node, drain_gpus=left)
                yield Candidate(f"return {node.name} GPU {index} to service", _with_node(case, returned), "drain")
        if node.drain:
            yield Candidate(f"return {node.name} to service", _with_node(case, replace(node, drain=False)), "drain")


def _freed(case: Case, able: Sequence[Node]) -> Iterator[Candidate]:
    """Processes that the fleet did not start, ended by whoever did."""
    names = {node.name for node in able}
    for heard in case.observed.reachable:
        for process in heard.foreign if heard.name in names else ():
            left = tuple(each for each in heard.foreign if each is not process)
            freed = _with_heard(case, heard.name, foreign=left)
            yield Candidate(f"end process {process.pid} on {heard.name} ({process.command})", freed, "process")


def _answering(case: Case, able: Sequence[Node]) -> Iterator[Candidate]:
    """Silent nodes that answer: as they were when last heard, else as the inventory says, with nothing on them."""
    node_by_name = {node.name: node for node in able}
    silent = [lost for lost in case.observed.unreachable if lost.name in node_by_name]
    back = {lost.name: lost.last or _as_listed(node_by_name[lost.name]) for lost in silent}
    for lost in silent:
        if lost.last is not None:
            yield Candidate(f"{lost.name} answers again", _with_nodes(case, {lost.name: lost.last}), "answer")
        else:
            words, case_then = reach_words(node_by_name[lost.name]), _with_nodes(case, {lost.name: back[lost.name]})
            yield Candidate(words, case_then, "answer", provided=AS_LISTED)
    if len(silent) > 1:
        provided = AS_LISTED if any(lost.last is None for lost in silent) else ""
        words = f"start or reach the agents of all {len(silent)} silent nodes"
        yield Candidate(words, _with_nodes(case, back), "answer", provided=provided)


def _as_listed(node: Node) -> ReachableNode:
    """A node that was never heard, as its inventory line describes it."""
    gpus = tuple(
        ObservedGpu(uuid=f"{node.name}-{index}", index=index, gpu_class=gpu_class)
        for index, gpu_class in enumerate(node.gpu_class_by_index())
    )
    return ReachableNode(name=node.name, boot_id="never-heard", agent=False, gpus=gpus)


def _fewer_replicas(case: Case, spec: ModelSpec, others: Sequence[ModelSpec]) -> Iterator[Candidate]:
    """Models in the way, none more important, that want less: the smallest first, by as little as possible."""
    own = importance_rank(importance(spec))
    for other in others:
        if importance_rank(importance(other)) < own:
            continue  # nobody gives up a more important model for it
        for count in range(other.replicas - 1, -1, -1):
            scaling = other.scaling.model_copy(update={"min": count, "max": max(count, other.scaling.max or 0)})
            lowered = other.model_copy(update={"scaling": scaling})
            words = f"scaling.min: {count} for {other.name} ({importance(other)})"
            yield _edited(case, lowered, words, f"fewer {other.name}")


def _fewer_gpus(case: Case, spec: ModelSpec) -> Iterator[Candidate]:
    """The next smaller count of a profile; the gate says whether the model then still fits."""
    for position, profile in enumerate(spec.profiles):
        gpus = profile.gpus or 1
        smaller = max((count for count in LEGAL_COUNTS if count < gpus), default=None)
        if profile.gpu_class is None or smaller is None:
            continue
        profiles = list(spec.profiles)
        profiles[position] = profile.model_copy(update={"gpus": smaller})
        which = f" in profile {profile.name}" if len(profiles) > 1 else ""
        words = f"gpus: {smaller} for {spec.name}{which}"
        yield _edited(case, spec.model_copy(update={"profiles": tuple(profiles)}), words, f"smaller {spec.name}")


def _installed(case: Case, able: Sequence[Node], demands: Sequence[Demand]) -> Iterator[Candidate]:
    """Engines on nodes that lack them."""
    nodes = {node.name for node in able}
    for heard in case.observed.reachable:
        for engine in dict.fromkeys(demand.profile.engine for demand in demands):
            if heard.name in nodes and heard.engines and engine not in heard.engines:
                then = _with_heard(case, heard.name, engines=(*heard.engines, engine))
                yield Candidate(f"install {engine} on {heard.name}", then, f"install {engine}")


def _elsewhere(case: Case, spec: ModelSpec, demands: Sequence[Demand]) -> Iterator[Candidate]:
    """The first profile on nodes that its `select` leaves out, or on another class of the inventory."""
    profile = spec.profiles[0]
    if profile.select:
        freed = (profile.model_copy(update={"select": None}), *spec.profiles[1:])
        yield _edited(case, spec.model_copy(update={"profiles": freed}), f"no select for {spec.name}", "select")
    asked = {demand.gpu_class for demand in demands}
    classes = {each for node in case.desired.nodes for each in node.gpu_class_by_index()}
    for gpu_class in sorted(classes - asked) if None not in asked else ():
        moved = (profile.model_copy(update={"gpu_class": gpu_class}), *spec.profiles[1:])
        words = f"gpu_class: {gpu_class} for {spec.name}"
        yield _edited(case, spec.model_copy(update={"profiles": moved}), words, "class")


def _one_node_more(case: Case, able: Sequence[Node]) -> Iterator[Candidate]:
    """Another node like one of the inventory."""
    like = next((node for node in able if not node.drain), None)
    heard = next((each for each in case.observed.reachable if like is not None and each.name == like.name), None)
    if like is None or heard is None:
        return
    name = f"{like.name[:58]}-like"  # names have 63 characters at most
    # Like it as the inventory says, and not in its troubles.
    fresh = {"used_mib": None, "answers": True}
    gpus = tuple(gpu.model_copy(update=fresh | {"uuid": f"{gpu.uuid}-like"}) for gpu in heard.gpus)
    nothing = dict.fromkeys(("replicas", "foreign", "load_times", "failed_launches", "last_good"), ())
    empty = heard.model_copy(update=nothing | {"name": name, "gpus": gpus, "failed_starts": None})
    node = replace(like, name=name, drain_gpus=(), labels=like.labels)
    nodes = tuple(sorted((*case.desired.nodes, node), key=lambda each: each.name))
    observed = tuple(sorted((*case.observed.nodes, empty), key=lambda each: each.name))
    grown = replace(case, desired=replace(case.desired, nodes=nodes), observed=Observation(nodes=observed))
    yield Candidate(f"one more node like {like.name}, in pool {like.pool}", grown, "node")


def _others(case: Case, model: str, able: Sequence[Node]) -> list[ModelSpec]:
    """Other models with replicas where this one could run, the least important and smallest first."""
    wanted = {node.name for node in able}
    there = {replica.entry.model for node, replica in case.observed.replicas() if node.name in wanted}
    found = [
        spec
        for spec in case.desired.models
        if spec.name in there and spec.name != model and spec.external is None and spec.replicas > 0
    ]
    return sorted(found, key=lambda spec: (-importance_rank(importance(spec)), _size(spec), spec.name))


def _size(spec: ModelSpec) -> int:
    return max((profile.gpus or 1 for profile in spec.profiles), default=0)


def _of_class(nodes: Sequence[Node], demands: Sequence[Demand]) -> list[Node]:
    """Nodes that have what some demand asks for."""
    return [
        node
        for node in nodes
        if any(
            (demand.gpu_class is None or demand.gpu_class in node.gpu_class_by_index()) and demand.is_selected(node)
            for demand in demands
        )
    ]


def _would_hold(node: Node, demand: Demand) -> bool:
    """Whether a node has GPUs, memory and cores enough if it were empty: else nothing that frees any of it helps."""
    gpus = node.gpu_class_by_index().count(demand.gpu_class) if demand.gpu_class is not None else demand.gpus
    memory_gib, cpu_cores = node.memory_gib or demand.memory_gib, node.cpu_cores or demand.cpu_cores
    return gpus >= demand.gpus and memory_gib >= demand.memory_gib and cpu_cores >= demand.cpu_cores


def _edited(case: Case, spec: ModelSpec, words: str, subject: str) -> Candidate:
    models = tuple(spec if each.name == spec.name else each for each in case.desired.models)
    return Candidate(words, replace(case, desired=replace(case.desired, models=models)), subject, spec.name)


def _with_node(case: Case, node: Node) -> Case:
    nodes = tuple(node if each.name == node.name else each for each in case.desired.nodes)
    return replace(case, desired=replace(case.desired, nodes=nodes))


def _with_heard(case: Case, name: str, **fields: object) -> Case:
    heard = next(each for each in case.observed.reachable if each.name == name)
    return _with_nodes(case, {name: heard.model_copy(update=fields)})


def _with_nodes(case: Case, then: Mapping[str, ReachableNode]) -> Case:
    """The same, with what some nodes say in the place of what they said or did not say."""
    nodes = tuple(then.get(each.name, each) for each in case.observed.nodes)
    return replace(case, observed=Observation(nodes=nodes))
