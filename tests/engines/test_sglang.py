"""SGLang's command lines: pinned as golden files, held against the flag table, and taken by SGLang's own parser.

The parser is that of the Python in RECONCILER_SGLANG_PYTHON, an environment with SGLang in it: its wheel without what
it depends on, orjson, IPython and traitlets, on top of vLLM's. Each golden names the version that took it.
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
from reconciler.engines.flags import read_args
from reconciler.engines.registry import support
from tests.engines.conformance import a_site
from tests.engines.sglang_cases import ADAPTERS, CASES, a_declaration
from tests.engines.shown import shown, words

if TYPE_CHECKING:
    from reconciler.engines.base import EngineSupport, Launch

GOLDEN = Path(__file__).parent / "golden"
ASK = Path(__file__).parents[2] / "bench" / "flag_tables" / "sglang_ask.py"
PYTHON = os.environ.get("RECONCILER_SGLANG_PYTHON")
UNPARSED = "# not taken by the real program yet"
PROGRAM = "sglang serve"
BEFORE = 4
"""Words before what the parser is asked about: the program's two, and the model's path, which the script names."""


def sglang() -> EngineSupport:
    found = support(Engine.SGLANG)
    assert found is not None
    return found


def launch(name: str) -> Launch:
    declaration, site = CASES[name]
    return sglang().launch(declaration, a_site(declaration, **site))


def golden(name: str) -> tuple[str, str]:
    """Its first line, and the rest."""
    head, _, body = (GOLDEN / f"sglang-{name}.txt").read_text("utf-8").partition("\n")
    return head, body


@pytest.mark.parametrize("name", CASES)
def test_a_command_line_is_as_pinned(name: str, *, rewrite: bool) -> None:
    path, seen = GOLDEN / f"sglang-{name}.txt", shown(PROGRAM, launch(name))
    if rewrite and (not path.exists() or golden(name)[1] != seen):
        path.write_text(f"{UNPARSED}\n{seen}", "utf-8")
    assert golden(name)[1] == seen, f"{path.name} is not what is seen now; pytest --rewrite writes it"


@pytest.mark.parametrize("name", CASES)
def test_our_own_table_takes_every_command_line(name: str) -> None:
    read = read_args(flag_table(Engine.SGLANG), words(golden(name)[1])[BEFORE:])
    assert read.problems == ()


def test_every_golden_is_of_a_case() -> None:
    assert {path.name for path in GOLDEN.glob("sglang-*.txt")} == {f"sglang-{name}.txt" for name in CASES}


@pytest.mark.skipif(PYTHON is None, reason="RECONCILER_SGLANG_PYTHON names no Python with SGLang")
def test_sglangs_own_parser_takes_every_command_line(*, rewrite: bool) -> None:
    assert PYTHON is not None
    asked = json.dumps([{"args": words(golden(name)[1])[BEFORE:]} for name in CASES])
    command = [PYTHON, "-c", "from importlib.metadata import version; print(version('sglang'))"]
    version = subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()
    found = subprocess.run([PYTHON, str(ASK)], input=asked, capture_output=True, check=True, text=True)
    answers: list[dict[str, Any]] = json.loads(found.stdout)
    head = f"# taken by the parser of SGLang {version}"
    for name, answer in zip(CASES, answers, strict=True):
        assert answer["real"] == "accepted", (name, answer)
        declaration, values = CASES[name][0], answer["values"]
        assert values.get("context_length") == declaration.context
        assert values.get("nnodes", 1) == declaration.nodes
        world = [values.get(f"{kind}_size", 1) for kind in ("tp", "pp", "dp")]
        assert world[0] * world[1] * world[2] == declaration.gpus * declaration.nodes
        assert values.get("ep_size", 1) == (world[0] if declaration.expert_parallel else 1)
        assert values.get("served_model_name") == declaration.model
        assert len(values.get("lora_paths", ())) == len(declaration.adapters)
        assert values["enable_metrics"] is True
        if rewrite:
            (GOLDEN / f"sglang-{name}.txt").write_text(f"{head}\n{golden(name)[1]}", "utf-8")
        assert golden(name)[0] == head


def test_a_flag_of_the_users_is_read_after_ours() -> None:
    declaration = a_declaration(adapters=ADAPTERS, args=("--max-lora-rank", "64"))
    read = read_args(flag_table(Engine.SGLANG), sglang().launch(declaration, a_site(declaration)).arguments[2:])
    last = read.last("--max-lora-rank")
    assert last is not None
    assert last.value == 64


def test_only_the_first_node_serves_and_all_meet_at_it() -> None:
    first, second = launch("two-nodes-rank-0"), launch("two-nodes-rank-1")
    assert (first.serves, second.serves) == (True, False)
    assert first.url == second.url == "http://10.0.0.1:20000"
    for each in (first, second):
        assert each.arguments[each.arguments.index("--dist-init-addr") + 1] == "10.0.0.1:20001"


def test_adapters_are_loaded_live_only_where_it_started_with_some_and_has_no_data_ranks() -> None:
    able, without, spread = (
        a_declaration(adapters=ADAPTERS),
        a_declaration(),
        a_declaration(adapters=ADAPTERS, gpus=2, data_parallel=2),
    )
    for declaration, live in ((able, True), (without, False), (spread, False)):
        assert (sglang().load_adapter(declaration, "new", "/weights/new") is not None) is live
        assert (sglang().unload_adapter(declaration, "sql") is not None) is live
