"""One line put into a good file → every finding of the loader and of the gate, for each row of `bad_values.txt`.

A row is `text | findings | fragment`: what is put in (`\\n` and `\\t` stand for a line break and a tab), the rules with
line and column in order, and a part of their messages or hints; `-` for none. A section names the file: the text is
the last line of a profile, a model, a pool or the fleet's file, or stands among the fields of a lock's source.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from reconciler.domain.finding import Severity
from tests.gate.locks import lock_text
from tests.gate.tree import judged
from tests.sources.trees import FLEET, MODEL

POOL = "pool: gpu\nnodes: [gpu-01]\n"
GPUS = "gpus: {class: h100-80gb, count: 8}\nmemory_gib: 1024\ncpu_cores: 96\n"
ON_CPUS = MODEL.replace("engine: vllm", "engine: llamacpp").replace(
    "    gpu_class: h100-80gb\n", "    memory_gib: 64\n    cpu_cores: 1\n"
)
LOCK = lock_text({"shape": "llama-8b", "revision": "6f6073b423013f6a7d4d9f39144961bfbfbc386b"}, MODEL)
OPENED, CLOSED = re.split(r'"weight_bytes": \d+, ', LOCK)


def rows() -> list[Any]:
    found = []
    section = ""
    for line in Path(__file__).with_name("bad_values.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            text, findings, fragment = (part.strip() for part in line.rsplit(" | ", 2))
            found.append(pytest.param(section, text, findings, fragment, id=f"{section} {text}"))
    return found


def files(section: str, text: str) -> dict[str, str]:
    written = text.replace("\\n", "\n").replace("\\t", "\t") + "\n"
    tree = {"cluster.yaml": FLEET, "nodes/gpu.yaml": POOL + GPUS, "models/llama.yaml": MODEL, "locks/llama.json": LOCK}
    match section:
        case "profile":
            return tree | {"models/llama.yaml": f"{MODEL}    {written}"}
        case "model":
            return tree | {"models/llama.yaml": MODEL + written}
        case "pool":
            return tree | {"nodes/gpu.yaml": POOL + written, "models/llama.yaml": ON_CPUS}
        case "fleet":
            return tree | {"cluster.yaml": FLEET + written}
        case "lock":
            return tree | {"locks/llama.json": f"{OPENED}\n{written}{CLOSED}"}
        case _:
            raise ValueError(section)


@pytest.mark.parametrize(("section", "text", "findings", "fragment"), rows())
def test_row(section: str, text: str, findings: str, fragment: str) -> None:
    seen = [each for each in judged(files(section, text)).findings if each.severity is not Severity.NOTE]

    assert ", ".join(f"{each.rule} {each.line}:{each.column}" for each in seen) == findings.strip("-")
    assert fragment.strip("-") in " ".join(f"{each.message} ({each.hint})" for each in seen)


def test_the_good_files_have_no_findings() -> None:
    for section in ("profile", "model", "pool", "fleet"):
        assert not [each for each in judged(files(section, "")).findings if each.severity is not Severity.NOTE]
    assert json.loads(LOCK)["sources"][0]["weight_bytes"] > 0


def test_there_are_many_and_each_is_another() -> None:
    values = [row.values[:2] for row in rows()]

    assert len(set(values)) == len(values)
    assert len(values) >= 300
