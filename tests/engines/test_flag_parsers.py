"""Any command line at all: the reader against argparse and click, given the same flags.

The engines' programs are built on these two. What they add on top of them is held by `flag_cases.yaml`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
from functools import cache
from typing import TYPE_CHECKING, Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from reconciler.domain.flags import FlagKind
from reconciler.domain.model_spec import Engine
from reconciler.engines.flag_values import read_word
from reconciler.engines.flags import flag_table, read_args

if TYPE_CHECKING:
    from collections.abc import Callable

    from reconciler.domain.flags import Flag, FlagTable

SGLANG = flag_table(Engine.SGLANG, "0.5.23")
TRTLLM = flag_table(Engine.TRTLLM, "1.4")
VALUES = ("4", "-1", "-0.5", "8k", "x", "", "-", "--", "a b", "-x", "auto", "{}", "fp8", "=", "--=3", "-1x")


def command_lines(table: FlagTable) -> st.SearchStrategy[list[str]]:
    spellings = st.sampled_from(sorted(table.by_spelling))
    cut = st.builds(lambda word, length: word[: max(3, length)], spellings, st.integers(3, 30))
    # argparse reads --flag=-- as --flag with nothing: an accident, and not followed
    equalled = st.sampled_from([value for value in VALUES if value != "--"])
    given_value = st.builds(lambda word, value: f"{word}={value}", st.one_of(spellings, cut), equalled)
    glued = st.builds(lambda word, value: word + value, spellings, st.sampled_from(("4", "x")))
    respelled = spellings.map(lambda word: "--" + word.lstrip("-").replace("-", "_"))
    return st.lists(st.one_of(spellings, st.sampled_from(VALUES), cut, given_value, glued, respelled), max_size=6)


def converter(flag: Flag) -> Callable[[str], Any]:
    def convert(word: str) -> Any:
        reading = read_word(flag, word)
        if reading.refused:
            raise ValueError(reading.refused)
        return reading.value

    return convert


@cache
def argparse_of_sglang() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False)
    for flag in SGLANG.flags:
        kwargs: dict[str, Any] = {"dest": flag.name}
        if flag.words == (0, 0):
            kwargs |= {"action": "store_true"}
        else:
            nargs = {(1, 1): None, (1, None): "+", (0, None): "*", (0, 1): "?"}[flag.words]
            kwargs |= {"type": converter(flag), "nargs": nargs}
        parser.add_argument(*flag.spellings, **kwargs)
    return parser


@given(command_lines(SGLANG))
def test_argparse_takes_what_the_reader_takes(words: list[str]) -> None:
    read = read_args(SGLANG, words)
    problems = [problem for problem in read.problems if problem.kind.value != "exits"]
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            space = vars(argparse_of_sglang().parse_args(words))
    except SystemExit:
        assert problems, f"argparse refuses {words}"
        return
    assert not problems, f"argparse takes {words}"
    for each in read.flags:
        last = read.last(each.flag.name)
        assert last is not None
        if each.flag.kind is FlagKind.VALUE and each.flag.words == (1, 1):
            assert space[each.flag.name] == last.value
        elif each.flag.kind is FlagKind.VALUES:
            assert tuple(space[each.flag.name]) == last.value


def option(flag: Flag) -> click.Option:
    if flag.kind is FlagKind.PAIR:
        return click.Option([f"{flag.name}/{flag.off[0]}"])
    if flag.kind is FlagKind.SWITCH:
        return click.Option(list(flag.spellings), is_flag=True)

    class Own(click.ParamType[Any]):
        name = "own"

        @override
        def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
            try:
                return converter(flag)(value)
            except ValueError as refusal:
                self.fail(str(refusal), param, ctx)

    return click.Option(list(flag.spellings), type=Own())


def click_of(table: FlagTable) -> click.Command:
    """A command of click's with the options of a table, as trtllm-serve has it."""
    options = [option(flag) for flag in table.flags if not flag.exits]
    return click.Command("serve", params=[click.Argument(["model"]), *options], callback=lambda **_: None)


CLICK = click_of(TRTLLM)


@given(command_lines(TRTLLM))
def test_click_takes_what_the_reader_takes(words: list[str]) -> None:
    read = read_args(TRTLLM, words)
    named = [each.flag.name for each in read.flags]
    named += [each.flag.name for each in read.problems if each.flag]
    if any(problem.kind.value == "exits" for problem in read.problems) or len(named) > len(set(named)):
        # help ends it first; of a repeated flag click looks only at the last value, the reader finds fault with each
        return
    try:
        CLICK.make_context("serve", ["some/model", *words])
    except click.exceptions.Exit:
        pytest.fail(f"click ends at {words}")
    except click.ClickException:
        assert read.problems, f"click refuses {words}"
        return
    assert not read.problems, f"click takes {words}"
