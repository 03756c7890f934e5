"""Whoever sends requests may have an engine write what he likes: no row of a table takes a growing time over it.

Speed is not what is asserted here: a row that goes over the rest of the text from each of its beginnings takes minutes
where a sound one takes a tenth of a second, and the bounds lie between.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.agent.causes import LINE_CHARACTERS, TAIL_CHARACTERS, readable
from reconciler.agent.plain import plain
from reconciler.domain.model_spec import Engine
from reconciler.engines import (
    comfyui_log,
    failures,
    llamacpp_log,
    mpi_log,
    sglang_log,
    trtllm_log,
    vllm_failures,
    vllm_log,
)
from reconciler.engines.registry import support

if TYPE_CHECKING:
    from collections.abc import Iterator

MODULES = (comfyui_log, failures, llamacpp_log, mpi_log, sglang_log, trtllm_log, vllm_failures, vllm_log)
WITHIN = 4.0
"""Seconds of processor for all patterns of an engine over one tail: ten times what the slowest takes."""

PART = 60_000
"""Characters of a text of one pattern's words, and of twice as long a one the double."""

SUSPECT = 0.1
"""Seconds for one pattern over that, from which on it is looked at how they grow."""

OOM = "Allocation on device 0 would exceed allowed memory "
FOUND = {
    "one line of each": f"{OOM * 10}\n{'Requested : ' * 70}\n{'Device limit : ' * 60}\n{'Free ' * 190}\n",
    "a program that is not found": "mpirun was unable to find the specified executable file\n",
    "a lost daemon": "ORTE has lost communication with a remote daemon.\n",
    "a code that is not zero": "mpirun detected: exited with non-zero status, thus causing\n",
    "an assertion and blank lines": "assert x\n" + "\n" * 100,
    "an assertion and its marks": "assert x\n" + ("^" * 1000 + "\n") * 99,
    "files of models": 'File "/srt/models/a.py", line 1, in ' * 25 + "\nx\n",
    "an old way to say it": "out of memory. Tried to allocate 1 G (GPU 0; 1 G total capacity 1 " * 10
    + "x" * 900
    + "\n",
    "ranks": f"[RANK 0] [E]{'could not be created: x out of memory. Tried to allocate 1 2. GPU 0 has a ' * 20}\n",
    "blank lines": "\n",
    "brackets": "[\n",
}
"""What froze an agent, or looks as if it could; by what it says."""


def patterns(value: Any) -> Iterator[re.Pattern[str]]:
    """Those of a table, however it is nested."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from patterns(each)


EVERY = sorted({each.pattern: each for module in MODULES for each in patterns(tuple(vars(module).values()))}.items())
_PIECE = re.compile(r"(?:\\[^A-Za-z0-9]|[^\\.^$*+?{}\[\]|()])+")


def pieces(pattern: str) -> list[str]:
    """The words of a pattern that stand in a text as they are, with something for a number behind each."""
    words = [re.sub(r"\\(.)", r"\1", each) for each in _PIECE.findall(re.sub(r"\(\?[:!=<>]+|\\[A-Za-z]", "(", pattern))]
    return [word for word in words if len(word.strip()) > 1]


def filled(unit: str) -> str:
    """Much of it, with lines as long as the agent leaves them."""
    block = unit if "\n" in unit else (unit * (LINE_CHARACTERS // len(unit) + 1))[:LINE_CHARACTERS] + "\n"
    block = "".join(f"{line[:LINE_CHARACTERS]}\n" for line in block.splitlines())
    return (block * (PART // len(block) + 1))[:PART]


def hostile(pattern: str) -> Iterator[str]:
    """Texts of a pattern's words: each over and over, and all up to each, on one line and on many."""
    words = pieces(pattern)
    for at, word in enumerate(words):
        before = [f"{each} 1" for each in words[: at + 1]]
        yield filled(" ".join([word] * (LINE_CHARACTERS // (len(word) + 1) + 1)) + "\n")
        yield filled(f"{word}\n")
        yield filled(f"{word} {'1' * (LINE_CHARACTERS - len(word) - 2)}\n")
        yield filled(" ".join(before) + " ")
        yield filled("\n".join(before) + "\n")
        yield filled((" ".join(before) + " ") * 10 + "\n" + "\n" * 50)
        yield filled(" ".join(before) + " " * 500 + "\n")


def test_words_of_a_pattern_are_found() -> None:
    assert pieces(r"^error: (?:bad )?argument (\S+?)\.(?: |$) of") == ["error: ", "bad ", "argument ", " of"]
    assert len(EVERY) > 200


@pytest.mark.parametrize("pattern", [each for _, each in EVERY], ids=[str(at) for at in range(len(EVERY))])
def test_no_pattern_goes_over_a_text_again_and_again(pattern: re.Pattern[str]) -> None:
    for text in hostile(pattern.pattern):
        if taken(pattern, text) > SUSPECT:
            half = min(taken(pattern, text[: PART // 2]) for _ in range(3))
            whole = min(taken(pattern, text) for _ in range(3))
            assert whole < 3 * half, f"{pattern.pattern!r} on {text[:100]!r}"


def taken(pattern: re.Pattern[str], text: str) -> float:
    """Seconds of processor to find all that is there."""
    began = time.thread_time()
    for _ in pattern.finditer(text):
        pass
    return time.thread_time() - began


@pytest.mark.parametrize("engine", Engine)
@pytest.mark.parametrize("unit", FOUND.values(), ids=FOUND)
def test_no_log_holds_up_the_agent(engine: Engine, unit: str) -> None:
    read = support(engine)
    assert read is not None
    began = time.process_time()
    read.read_failure(readable(unit * (2 * TAIL_CHARACTERS // len(unit))))
    assert time.process_time() - began < WITHIN


@pytest.mark.parametrize("text", ["x", "\033]", "\x9d", "\033[0", "\u200b", "\033[31mred "])
def test_a_line_without_an_end_is_not_read_to_its_end(text: str) -> None:
    began = time.process_time()
    assert plain(text * 10_000_000).isprintable()
    assert len(readable(text * 10_000_000)) <= LINE_CHARACTERS + 3
    assert time.process_time() - began < WITHIN
