"""Which adapters an engine loads live is not in its launch digest; the room for them is."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.domain.adapter_slots import room_for, slot_rank
from reconciler.domain.declaration import Declaration, declare
from reconciler.domain.desired import Desired
from reconciler.domain.fleet_spec import FleetSpec
from reconciler.domain.lock import Lock
from reconciler.domain.model_spec import Engine, ModelSpec
from reconciler.engines.registry import support
from tests.domain.catalog import a_model, declared, with_profile

REVISION = "6f6073b423013f6a7d4d9f39144961bfbfbc386b"


def adapters(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "source": f"hf:org/{name}@{REVISION}"} for name in names]


def having(count: int, **profile: Any) -> Declaration:
    return declared(with_profile(a_model(adapters=adapters(*(f"a{number}" for number in range(count)))), **profile))


def locked(*ranks: int, **profile: Any) -> Declaration:
    """With adapters of these ranks, by their locks."""
    names = [f"r{rank}" for rank in ranks]
    spec = ModelSpec.model_validate(with_profile(a_model(adapters=adapters(*names)), **profile))
    rows = [
        {"source": each["source"], "revision": REVISION, "format": "peft", "adapter_config": {"r": rank}}
        for each, rank in zip(adapters(*names), ranks, strict=True)
    ]
    lock = Lock.model_validate({"sources": rows})
    return declare(Desired(FleetSpec(name="prod"), locks={spec.name: lock}), spec, spec.profiles[0])


def test_an_adapter_more_or_another_one_changes_no_digest() -> None:
    assert having(1).launch_digest() == having(2).launch_digest() == having(8).launch_digest()


def test_the_first_one_and_one_beyond_the_room_do() -> None:
    assert len({having(count).launch_digest() for count in (0, 1, 9, 17)}) == 4


def test_what_was_started_with_more_room_serves_fewer() -> None:
    assert having(9).launch_digest() in having(8).digests_with_more_room()
    assert having(8).launch_digest() not in having(9).digests_with_more_room()
    assert having(0).digests_with_more_room() == ()


def test_a_wider_one_than_the_slots_needs_other_slots() -> None:
    assert locked(8, 16).adapter_rank is None
    assert locked(8, 64).adapter_rank == 64
    assert locked(8).launch_digest() == locked(16).launch_digest() != locked(64).launch_digest()
    assert locked(64).launch_digest() in locked(8).digests_with_more_room()


def test_where_args_say_the_width_they_decide_it() -> None:
    assert locked(64, args=["--max-lora-rank", "128"]).adapter_rank is None
    assert locked(64, args=["--max_lora_rank=128"]).adapter_rank is None


@pytest.mark.parametrize("engine", Engine)
@pytest.mark.parametrize("fields", [{}, {"data_parallel": 2, "gpus": 2}, {"nodes": 2}])
@pytest.mark.parametrize("count", [0, 1])
def test_an_engine_loads_live_just_where_the_digest_leaves_them_out(
    engine: Engine, fields: dict[str, Any], count: int
) -> None:
    one = having(count, engine=engine, **fields)
    module = support(engine)
    assert module is not None
    assert (module.load_adapter(one, "sql", "/sql") is not None) == one.loads_adapters
    assert (module.unload_adapter(one, "sql") is not None) == one.loads_adapters


@pytest.mark.parametrize(("count", "room"), [(1, 8), (8, 8), (9, 16), (33, 64)])
def test_room_is_eight_or_the_next_power_of_two(count: int, room: int) -> None:
    assert room_for(count) == room


@pytest.mark.parametrize(("ranks", "width"), [((), 16), ((4,), 16), ((16, 17), 32), ((300,), 320), ((4_096,), 512)])
def test_slots_are_as_wide_as_the_widest_needs(ranks: tuple[int, ...], width: int) -> None:
    assert slot_rank(ranks) == width
