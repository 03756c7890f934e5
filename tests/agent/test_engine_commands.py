"""Which program an agent starts when its config names none."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from reconciler.agent.engine_commands import default_command
from reconciler.domain.model_spec import Engine

if TYPE_CHECKING:
    from pathlib import Path


def test_llama_server_on_path_is_preferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "llama-server").write_text("#!/bin/sh\n", "utf-8")
    (tmp_path / "llama-server").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert default_command(Engine.LLAMACPP) == ("llama-server",)


def test_without_it_the_wheels_server_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert default_command(Engine.LLAMACPP) == (sys.executable, "-m", "reconciler.agent.llama_server")


@pytest.mark.parametrize("kind", [kind for kind in Engine if kind is not Engine.LLAMACPP])
def test_no_other_engine_has_a_usual_command_yet(kind: Engine) -> None:
    assert default_command(kind) is None
