"""vLLM's command lines: pinned as golden files, held against the flag table, and taken by vLLM's own parser.

The parser is that of the Python in RECONCILER_VLLM_PYTHON, an environment with vLLM in it; each golden says in its
first line which version took it.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.domain.flag_tables import flag_table
from reconciler.domain.model_spec import Engine
from reconciler.domain.placement import PlacedGpu
from reconciler.engines.counting import counting_rules
from reconciler.engines.flags import read_args
from reconciler.engines.registry import support
from reconciler.sizing.budget import size
from reconciler.sizing.config_shape import read_config
from reconciler.sizing.memory_ask import MemoryAsk, Stored
from tests.engines.shown import shown, words
from tests.engines.vllm_cases import CASES, GIB, a_declaration, a_site

if TYPE_CHECKING:
    from reconciler.domain.declaration import Declaration
    from reconciler.engines.base import EngineSupport, Launch

GOLDEN = Path(__file__).parent / "golden"
ASK = Path(__file__).parents[2] / "bench" / "flag_tables" / "vllm_ask.py"
PYTHON = os.environ.get("RECONCILER_VLLM_PYTHON")
UNPARSED = "# not taken by the real program yet"


def vllm() -> EngineSupport:
    found = support(Engine.VLLM)
    assert found is not None
    return found


def launch(name: str) -> Launch:
    declaration, site = CASES[name]
    return vllm().launch(declaration, a_site(declaration, **site))


def golden(name: str) -> tuple[str, str]:
    """Its first line, and the rest."""
    head, _, body = (GOLDEN / f"vllm-{name}.txt").read_text("utf-8").partition("\n")
    return head, body


@pytest.mark.parametrize("name", CASES)
def test_a_command_line_is_as_pinned(name: str, *, rewrite: bool) -> None:
    path, seen = GOLDEN / f"vllm-{name}.txt", shown("vllm", launch(name))
    if rewrite and (not path.exists() or golden(name)[1] != seen):
        path.write_text(f"{UNPARSED}\n{seen}", "utf-8")
    assert golden(name)[1] == seen, f"{path.name} is not what is seen now; pytest --rewrite writes it"


@pytest.mark.parametrize("name", CASES)
def test_our_own_table_takes_every_command_line(name: str) -> None:
    read = read_args(flag_table(Engine.VLLM, CASES[name][0].version), words(golden(name)[1])[3:])
    assert read.problems == ()


def test_every_golden_is_of_a_case() -> None:
    assert {path.name for path in GOLDEN.glob("vllm-*.txt")} == {f"vllm-{name}.txt" for name in CASES}


@pytest.mark.skipif(PYTHON is None, reason="RECONCILER_VLLM_PYTHON names no Python with vLLM")
def test_vllms_own_parser_takes_every_command_line(*, rewrite: bool) -> None:
    assert PYTHON is not None
    asked = json.dumps([{"args": words(golden(name)[1])[3:]} for name in CASES])
    command = [PYTHON, "-c", "from importlib.metadata import version; print(version('vllm'))"]
    version = subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()
    found = subprocess.run([PYTHON, str(ASK)], input=asked, capture_output=True, check=True, text=True)
    answers: list[dict[str, Any]] = json.loads(found.stdout)
    head = f"# taken by the parser of vLLM {version}"
    for name, answer in zip(CASES, answers, strict=True):
        assert answer["real"] == "accepted", (name, answer)
        declaration = CASES[name][0]
        values = answer["values"]
        assert values.get("max_model_len") == declaration.context
        assert values.get("nnodes", 1) == declaration.nodes
        world = [values.get(f"{kind}_parallel_size", 1) for kind in ("tensor", "pipeline", "data")]
        assert world[0] * world[1] * world[2] == max(1, declaration.gpus) * declaration.nodes
        if rewrite:
            (GOLDEN / f"vllm-{name}.txt").write_text(f"{head}\n{golden(name)[1]}", "utf-8")
        assert golden(name)[0] == head


def test_a_flag_of_the_users_is_read_after_ours() -> None:
    declaration = a_declaration(
        adapters=[{"name": "sql", "source": "file:/weights/sql"}], args=("--max-lora-rank", "64")
    )
    read = read_args(flag_table(Engine.VLLM), vllm().launch(declaration, a_site(declaration)).arguments[2:])
    last = read.last("--max-lora-rank")
    assert last is not None
    assert last.value == 64


@pytest.mark.parametrize(
    ("version", "uuid", "seen"),
    [
        ("0.23.0", "GPU-a", "5"),
        ("0.24.0", "GPU-a", "GPU-a"),
        (None, "GPU-a", "GPU-a"),
        # CUDA knows a slice by nothing else, so that the old version ends and says why.
        ("0.23.0", "MIG-a", "MIG-a"),
    ],
)
def test_versions_that_take_numbers_only_are_given_the_number_of_a_gpu(
    version: str | None, uuid: str, seen: str
) -> None:
    declaration = a_declaration(version=version)
    launched = vllm().launch(declaration, a_site(declaration, gpus=(PlacedGpu(uuid=uuid, index=5),)))
    assert launched.env["CUDA_VISIBLE_DEVICES"] == seen
    assert launched.env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


def test_the_cache_asked_for_on_cpus_is_the_one_that_the_gate_judged() -> None:
    """Llama 8B in 32 GiB: 15 of weights, 2 of its vocabulary once more, 1.5 of processes."""
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
        "torch_dtype": "bfloat16", "max_position_embeddings": 131072,
    }  # fmt: skip
    weights, vocabulary = 16_060_522_496, 2 * 128256 * 4096 * 2
    shape = read_config(config)
    rules = counting_rules(Engine.VLLM, "0.32.0")
    judged = size(shape, Stored(weights), MemoryAsk(tensor=1, context=8192, gpus=0, host_bytes=32 * GIB), None, rules)
    assert judged.per_gpu is not None
    declaration = a_declaration(on_cpu=True, memory_gib=32.0, version="0.32.0")
    site = a_site(declaration, weight_bytes=weights, vocabulary_bytes=vocabulary)
    given = vllm().launch(declaration, site).arguments
    asked = int(given[given.index("--kv-cache-memory-bytes") + 1])
    assert asked == 32 * GIB - weights - vocabulary - 1530 * 2**20
    assert judged.per_gpu.kv_cache.likely == pytest.approx(asked, rel=0.01)


def test_two_nodes_hold_half_of_the_weights_each_and_data_parallel_ranks_all_of_them() -> None:
    fields: dict[str, Any] = {"on_cpu": True, "memory_gib": 8.0, "nodes": 2}
    halves, copies = a_declaration(**fields), a_declaration(**fields, data_parallel=2)
    where = {"addresses": ("10.0.0.1", "10.0.0.2"), "weight_bytes": 4 * GIB}

    def cache(declaration: Declaration) -> int:
        given = vllm().launch(declaration, a_site(declaration, **where)).arguments
        return int(given[given.index("--kv-cache-memory-bytes") + 1])

    assert cache(halves) - cache(copies) == 2 * GIB


def test_adapters_are_loaded_live_only_where_slots_were_made_and_one_server_answers() -> None:
    adapters = [{"name": "sql", "source": "file:/weights/sql"}]
    engine = vllm()
    able, without, spread = (
        a_declaration(adapters=adapters),
        a_declaration(),
        a_declaration(adapters=adapters, gpus=2, data_parallel=2),
    )
    for declaration, live in ((able, True), (without, False), (spread, False)):
        launched = engine.launch(declaration, a_site(declaration))
        assert ("VLLM_ALLOW_RUNTIME_LORA_UPDATING" in launched.env) is live
        assert (engine.load_adapter(declaration, "new", "/weights/new") is not None) is live
        assert (engine.unload_adapter(declaration, "sql") is not None) is live
