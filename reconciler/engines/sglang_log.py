"""What lines of SGLang's log mean: the step of a start, the reason of an end.

Read in the source of 0.5.23, with what 0.5.3 said otherwise; not run, for want of a GPU. An exit status tells nothing:
a failed rank makes the parent kill itself, which looks like an end from outside (137), and as the first process of a
container ends with 0.
"""

from __future__ import annotations

import re

from reconciler.engines import failures
from reconciler.engines.progress import Progress, Stage

_SHARDS = re.compile(r"\bshards:\s+\d+% Completed \| (\d+)/(\d+)")
_GRAPHS = re.compile(r"\bCapturing (?:batches|num tokens) .*?\| *(\d+)/(\d+) \[")

_STAGES: tuple[tuple[re.Pattern[str], Stage], ...] = tuple(
    (re.compile(pattern), stage)
    for pattern, stage in (
        (r"\bserver_args=", Stage.STARTING),
        (r"\bLoad weight begin\b", Stage.LOADING),
        (r"\bLoad weight end\b", Stage.ALLOCATING),
        (r"\bMemory pool end\b", Stage.CAPTURING),
        (r"\bCapture .*\bgraph begin\b", Stage.CAPTURING),
        (r"\bRunning FlashInfer autotune\b", Stage.COMPILING),
        (r"\bUvicorn running on\b|\bApplication startup complete\b", Stage.WARMING),
        (r"\bThe server is fired up\b", Stage.LOADED),
    )
)
"""Part of a line → stage, in the order of a start. Behind the cache come graphs, on cards where it captures none for a
moment nothing."""

_STARTED = re.compile(r"^.*\bserver_args=.*$", re.MULTILINE)
"""First line of a start that got past its command line."""

_FAILURES = failures.reasons(
    (
        (r"^\S.*: error: unrecognized arguments: (.+)$", "sglang does not know the arguments {0}"),
        (r"^\S.*: error: ambiguous option: (\S+) could match", "sglang does not know which flag {0} is short for"),
        (r"^\S.*: error: argument (\S+?): (.+)$", "sglang refuses the value of {0}: {1}"),
        (
            r"Loaded weights leave no GPU memory .*--mem-fraction-static=([\d.]+)\. Raise \S+ above ([\d.]+)",
            "the weights leave no room for a KV cache in the share {0} of the card: memory_share must be above {1}",
        ),
        (
            r"Not enough memory\. Please try to increase --mem-fraction-static\. Current value: \S*?([\d.]+)",
            "the weights leave no room for a KV cache: memory_share ({0}) is too low, or the model too large",
        ),
        (
            r"Not enough memory\. Please try to increase --mem-fraction-static\.",
            "the weights leave no room for a KV cache: memory_share is too low, or the model too large",
        ),
        (
            r"ValueError: Warning: \S+ context_length \((\d+)\) is greater than the derived context_length \((\d+)\)",
            "context is {0}, and the model was made for {1}",
        ),
        (r"Model architectures (\[.+?\]) are not supported", "this SGLang does not know the architecture {0}"),
        (r"Cannot find any model weights with `([^`\n]+)`", "there are no weights in {0}"),
        (
            r"LoRA adapter (\S+) with rank (\d+) is incompatible with the current",
            "the adapter {0} (rank {1}) does not go into the slots made for adapters: rank or modules differ",
        ),
        (r"Failed to load LoRA adapter (\S+?):? (.+)$", "the adapter {0} cannot be loaded: {1}"),
        (r"Failed to load (\S+) because LoRA serving (.+)$", "the adapter {0} cannot be loaded: LoRA serving {1}"),
        (
            r"The memory capacity is unbalanced",
            "the GPUs have different amounts of free memory: another process holds some of it",
        ),
        (r"\b(\w+) at (\d+) is not available", "it cannot listen on port {1} ({0}): the port is taken"),
        (r"engine_info_bootstrap_port (\d+) is already in use", "it cannot listen on port {0}: the port is taken"),
    )
)
"""SGLang's own words, before those of PyTorch."""

_LATE_FAILURES = failures.reasons(
    (
        (r"Capture cuda graph failed: (.+)$", "its CUDA graphs cannot be captured: {0}"),
        (
            r"^ *File \"\S*/srt/(models/\w+\.py)\", line (\d+), in .+\n(?:(?!\S*Error).*\n){0,4}AssertionError:?(.*)$",
            "a check of {0} (line {1}) failed: the model's sizes do not divide over these GPUs, as far as is known{2}",
        ),
        (r"watchdog timeout \(\S*?=(\d+)", "one step took longer than {0} s, and its watchdog ended it"),
    )
)
"""What is less telling than PyTorch's own words for the same event."""

_SUBPROCESS = r"Subprocess (\S+) \(pid=\d+\) crashed with exit code"
_RANK = r"Rank (\d+) scheduler died during initialization \(exit code:"


def _by_signal(*, crashed: bool) -> failures.Reasons:
    return (
        *failures.by_signal(rf"{_RANK} -SIGNAL\)", "while starting, the process of rank {0}", crashed=crashed),
        *failures.by_signal(rf"{_SUBPROCESS} -SIGNAL\b", "its process {0}", crashed=crashed),
    )


_CRASHES = _by_signal(crashed=True)

_LAST_WORDS = (
    *failures.reasons(
        (
            (rf"{_RANK} (\d+)\)", "the process of rank {0} ended with code {1} while it started"),
            (rf"{_SUBPROCESS} (\d+)\b", "its process {0} ended with code {1}"),
        )
    ),
    *_by_signal(crashed=False),
    *failures.reasons(
        (
            (
                r"Received sigquit from a child proces|SIGQUIT received\. .*It usually means one child failed",
                "one of its processes failed; the log says no more",
            ),
        )
    ),
)
"""Behind the last exception, whose consequence they are: a child that fails has its parent end all, itself included."""


def read_progress(line: str) -> Progress | None:
    """The step that a line announces; None for all others."""
    for pattern, stage, unit in ((_SHARDS, Stage.LOADING, "shards"), (_GRAPHS, Stage.CAPTURING, "graphs")):
        counted = pattern.search(line)
        if counted:
            return Progress(stage, int(counted[1]), int(counted[2]), unit)
    return next((Progress(stage) for pattern, stage in _STAGES if pattern.search(line)), None)


def read_failure(tail: str) -> str | None:
    """One sentence on why the last start in this tail ended; None when its lines do not tell."""
    last = failures.last_start(tail, _STARTED)
    tables = (_FAILURES, failures.TORCH, _LATE_FAILURES, _CRASHES, failures.LAST_EXCEPTION, _LAST_WORDS)
    return failures.find(tables, last)
