"""Reasons of an end that engines have in common, and how a tail of a log is searched for one.

Engines on PyTorch end with a traceback, of which the last line names an exception and often says nothing to a person
who does not know the program. Every engine has its own table in front of these; both are read in order, the more
telling first.
"""

from __future__ import annotations

import re
from signal import Signals
from typing import TYPE_CHECKING

from reconciler.engines.signals import CRASHES, TOLD, how

if TYPE_CHECKING:
    from collections.abc import Iterable

Reasons = tuple[tuple[re.Pattern[str], str], ...]
"""Pattern → sentence; the pattern's groups go into the sentence by number."""

LONGEST = 300
"""Characters of a reason: two lines of a terminal and a bit. What programs say further is in the log."""


def counted(group: int) -> str:
    """A GPU by the number that the engine gives it, in that group; `cards` puts the node's own card in its place."""
    return f"GPU {{{group}}} (as the engine counts them)"


def reasons(rows: Iterable[tuple[str, str]]) -> Reasons:
    """Compile a table; `^` and `$` are ends of lines."""
    return tuple((re.compile(pattern, re.MULTILINE), sentence) for pattern, sentence in rows)


def by_signal(pattern: str, process: str, *, crashed: bool) -> Reasons:
    """Rows for a process that a signal ended; `SIGNAL` in the pattern is its number, `process` what it is called.

    `crashed`: those that are the cause of an end. Else the rest, which mostly are its consequence, or say little.
    """
    causes = (*CRASHES, Signals.SIGKILL)
    others = (*TOLD, *sorted(set(Signals).difference(causes, TOLD)))
    numbers = causes if crashed else others
    return reasons((pattern.replace("SIGNAL", str(int(number))), f"{process} {how(number)}") for number in numbers)


def find(tables: Iterable[Reasons], text: str) -> str | None:
    """The sentence of the first row that fits, with its last occurrence: what came before it was survived."""
    for table in tables:
        for pattern, sentence in table:
            found = list(pattern.finditer(text))
            if found:
                return _shown(sentence.format(*found[-1].groups(default="")))
    return None


def last_start(text: str, first_line: re.Pattern[str]) -> str:
    """What stands behind the last line that begins a start: everything before is of an earlier one."""
    starts = list(first_line.finditer(text))
    return text[starts[-1].end() :] if starts else text


def _shown(sentence: str) -> str:
    line = " ".join(sentence.split()).rstrip(" :.")
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1].rstrip()}…"


AMD_FAULT = (
    r"Memory access fault by GPU node-(\d+) .*\bReason: (.+?)\.?$",
    "a GPU failed (ROCm's node {0}): memory access fault, {1}",
)
"""ROCm's runtime, which then aborts the process. It counts the CPUs' nodes too: no number of ours follows from it."""

_TRIED = r"out of memory\. Tried to allocate (\S+ \w+)"

_ON_DEVICE = r"\bAllocation on device (\d+) would exceed allowed memory"

_REQUESTED = r"(?>.*?\bRequested *: )(.+)\n(?>.*?\bDevice limit *: )(.+)\n(?>.*?\bFree [^:\n]*: )(.+)$"
"""Lines below it; each word is looked for once in its line."""

_GPU_MAKER = r"\b(?:CUDA|Cuda|HIP|ROCm|XPU|MUSA)"

