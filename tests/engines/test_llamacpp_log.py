"""The log of llama.cpp: whole logs of real starts (`logs/`: `server` is b11434, `wheel` is ours over the wheel)."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.engines.llamacpp_log import read_failure, read_progress

LOGS = Path(__file__).parent / "logs"

REASONS = {
    "server-adapter-missing": (
        "the adapter none.gguf cannot be loaded: failed to open 'none.gguf': No such file or directory"
    ),
    "server-adapter-none": "the adapter tiny.gguf cannot be loaded: expect general.type to be 'adapter', but got",
    "server-architecture": "the model cannot be loaded: unknown model architecture: 'lorem'",
    "server-cache-type": "the model cannot be set up: quantized V cache requires flash_attn to be enabled",
    "server-device": (
        "llama-server sees no GPU CUDA0: it was built without CUDA, or fewer GPUs are visible to it than were placed"
    ),
    "server-equals": "llama-server does not know the argument --ctx-size=512",
    "server-half": "the weights are incomplete: tensor 'blk.0.ffn_gate.weight' lies beyond the end of the file",
    "server-header": (
        "the header of the weights cannot be read (failed to read key-value pairs): the file is damaged or incomplete"
    ),
    "server-junk": "the weights are no GGUF file: they begin with 'hell'",
    "server-memory": "no memory for the KV cache",
    "server-missing": "the weights none.gguf cannot be opened: No such file or directory",
    "server-port": "it cannot listen on 127.0.0.1 port 18112: the port is taken, or the address is not of this node",
    "server-projector": "the multimodal projector tiny.gguf cannot be loaded",
    "server-slots": "it takes at most 256 slots: max_concurrency is too high",
    "server-unknown-flag": "llama-server does not know the argument --no-such-flag",
    "server-value": "llama-server refuses the value of --cache-type-k: Unsupported cache type: fp8",
    "wheel-missing": "the weights none.gguf cannot be opened: No such file or directory",
    "wheel-port": "it cannot listen on 127.0.0.1 port 18112: the port is taken, or the address is not of this node",
    "wheel-value": (
        "llama-server refuses the value of --cache-type-k: "
        "'fp8' is none of f32, f16, bf16, q8_0, q4_0, q4_1, iq4_nl, q5_0, q5_1"
    ),
}


def log(name: str) -> str:
    return (LOGS / f"{name}.txt").read_text("utf-8")


@pytest.mark.parametrize(("name", "reason"), REASONS.items(), ids=REASONS.keys())
def test_the_reason_of_an_end_is_one_sentence(name: str, reason: str) -> None:
    assert read_failure(log(name)) == reason


@pytest.mark.parametrize("name", ["server-good", "wheel-good"])
def test_a_good_start_is_told_by_stages_and_has_no_reason(name: str) -> None:
    stages = [step.stage for line in log(name).splitlines() if (step := read_progress(line))]
    assert stages == ["loading weights", "warming up", "opening slots", "loaded"]
    assert read_failure(log(name)) is None


def test_every_kept_log_is_read_by_a_test() -> None:
    assert {path.stem for path in LOGS.glob("*.txt")} == REASONS.keys() | {"server-good", "wheel-good"}


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        # ggml-cuda.cu, llama-model.cpp and llama-context.cpp of b11434, for want of a GPU here.
        (
            (
                "0.1 E ggml_backend_cuda_buffer_type_alloc_buffer: allocating 76012.50 MiB on device 1: "
                "cudaMalloc failed: out of memory\n"
                "0.1 E llama_model_load: error loading model: unable to allocate CUDA1 buffer\n"
            ),
            "GPU 1 (as the engine counts them) has too little free memory: 76012.50 MiB were asked for",
        ),
        (
            "0.1 E llama_model_load: error loading model: unable to allocate CUDA0 buffer\n",
            "GPU 0 (as the engine counts them) has too little free memory for its part of the weights",
        ),
        (
            "0.1 E llama_model_load: error loading model: unable to allocate ROCm3 buffer\n",
            "GPU 3 (as the engine counts them) has too little free memory for its part of the weights",
        ),
        (
            "0.1 E llama_model_load: error loading model: unable to allocate CPU buffer\n",
            "no memory for the weights in CPU",
        ),
        (
            "0.1 E ROCm error: out of memory\n0.1 E   current device: 1, in function alloc at /src/ggml-cuda.cu:3\n",
            "GPU 1 (as the engine counts them) has too little free memory",
        ),
        ("0.1 E CUDA error: out of memory\n0.1 E   current device: -1, in function x\n", "a GPU failed: out of memory"),
        (
            "Memory access fault by GPU node-3 (Agent handle: 0x26ff9f00) on address 0x7edbde. Reason: Unknown.\n",
            "a GPU failed (ROCm's node 3): memory access fault, Unknown",
        ),
        (
            "0.1 E llama_init_from_model: failed to initialize the context: std::bad_alloc\n",
            "no memory for the KV cache",
        ),
        (
            "0.1 E CUDA error: an illegal memory access was encountered\n0.1 E   current device: 0, in function x\n",
            "GPU 0 (as the engine counts them) failed: an illegal memory access was encountered",
        ),
        (
            "/src/ggml.c:1461: GGML_ASSERT(a->ne[0] == 1) failed\n",
            "llama.cpp stopped at a check of its own: GGML_ASSERT(a->ne[0] == 1) failed",
        ),
        (
            "llama-server: error while loading shared libraries: libcudart.so.12: cannot open shared object file\n",
            "llama-server cannot start: the library libcudart.so.12 is missing",
        ),
        (
            "error: No module named 'xllamacpp'; install llama.cpp's server with: pip install 'reconciler[local]'\n",
            (
                "llama.cpp's server cannot start: No module named 'xllamacpp'; "
                "install llama.cpp's server with: pip install 'reconciler[local]'"
            ),
        ),
        ("", None),
        ("0.1 I srv  llama_server: listening on http://127.0.0.1:20000\n", None),
    ],
)
def test_further_reasons(lines: str, reason: str | None) -> None:
    assert read_failure(lines) == reason


def test_of_two_starts_in_one_log_the_last_one_counts() -> None:
    assert read_failure(log("server-missing") + log("server-port")) == REASONS["server-port"]
    assert read_failure(log("server-missing") + log("server-unknown-flag")) == REASONS["server-unknown-flag"]
    assert read_failure(log("server-unknown-flag") + log("server-missing")) == REASONS["server-missing"]
    assert read_failure(log("server-missing") + log("server-good")) is None
