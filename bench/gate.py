"""Time and memory of the gate over a whole fleet: `gate.py [MODELS] [NODES] [SHAPES]`, by default 1000 1000 20.

Fleets that are loaded from files written here: one that is right, one in which every count is wrong, so that each asks
which counts would pass, one in which nothing fits its card, and two in which each model lets in more requests than its
cache holds, so that each asks for the nearest change. SHAPES is how many different configs the models have. Prints
figures, never fails; CPU time beside the time by the clock, for machines that do other things too.
"""  # noqa: INP001  # a script, not part of a package

from __future__ import annotations

import json
import resource
import sys
import time

from reconciler.gate.check import check
from reconciler.sources.loader import load
from reconciler.sources.tree import FileKind, Tree, TreeFile

write = sys.stdout.write
REPEATED = 3
"""Runs of which the best counts."""
REVISION = "0e9e39f249a16976918f6564b8830bc894c89659"
FLEETS = (
    ("nothing wrong", 4, 8192, None),
    ("every count wrong", 6, 8192, None),
    ("nothing fits", 1, 8192, None),
    ("slots warned", 4, 131072, 48),
    ("pool warned", 4, 131072, 2048),
)
"""By name: GPUs, context and max_concurrency of each model."""


def config(number: int) -> dict[str, object]:
    """A decoder of 80 layers; each number gives another one."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 8192,
        "intermediate_size": 28672,
        "num_hidden_layers": 80,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "max_position_embeddings": 131072 + number,
    }


def fleet(models: int, nodes: int, shapes: int, gpus: int, context: int = 8192, requests: int | None = None) -> Tree:
    """One model a file with its lock, and nodes of eight cards in pools of fifty."""
    files = {"cluster.yaml": "name: bench\ndefaults: {engine_versions: {vllm: 0.32.0}}\n"}
    for pool in range(-(-nodes // 50)):
        last = min(50, nodes - pool * 50)
        files[f"nodes/p{pool}.yaml"] = (
            f"pool: p{pool}\ngpus: {{class: h100-80gb, count: 8}}\nmemory_gib: 1024\ncpu_cores: 96\n"
            f"address: https://{{node}}.internal:7443\nnodes: ['p{pool}-[01-{last:02}]']\n"
        )
    for number in range(models):
        source = f"hf:org/model-{number}@{REVISION}"
        files[f"models/model-{number}.yaml"] = (
            f"name: model-{number}\nsource: {source}\ncontext: {context}\nprofiles:\n  - name: h100\n    engine: vllm\n"
            f"    gpu_class: h100-80gb\n    gpus: {gpus}\n    args: [--seed, '7', --enforce-eager]\n"
            + ("" if requests is None else f"    max_concurrency: {requests}\n")
        )
        locked = {"source": source, "revision": REVISION, "format": "safetensors", "weight_bytes": 141_107_412_992}
        files[f"locks/model-{number}.json"] = json.dumps({"sources": [locked | {"config": config(number % shapes)}]})
    data = {path: text.encode() for path, text in files.items()}
    return Tree(tuple(TreeFile(path, FileKind.FILE, data[path], len(data[path])) for path in sorted(data)), "cluster")


def main() -> None:
    """Print seconds and memory for each fleet."""
    given = [int(word) for word in sys.argv[1:4]]
    models, nodes, shapes = (*given, *(1000, 1000, 20)[len(given) :])
    write(f"{models} models of {shapes} shapes on {nodes} nodes\n")
    for what, *asked in FLEETS:
        tree = fleet(models, nodes, shapes, *asked)
        started = time.perf_counter()
        loaded = load(tree)
        loading = time.perf_counter() - started
        seconds, busy = [], []
        findings = 0
        for _ in range(REPEATED):
            started, worked = time.perf_counter(), time.process_time()
            findings = len(check(loaded.partial, loaded.broken, loaded.locate, loaded.findings))
            seconds.append(time.perf_counter() - started)
            busy.append(time.process_time() - worked)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        spent = f"check {min(seconds):.2f} s ({min(busy):.2f} s of CPU)"
        write(f"{what:<18} load {loading:.2f} s   {spent}   {findings} findings   {peak:.0f} MiB\n")


if __name__ == "__main__":
    main()
