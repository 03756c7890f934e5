"""vLLM's log: how far a start is, and why one ended.

The logs are real ones of 0.32 on CPUs, without the frames of their tracebacks.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from reconciler.engines.progress import Progress, Stage
from reconciler.engines.vllm_failures import read_failure
from reconciler.engines.vllm_log import read_progress

LOGS = Path(__file__).parent / "logs" / "vllm"
FURTHER: list[dict[str, str | None]] = YAML(typ="safe").load(LOGS.parent.parent / "vllm_reasons.yaml")
REASONS = {
    "adapter-missing": "the adapter sql cannot be loaded: No adapter found for /weights/nolora",
    "adapter-rank": "an adapter has rank 8, and its slots are 1 wide: write --max-lora-rank under args",
    "architecture": "it does not know models of the type strange: the engine is older than the model",
    "bad-value": "vLLM refuses the value of --max-model-len: invalid human_readable_int_or_auto value: 'abc'",
    "context": "a context of 262144 tokens is beyond the 131072 that the model was trained for",
    "first-token": (
        "it ended with RuntimeError: Unsupported CPU attention configuration: head_dim=8 isa=1 kv_cache_idx=0"
    ),
    "half-a-file": "the weights cannot be read: incomplete metadata, file not fully covered",
    "heads": "8 attention heads do not split over 3 GPUs",
    "kernel": (
        "it ended with RuntimeError: _C::static_scaled_fp8_quant() expected at most 0 argument(s) but received "
        "4 argument(s). Declaration: _C::static_scaled_fp8_quant() -> ()"
    ),
    "kv-pool": "the KV cache is too small: one request of 131072 tokens needs 0.12 GiB and 0.02 GiB are left for it",
    "no-directory": "the weights are missing: there is no directory /weights/none",
    "no-weights": "the weights are missing: noweights holds none",
    "port": "it cannot listen: the port is taken",
    "ram": "the node has too little free RAM: the KV cache asks for 900.0 GiB, 14.33 GiB are free",
    "unknown-flag": "vLLM does not know the arguments --no-such-flag 1",
}


def log(name: str) -> str:
    """As the agent reads it: every state of a progress bar is a line."""
    return re.sub(r"\r\n|\r", "\n", (LOGS / f"{name}.txt").read_bytes().decode())


@pytest.mark.parametrize(("name", "reason"), REASONS.items(), ids=REASONS.keys())
def test_the_reason_of_an_end_is_one_sentence(name: str, reason: str) -> None:
    assert read_failure(log(name)) == reason


def test_every_kept_log_is_read_by_a_test() -> None:
    assert {path.stem for path in LOGS.iterdir()} == REASONS.keys() | {"good"}


def test_a_good_start_is_told_by_its_steps_and_has_no_reason() -> None:
    steps = [step for line in log("good").splitlines() if (step := read_progress(line))]
    assert [step for at, step in enumerate(steps) if step not in steps[:at]] == [
        Progress(Stage.STARTING),
        Progress(Stage.LOADING),
        Progress(Stage.LOADING, 0, 4, "shards"),
        Progress(Stage.LOADING, 4, 4, "shards"),
        Progress(Stage.COMPILING),
        Progress(Stage.ALLOCATING),
        Progress(Stage.WARMING),
        Progress(Stage.LOADED),
    ]
    assert [step.words for step in steps if step.words] == ["0 of 4 shards", "4 of 4 shards"]
    assert read_failure(log("good")) is None


def test_of_two_starts_in_one_log_the_last_one_counts() -> None:
    assert read_failure(log("kv-pool") + log("port")) == REASONS["port"]
    assert read_failure(log("port") + log("good")) is None


@pytest.mark.parametrize(
    ("line", "step"),
    [
        # From the source of 0.32, for want of a GPU.
        (
            "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  42%|████▏     | 28/67 [00:01<00:02, 19.1it/s]",
            Progress(Stage.CAPTURING, 28, 67, "graphs"),
        ),
        (
            "Capturing CUDA graphs (decode, FULL): 100%|██████████| 35/35 [00:01<00:00, 19.1it/s]",
            Progress(Stage.CAPTURING, 35, 35, "graphs"),
        ),
        (
            "Multi-thread loading shards:  10% Completed | 3/30 [00:01<00:09, 3.0it/s]",
            Progress(Stage.LOADING, 3, 30, "shards"),
        ),
        ("Loading pt checkpoint shards:  50% Completed | 1/2 [00:00<00:00]", Progress(Stage.LOADING, 1, 2, "shards")),
        ("Fetching 8 files:  12%|█▎        | 1/8 [00:00<00:05, 1.2it/s]", Progress(Stage.DOWNLOADING, 1, 8, "files")),
        ("[weight_utils.py:1043] Prefetching checkpoint files: 50% (5/10)", Progress(Stage.LOADING, 5, 10, "files")),
        ("[gpu_worker.py:760] Available KV cache memory: 53.1 GiB", Progress(Stage.ALLOCATING)),
        ("[backends.py:399] Compiling a graph for compile range (1, 8192) takes 9.1 s", Progress(Stage.COMPILING)),
        ("[backends.py:1167] Dynamo bytecode transform time: 5.51 s", Progress(Stage.COMPILING)),
        ("[gpu_model_runner.py:6582] Graph capturing finished in 12 secs, took 0.61 GiB", Progress(Stage.WARMING)),
        ('INFO:     127.0.0.1:35022 - "POST /v1/completions HTTP/1.1" 200 OK', None),
        ("Loading weights: 0/0", None),
    ],
)
def test_steps_of_a_start_on_gpus(line: str, step: Progress | None) -> None:
    assert read_progress(line) == step


@pytest.mark.parametrize(
    "case", FURTHER, ids=[f"{at} {(case['reason'] or 'no reason')[:40]}" for at, case in enumerate(FURTHER)]
)
def test_further_reasons(case: dict[str, str | None]) -> None:
    assert read_failure(case["lines"] or "") == case["reason"]
