"""llama.cpp's `llama-server`: command line, readiness, requests in flight, stop.

Written against b11434 (source and binary) and the server in the xllamacpp wheel 2026.10; the flags are also those of
older builds where both spellings exist. Its answers are read in `llamacpp_answers`, its log in `llamacpp_log`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Engine, Task
from reconciler.engines import llamacpp_answers as answers
from reconciler.engines import openai_answers
from reconciler.engines.base import Launch, StopBehaviour, Vendor
from reconciler.engines.devices import visible_devices
from reconciler.engines.llamacpp_log import read_failure, read_progress
from reconciler.engines.numa import bound

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.declaration import Declaration
    from reconciler.engines.base import Answer, InFlight, Paths, Probe, Site, Verdict
    from reconciler.engines.progress import Progress

DEFAULT_SLOTS = 1
"""Requests served at once when `max_concurrency` is not written. Every slot reserves KV cache for a whole request, so
one is the only number that a declared context alone says the memory of; llama.cpp's own choice is 4."""

PLAIN_CACHE_TYPES = frozenset({"f32", "f16", "bf16"})
"""KV cache types that are not quantised; a quantised V needs flash attention."""

STOP = StopBehaviour(repeat_after=timedelta(seconds=5), kill_after=timedelta(seconds=15))
"""An idle llama-server ends 0.02 s after SIGTERM; one with a request in flight never ends by itself (10 of 10) and
ends at once on the second SIGTERM. The agent has drained before, so that five seconds are for a request that overstayed
to reach its end on the wheel's server, which does wait for it. Ten more are for the driver to take back pinned memory
and GPU contexts, seconds for hundreds of GiB."""


class LlamaCpp:
    """llama.cpp's server; see `EngineSupport`."""

    kind = Engine.LLAMACPP
    install_hint = "pip install xllamacpp (CPUs only; on GPUs, put a llama-server built with CUDA on the agent's PATH)"
    stop = STOP
    key_env: tuple[str, ...] = ("LLAMA_API_KEY",)

    def launch(self, declaration: Declaration, site: Site) -> Launch:
        """The command line. Declared `args` come last: llama-server takes the last of a repeated flag with one value.

        A declaration without context gets the model's trained length (0 asks for it); dtype, quantization and version
        say nothing to llama.cpp, whose file and program have them.
        """
        arguments = (
            *("--model", site.model_path),
            *("--alias", ",".join((declaration.model, *declaration.aliases))),
            *("--host", site.host, "--port", str(site.port)),
            *_memory(declaration),
            *_devices(declaration, site),
            *_task(declaration),
            *(() if site.mmproj_path is None else ("--mmproj", site.mmproj_path)),
            *_adapters(declaration, site),
            # What the reconciler reads, and nothing that writes, downloads or shows more than the API.
            *("--metrics", "--slots", "--no-webui", "--offline"),
            *declaration.args,
        )
        url = f"http://{_bracketed(site.host)}:{site.port}"
        return Launch(arguments, _environment(site), url, launcher=bound(site))

    def readiness(self, declaration: Declaration) -> tuple[Probe, ...]:
        """Loaded, serving under the right name with its adapters, and answering one request of its kind."""
        adapters = (answers.ADAPTERS,) if declaration.adapters else ()
        return (answers.HEALTH, openai_answers.MODELS, *adapters, openai_answers.question(declaration))

    def judge(self, declaration: Declaration, probe: Probe, answer: Answer, paths: Paths | None = None) -> Verdict:
        """Read the answer to a readiness or liveness probe."""
        return answers.judge(declaration, probe, answer, paths)

    def liveness(self) -> Probe:
        """`/health`: one process serves HTTP and computes, so that an answer means that it is there."""
        return answers.HEALTH

    def load(self) -> Probe:
        """`/metrics`, which `--metrics` switches on."""
        return answers.METRICS

    def read_load(self, answer: Answer) -> InFlight | None:
        """Requests in flight, from its metrics."""
        return answers.read_load(answer)

    def load_adapter(self, declaration: Declaration, name: str, path: str) -> Probe | None:  # noqa: ARG002  # see below
        """None: every adapter is loaded at launch."""
        return None

    def unload_adapter(self, declaration: Declaration, name: str) -> Probe | None:  # noqa: ARG002  # as for loading
        """None, as for loading."""
        return None

    def adapters(self) -> Probe | None:
        """None: it takes them at its start only, and is ready with exactly those (`readiness`), or never."""
        return None

    def read_adapters(self, answer: Answer) -> frozenset[str] | None:  # noqa: ARG002  # nothing was asked
        """None, as for asking."""
        return None

    def read_progress(self, line: str) -> Progress | None:
        """The step of its start that a log line announces."""
        return read_progress(line)

    def read_failure(self, tail: str) -> str | None:
        """Why it ended, from the tail of its log."""
        return read_failure(tail)


