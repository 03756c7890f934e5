"""Replica ids: stable for ever, and different whenever something else would run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.placement import PlacedGpu, Placement, Shard, parse_replica_id, replica_id, slot_name

DIGEST = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


def shard(node: str, *uuids: str) -> Shard:
    return Shard(node=node, gpus=tuple(PlacedGpu(uuid=uuid, index=index) for index, uuid in enumerate(uuids)))


@pytest.mark.parametrize(
    ("id_", "restart", "intent", "shards"),
    [
        ("llama-70b/0@5cabfa06", None, None, [shard("gpu-01", "GPU-a", "GPU-b")]),
        ("llama-70b/0@e0aae84c", "monday", None, [shard("gpu-01", "GPU-a", "GPU-b")]),
        ("llama-70b/0@761ad22a", None, "i-7", [shard("gpu-01", "GPU-a", "GPU-b")]),
        ("llama-70b/0@574f81b6", None, None, [shard("cpu-01")]),
        ("llama-70b/0@e0c9584a", None, None, [shard("gpu-01", "GPU-a"), shard("gpu-02", "GPU-b")]),
    ],
)
def test_ids_are_what_they_have_always_been(
    id_: str, restart: str | None, intent: str | None, shards: list[Shard]
) -> None:
    """An id that changes here would make every running replica a stranger to the reconciler that started it."""
    assert replica_id("llama-70b", 0, DIGEST, restart, intent, shards) == id_


@given(
    st.from_regex(r"[a-z0-9]([a-z0-9._-]{0,20}[a-z0-9])?", fullmatch=True),
    st.integers(min_value=0, max_value=9999),
    st.one_of(st.none(), st.text(min_size=1)),
)
def test_an_id_tells_its_model_and_ordinal(model: str, ordinal: int, restart: str | None) -> None:
    id_ = replica_id(model, ordinal, DIGEST, restart, None, [shard("gpu-01", "GPU-a")])

    assert parse_replica_id(id_) == (model, ordinal)
    assert id_.partition("@")[0] == slot_name(model, ordinal)
    assert Placement(id=id_, shards=(shard("gpu-01", "GPU-a"),)).id == id_


def test_the_display_index_of_a_gpu_is_not_in_the_id() -> None:
    one = [Shard(node="n", gpus=(PlacedGpu(uuid="GPU-a", index=0),))]
    other = [Shard(node="n", gpus=(PlacedGpu(uuid="GPU-a", index=5),))]

    assert replica_id("m", 0, DIGEST, None, None, one) == replica_id("m", 0, DIGEST, None, None, other)


def test_the_same_gpus_spread_otherwise_are_another_placement() -> None:
    together = replica_id("m", 0, DIGEST, None, None, [shard("n", "GPU-a", "GPU-b")])

    assert together != replica_id("m", 0, DIGEST, None, None, [shard("n", "GPU-a")])
    assert together != replica_id("m", 0, DIGEST, None, None, [shard("n", "GPU-b", "GPU-a")])


@pytest.mark.parametrize("wrong", ["", "m", "m/0", "m/0@", "m/0@xyz", "m/0@1234567", "m/x@12345678", "m/0@12345678 "])
def test_anything_else_is_no_id(wrong: str) -> None:
    with pytest.raises(ValueError, match="is not a replica id"):
        parse_replica_id(wrong)


def test_a_placement_knows_its_nodes_and_gpus() -> None:
    placement = Placement(id="m/0@12345678", shards=(shard("gpu-02", "GPU-c"), shard("gpu-01", "GPU-a", "GPU-b")))

    assert placement.nodes == ("gpu-02", "gpu-01")
    assert placement.gpu_uuids == {"GPU-a", "GPU-b", "GPU-c"}
