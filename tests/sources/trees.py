"""Trees for tests, from text by path, and findings in a form that a table can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.sources.loader import load
from reconciler.sources.tree import FileKind, Tree, TreeFile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.finding import Finding
    from reconciler.sources.loaded import Loaded

FLEET = "name: prod\n"
POOL = """\
pool: gpu
gpus: {class: h100-80gb, count: 8}
memory_gib: 1024
cpu_cores: 96
address: https://{node}.gpu.internal:7443
nodes:
  - gpu-[01-03]
  - {name: gpu-17, gpus: {class: h100-80gb, count: 4}, drain: true}
"""
MODEL = """\
name: llama
source: hf:org/llama@6f6073b423013f6a7d4d9f39144961bfbfbc386b
context: 32768
profiles:
  - name: h100
    engine: vllm
    gpu_class: h100-80gb
"""
"""Seven lines: a further profile field goes on line 8 with four spaces, a model field on line 8 without."""


def a_tree(files: Mapping[str, str | bytes], prefix: str = "cluster") -> Tree:
    """A tree of these files, with a fleet unless it has one of its own."""
    data = {path: text if isinstance(text, bytes) else text.encode() for path, text in files.items()}
    data.setdefault("cluster.yaml", FLEET.encode())
    entries = (TreeFile(path, FileKind.FILE, data[path], len(data[path])) for path in sorted(data))
    return Tree(tuple(entries), prefix)


def loaded(**files: str | bytes) -> Loaded:
    """What is loaded from `model`, `pool`, `fleet` and `lock`, each in its usual place."""
    places = {
        "model": "models/llama.yaml",
        "pool": "nodes/gpu.yaml",
        "fleet": "cluster.yaml",
        "lock": "locks/llama.json",
    }
    return load(a_tree({places[name]: text for name, text in files.items()}))


def told(finding: Finding) -> str:
    """`yaml/type 8:11 message (hint)`."""
    place = "-" if finding.line is None else f"{finding.line}:{finding.column}"
    return f"{finding.rule} {place} {finding.message}" + (f" ({finding.hint})" if finding.hint else "")


def all_told(result: Loaded) -> str:
    """Every finding on a line, for the message of a failed test."""
    return "\n".join(told(each) for each in result.findings)
