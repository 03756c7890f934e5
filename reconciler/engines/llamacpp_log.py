"""What lines of llama-server's log mean: the stage of a start, the reason of an end.

The lines are those of b11434 and of the xllamacpp wheel 2026.10, collected by running both on good, missing, damaged
and unsuitable files (`tests/engines/logs/`); the lines about GPU memory are from the source, for want of a GPU.
Every failure has exit status 1 there, so that only the log tells them apart.
"""

from __future__ import annotations

import re

from reconciler.engines import failures
from reconciler.engines.progress import Progress, Stage

_STAGES: tuple[tuple[str, Stage], ...] = (
    ("load_model: loading model '", Stage.LOADING),
    ("load_tensors: loading model tensors", Stage.LOADING),
    ("llama_context: constructing llama_context", Stage.ALLOCATING),
    ("llama threadpool init", Stage.WARMING),
    ("warming up the model", Stage.WARMING),
    ("initializing, n_slots", Stage.OPENING),
    ("model loaded", Stage.LOADED),
)
"""Part of a line → stage, in the order of a start."""

_STARTED = re.compile(r"^.*\b(?:llama_server|init): initializing \.\.\.$", re.MULTILINE)
"""First line of a start that got past its command line: what stands before it in a log is of an earlier one."""

_MAKER = r"\b(?:CUDA|ROCm|MUSA)"
"""What its GPUs are called in it: the same source is built for each of them."""

_FAILURES = failures.reasons(
    (
        (
            r'^error while handling argument "--device": invalid device: (\S+)',
            "llama-server sees no GPU {0}: it was built without CUDA, or fewer GPUs are visible to it than were placed",
        ),
        (r'^error while handling argument "(\S+)": (?:error: )?(.+)', "llama-server refuses the value of {0}: {1}"),
        (r"^error: invalid argument: (\S+)", "llama-server does not know the argument {0}"),
        (r"error while loading shared libraries: (\S+):", "llama-server cannot start: the library {0} is missing"),
        (r"^error: (No module named '\S+'.*)", "llama.cpp's server cannot start: {0}"),
        (
            r"couldn't bind HTTP server socket, hostname: (\S+), port: (\d+)",
            "it cannot listen on {0} port {1}: the port is taken, or the address is not of this node",
        ),
        (
            r"allocating ([\d.]+) MiB on device (\d+): cudaMalloc failed",
            f"{failures.counted(1)} has too little free memory: {{0}} MiB were asked for",
        ),
        (
            rf"{_MAKER} error: out of memory\n.*current device: (\d+)",
            f"{failures.counted(0)} has too little free memory",
        ),
        (rf"{_MAKER} error: (.+)\n.*current device: (\d+)", f"{failures.counted(1)} failed: {{0}}"),
        (r"n_seq_max must be <= (\d+)", "it takes at most {0} slots: max_concurrency is too high"),
        (r"failed to initialize the context: (?:std::bad_alloc|failed to allocate)", "no memory for the KV cache"),
        (
            rf"error loading model: unable to allocate {_MAKER}(\d+) buffer",
            f"{failures.counted(0)} has too little free memory for its part of the weights",
        ),
        (r"error loading model: unable to allocate (\S+) buffer", "no memory for the weights in {0}"),
        (r"failed to open GGUF file '(.+)' \(([^()\n]+)\)$", "the weights {0} cannot be opened: {1}"),
        (r"invalid magic characters: '(.*)', expected 'GGUF'", "the weights are no GGUF file: they begin with '{0}'"),
        (
            r"gguf_init_from_\w+: (failed to read .+)$",
            "the header of the weights cannot be read ({0}): the file is damaged or incomplete",
        ),
        (
            r"error loading model: (tensor .+) data is not within the file bounds",
            "the weights are incomplete: {0} lies beyond the end of the file",
        ),
        (
            r"lora_init\w*: (?:failed to apply lora adapter: )?(.+)\n.*failed to load lora adapter '(.+)'$",
            "the adapter {1} cannot be loaded: {0}",
        ),
        (r"Failed to load CLIP model from (.+)$", "the multimodal projector {0} cannot be loaded"),
        (r"error loading model: (?!llama_model_loader: failed to load model)(.+)$", "the model cannot be loaded: {0}"),
        (r"llama_init_from_model: (?:failed to initialize the context: )?(.+)$", "the model cannot be set up: {0}"),
        (rf"{_MAKER} error: (.+)$", "a GPU failed: {0}"),
        failures.AMD_FAULT,
        (r"(GGML_ASSERT\(.+\) failed)$", "llama.cpp stopped at a check of its own: {0}"),
        (r"failed to load model, '(.+)'$", "the model {0} cannot be loaded"),
    )
)
"""Pattern → sentence, the more telling first."""


def read_progress(line: str) -> Progress | None:
    """The stage that a line announces; None for all others."""
    return next((Progress(stage) for part, stage in _STAGES if part in line), None)


def read_failure(tail: str) -> str | None:
    """One sentence on why the last start in this tail ended; None when its lines do not tell."""
    return failures.find((_FAILURES,), failures.last_start(tail, _STARTED))
