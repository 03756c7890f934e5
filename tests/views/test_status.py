"""The status as a table and as JSON, and one line for a replica under way."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from reconciler.domain.observed import ReplicaState
from reconciler.domain.status import FleetStatus, GpuUse, ModelState, ModelStatus, NodeStatus, ReplicaStatus
from reconciler.views.status import progress_line, status_json, status_text
from tests.builders import a_model, a_replica

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
READY = ReplicaStatus(
    id="llama/0@1a2b3c4d",
    ordinal=0,
    node="gpu-03",
    gpus=(0, 1),
    state=ReplicaState.READY,
    routable=True,
    address="http://127.0.0.1:8100",
)
STARTING = READY.model_copy(
    update={"id": "llama/1@1a2b3c4d", "ordinal": 1, "state": ReplicaState.STARTING, "routable": False, "gpus": (2, 3)}
)


def a_status(**model: Any) -> FleetStatus:
    row = {"name": "llama", "desired": 2, "ready": 1, "updated": 1, "state": ModelState.RECONCILING} | model
    nodes = (
        NodeStatus(name="gpu-03", reachable=True, gpus={"h100-80gb": GpuUse(used=4, total=8)}),
        NodeStatus(
            name="gpu-11",
            reachable=False,
            gpus={"h100-80gb": GpuUse(used=0, total=8)},
            problem="https://gpu-11:7443 refused the connection: nothing listens there",
            heard_at=NOON,
        ),
    )
    return FleetStatus(commit="9c2f4e1aaaa", models=(ModelStatus.model_validate(row),), nodes=nodes)


def test_what_is_wrong_with_gpus_is_told_node_by_node() -> None:
    status = a_status()
    told = ("3 GPUs declared and the driver shows 2: only those that are there are used", "GPU 1 does not answer")
    first = status.nodes[0].model_copy(update={"gpu_problems": told})
    text = status_text(status.model_copy(update={"nodes": (first, *status.nodes[1:])}), fleet="prod")
    assert text.splitlines()[-2:] == [f"gpu-03: {each}" for each in told]
    answer = json.loads(status_json(status.model_copy(update={"nodes": (first,)})))
    assert answer["nodes"][0]["gpu_problems"] == list(told)
    assert json.loads(status_json(status))["nodes"][0]["gpu_problems"] == [], "there as well where there is none"
    many = first.model_copy(update={"gpu_problems": tuple(f"GPU {n} does not answer" for n in range(30))})
    assert status_text(status.model_copy(update={"nodes": (many,)}), fleet="prod").splitlines()[-1] == (
        "and 10 more such lines"
    )


def test_the_table() -> None:
    status = a_status(reason="/1 loading weights", since=NOON, replicas=(READY, STARTING))
    zone = timezone(timedelta(hours=2))
    text = status_text(status, fleet="prod", applied_line="commit 9c2f4e1 applied 14:31", now=NOON.astimezone(zone))
    assert text.splitlines() == [
        "fleet prod   commit 9c2f4e1 applied 14:31   nodes 1/2   h100-80gb 4/16",
        "MODEL  READY  UPDATED  STATE                            SINCE  WHERE",
        "llama  1/2    1        Reconciling: /1 loading weights  14:00  http://127.0.0.1:8100, gpu-03 [2,3]",
        (
            "gpu-11: not heard since 14:00 (https://gpu-11:7443 refused the connection: nothing listens there): "
            "what runs there is unknown"
        ),
    ]


def test_a_model_that_is_off_wants_nothing() -> None:
    text = status_text(a_status(desired=0, ready=0, updated=0, state=ModelState.OFF), fleet="prod")
    assert "llama  0/0    -        Off (no replica wanted)" in text


def test_without_a_line_about_the_commit_it_is_named() -> None:
    assert status_text(a_status(), fleet="prod").startswith("fleet prod   commit 9c2f4e1   nodes 1/2")


def test_another_day_is_written_out() -> None:
    text = status_text(a_status(since=NOON), fleet="prod", now=NOON + timedelta(days=1))
    assert "2026-11-30 12:00" in text
    assert "2026-11-30 12:00" in status_text(a_status(since=NOON), fleet="prod")


def test_many_replicas_are_counted() -> None:
    text = status_text(a_status(replicas=(READY, STARTING, READY, READY)), fleet="prod")
    assert text.splitlines()[2].endswith("http://127.0.0.1:8100, gpu-03 [2,3] and 2 more")


def test_an_empty_fleet_is_said() -> None:
    text = status_text(FleetStatus(commit=None, models=(), nodes=()), fleet="prod")
    assert text.splitlines() == ["fleet prod   nodes 0/0", "no model is in the catalog and none runs"]


def test_json_holds_every_key_of_the_contract() -> None:
    told = json.loads(status_json(a_status(since=NOON, replicas=(READY,))))
    assert told.keys() >= {"format_version", "commit", "models", "nodes"}
    (model,) = told["models"]
    assert model.keys() >= {"name", "desired", "ready", "updated", "state", "reason", "since", "replicas"}
    assert (model["state"], model["since"]) == ("reconciling", "2026-11-30T12:00:00Z")
    (replica,) = model["replicas"]
    assert replica.keys() >= {"id", "ordinal", "node", "gpus", "state", "routable", "address"}
    assert replica["gpus"] == [0, 1]
    gpus = {"h100-80gb": {"used": 4, "total": 8}}
    well: dict[str, Any] = {"problem": None, "heard_at": None, "gpu_problems": []}
    assert told["nodes"][0] == {"name": "gpu-03", "reachable": True, "gpus": gpus, **well}
    assert told["nodes"][1]["heard_at"] == "2026-11-30T12:00:00Z"


@pytest.mark.parametrize(
    ("state", "fields", "doing"),
    [
        (ReplicaState.STARTING, {"stage": "loading weights", "progress": "29 / 61 GiB"}, "loading weights 29 / 61 GiB"),
        (ReplicaState.PENDING, {}, "pending"),
        (ReplicaState.DRAINING, {"running": 3}, "draining, 3 requests running"),
        (ReplicaState.DRAINING, {"running": 1}, "draining, 1 request running"),
        (ReplicaState.FAILED, {"failure": "out of memory"}, "failed: out of memory"),
    ],
)
def test_progress(state: ReplicaState, fields: dict[str, Any], doing: str) -> None:
    replica = a_replica(
        a_model("llama", gpus=4), 0, "gpu-03", [4, 5, 6, 7], state, **({"state_for": timedelta(seconds=32)} | fields)
    )
    assert progress_line(replica) == f"{replica.id}  gpu-03 [4-7]   {doing}   0:32"
