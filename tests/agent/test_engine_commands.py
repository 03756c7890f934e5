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


def test_vllm_is_the_one_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert default_command(Engine.VLLM) is None
    (tmp_path / "vllm").write_text("#!/bin/sh\n", "utf-8")
    (tmp_path / "vllm").chmod(0o755)
    assert default_command(Engine.VLLM) == ("vllm",)


@pytest.mark.parametrize(
    ("kind", "program", "command"),
    [(Engine.SGLANG, "sglang", ("sglang", "serve")), (Engine.TRTLLM, "trtllm-serve", ("trtllm-serve",))],
)
def test_engines_for_gpus_are_those_on_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Engine, program: str, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert default_command(kind) is None
    (tmp_path / program).write_text("#!/bin/sh\n", "utf-8")
    (tmp_path / program).chmod(0o755)
    assert default_command(kind) == command


def test_comfyui_is_only_where_the_config_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert default_command(Engine.COMFYUI) is None
