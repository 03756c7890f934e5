"""How each engine divides a GPU, by hand: round figures in GiB, one engine's rule at a time."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.domain.model_spec import Engine
from reconciler.engines.counting import counting_rules
from reconciler.sizing.division import Divided, divide
from reconciler.sizing.estimate import NOTHING, Estimate
from reconciler.sizing.memory_ask import Card, MemoryAsk
from reconciler.sizing.overheads import Overheads
from reconciler.sizing.static_share import static_share

GIB = 2**30
CARD = Card("h100-80gb", 81 * GIB, 80 * GIB)


def a(low: float, likely: float, high: float) -> Estimate:
    return Estimate(int(low * GIB), int(likely * GIB), int(high * GIB))


OVER = Overheads(activations=a(1, 2, 3), graphs=a(0.5, 1, 2), runtime=a(0, 1, 2), startup=a(0.25, 0.5, 1), basis="")


def divided(engine: Engine, version: str | None, card: Card | None = CARD, **ask: Any) -> Divided:
    asked = MemoryAsk(**({"tensor": 1, "context": 8192, "gpus": 1} | ask))
    return divide(a(20, 20, 20), OVER, asked, card, counting_rules(engine, version))


def gib(found: Estimate) -> tuple[float, float, float]:
    return round(found.low / GIB, 2), round(found.likely / GIB, 2), round(found.high / GIB, 2)


def test_vllm_takes_its_share_and_the_cache_gets_what_weights_step_and_graphs_leave_of_it() -> None:
    found = divided(Engine.VLLM, "0.32.0", share=0.9)

    assert (found.usable, found.reserves) == (72 * GIB, 72 * GIB)
    # 72 - 20 - (1, 2, 3) - (0.5, 1, 2) - (0, 1, 2), the least when all else is most
    assert gib(found.pool) == (45.0, 48.0, 50.5)
    assert gib(found.outside) == (0.25, 0.5, 1.0)


def test_before_0_21_graphs_come_on_top_of_the_share() -> None:
    found = divided(Engine.VLLM, "0.19.0", share=0.9)

    assert gib(found.pool) == (47.0, 49.0, 51.0)
    assert found.graphs == NOTHING
    assert gib(found.outside) == (0.75, 1.5, 3.0)


@pytest.mark.parametrize(("version", "usable"), [("0.20.2", 72.0), ("0.21.0", 73.6)])
def test_the_share_is_the_version_s_own_where_none_is_written(version: str, usable: float) -> None:
    assert divided(Engine.VLLM, version).usable == pytest.approx(usable * GIB, abs=1)


def test_a_cache_of_a_written_size_heeds_no_share() -> None:
    found = divided(Engine.VLLM, "0.32.0", share=0.1, kv_cache_bytes=10 * GIB)

    assert gib(found.pool) == (10.0, 10.0, 10.0)
    assert found.usable == 79.5 * GIB
    assert found.reserves == (20 + 2 + 1 + 1 + 10) * GIB


def test_sglang_s_share_is_of_what_was_free_and_its_step_lives_in_the_rest() -> None:
    found = divided(Engine.SGLANG, "0.5.23", share=0.8)

    # (80 - 0.5) x 0.8 - 20
    assert round(found.pool.likely / GIB, 2) == 43.6
    assert gib(found.outside) == (1.5, 4.0, 7.0)


def test_tensorrt_llm_s_share_is_of_the_rest() -> None:
    found = divided(Engine.TRTLLM, "1.4", share=0.9)

    # (80 - 20 - 2 - 1 - 1 - 0.5) x 0.9; a tenth of the rest stays free
    assert round(found.pool.likely / GIB, 2) == 49.95
    assert found.reserves == pytest.approx((80 - 5.55) * GIB, abs=2)


def test_on_cpus_the_host_ram_is_divided() -> None:
    found = divided(Engine.VLLM, "0.32.0", card=None, gpus=0, host_bytes=64 * GIB)

    assert found.total == 64 * GIB
    # 64 less the likely 20 of weights and 1 of processes: the launch says how much is cache, so that there is no band
    assert gib(found.pool) == (43.0, 43.0, 43.0)


@pytest.mark.parametrize(
    ("mib", "tensor", "share"),
    [
        # published results of the formula: facts about memory_hook.py, before prefill graphs
        (81559, 1, 0.835),
        (46068, 1, 0.851),
        (143771, 1, 0.907),
        (143771, 8, 0.897),
    ],
)
def test_sglang_leaves_a_reserve_by_size_of_step_and_width(mib: int, tensor: int, share: float) -> None:
    card = Card("", mib * 2**20, mib * 2**20)

    assert static_share(MemoryAsk(tensor=tensor, context=1), card) == pytest.approx(share, abs=0.002)
