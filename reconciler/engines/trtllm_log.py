"""What lines of TensorRT-LLM's log mean: the step of a start, the reason of an end.

From its public source (tensorrt_llm/_torch/pyexecutor, serve, models) and from logs in public reports of 0.20 to 1.2;
not run: the program does not install without its GPUs. Over several nodes Open MPI speaks too (`mpi_log`).
"""

from __future__ import annotations

import re

from reconciler.engines import failures, mpi_log
from reconciler.engines.progress import Progress, Stage

_WEIGHTS = re.compile(r"\bLoading (?:\w+ weights in parallel|weights(?: concurrently)?): .*?\| *(\d+)/(\d+) \[")

_STAGES: tuple[tuple[re.Pattern[str], Stage], ...] = tuple(
    (re.compile(pattern), stage)
    for pattern, stage in (
        (r"\bTensorRT[- ]LLM version: ", Stage.STARTING),
        (r"\bprefetching |\bPrefetching .*checkpoint files|\bLoading \w+ weights in parallel\b", Stage.LOADING),
        (r"\bAllocated .* for max tokens in paged KV cache\b", Stage.ALLOCATING),
        (r"\b(?:Running autotuner warmup|Autotuning process starts)\b", Stage.COMPILING),
        (r"\bCreating CUDA graph instances for \d+ batch sizes\b", Stage.CAPTURING),
        (r"\bApplication startup complete\b", Stage.LOADED),
    )
)
"""Part of a line → stage, in the order of a start. The cache is made twice: once small, to see what a step takes."""

_STARTED = re.compile(r"^.*\bTensorRT[- ]LLM version: .*$", re.MULTILINE)
"""First line of a start: before it reads its command line."""

_BY_RANK = r"\[RANK (\d+)\] \[E\](?:(?!\[RANK )[\s\S])*?"
"""In one message of one rank, however many lines it has."""

_FAILURES = failures.reasons(
    (
        (r"^Error: No such option: (\S+?)\.?(?: .*)?$", "trtllm-serve does not know the option {0}"),
        (r"^Error: Invalid value for '?([^':\n]{1,100})'?.*?: (.+)$", "trtllm-serve refuses the value of {0}: {1}"),
        (
            r"Failed to bind socket to (\S+):(\d+): ",
            "it cannot listen on {0} port {1}: the port is taken, or the address is not of this node",
        ),
        (
            rf"{_BY_RANK}could not be created: (.+)\nTotal GPU memory .*: (\S+)\nFree GPU memory before .*: (\S+)",
            "the GPU of rank {0} has too little free memory for this part of it: {1} ({3} of {2} GiB were free)",
        ),
        (
            rf"{_BY_RANK}out of memory\. Tried to allocate (.+?)\. GPU (\d+) has a .*? of (\S+ \w+) of which (\S+ \w+)",
            "GPU {2} (as rank {0} counts them) has too little free memory: {1} were asked for, {4} of {3} are free",
        ),
        (rf"{_BY_RANK}due to insufficient GPU memory", "the GPU of rank {0} has too little free memory"),
        (
            r"could not be created: (.+)\nTotal GPU memory \(GiB\): (\S+)\nFree GPU memory before .*\(GiB\): (\S+)",
            "a GPU has too little free memory for this part of it: {0} ({2} of {1} GiB were free)",
        ),
        (r"due to insufficient GPU memory", "a GPU has too little free memory"),
        (r"Executor creation failed with NCCL error: (.+)$", "its GPUs cannot reach each other: {0}"),
        (r"Impossible to fit in any sequence in kvCache", "the KV cache has no room for one request of the context"),
        (
            r"Unknown architecture for AutoModelForCausalLM: (\S+)",
            "this TensorRT-LLM does not know the architecture {0}",
        ),
        (r"No weight files found in (\S+?)\.?$", "there are no weights in {0}"),
        (r"world_size must equal to (.+)$", "its parallel sizes do not multiply to its GPUs: {0}"),
    )
)
"""TensorRT-LLM's own words, before those of PyTorch."""

_LATE_FAILURES = failures.reasons(
    ((r"Failed to initialize executor on rank (\d+): (.+)$", "rank {0} did not start: {1}"),)
)
"""What is less telling than PyTorch's own words for the same event."""

_LAST_WORDS = (
    *mpi_log.RANK_ENDED,
    *failures.reasons(((r"Executor worker returned error", "one of its workers did not start; the log says no more"),)),
)


def read_progress(line: str) -> Progress | None:
    """The step that a line announces; None for all others."""
    counted = _WEIGHTS.search(line)
    if counted:
        return Progress(Stage.LOADING, int(counted[1]), int(counted[2]), "parts")
    stage = next((stage for pattern, stage in _STAGES if pattern.search(line)), None)
    return mpi_log.read_progress(line) if stage is None else Progress(stage)


def read_failure(tail: str) -> str | None:
    """One sentence on why the last start in this tail ended; None when its lines do not tell."""
    last = failures.last_start(tail, _STARTED)
    own = (mpi_log.OURS, _FAILURES, failures.TORCH, mpi_log.NOT_STARTED, _LATE_FAILURES, mpi_log.RANK_KILLED)
    return failures.find((*own, failures.LAST_EXCEPTION, _LAST_WORDS), last)
