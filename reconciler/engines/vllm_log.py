"""What lines of vLLM's log mean for its start: how far it is.

Lines of 0.32, from starts on CPUs and, for want of a GPU, from its source. Bars are tqdm's: their states are lines too.
Why it ended is read in `vllm_failures`.
"""

from __future__ import annotations

import re

from reconciler.engines.progress import Progress, Stage

_COUNTED: tuple[tuple[re.Pattern[str], Stage, str], ...] = (
    (re.compile(r"\bFetching \d+ files:.*?(?<!\d)(\d+)/(\d+) \["), Stage.DOWNLOADING, "files"),
    (re.compile(r"\bPrefetching checkpoint files: \d+% \((\d+)/(\d+)\)"), Stage.LOADING, "files"),
    (re.compile(r"\b[Ll]oading [^:|]*shards:.*?(?<!\d)(\d+)/(\d+) \["), Stage.LOADING, "shards"),
    (
        re.compile(r"\bCapturing [^|:\n]{0,60}CUDA graphs[^|:\n]{0,60}:.*?(?<!\d)(\d+)/(\d+) \["),
        Stage.CAPTURING,
        "graphs",
    ),
)
"""Pattern of a bar, with what is done and the whole."""

_STAGES: tuple[tuple[str, Stage], ...] = (
    ("Resolved architecture:", Stage.STARTING),
    ("Initializing a V1 LLM engine", Stage.STARTING),
    ("Starting to load model", Stage.LOADING),
    ("Loading weights took", Stage.LOADING),
    ("Starting torch.compile", Stage.COMPILING),
    ("for vLLM's torch.compile", Stage.COMPILING),
    ("Dynamo bytecode transform time", Stage.COMPILING),
    ("Compiling a graph for compile range", Stage.COMPILING),
    ("Directly load the compiled graph", Stage.COMPILING),
    ("Compile and warming up model for size", Stage.COMPILING),
    ("Warming up model for the compilation", Stage.COMPILING),
    ("Available KV cache memory:", Stage.ALLOCATING),
    (" GiB for KV cache on node", Stage.ALLOCATING),
    ("KV cache size:", Stage.ALLOCATING),
    ("Profiling CUDA graph memory", Stage.CAPTURING),
    ("Graph capturing finished", Stage.WARMING),
    ("init engine (profile, create kv cache, warmup model) took", Stage.WARMING),
    ("Starting vLLM server on", Stage.LOADED),
    ("Application startup complete", Stage.LOADED),
)
"""Part of a line → stage, in the usual order of a start."""


def read_progress(line: str) -> Progress | None:
    """The step that a line announces; None for all others."""
    for pattern, stage, unit in _COUNTED:
        found = pattern.search(line)
        if found is not None:
            return Progress(stage, int(found[1]), int(found[2]), unit)
    return next((Progress(stage) for part, stage in _STAGES if part in line), None)