TORCH = reasons(
    (
        (
            r"out of memory\. Tried to allocate (\S+ \w+)\. GPU (\d+) has a total .*? of (\S+ \w+) of which (\S+ \w+)",
            f"{counted(1)} has too little free memory: {{0}} were asked for, {{3}} of {{2}} are free",
        ),
        (
            r"out of memory\. Tried to allocate (\S+ \w+)\. GPU (\d+) has a total capacity of (\S+ \w+)",
            f"{counted(1)} has too little free memory: {{0}} were asked for, and it has {{2}} in all",
        ),
        (
            rf"{_TRIED} \(GPU (\d+); (\S+ \w+) total capacity.*?(?<!\S)(\S+ \w+) free",
            f"{counted(1)} has too little free memory: {{0}} were asked for, {{3}} of {{2}} are free",
        ),
        (
            rf"{_ON_DEVICE}.*\n(?:.*\n){{0,3}}?{_REQUESTED}",
            f"{counted(0)} has too little free memory: {{1}} were asked for, {{3}} of {{2}} are free",
        ),
        (_ON_DEVICE, f"{counted(0)} has too little free memory"),
        (r"\b(?:OutOfMemoryError|OOM)\b.*: Allocation on device\b", "a GPU has too little free memory"),
        (
            r"\[Rank:\d+\] FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::\d+ \((\d+)\) ?MB",
            "a GPU has too little free memory: {0} MiB were asked for",
        ),
        (rf"{_GPU_MAKER} out of memory", "a GPU has too little free memory"),
        (
            rf"{_GPU_MAKER}(?: [Rr]untime| [Dd]river)? (?:[Ee]rror|failure|\().*\bout of memory",
            "a GPU has too little free memory",
        ),
        (
            r"\[Errno 98\] error while attempting to bind on address \('([^'\n]+)', (\d+)",
            "it cannot listen on {0} port {1}: the port is taken",
        ),
        (r"\[Errno (?:98|48)\] Address already in use", "it cannot listen: the port is taken"),
        (r"\[Errno 99\]|Cannot assign requested address", "it cannot listen: the address is not of this node"),
        (
            r"No (?:CUDA|HIP) GPUs are available|Found no NVIDIA driver on your sys|no (?:CUDA|ROCm)-capable device is",
            "it sees no GPU: the driver does not answer, or shows it none of the GPUs that were placed",
        ),
        (r"Torch not compiled with CUDA enabled", "its PyTorch was built without CUDA"),
        (r"(?:ModuleNotFoundError|ImportError): (.+)$", "its installation is broken: {0}"),
        (r"\bNCCL (?:error|WARN)\b.*?: (.+)$", "its GPUs cannot reach each other: {0}"),
        AMD_FAULT,
        (rf"{_GPU_MAKER}(?: runtime| driver)? error in (?:.*): (.+?)(?: \(\S+:\d+\))?$", "a GPU failed: {0}"),
        (rf"{_GPU_MAKER}(?: runtime| driver)? error: (.+)$", "a GPU failed: {0}"),
        (r"safetensors\S*: (?:Error while deserializing header: )?(.+)$", "the weights cannot be read: {0}"),
        (r"SafetensorError: (.+)$", "the weights cannot be read: {0}"),
        (
            r"model type `([^`\n]+)` but Transformers does not recognize",
            "it does not know models of the type {0}: the engine is older than the model",
        ),
        (r"Unrecognized (?:configuration class|model in) (\S+)", "it does not know the model in {0}"),
        (r"(?<!\S)(\S+) does not appear to have a file named (\S+?)\.?(?: |$)", "{0} has no {1}"),
        (r"Repo id must (?:be in the form|use alphanumeric)", "the weights are not where they should be"),
        (r"\[Errno 28\]|No space left on device", "a disk of this node is full"),
        (
            r"DefaultCPUAllocator: (?:can't allocate|not enough) memory: you tried to allocate (\d+) bytes",
            "this node has too little RAM left: {0} bytes were asked for at once",
        ),
        (r"\[Errno 12\]|std::bad_alloc|^(?:\S*\._Array)?MemoryError\b", "this node has too little RAM left"),
    )
)
"""PyTorch, transformers and the HTTP servers under them, in the words of releases from 2024 to 2026: NVIDIA's and AMD's
builds, Intel's for Gaudi, and `cudaMallocAsync`, PyTorch's other allocator of GPU memory."""

LAST_EXCEPTION = reasons(
    (
        (r"^(?:\[[^\]\n]*\] )*(?:[\w.]*\.)?(\w+(?:Error|Exception|Exit)): (.+)$", "it ended with {0}: {1}"),
        (r"^terminate called after throwing an instance of '(.+)'\n[ \t]*what\(\): +(.+)$", "it ended with {0}: {1}"),
    )
)
"""Where nothing else tells: the last exception's own words, of Python or of C++."""
