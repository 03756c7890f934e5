"""Why a vLLM process ended, out of the last lines of its log.

The sentences of 0.32, from real ends on CPUs (`tests/engines/logs/vllm-*.txt`) and, for want of a GPU, from its source.
Exit codes tell nothing: it is 0 when the engine behind the API server dies, and 1 for nearly everything else. One cause
is printed up to four times, by the worker, the engine and the API server, each as the cause of the next; the rows
below look for the innermost.
"""

from __future__ import annotations

import re

from reconciler.engines.failures import TORCH, by_signal, counted, find, last_start, reasons

_STARTED = re.compile(r"^.*\bnon-default args: .*$", re.MULTILINE)
"""A start that got past its command line."""

_PREFIX = re.compile(r"^\(\w[^)\n]* pid=\d+\) (?:[A-Z]+ \d\d-\d\d \d\d:\d\d:\d\d \[[^\]\n]+\] )?", re.MULTILINE)
"""What stands before the lines of each process."""

_KV = r"(?:self\.)?(?:total_)?(?:num_kv_heads|tp_size)"
_CAPABILITY = r"is not supported for the current GPU\. Minimum capability: (\d+)\. Current capability: (\d+)"

_CONFIGURATION = reasons(
    (
        (r"error: unrecognized arguments: (.+)$", "vLLM does not know the arguments {0}"),
        (r"error: ambiguous option: (\S+) could match (.+)$", "vLLM does not know which flag {0} is: {1}"),
        (r"error: argument (\S+?)(?:/\S+)?: (.+)$", "vLLM refuses the value of {0}: {1}"),
        (
            r"attention heads \((\d+)\) must be divisible by tensor parallel size \((\d+)\)",
            "{0} attention heads do not split over {1} GPUs",
        ),
        (
            r"max_model_len \((\d+)\) is greater than the derived max_model_len \(max_position_embeddings=(\d+)",
            "a context of {0} tokens is beyond the {1} that the model was trained for",
        ),
        (
            r"World size \((\d+)\) is larger than the number of available GPUs \((\d+)\)",
            "it sees {1} GPUs and needs {0}: fewer are visible to it than were placed",
        ),
        (
            r"invalid literal for int\(\) with base 10: '((?:GPU|MIG)-[^'\n]+)'",
            "this version of vLLM takes GPUs by number only, and {0} is none: 0.24 is the first that takes an id",
        ),
        (
            r"NVMLError_InvalidArgument\b",
            "vLLM asked the driver for a GPU that is not there: it takes a MIG slice's number on its card for a GPU's",
        ),
        (
            r"Model architectures \[?'?([^\]'\n]{1,200})'?\]? (?:are not supported|failed to be inspected)",
            "this version of vLLM does not know the architecture {0}",
        ),
        (
            r"Bfloat16 is only supported on GPUs with .+? (\S+)\. Your",
            "its GPUs do not compute in bfloat16, which takes compute capability {0}",
        ),
        (
            rf"quantization method (\S+) {_CAPABILITY}",
            "its GPUs do not take the quantization {0}: it needs compute capability {1} and they have {2}",
        ),
        (
            r"(?<!\S)(\S+) quantization is currently not supported in (\S+?)\.",
            "the quantization {0} does not run on {1}",
        ),
        (rf"^[ \t]*assert {_KV} % {_KV} == 0", "the KV heads of the model do not split over the GPUs of the replica"),
    )
)
"""What the model or the command line has wrong; the more telling first, here as below."""

