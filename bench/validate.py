"""Time of `validate` over a whole fleet: `validate.py [MODELS] [NODES]`, by default 1000 1000; four budgets, one peer.

A fleet is written into a temporary git repository: models of 40 shapes with locks as `reconciler lock` writes them, and
pools of fifty nodes. Then, each a few times, and the median counts:

cold              the command, its cache empty
nothing changed   the command again
one file changed  the command after an edit of one model
inside run        what `run` does on a commit that edits one model: reading git, and judging, in a process that goes on
peer              check-jsonschema on the same model files with our own schema; it knows each file alone, and no rule

CPU time stands beside the time by the clock, for machines that do other things too. The peer is installed into a
temporary environment; where that cannot be done it is left out. Prints figures and never fails.
"""  # noqa: INP001  # a script, not part of a package

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from reconciler.controller.aim import check_tree
from reconciler.controller.memory import Memory
from reconciler.sources.repository import read_tree
from reconciler.sources.worktree import read_worktree

if TYPE_CHECKING:
    from collections.abc import Callable

    from reconciler.sources.tree import Tree

write = sys.stdout.write
ROUNDS = 5
"""Odd, so that the median is a run that was measured."""
SHAPES = 40
"""Different configs among the models: teams serve many sizes and tunings of few architectures."""
BUDGETS = {"cold": 2.5, "nothing changed": 0.35, "one file changed": 0.7, "inside run, judging": 0.05}
"""Seconds, of design section 11; `inside run` is the tool's own part, without what git takes."""

PEER = "check-jsonschema"
RECONCILER = str(Path(sys.executable).with_name("reconciler"))
SCHEMA = Path(__file__).parent.parent / "schemas" / "model.schema.json"
GROUPS = ("embedding", "output_head", "attention", "mlp", "norms")


def config(number: int) -> dict[str, object]:
    """A decoder as it stands in a config.json; each number gives another one, all of them split over 1, 2, 4 and 8."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": 128000,
        "eos_token_id": [128001, 128008, 128009],
        "hidden_act": "silu",
        "hidden_size": 4096,
        "head_dim": 128,
        "initializer_range": 0.02,
        "intermediate_size": 14336,
        "max_position_embeddings": 131072,
        "mlp_bias": False,
        "num_attention_heads": 32,
        "num_hidden_layers": 24 + number % SHAPES,
        "num_key_value_heads": 8,
        "pretraining_tp": 1,
        "rms_norm_eps": 1e-05,
        "rope_scaling": {
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
            "rope_type": "llama3",
        },
        "rope_theta": 500000.0,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "transformers_version": "4.57.1",
        "use_cache": True,
        "vocab_size": 128256,
    }


def lock(number: int, source: str) -> str:
    """What `reconciler lock` writes of it."""
    layers = 24 + number % SHAPES
    runs = [
        {"group": group, "layers": [0, layers - 1] if group in GROUPS[2:] else None, "dtype": "bf16", "bytes": 2**30}
        for group in GROUPS
    ]
    found = {"source": source, "revision": "0" * 40, "format": "safetensors", "weight_bytes": layers * 440_000_000}
    files = [{"path": f"model-{part:05}-of-00004.safetensors", "bytes": 2**32, "sha256": "0" * 64} for part in range(4)]
    return json.dumps({"sources": [{**found, "config": config(number), "tensors": runs, "files": files}]}, indent=1)


def model(number: int) -> str:
    """A model's file as people write it, comments included."""
    return f"""\
# yaml-language-server: $schema=../../schemas/model.schema.json
name: model-{number}
source: hf:org/model-{number}@{"0" * 40}
context: 32768                 # tokens one request may use
class: standard
owner: team-{number % 7}
profiles:
  - name: h100
    engine: vllm
    gpu_class: h100-80gb
    gpus: {(1, 2, 4)[number % 3]}
    memory_gib: 32
    max_concurrency: 4
    args: [--enable-prefix-caching, --seed, "7"]
rollout: {{strategy: surge_or_in_place, ready_timeout: 30m}}
"""


