"""Record in tests/engines/flag_cases.yaml what an installed program's own parser makes of each command line.

    python record.py vllm 0.32.0 /path/to/venv/bin/python

The program runs under the interpreter given, this script under the project's (it needs ruamel.yaml and reconciler).
Prints where our reader and the program disagree, and exits 1 if they do.
"""  # noqa: INP001  # a script, not part of a package

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from reconciler.domain.flag_tables import flag_table
from reconciler.domain.model_spec import Engine
from reconciler.engines.flags import ProblemKind, read_args

HERE = Path(__file__).parent
CASES = HERE.parents[1] / "tests" / "engines" / "flag_cases.yaml"
RECORDED = ("real", "said", "values")


def main() -> int:
    """Ask, write, compare."""
    engine, version, python = sys.argv[1:]
    yaml = YAML()
    yaml.width = 10_000
    yaml.preserve_quotes = True
    yaml.indent(mapping=2, sequence=4, offset=2)
    cases = yaml.load(CASES.read_text("utf-8"))
    rows = cases[f"{engine} {version}"]
    asked = subprocess.run(
        [python, str(HERE / f"{engine}_ask.py")],
        input=json.dumps([{"args": list(row["args"]), "env": dict(row.get("env", {}))} for row in rows]),
        capture_output=True,
        text=True,
        check=True,
    )
    for row, answer in zip(rows, json.loads(asked.stdout), strict=True):
        for key in RECORDED:
            row.pop(key, None)
        row.update({key: _flow(value) for key, value in answer.items()})
    with CASES.open("w", encoding="utf-8") as file:
        yaml.dump(cases, file)
    wrong = [row for row in rows if row["real"] != _expected(engine, version, row)]
    for row in wrong:
        sys.stdout.write(f"{json.dumps(list(row['args']))}: the program {row['real']} ({row.get('said', '')})\n")
    sys.stdout.write(f"{engine} {version}: {len(rows) - len(wrong)} of {len(rows)} command lines agree\n")
    return 1 if wrong else 0


def _expected(engine: str, version: str, row: dict[str, Any]) -> str:
    return expected(Engine(engine), version, list(row["args"]), dict(row.get("env", {})))


def expected(engine: Engine, version: str, args: list[str], env: dict[str, str]) -> str:
    """What our reader expects the program to do."""
    kinds = {problem.kind for problem in read_args(flag_table(engine, version), args, env).problems} - {
        ProblemKind.MISREAD
    }
    if kinds == {ProblemKind.EXITS}:
        return "exits"
    return "refused" if kinds else "accepted"


def _flow(value: Any, *, nested: bool = False) -> Any:
    """Lists and mappings on one line, as the rest of the file, and the words in them quoted."""
    if isinstance(value, dict):
        flow = CommentedMap({key: _flow(each, nested=True) for key, each in value.items()})
        flow.fa.set_flow_style()
        return flow
    if isinstance(value, list):
        sequence = CommentedSeq(_flow(each, nested=True) for each in value)
        sequence.fa.set_flow_style()
        return sequence
    return DoubleQuotedScalarString(value) if isinstance(value, str) and nested else value


if __name__ == "__main__":
    sys.exit(main())