def _memory(declaration: Declaration) -> tuple[str, ...]:
    """What sizes it: `--parallel` splits `--ctx-size`, so every slot gets the declared context.

    `--fit off`: it never shrinks what was declared to what is free. `--cache-ram 0`: no copies of old prompts in host
    RAM, for which it would take up to 8 GiB beside what the gate counted.
    """
    slots = declaration.max_concurrency or DEFAULT_SLOTS
    context = declaration.context or 0
    cache = declaration.kv_cache_dtype
    threads = () if declaration.cpu_cores is None else (str(declaration.cpu_cores),)
    return (
        *("--ctx-size", str(context * slots), "--parallel", str(slots)),
        *("--fit", "off", "--cache-ram", "0"),
        *(() if cache is None else ("--cache-type-k", cache, "--cache-type-v", cache)),
        *(() if cache is None or cache in PLAIN_CACHE_TYPES else ("--flash-attn", "on")),
        *(word for count in threads for word in ("--threads", count, "--threads-batch", count)),
    )


def _devices(declaration: Declaration, site: Site) -> tuple[str, ...]:
    """Exactly the placed GPUs, all layers on them in equal parts, or no GPU at all.

    Naming the devices makes it refuse to start where it sees fewer than were placed, or was built without CUDA;
    `--gpu-layers` alone is taken without a word there and runs on the CPU.
    """
    count = declaration.gpus
    if count == 0:
        return ("--device", "none")
    split = ("layer", "--tensor-split", ",".join("1" * count)) if count > 1 else ("none", "--main-gpu", "0")
    backend = "ROCm" if site.vendor is Vendor.AMD else "CUDA"
    devices = ",".join(f"{backend}{index}" for index in range(count))
    return ("--device", devices, "--gpu-layers", "all", "--split-mode", *split)


def _environment(site: Site) -> Mapping[str, str]:
    """GPUs by UUID in the order placed, none when there are none; the user's own config file is kept out.

    It compiles no kernels: what CUDA's driver does for cards that are newer than the build is kept over restarts.
    """
    cuda = bool(site.gpus) and site.vendor is Vendor.NVIDIA
    kept = {"CUDA_CACHE_PATH": f"{site.cache_dir}/cuda"} if cuda and site.cache_dir is not None else {}
    return {
        **visible_devices(site),
        **kept,
        # llama-server reads $XDG_CONFIG_HOME/llama.cpp/config.ini before its flags; below a device there is no file.
        "XDG_CONFIG_HOME": "/dev/null",
    }


def _task(declaration: Declaration) -> tuple[str, ...]:
    """Embedding and reranking take a whole input in one batch: without these an input over 512 tokens is refused."""
    context = declaration.context
    batch = () if context is None else ("--batch-size", str(context), "--ubatch-size", str(context))
    match declaration.task:
        case Task.EMBED:
            return ("--embeddings", *batch)
        case Task.RERANK:
            return ("--reranking", *batch)
        case Task.GENERATE | Task.TRANSCRIBE | Task.IMAGE:
            return ()


def _adapters(declaration: Declaration, site: Site) -> tuple[str, ...]:
    """All adapters in one flag and in the declared order, which numbers them in its API."""
    paths = [site.adapter_paths[adapter.name] for adapter in declaration.adapters]
    if not paths:
        return ()
    if all(adapter.scale is None for adapter in declaration.adapters):
        return ("--lora", ",".join(_quoted(path) for path in paths))
    scales = [1.0 if adapter.scale is None else adapter.scale for adapter in declaration.adapters]
    scaled = (_quoted(f"{path}:{scale:g}") for path, scale in zip(paths, scales, strict=True))
    return ("--lora-scaled", ",".join(scaled))


def _quoted(text: str) -> str:
    """One field of a comma-separated flag, as llama.cpp reads them."""
    return '"' + text.replace('"', '""') + '"' if "," in text or text.startswith('"') else text


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
