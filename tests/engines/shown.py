"""A launch as text for golden files: its environment, the program, each flag with what follows it on a line."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reconciler.engines.base import Launch


def shown(program: str, launch: Launch) -> str:
    """Quoted as a shell would need it, so that one can try it by hand."""
    lines = [*(f"{name}={shlex.quote(value)}" for name, value in launch.env.items()), program]
    for word in launch.arguments:
        if word.startswith("-"):
            lines.append(f"  {word}")
        else:
            lines[-1] += f" {shlex.quote(word)}"
    return "\n".join([*lines, f"# {launch.url}{'' if launch.serves else ', answered by its leader'}", ""])


def words(golden: str) -> list[str]:
    """The program and its arguments, out of such a text."""
    body = [line for line in golden.splitlines() if not line.startswith("#")]
    start = next(index for index, line in enumerate(body) if "=" not in line.split(" ", 1)[0])
    return shlex.split(" ".join(body[start:]))