_MEMORY = reasons(
    (
        (
            r"max seq len \((\d+)\), \(?([\d.]+) GiB KV cache is needed, .*?KV cache memory \(([\d.]+) GiB\)",
            "the KV cache is too small: one request of {0} tokens needs {1} GiB and {2} GiB are left for it",
        ),
        (
            r"No available memory for the cache blocks",
            "no memory is left for the KV cache: weights and activations take all that the engine may have",
        ),
        (
            r"Free memory on device (?:\w+:)?(\d+) \((\S+?)/(\S+) GiB\) on startup .*?utilization \((\S+), (\S+) GiB\)",
            f"{counted(0)} has too little free memory: {{4}} GiB asked for, {{1}} of {{2}} GiB free",
        ),
        (
            r"Free memory on device \((\S+?)/(\S+) GiB\) on startup .*?utilization \((\S+), (\S+) GiB\)",
            "a GPU has too little free memory: {3} GiB asked for, {0} of {1} GiB free",
        ),
        (
            r"Error in memory profiling\. Initial free memory (\S+) GiB, current free memory (\S+) GiB",
            "something else freed GPU memory while it measured: {0} GiB were free before and {1} GiB after",
        ),
        (
            r"Available memory on node \d+ \((\S+?)/\S+ GiB\) on .*?requested memory for kv \((\S+?)(?:/\S+)? GiB\)",
            "the node has too little free RAM: the KV cache asks for {1} GiB, {0} GiB are free",
        ),
    )
)

_FILES = reasons(
    (
        (r"Cannot find any model weights with `(.+?)`", "the weights are missing: {0} holds none"),
        (r"HFValidationError: Repo id must .*?: '(.+?)'", "the weights are missing: there is no directory {0}"),
        (
            r"LoRA rank (\d+) is greater than max_lora_rank (\d+)",
            "an adapter has rank {0}, and its slots are {1} wide: write --max-lora-rank under args",
        ),
        (r"Loading lora (\S+) failed: ((?!.*<path>)[^'\n]+)", "the adapter {0} cannot be loaded: {1}"),
        (
            r"Not enough allowed NUMA nodes to bind threads of (\d+) local CPUWorkers",
            "{0} workers on CPUs need a NUMA node each",
        ),
        (r"numactl is required for NUMA binding but is not installed", "numactl is missing on this node"),
    )
)

_DIED = r"(?:Worker proc|Engine core proc) (\S+) died unexpectedly"
_OTHERWISE = (
    *reasons(
        (
            (
                r"^[ \t]*assert (.+?),?[ \t]{0,4}\(?\n(?:[ \t^~]*\n)?AssertionError[ \t]*$",
                "vLLM stopped at a check of its own: {0}",
            ),
        )
    ),
    *by_signal(rf"{_DIED} \(exit code: -SIGNAL\)", "its process {0}", crashed=True),
    *by_signal(rf"{_DIED} \(exit code: -SIGNAL\)", "its process {0}", crashed=False),
)

_EXCEPTION = re.compile(r"^[ \t]*(?:[a-z_][\w.]*\.)?([A-Z]\w*(?:Error|Exception|Exit)): (\S.*)$", re.MULTILINE)
_WRAPPERS = re.compile(
    r"See root cause above|See stack trace for root cause|EngineCore encountered an issue|validation errors? for \w+$"
)
"""Exceptions that only say that there was another one."""

_VALUE_ERROR = re.compile(r"^[ \t]*Value error, (.+?)(?: \[type=value_error.*)?$", re.MULTILINE)
"""What pydantic passes on of a refusal in a check of vLLM's configuration."""

_REFUSED = reasons(((r"^(.+)$", "vLLM refuses its configuration: {0}"),))
_ENDED = reasons(((r"^(.+)$", "it ended with {0}"),))


def read_failure(tail: str) -> str | None:
    """One sentence on why the last start in this tail ended; None when its lines do not tell."""
    text = _PREFIX.sub("", last_start(tail, _STARTED))
    return find((_CONFIGURATION, _MEMORY, _FILES, TORCH, _OTHERWISE), text) or _own_words(text)


def _own_words(text: str) -> str | None:
    """Where no row fits: the first exception that is more than the news of another one."""
    refused = _VALUE_ERROR.search(text)
    if refused is not None:
        return find((_REFUSED,), refused[1])
    told = next((each for each in _EXCEPTION.finditer(text) if not _WRAPPERS.search(each[2])), None)
    return None if told is None else find((_ENDED,), f"{told[1]}: {told[2]}")
