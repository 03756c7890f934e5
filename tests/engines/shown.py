"""A launch as text for golden files: its environment, what starts the program, the program, each flag on a line."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reconciler.engines.base import Launch


def shown(program: str, launch: Launch) -> str:
    """Quoted as a shell would need it, so that one can try it by hand."""
    lines = [f"{name}={shlex.quote(value)}" for name, value in launch.env.items()]
    if launch.launcher:
        lines += _lines(*launch.launcher)
    lines += _lines(program, *launch.arguments)
    return "\n".join([*lines, f"# {launch.url}{'' if launch.serves else ', answered by its leader'}", ""])


def _lines(program: str, *words: str) -> list[str]:
    lines = [program]
    for word in words:
        if word.startswith("-"):
            lines.append(f"  {word}")
        else:
            lines[-1] += f" {shlex.quote(word)}"
    return lines


def words(golden: str) -> list[str]:
    """The program and its arguments, out of such a text of a launch without a launcher."""
    body = [line for line in golden.splitlines() if not line.startswith("#")]
    start = next(index for index, line in enumerate(body) if "=" not in line.split(" ", 1)[0])
    return shlex.split(" ".join(body[start:]))
