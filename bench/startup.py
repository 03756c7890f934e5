"""How long `reconciler --help` takes, against `python -c 'import pydantic'` in the same run.

The budget is 1.5 times: whoever asks for help should not wait for what only real work needs.
Prints figures and never fails: a figure depends on the machine, the ratio much less.
"""  # noqa: INP001  # a script, not part of a package

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from statistics import median

ROUNDS = 15
"""Odd, so that the median is a measured run; 15 rounds of the three take about 10 s on two cores."""

BUDGET = 1.5

PYTHON = sys.executable
RECONCILER = str(Path(sys.executable).with_name("reconciler"))
REFERENCE = "python -c 'import pydantic'"
SUBJECT = "reconciler --help"
COMMANDS: dict[str, list[str]] = {
    "python -c pass": [PYTHON, "-c", "pass"],
    REFERENCE: [PYTHON, "-c", "import pydantic"],
    SUBJECT: [RECONCILER, "--help"],
}


def seconds(command: list[str]) -> float:
    """Wall time of one run, from start to exit."""
    started = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def main() -> None:
    """Run all commands in turn, round by round, so that a busy moment of the machine meets each of them."""
    for command in COMMANDS.values():
        seconds(command)  # fills the page cache and writes .pyc files
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):
        for name, command in COMMANDS.items():
            taken[name].append(seconds(command))
    write = sys.stdout.write
    write(f"{ROUNDS} rounds, milliseconds{'min':>14}{'median':>9}{'max':>9}\n")
    for name, runs in taken.items():
        low, middle, high = (f"{1_000 * each:9.0f}" for each in (min(runs), median(runs), max(runs)))
        write(f"{name:<32}{low}{middle}{high}\n")
    ratio = median(mine / other for mine, other in zip(taken[SUBJECT], taken[REFERENCE], strict=True))
    write(f"{SUBJECT} is {ratio:.2f} x {REFERENCE} (median of the rounds); the budget is {BUDGET}\n")


if __name__ == "__main__":
    main()
