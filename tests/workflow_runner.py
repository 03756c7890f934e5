"""Runs the shell steps of a workflow file as GitHub's runner does: bash, a file for outputs, one for the page."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_EXPRESSION = re.compile(r"\$\{\{ *(.+?) *\}\}")


@dataclass
class Runner:
    """One job's machine: a working directory, and what the steps so far have left."""

    directory: Path
    values: Mapping[str, str]
    """What each expression of a step's `env` stands for."""
    path: Path | None = None
    """Programs that come before those of this machine."""
    outputs: dict[str, str] = field(default_factory=dict)
    """Of the step that ran last."""

    def run(self, step: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        """Run one step; its outputs and what it adds to the page are kept."""
        outputs, page = self.directory / "outputs", self.directory / "page"
        outputs.write_text("")
        env = {name: self._filled(text) for name, text in step.get("env", {}).items()}
        search = os.environ["PATH"] if self.path is None else f"{self.path}{os.pathsep}{os.environ['PATH']}"
        own = {"PATH": search, "GITHUB_OUTPUT": str(outputs), "GITHUB_STEP_SUMMARY": str(page)}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],
            cwd=self.directory,
            env={**os.environ, **own, **env},
            capture_output=True,
            text=True,
            check=False,
        )
        lines = (line.partition("=") for line in outputs.read_text().splitlines())
        self.outputs = {name: value for name, _, value in lines}
        return done

    def page(self) -> str:
        """What the steps wrote for the page of the run."""
        return (self.directory / "page").read_text("utf-8")

    def _filled(self, text: str) -> str:
        return _EXPRESSION.sub(lambda found: self.values[found[1]], str(text))


def steps_of(path: Path, job: str) -> dict[str, dict[str, Any]]:
    """The steps of a job that run a script, by name."""
    parsed = YAML(typ="safe", pure=True).load(path)
    return {step["name"]: step for step in parsed["jobs"][job]["steps"] if "run" in step}
