"""One word and one sentence for every model, and the GPUs of every node."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.domain.external import ExternalAnswer, ExternalVerdict
from reconciler.domain.observed import ForeignProcess, ReplicaState
from reconciler.domain.status import GpuUse, ModelState
from reconciler.planning.planner import plan
from reconciler.planning.status import UNKNOWN, status
from tests.builders import NOON, a_desired, a_model, a_node, a_replica, heard, lost, observation, shards_of, uuid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.domain.model_spec import ModelSpec
    from reconciler.domain.observed import ObservedReplica
    from reconciler.domain.status import FleetStatus, ModelStatus

NODE = a_node("n1", gpus=2)
MODEL = a_model(replicas=2)
BEFORE = a_model(replicas=2, context=1024)


def seen(models: Sequence[ModelSpec], *replicas: ObservedReplica, silent: bool = False, **fleet: Any) -> FleetStatus:
    desired = a_desired(models, [NODE], **fleet)
    observed = observation(lost(NODE, *replicas) if silent else heard(NODE, *replicas))
    return status(desired, observed, plan(desired, observed, (), NOON), "c1")


def of(*replicas: ObservedReplica, model: ModelSpec = MODEL, silent: bool = False) -> ModelStatus:
    (found,) = seen([model], *replicas, silent=silent).models
    return found


def on(
    gpu: int, state: ReplicaState = ReplicaState.READY, *, model: ModelSpec = MODEL, **fields: Any
) -> ObservedReplica:
    return a_replica(model, gpu, "n1", [gpu], state, **fields)


def test_a_node_tells_what_is_wrong_with_its_gpus_also_while_it_is_silent() -> None:
    desired = a_desired([MODEL], [NODE])
    told = heard(NODE).model_copy(update={"gpu_problems": ("GPU 1 does not answer: GPU is lost",)})
    for node in (told, lost(NODE).model_copy(update={"last": told})):
        observed = observation(node)
        (seen_node,) = status(desired, observed, plan(desired, observed, (), NOON), "c1").nodes
        assert seen_node.gpu_problems == ("GPU 1 does not answer: GPU is lost",)


EXTERNAL = a_model(source=None, context=None, profiles=[], external={"url": "https://llm.example/v1"})


@pytest.mark.parametrize(
    ("found", "state", "counts", "words"),
    [
        (of(on(0), on(1)), ModelState.READY, (2, 2, 2), None),
        (
            of(on(0), on(1, ReplicaState.STARTING, stage="loading weights")),
            ModelState.RECONCILING,
            (2, 1, 1),
            "/1 loading weights",
        ),
        (of(on(0)), ModelState.RECONCILING, (2, 1, 1), "/1 new, to be created"),
        (of(on(0), on(1, ReplicaState.UNHEALTHY)), ModelState.RECONCILING, (2, 1, 1), "/1 does not answer"),
        (of(on(0), on(1, model=BEFORE)), ModelState.WAITING, (2, 2, 1), "no node has 1 h100-80gb free"),
        (of(on(0), on(1, ReplicaState.FAILED)), ModelState.STALLED, (2, 1, 1), "m/1 on n1 failed: out of memory"),
        (of(on(0), on(1), silent=True), ModelState.WAITING, (2, 0, 0), "n1 does not answer"),
        (of(on(0), model=a_model(replicas=2, suspend=True)), ModelState.SUSPENDED, (2, 1, 1), "suspend: true"),
        (of(model=a_model(replicas=0)), ModelState.OFF, (0, 0, 0), None),
        (of(on(0), model=a_model(replicas=0)), ModelState.RECONCILING, (0, 1, 0), "/0 scaled-down, to be stopped"),
        (of(model=EXTERNAL), ModelState.READY, (0, 0, 0), "external"),
        (of(on(0), model=EXTERNAL), ModelState.RECONCILING, (0, 1, 0), "to be stopped"),
    ],
)
def test_a_model_in_one_word(
    found: ModelStatus, state: ModelState, counts: tuple[int, int, int], words: str | None
) -> None:
    assert (found.state, (found.desired, found.ready, found.updated)) == (state, counts)
    assert found.reason is None if words is None else words in (found.reason or "")


@pytest.mark.parametrize(
    ("verdict", "state"),
    [(each, ModelState.READY if each is ExternalVerdict.REACHABLE else ModelState.WAITING) for each in ExternalVerdict],
)
def test_an_external_model_is_ready_or_waits_and_says_what_it_answered(
    verdict: ExternalVerdict, state: ModelState
) -> None:
    desired, observed = a_desired([EXTERNAL], [NODE]), observation(heard(NODE))
    answers = {EXTERNAL.name: ExternalAnswer(verdict, "llm.example said so")}
    (found,) = status(desired, observed, plan(desired, observed, (), NOON), None, answers).models
    assert (found.state, found.reason, found.since) == (state, "external: llm.example said so", None)
    assert (found.desired, found.ready, found.updated, found.replicas) == (0, 0, 0, ())


def test_a_model_that_still_runs_after_its_file_went_has_a_row() -> None:
    gone = seen([MODEL], on(0), a_replica(a_model("gone"), 0, "n1", [1])).models[0]
    assert (gone.name, gone.desired, gone.ready, gone.state) == ("gone", 0, 1, ModelState.RECONCILING)


def test_an_empty_tree_is_stalled_until_it_is_allowed() -> None:
    (found,) = seen([], on(0)).models
    assert (found.state, found.reason) == (
        ModelState.STALLED,
        "the tree has no model file: 1 replica of 1 model would stop",
    )


def test_a_pair_counts_its_successor_as_updated() -> None:
    found = of(on(0, model=BEFORE), a_replica(MODEL, 0, "n1", [1]), model=a_model(replicas=1))
    assert (found.ready, found.updated) == (2, 1)


def test_since_is_the_newest_change_in_utc() -> None:
    early = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)
    late = datetime(2026, 11, 30, 14, 0, tzinfo=timezone(timedelta(hours=3)))
    found = of(on(0, since=early), on(1, since=late))
    assert found.model_dump(mode="json")["since"] == "2026-11-30T11:00:00Z"


def test_a_replica_on_a_silent_node_is_unknown_and_not_routable() -> None:
    (replica,) = of(on(0, address="http://127.0.0.1:1"), silent=True).replicas
    assert (replica.state, replica.routable, replica.gpus) == (UNKNOWN, False, (0,))


def test_another_fleets_replicas_are_no_rows_and_hold_their_gpus() -> None:
    found = seen([], a_replica(MODEL, 0, "n1", [0], entry={"fleet": "lab"}))
    assert found.models == ()
    assert found.nodes[0].gpus == {"h100-80gb": GpuUse(used=1, total=2)}


def test_gpus_of_a_node_are_used_when_a_replica_or_a_foreign_process_holds_them() -> None:
    mixed = a_node("n1", groups=(*NODE.gpus, *a_node("x", gpus=1, gpu_class="l40s").gpus))
    desired = a_desired([], [mixed, a_node("n2", gpus=4)])
    foreign = (ForeignProcess(pid=1, command="train", gpus=(uuid("n1", 2),)),)
    observed = observation(heard(mixed, on(1), foreign=foreign))
    found = status(desired, observed, plan(desired, observed, (), NOON), None)
    assert [(node.name, node.reachable) for node in found.nodes] == [("n1", True), ("n2", False)]
    assert found.nodes[0].gpus == {"h100-80gb": GpuUse(used=1, total=2), "l40s": GpuUse(used=1, total=1)}
    assert found.nodes[1].gpus == {"h100-80gb": GpuUse(used=0, total=4)}


def test_a_replica_over_two_nodes_is_one_and_ready_when_both_parts_are() -> None:
    model = a_model(profile={"nodes": 2})
    nodes = [a_node("n1"), a_node("n2")]
    shards = (*shards_of("n1", [0]), *shards_of("n2", [0]))

    def counts(second: ReplicaState) -> tuple[int, int, int]:
        parts = [
            heard(node, a_replica(model, 0, node.name, [0], state, entry={"shards": shards}))
            for node, state in zip(nodes, (ReplicaState.READY, second), strict=True)
        ]
        desired, observed = a_desired([model], nodes), observation(*parts)
        (found,) = status(desired, observed, plan(desired, observed, (), NOON), "c1").models
        return found.desired, found.ready, found.updated

    assert counts(ReplicaState.READY) == (1, 1, 1)
    assert counts(ReplicaState.STARTING) == (1, 0, 0)
