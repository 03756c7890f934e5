"""Texts that engines write do not reach a terminal as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.agent.plain import LONGEST, plain
from reconciler.domain.observed import ReplicaState
from tests.agent.bench import Bench
from tests.agent.entries import run_entry

if TYPE_CHECKING:
    from pathlib import Path

RAW = "\033[31mout of \u202ememory\033]0;X\007 on\tGPU 0\033[0m\r"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("loading weights", "loading weights"),
        ("poids chargés 29 / 61 GiB, 模型", "poids chargés 29 / 61 GiB, 模型"),
        (RAW, "out of memory on GPU 0"),
        ("\033[31m…\033]0;X\007", "…"),
        ("a\u202eb\u2066c\u200bd", "abcd"),
        ("\x9b31mred\x9d0;title\x9c.", "red."),
        ("\033P1$r\033\\kept\033(B \033=", "kept"),
        ("\033]0;never ended", "0;never ended"),
        ("two\nlines\u2028three\x00", "two lines three"),
        ("\ud800x", "x"),
    ],
)
def test_only_what_can_be_read_is_kept(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_a_text_has_a_bound() -> None:
    assert plain("x" * 10_000) == f"{'x' * (LONGEST - 1)}…"


@given(st.text(alphabet=st.sampled_from("\033\x9b\x9d[]0;mX\007\\\n\u202e ab")))
def test_whatever_comes_it_is_one_printable_line_and_stays_so(text: str) -> None:
    assert plain(text).isprintable()
    assert plain(plain(text)) == plain(text)


@pytest.mark.anyio
async def test_stages_and_failures_from_a_log_are_plain(tmp_path: Path) -> None:
    bench, entry = Bench(tmp_path), run_entry()
    await bench.send(entry)
    bench.write_log(entry.id, "\033[32mstage:\033]0;X\007 loading\u202e weights\033[0m\r\n")
    await bench.after(1)
    assert bench.one().stage == "loading weights"
    bench.write_log(entry.id, f"\033[1mfailure: {RAW}\n")
    bench.driver.newest.end(code=1)
    await bench.settle()
    assert (bench.one().state, bench.one().failure) == (ReplicaState.FAILED, "out of memory on GPU 0")
    assert bench.record().failure == "out of memory on GPU 0"


@pytest.mark.anyio
async def test_a_failure_seen_without_an_agent_is_plain(tmp_path: Path) -> None:
    bench, entry = Bench(tmp_path), run_entry()
    await bench.serve(entry)
    bench.write_log(entry.id, f"failure: {RAW}\n")
    bench.driver.newest.end(code=1)
    bench.restart()
    assert bench.one().failure == "out of memory on GPU 0"
