"""What the inventory gives the fleet of a node, and when a replica no longer belongs there."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.domain.model_spec import ModelSpec
from reconciler.placement.stock import displaced, stock
from tests.builders import a_desired, a_model, a_node, a_replica, gpus_of, heard, uuid

PLACED = a_replica(a_model(gpus=2), 0, "n1", [1, 2]).entry.placement


def why(node: dict[str, Any] | None, reported: dict[str, Any], model: ModelSpec) -> str | None:
    """Why a replica on GPUs 1 and 2 of n1 is displaced."""
    machine = a_node("n1", gpus=4)
    listed: dict[str, Any] = {"name": "n1", "gpus": 4} | (node or {})
    desired = a_desired([], [] if node is None else [a_node(**listed)])
    return displaced(stock(desired, heard(machine, **reported)), PLACED, model.profiles)


@pytest.mark.parametrize(
    ("node", "select", "reason"),
    [
        ({}, {}, None),
        (None, {}, "n1 has left the inventory"),
        ({"drain": True}, {}, "n1 is drained"),
        ({"drain_gpus": (2,)}, {}, "GPU 2 of n1 is drained"),
        ({"drain_gpus": (0, 3)}, {}, None),
        ({"gpus": 2}, {}, "the inventory no longer lists GPU 2 of n1 with its class"),
        ({"gpu_class": "l40s"}, {}, "the inventory no longer lists GPU 1 of n1 with its class"),
        ({"labels": {"zone": "a"}}, {"zone": "a"}, None),
        ({"labels": {"zone": "a"}}, {"zone": "b"}, "n1: label zone is a, not b"),
        ({}, {"zone": "b"}, "n1: label zone is not set, not b"),
        ({}, {"node": "n1"}, None),
        ({}, {"node": "n2"}, "n1: label node is n1, not n2"),
    ],
)
def test_a_replica_is_displaced(node: dict[str, Any] | None, select: dict[str, str], reason: str | None) -> None:
    assert why(node, {}, a_model(gpus=2, profile={"select": select} if select else {})) == reason


def test_one_profile_that_takes_the_node_is_enough() -> None:
    profiles = [
        {"name": "here", "engine": "vllm", "gpu_class": "h100-80gb", "gpus": 2, "select": {"node": "n9"}},
        {"name": "there", "engine": "vllm", "gpu_class": "h100-80gb", "gpus": 2, "select": {"node": "n1"}},
    ]
    assert why({}, {}, a_model(profiles=profiles)) is None


def test_a_gpu_that_is_not_reported_displaces_nothing() -> None:
    assert why({}, {"gpus": ()}, a_model(gpus=2)) is None


def test_a_gpu_that_does_not_answer_displaces_nothing() -> None:
    update = {"answers": False, "gpu_class": "unknown"}
    silent = tuple(gpu.model_copy(update=update) for gpu in gpus_of(a_node("n1", gpus=4)))
    assert why({}, {"gpus": silent}, a_model(gpus=2)) is None


def test_of_a_machine_with_more_gpus_the_first_listed_number_is_ours() -> None:
    desired = a_desired([], [a_node("n1", gpus=2)])
    found = stock(desired, heard(a_node("n1", gpus=4)))
    assert set(found.gpus) == {uuid("n1", 0), uuid("n1", 1)}
    assert found.beyond == {uuid("n1", 2), uuid("n1", 3)}


def test_of_a_node_that_left_the_inventory_nothing_is_ours() -> None:
    assert stock(a_desired(), heard(a_node("n1", gpus=2))).gpus == {}
