"""Time of `fit --all` on a generated catalog: `fit.py [MODELS]`, by default 200.

Every model has a shape of its own, and profiles for two engines; nodes have five GPU classes. All options are worked
out, then the table and the JSON are written. Prints figures, never fails.
"""  # noqa: INP001  # a script, not part of a package

from __future__ import annotations

import json
import resource
import sys
import time
from collections import Counter

from reconciler.domain.fit import FitReport
from reconciler.gate.fit.options import model_fit
from reconciler.gate.subject import context_of
from reconciler.sources.loader import load
from reconciler.sources.tree import FileKind, Tree, TreeFile
from reconciler.views.fit import fit_json, fit_text

write = sys.stdout.write
CLASSES = {"h100-80gb": 8, "h200": 8, "a100-80gb": 8, "l40s": 4, "l4": 8}
"""GPUs of each class on one node."""
ENGINES = ("vllm", "sglang")
REPEATED = 3
"""Runs of which the best counts: the machine does other things too."""


def config(number: int) -> tuple[dict[str, object], int]:
    """A decoder and the bytes of its weights in 16 bit; each number gives another one, from 1 to 70 billion."""
    layers = 16 + number % 65
    hidden = 2048 + 1024 * (number % 7)
    width, vocabulary, heads, kv_heads = hidden * 7 // 2, 128256, hidden // 128, 8
    shape = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": 128,
        "vocab_size": vocabulary,
        "max_position_embeddings": 131072 + number,
        "torch_dtype": "bfloat16",
        "tie_word_embeddings": False,
    }
    one = hidden * (2 * hidden + 2 * kv_heads * 128) + 3 * hidden * width + 2 * hidden
    return shape, 2 * (layers * one + 2 * vocabulary * hidden + hidden)


def fleet(models: int) -> Tree:
    """One model a file with its lock, and one pool for each class."""
    files = {"cluster.yaml": "name: bench\ndefaults: {engine_versions: {vllm: 0.32.0, sglang: 0.5.23}}\n"}
    for gpu_class, count in CLASSES.items():
        files[f"nodes/{gpu_class}.yaml"] = (
            f"pool: {gpu_class}\ngpus: {{class: {gpu_class}, count: {count}}}\nmemory_gib: 1024\ncpu_cores: 96\n"
            f"address: https://{{node}}.internal:7443\nnodes: ['{gpu_class}-[01-20]']\n"
        )
    for number in range(models):
        source = f"hf:org/model-{number}@v1"
        shape, weight_bytes = config(number)
        profiles = "".join(
            f"  - {{name: {engine}, engine: {engine}, gpu_class: h100-80gb, gpus: {2 ** (number % 4)}}}\n"
            for engine in ENGINES
        )
        files[f"models/model-{number}.yaml"] = (
            f"name: model-{number}\nsource: {source}\ncontext: {4096 * (1 + number % 8)}\nprofiles:\n{profiles}"
        )
        locked = {"source": source, "revision": "v1", "format": "safetensors", "weight_bytes": weight_bytes}
        files[f"locks/model-{number}.json"] = json.dumps({"sources": [locked | {"config": shape}]})
    data = {path: text.encode() for path, text in files.items()}
    return Tree(tuple(TreeFile(path, FileKind.FILE, data[path], len(data[path])) for path in sorted(data)), "cluster")


def main() -> None:
    """Print the seconds of each part, and how many options were sized."""
    models = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    started = time.perf_counter()
    loaded = load(fleet(models))
    loading = time.perf_counter() - started
    fitting = []
    for _ in range(REPEATED):
        started = time.perf_counter()
        context = context_of(loaded.partial, loaded.broken)
        report = FitReport(models=tuple(model_fit(context, model) for model in context.models))
        fitting.append(time.perf_counter() - started)
    started = time.perf_counter()
    lines = fit_text(report).count("\n")
    text = time.perf_counter() - started
    started = time.perf_counter()
    size = len(fit_json(report))
    as_json = time.perf_counter() - started
    options = [option for fit in report.models for option in fit.options]
    verdicts = Counter(option.verdict for option in options)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    write(f"{models} models on {len(CLASSES)} GPU classes: {len(options):,} options, ")
    write(f"{sum(len(fit.left_out) for fit in report.models):,} counts left out, {dict(verdicts)}\n")
    write(f"load {loading:.2f} s   fit {min(fitting):.2f} s ({min(fitting) / len(options) * 1e6:,.0f} µs an option)   ")
    write(f"table {text:.2f} s ({lines:,} lines)   json {as_json:.2f} s ({size / 2**20:.1f} MiB)   {peak:.0f} MiB\n")


if __name__ == "__main__":
    main()
