"""Layers over pipeline stages."""

from __future__ import annotations

import pytest

from reconciler.domain.model_spec import Engine
from reconciler.sizing.stages import stage_layers


@pytest.mark.parametrize(
    ("engine", "counts"), [(Engine.VLLM, [3, 4, 3]), (Engine.SGLANG, [3, 3, 4]), (Engine.TRTLLM, [4, 3, 3])]
)
def test_each_engine_has_its_place_for_what_is_left_over(engine: Engine, counts: list[int]) -> None:
    stages = stage_layers(10, 3, engine)
    assert [len(each) for each in stages] == counts
    assert [layer for each in stages for layer in each] == list(range(10))


@pytest.mark.parametrize("engine", [Engine.VLLM, Engine.SGLANG, Engine.TRTLLM])
def test_a_typing_mistake_in_the_number_of_stages_takes_no_memory(engine: Engine) -> None:
    stages = stage_layers(32, 10**12, engine)
    assert [layer for each in stages for layer in each] == list(range(32))
    assert max(len(each) for each in stages) == 1
