"""Which versions are too old for the command lines made here: each row is about a flag that such launches have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from reconciler.domain.model_spec import Engine, SecretRef
from reconciler.engines.registry import support
from reconciler.engines.versions import MISSING, Launched, Missing, is_launched, missing
from tests.engines.conformance import ADAPTERS, OWN, a_declaration, a_site

if TYPE_CHECKING:
    from collections.abc import Mapping

ROWS = [(engine, row) for engine, rows in MISSING.items() for row in rows]
FIELDS: Mapping[Launched, Mapping[str, Any]] = {
    Launched.ALL: {},
    Launched.CPUS: {"gpu_class": None},
    Launched.NODES: {"gpus": 8, "nodes": 2},
    Launched.ADAPTERS: {"adapters": ADAPTERS},
    Launched.KEY: {"env": {"SGLANG_API_KEY": SecretRef(secret="key")}},
}


def flags(engine: Engine, launched: Launched) -> set[str]:
    declaration = a_declaration(engine, **FIELDS[launched])
    addresses = ("10.0.0.1", "10.0.0.2") if declaration.nodes > 1 else ()
    module = support(engine)
    assert module is not None
    return set(module.launch(declaration, a_site(declaration, directory=OWN, addresses=addresses)).arguments)


@pytest.mark.parametrize(("engine", "row"), ROWS)
def test_a_flag_that_older_versions_lack_is_on_every_such_command_line_and_on_no_other(
    engine: Engine, row: Missing
) -> None:
    for launched in FIELDS:
        if launched in (Launched.CPUS, Launched.NODES) and launched is not row.launched and engine is not Engine.VLLM:
            continue
        having = row.launched in (Launched.ALL, launched)
        assert (row.flag in flags(engine, launched)) is having, launched
        assert is_launched(a_declaration(engine, **FIELDS[launched]), row.launched) is having


@pytest.mark.parametrize(
    ("engine", "version", "flags"),
    [
        (Engine.VLLM, "0.8.5", ["--runner", "--kv-cache-memory-bytes", "--nnodes"]),
        (Engine.VLLM, "v0.10.0.post2", ["--runner", "--kv-cache-memory-bytes", "--nnodes"]),
        (Engine.VLLM, "0.10.1.1", ["--kv-cache-memory-bytes", "--nnodes"]),
        (Engine.VLLM, "0.10.2", ["--nnodes"]),
        (Engine.VLLM, "0.11.1", []),
        (Engine.VLLM, "0.9", ["--runner", "--kv-cache-memory-bytes", "--nnodes"]),
        (Engine.VLLM, "0.10", ["--nnodes"]),
        (Engine.VLLM, "latest", []),
        (Engine.SGLANG, "0.5.23", []),
        (Engine.SGLANG, "0.5.2", ["--config"]),
        (Engine.LLAMACPP, "b6000", ["--fit"]),
        (Engine.LLAMACPP, "7045", ["--fit"]),
        (Engine.LLAMACPP, "b8672", []),
        (Engine.LLAMACPP, "2026.4.8672.1", []),
        (Engine.LLAMACPP, "0.2.14", []),
        (Engine.TRTLLM, "0.17", []),
        (Engine.COMFYUI, "0.3.0", []),
    ],
)
def test_what_a_version_lacks(engine: Engine, version: str, flags: list[str]) -> None:
    assert [row.flag for row in missing(engine, version)] == flags
