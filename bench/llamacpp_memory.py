"""Holds our figures for llama.cpp against its own: `python -m bench.llamacpp_memory PROGRAM [--rpc HOST:PORT,…]`.

PROGRAM is a `llama-fit-params` of llama.cpp; it prints what each device and the host would be allocated for a model
file, of which it reads only the header. The headers are written here, sparse, from the figures in
tests/sizing/llamacpp_memory.json. With --rpc (a program built with GGML_RPC=ON and as many of its RPC servers, on CPUs)
the cases with cards are asked too: to llama.cpp an RPC server is a GPU. With --rewrite the program's answers replace
those in the file, which the test reads. Prints every case that is off by more than 1 %, and the worst.
"""  # noqa: INP001  # a script, not part of a package

from __future__ import annotations

import argparse
import json
import re
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.sizing.llamacpp_cases import Case, ours
from tests.sparse_gguf import write_sparse

TABLE = Path(__file__).resolve().parent.parent / "tests" / "sizing" / "llamacpp_memory.json"
ROW = re.compile(r"^(\S+) (\d+) (\d+) (\d+) $", re.MULTILINE)
SMALL = 16
"""MiB below which a figure is not compared: the program prints whole ones."""
NAMED = 0.01


def main() -> None:
    """Ask, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("--rpc", default="", help="addresses of RPC servers, comma-separated")
    parser.add_argument("--rewrite", action="store_true", help="keep the program's answers in the table")
    asked = parser.parse_args()
    servers = [each for each in asked.rpc.split(",") if each]
    table = json.loads(TABLE.read_text())
    worst: dict[str, float] = {}
    with TemporaryDirectory() as folder:
        for name, spec in table["models"].items():
            write_sparse(Path(folder) / f"{name}.gguf", spec)
        for row in table["cases"]:
            case = Case.of(row)
            if case.cards > len(servers):
                continue
            path = Path(folder) / f"{case.model}.gguf"
            theirs = _asked(asked.program, path, case, servers)
            if asked.rewrite:
                row["mib"] = theirs
            _compare(case, theirs, ours(path, case), worst)
    print("worst:", ", ".join(f"{part} {share:.2%}" for part, share in worst.items()))  # noqa: T201  # a script
    if asked.rewrite:
        TABLE.write_text(compact(table))


def compact(table: dict[str, Any]) -> str:
    """The table with a model and a case a line."""
    models = ",\n".join(f"  {json.dumps(name)}: {json.dumps(spec)}" for name, spec in table["models"].items())
    cases = ",\n".join(f"  {json.dumps(row)}" for row in table["cases"])
    head = "".join(
        f" {json.dumps(key)}: {json.dumps(table[key])},\n" for key in table if key not in ("models", "cases")
    )
    return f'{{\n{head} "models": {{\n{models}\n }},\n "cases": [\n{cases}\n ]\n}}\n'


def _asked(program: Path, path: Path, case: Case, servers: list[str]) -> list[list[int]]:
    """Model, context and compute of every card, then of the host, in whole MiB."""
    cards = ["--rpc", ",".join(servers[: case.cards]), "--tensor-split", ",".join("1" * case.cards), "-ngl", "999"]
    command = [
        *(str(program), "--model", str(path), "-fitp", "on", "--no-repack"),
        *("--ctx-size", str(case.context * case.slots), "--parallel", str(case.slots)),
        *("--cache-type-k", case.key_type, "--cache-type-v", case.value_type),
        *("--flash-attn", "on" if case.flash else "off", "--ubatch-size", str(case.batch)),
        *(("--swa-full",) if case.full_windows else ()),
        *(cards if case.cards else ()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # the program asked for
    found = [[int(each) for each in row[1:]] for row in ROW.findall(done.stdout)]
    if not found:
        raise SystemExit(f"{program} says nothing of {case}: {done.stderr[-400:]}")
    return found


def _compare(
    case: Case, theirs: list[list[int]], mine: list[tuple[float, float, float]], worst: dict[str, float]
) -> None:
    for number, (they, we) in enumerate(zip(theirs, mine, strict=True)):
        where = "card" if number < case.cards else "host"
        for part, printed, counted in zip(("model", "context", "compute"), they, we, strict=True):
            if printed < SMALL:
                continue
            off = max(counted / (printed + 1), printed / counted) - 1  # whole MiB, cut
            worst[f"{where} {part}"] = max(worst.get(f"{where} {part}", 0.0), off)
            if off > NAMED:
                print(f"{case} {where} {number} {part}: {printed} MiB, ours {counted:.1f}")  # noqa: T201  # a script


if __name__ == "__main__":
    main()