def make_fleet(cluster: Path, models: int, nodes: int) -> None:
    """Write it."""
    for folder in ("models", "nodes", "locks"):
        (cluster / folder).mkdir(parents=True)
    (cluster / "cluster.yaml").write_text('name: bench\ndefaults: {engine_versions: {vllm: "0.32.0"}}\n')
    for pool in range(-(-nodes // 50)):
        last = min(50, nodes - pool * 50)
        (cluster / f"nodes/p{pool}.yaml").write_text(
            f"pool: p{pool}\ngpus: {{class: h100-80gb, count: 8}}\nmemory_gib: 1024\ncpu_cores: 96\n"
            f"address: https://{{node}}.internal:7443\nnodes: ['p{pool}-[01-{last:02}]']\n"
        )
    for number in range(models):
        (cluster / f"models/model-{number}.yaml").write_text(model(number))
        (cluster / f"locks/model-{number}.json").write_text(lock(number, f"hf:org/model-{number}@{'0' * 40}"))


def seconds(work: Callable[[], object]) -> tuple[float, float]:
    """Time by the clock and CPU time of one call, of processes it waits for as well."""
    started, before = time.perf_counter(), os.times()
    work()
    after = os.times()
    return time.perf_counter() - started, sum(after[:4]) - sum(before[:4])


def middle(runs: list[tuple[float, float]]) -> tuple[float, float]:
    """Medians of both times."""
    return median(wall for wall, _ in runs), median(cpu for _, cpu in runs)


def edit(cluster: Path, turn: int) -> None:
    """Change one model."""
    file = cluster / "models" / "model-7.yaml"
    file.write_text(model(7).replace("context: 32768", f"context: {20_000 + turn}"))


def commands(cluster: Path, cache: Path) -> dict[str, tuple[float, float]]:
    """The command with and without what it remembers."""
    environ = {**os.environ, "RECONCILER_CACHE_DIR": str(cache)}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)  # some containers set it, and compiling is not what is measured

    def validate() -> None:
        subprocess.run([RECONCILER, "-C", str(cluster), "validate"], env=environ, stdout=subprocess.DEVNULL, check=True)

    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ("cold", "nothing changed", "one file changed")}
    validate()  # fills the page cache and writes .pyc files
    for turn in range(ROUNDS):
        shutil.rmtree(cache)
        taken["cold"].append(seconds(validate))
        taken["nothing changed"].append(seconds(validate))
        edit(cluster, turn)
        taken["one file changed"].append(seconds(validate))
    return {name: middle(runs) for name, runs in taken.items()}


def inside(cluster: Path) -> dict[str, tuple[float, float]]:
    """A process that goes on, as `run` does, from commit to commit."""

    def git(*words: str) -> None:
        identity = ("-c", "user.name=bench", "-c", "user.email=bench@example.com", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *identity, *words], cwd=cluster, stdout=subprocess.DEVNULL, check=True)  # noqa: S607  # by PATH

    git("init", "--quiet")
    git("add", "--all")
    git("commit", "--quiet", "-m", "fleet")
    memory = Memory()
    check_tree(read_tree(cluster, "HEAD", memory.blobs), memory=memory)
    reading, judging = [], []
    for turn in range(ROUNDS):
        edit(cluster, ROUNDS + turn)
        git("commit", "--quiet", "--all", "-m", "edit")
        trees: list[Tree] = []
        reading.append(seconds(lambda trees=trees: trees.append(read_tree(cluster, "HEAD", memory.blobs))))  # type: ignore[misc]
        (tree,) = trees
        judging.append(seconds(lambda tree=tree: check_tree(tree, memory=memory)))  # type: ignore[misc]
    return {"inside run, judging": middle(judging), "inside run, reading git": middle(reading)}


def peer(cluster: Path, scratch: Path) -> float | None:
    """The same files with the same schema; None where the peer cannot be had."""
    command = shutil.which(PEER)
    if command is None:
        venv.create(scratch / "venv", with_pip=True)
        python = scratch / "venv" / "bin" / "python"
        made = subprocess.run([python, "-m", "pip", "install", "--quiet", PEER], check=False, capture_output=True)
        command = str(python.with_name(PEER)) if made.returncode == 0 else None
    if command is None:
        return None
    files = sorted(str(path) for path in (cluster / "models").glob("*.yaml"))

    def check() -> None:
        subprocess.run([command, "--schemafile", str(SCHEMA), *files], stdout=subprocess.DEVNULL, check=True)

    return median(seconds(check)[0] for _ in range(3))


def main() -> None:
    """Print the table."""
    given = [int(word) for word in sys.argv[1:3]]
    models, nodes = (*given, *(1000, 1000)[len(given) :])
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        cluster = scratch / "fleet" / "cluster"
        make_fleet(cluster, models, nodes)
        findings = check_tree(read_worktree(cluster)).report.summary
        write(f"{models} models of {min(models, SHAPES)} shapes on {nodes} nodes; {findings.errors} errors\n")
        taken = commands(cluster, scratch / "cache") | inside(cluster)
        for name, (spent, worked) in taken.items():
            budget = f"budget {1_000 * BUDGETS[name]:6,.0f} ms" if name in BUDGETS else ""
            write(f"{name:<26}{1_000 * spent:8,.0f} ms ({1_000 * worked:6,.0f} ms of CPU)   {budget}".rstrip() + "\n")
        other = peer(cluster, scratch)
        if other is None:
            write(f"{PEER:<26}left out: it cannot be installed here\n")
        else:
            write(f"{PEER:<26}{1_000 * other:8,.0f} ms   {other / taken['cold'][0]:.1f} x our cold run\n")


if __name__ == "__main__":
    main()
