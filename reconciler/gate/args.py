"""Rules on a profile's `args` and `env`, read as the engine version's own program reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.finding import Severity
from reconciler.engines.flags import ProblemKind
from reconciler.gate.knowledge import is_certain
from reconciler.gate.rule import rule

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from reconciler.domain.finding import Problem
    from reconciler.engines.flags import ArgProblem
    from reconciler.gate.subject import Context

_WRONG_FORMS = frozenset(ProblemKind) - {ProblemKind.UNKNOWN, ProblemKind.REMOVED}

_OF_VERSION = frozenset({
    ProblemKind.AMBIGUOUS, ProblemKind.MISSING_VALUE, ProblemKind.BAD_VALUE, ProblemKind.STRAY,
})  # fmt: skip
"""What another version may take: a beginning that fits fewer flags, a switch that takes a value, a further choice."""


@rule(Severity.ERROR)
def managed_flag(context: Context) -> Iterator[Problem]:
    """What decides GPUs, memory, names or addresses is set from the YAML, and must not be set a second time.

    Engines take the last of two, so a flag in args would overrule what was checked, planned and placed.
    Every spelling counts: aliases, unique prefixes, underscores, `=` forms, and variables that do the same. Addresses
    and keys are set by the agent, so flags for them are refused too, and files that hold further flags.

        args: [--tensor-parallel-size, "4"]    refused: write gpus
        args: [--gpu-mem, "0.9"]               refused: a prefix of --gpu-memory-utilization; write memory_share
        env: {LLAMA_ARG_CTX_SIZE: "8192"}      refused: write context

    Write the field that the message names, and take the flag out.
    """
    for use in context.uses:
        for each in context.knowledge.managed(use):
            known = "" if each.spelling == each.canonical else f" is {each.canonical}, which"
            path = ("args", each.at) if isinstance(each.at, int) else ("env", each.at)
            hint = f"write {each.field} instead" if each.field else "remove it"
            yield use.problem(path, f"{each.spelling}{known} {each.why}", hint)


@rule(Severity.WARNING)
def unknown_flag(context: Context) -> Iterator[Problem]:
    """The engine version's program would end with `unrecognized arguments`, as far as the tables know it.

    It is a warning, because a table of another version may lack a newer flag; the nearest known ones are named.

        args: [--enable-prefix-cachin]         did you mean --enable-prefix-caching

    Correct the spelling; where the version is newer than the tables the flag may well be right. `reconciler explain`
    of inventory/unsupported says which version is judged.
    """
    yield from _problems(context, {ProblemKind.UNKNOWN})


@rule(Severity.ERROR)
def removed_flag(context: Context) -> Iterator[Problem]:
    """A flag that older versions took and this one does not ends the engine at start.

        args: [--swap-space, "4"]              refused by newer vLLM: 0.16.0 is the last known to have it

    Take it out, or write what the message names in its place. For a version older than all in the tables nothing is
    known to be removed: there it is an unknown flag.
    """
    yield from _problems(context, {ProblemKind.REMOVED})


@rule(Severity.ERROR)
def wrong_form(context: Context) -> Iterator[Problem]:
    """The flag exists, and the engine's program does not read it as written.

        llama.cpp: --threads=4                 it takes no `=`: write --threads and 4 as two items
        SGLang: --tp_size                      it takes no underscores
        vLLM: --max-model-len abc              no number

    Every item of args is one word of the command line; nothing splits it at spaces. Where the tables hold only another
    version of the engine, or were not read from the program itself (TensorRT-LLM), what they may have wrong is a
    warning: values, choices, abbreviations.
    """
    yield from _problems(context, _WRONG_FORMS)


def _problems(context: Context, kinds: Collection[ProblemKind]) -> Iterator[Problem]:
    for use in context.uses:
        found = context.knowledge.args(use).problems
        if not found:
            continue
        table = context.knowledge.table(use)
        managed = {each.at for each in context.knowledge.managed(use)}
        for each in found:
            at = each.word if each.index is None else each.index
            if each.kind not in kinds or at in managed:
                continue  # a managed flag is refused in any form, once
            path = ("env" if each.index is None else "args", at)
            doubtful = each.kind in _OF_VERSION and not is_certain(table)
            severity = Severity.WARNING if doubtful else None
            yield use.problem(path, each.message, _hint(each), severity=severity)


def _hint(problem: ArgProblem) -> str | None:
    """What to write, where there is one candidate and the message does not say it already."""
    only = problem.nearest[0] if len(problem.nearest) == 1 else None
    return f"write {only}" if problem.kind is ProblemKind.UNKNOWN and only else None
