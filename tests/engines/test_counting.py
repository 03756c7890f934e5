"""How versions count memory: the newest rule up to a version holds, and what nobody read says so."""

from __future__ import annotations

import pytest

from reconciler.domain.model_spec import Engine
from reconciler.engines.counting import counting_rules
from reconciler.sizing.counting import Division, Windows


@pytest.mark.parametrize(
    ("version", "share", "graphs_inside", "windows", "known"),
    [
        ("0.5.3", 0.9, False, Windows.FULL, False),
        ("0.9.2", 0.9, False, Windows.FULL, True),
        ("0.10.0", 0.9, False, Windows.BLOCKS, True),
        ("0.20.2rc1", 0.9, False, Windows.BLOCKS, True),
        ("v0.21.0", 0.92, True, Windows.BLOCKS, True),
        ("0.32.0", 0.92, True, Windows.BLOCKS, True),
        ("0.40.0", 0.92, True, Windows.BLOCKS, False),
        ("nightly", 0.92, True, Windows.BLOCKS, False),
    ],
)
def test_vllm_s_rules_change_with_its_versions(
    version: str, share: float, graphs_inside: bool, windows: Windows, known: bool
) -> None:
    rules = counting_rules(Engine.VLLM, version)

    assert (rules.share, rules.graphs_inside, rules.windows, rules.known) == (share, graphs_inside, windows, known)
    assert (rules.version, rules.division, rules.block_tokens) == (version, Division.SHARE_OF_TOTAL, 16)


def test_without_a_version_the_newest_in_the_flag_tables_counts() -> None:
    assert counting_rules(Engine.VLLM, None).version == "0.33.0"
    assert counting_rules(Engine.VLLM, None).known


@pytest.mark.parametrize(
    ("engine", "division", "block_tokens", "refuses"),
    [
        (Engine.SGLANG, Division.STATIC_SHARE, 1, False),
        (Engine.TRTLLM, Division.SHARE_OF_REST, 32, True),
        (Engine.LLAMACPP, Division.AS_NEEDED, 256, True),
    ],
)
def test_other_engines_divide_in_their_own_ways(
    engine: Engine, division: Division, block_tokens: int, refuses: bool
) -> None:
    rules = counting_rules(engine, None)

    assert (rules.division, rules.block_tokens, rules.refuses_short_pool) == (division, block_tokens, refuses)
    assert rules.known


@pytest.mark.parametrize("version", ["b11434", "11434", "2026.10.11434"])
def test_a_build_of_llama_cpp_has_one_number_however_it_is_written(version: str) -> None:
    assert counting_rules(Engine.LLAMACPP, version).known
