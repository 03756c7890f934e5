"""Rules on a profile's `args` and `env`, read as the engine version's own program reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.declaration import declare
from reconciler.domain.finding import Severity
from reconciler.domain.model_spec import Engine
from reconciler.engines.base import CannotLaunch, Site
from reconciler.engines.flags import ProblemKind
from reconciler.engines.mpi import launcher
from reconciler.engines.sglang_arguments import KEY
from reconciler.gate.foreign import flag_of_others
from reconciler.gate.knowledge import is_certain
from reconciler.gate.rule import rule

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from reconciler.domain.finding import Problem
    from reconciler.engines.flags import ArgProblem
    from reconciler.gate.subject import Context, Use

_WRONG_FORMS = frozenset(ProblemKind) - {ProblemKind.UNKNOWN, ProblemKind.REMOVED}

_ANYWHERE = Site("127.0.0.1", 0, "weights", addresses=("127.0.0.1",))
"""A node's side of a launch of which only the words that a profile adds are in question."""

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
    A flag that another engine has, left behind when the profile was moved, is told as that engine's, with the field or
    flag that says the same here.

        args: [--enable-prefx-caching]         did you mean --enable-prefix-caching
        args: [--mem-fraction-static, "0.8"]   under vllm: a flag of sglang; write memory_share

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

        llama.cpp: --ubatch-size=256           it takes no `=`: write --ubatch-size and 256 as two items
        SGLang: --chunked_prefill_size 4096    it takes no underscores
        vLLM: --max-num-batched-tokens abc     no number
        vLLM: --api-server-count 2             refused by vLLM where adapters come and go while it serves
        TensorRT-LLM, nodes: 2: a word with a space in it; its wrapper for several nodes cuts it there

    Every item of args is one word of the command line; nothing splits it at spaces. Where the tables hold only another
    version of the engine, or were not read from the program itself (TensorRT-LLM), what they may have wrong is a
    warning: values, choices, abbreviations.
    """
    yield from _problems(context, _WRONG_FORMS)
    for use in context.uses:
        yield from _contradicting(context, use)


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
            other = flag_of_others(table, each.word) if each.kind is ProblemKind.UNKNOWN else None
            if other is not None and is_certain(table):
                other = (f"{other[0]} and ends with it at start", other[1])
            message, hint = other or (each.message, _hint(each))
            yield use.problem(path, message, hint, severity=severity)


def _contradicting(context: Context, use: Use) -> Iterator[Problem]:
    """Words that are right by themselves and that this launch leaves no way for."""
    profile = use.profile
    if profile.engine is Engine.VLLM and use.model.adapters:
        servers = context.knowledge.args(use).last("--api-server-count")
        several = servers is not None and type(servers.value) is int and servers.value > 1
        if servers is not None and several and declare(context.desired, use.model, profile).loads_adapters:
            message = f"--api-server-count is {servers.value}, and with adapters that come and go vLLM starts one only"
            at = "args" if servers.index is None else ("args", servers.index)
            yield use.problem(at, message, "remove it, or take more replicas")
    if profile.engine is Engine.SGLANG and KEY in (profile.env or {}):
        parts = context.knowledge.args(use).last("--tokenizer-worker-num")
        if parts is not None and type(parts.value) is int and parts.value > 1:
            message = f"--tokenizer-worker-num is {parts.value}, and with a key SGLang takes one only"
            yield use.problem("args" if parts.index is None else ("args", parts.index), message, "remove it")
    if profile.engine is Engine.TRTLLM and profile.nodes > 1 and profile.args:
        declaration = declare(context.desired, use.model, profile)
        for index, word in enumerate(profile.args):
            try:
                launcher(declaration, _ANYWHERE, (word,))
            except CannotLaunch as error:
                yield use.problem(("args", index), str(error), "write it without them, or nodes: 1")


def _hint(problem: ArgProblem) -> str | None:
    """What to write, where there is one candidate and the message does not say it already."""
    only = problem.nearest[0] if len(problem.nearest) == 1 else None
    return f"write {only}" if problem.kind is ProblemKind.UNKNOWN and only else None
