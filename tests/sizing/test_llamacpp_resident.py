"""What llama.cpp's server really takes of a machine's memory, on CPUs: the server in the wheel, with some requests."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from typing import TYPE_CHECKING

import psutil
import pytest

from reconciler.domain.model_spec import Engine
from reconciler.sizing.counting import CountingRules, Division, Windows
from reconciler.sizing.llamacpp_budget import size_layers
from reconciler.sizing.memory_ask import MemoryAsk
from tests.sizing.llamacpp_cases import shape_and_weights
from tests.tiny_gguf import write_tiny_gguf

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MIB = 2**20
CONTEXT = 16_384
LAYERS = 16
SLOTS = 2
SERVER = """
import sys, xllamacpp
asked = xllamacpp.CommonParams()
asked.model.path, asked.hostnames, asked.port = sys.argv[1], ["127.0.0.1"], 0
asked.n_ctx, asked.n_parallel, asked.cache_ram_mib = int(sys.argv[2]), int(sys.argv[3]), 0
server = xllamacpp.Server(asked)
print(server.listening_address, flush=True)
sys.stdin.read()
"""
RULES = CountingRules(Engine.LLAMACPP, "11549", Division.AS_NEEDED, 1.0, Windows.CELLS, 256)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Layers of width 64; the cache of all of them at this context is 64 MiB a slot."""
    return write_tiny_gguf(tmp_path / "tiny.gguf", context=CONTEXT, layers=LAYERS)


@pytest.fixture
def server(model: Path) -> Iterator[tuple[psutil.Process, str]]:
    """The process and its address."""
    command = [sys.executable, "-c", SERVER, str(model), str(CONTEXT * SLOTS), str(SLOTS)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield psutil.Process(process.pid), process.stdout.readline().strip()
        finally:
            process.kill()


def test_resident_memory_lies_in_the_band(server: tuple[psutil.Process, str], model: Path) -> None:
    process, address = server
    for slot in range(SLOTS):
        body = json.dumps({"prompt": "to and fro " * 30, "n_predict": 4, "id_slot": slot}).encode()
        request = urllib.request.Request(f"{address}/completion", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.status == 200
    resident = process.memory_info().rss

    shape, stored = shape_and_weights(model)
    ask = MemoryAsk(tensor=1, context=CONTEXT, gpus=0, concurrency=SLOTS, host_bytes=1024 * MIB)
    found = size_layers(shape, stored, ask, None, RULES).per_gpu
    assert found is not None
    assert found.kv_cache.likely == 64 * MIB * SLOTS
    # Of the compute buffer only what these short prompts reached is resident yet: its masks are for full slots.
    least = found.weights.low + found.kv_cache.low + found.runtime.low
    most = found.weights.high + found.kv_cache.high + found.activations.high + found.runtime.high
    assert least <= resident <= most
    assert resident == pytest.approx(found.reserves, rel=0.2)
