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

from reconciler.agent.launch_files import write_launch_files
from reconciler.domain.flag_tables import flag_table
from reconciler.domain.model_spec import Engine
from reconciler.engines.base import CannotLaunch
from reconciler.engines.flags import read_args
from reconciler.engines.registry import support
from reconciler.engines.secret_settings import SecretSettings
from reconciler.engines.sglang_arguments import KEY, KEY_FILE
from tests.engines.conformance import a_site
from tests.engines.sglang_cases import ADAPTERS, CASES, DIRECTORY, a_declaration
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


def with_files(found: Launch) -> str:
    """The launch, and of its file which setting gets the value of which variable; that value is nowhere."""
    settings = [
        f"# {name}: {setting}: (value of {variable})\n"
        for name, wanted in found.files.items()
        if isinstance(wanted, SecretSettings)
        for setting, variable in wanted.variables.items()
    ]
    return shown(PROGRAM, found) + "".join(settings)


@pytest.mark.parametrize("name", CASES)
def test_a_command_line_is_as_pinned(name: str, *, rewrite: bool) -> None:
    path, seen = GOLDEN / f"sglang-{name}.txt", with_files(launch(name))
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
def test_sglangs_own_parser_takes_every_command_line(tmp_path: Path, *, rewrite: bool) -> None:
    assert PYTHON is not None
    write_launch_files(tmp_path, launch("one-gpu-key").files, {KEY: "k-0815"})
    lines = [[word.replace(DIRECTORY, str(tmp_path)) for word in words(golden(name)[1])[BEFORE:]] for name in CASES]
    asked = json.dumps([{"args": line} for line in lines])
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
        assert values.get("api_key") == ("k-0815" if launch(name).files else None)
        if rewrite:
            (GOLDEN / f"sglang-{name}.txt").write_text(f"{head}\n{golden(name)[1]}", "utf-8")
        assert golden(name)[0] == head


@pytest.mark.skipif(PYTHON is None, reason="RECONCILER_SGLANG_PYTHON names no Python with SGLang")
def test_sglangs_own_parser_reads_the_key_as_it_is(tmp_path: Path) -> None:
    assert PYTHON is not None
    keys = ("0123", "no", "1e3", "null", "k:v#w", "a\"b'c\\d", "{x}", "[y]", "&z", "*", "!a")
    for number, key in enumerate(keys):
        write_launch_files(tmp_path / str(number) / "own", launch("one-gpu-key").files, {KEY: key})
    asked = json.dumps(
        [{"args": ["--config", str(tmp_path / str(each) / "own" / KEY_FILE)]} for each in range(len(keys))]
    )
    found = subprocess.run([PYTHON, str(ASK)], input=asked, capture_output=True, check=True, text=True)
    assert [each["values"]["api_key"] for each in json.loads(found.stdout)] == list(keys)


@pytest.mark.skipif(PYTHON is None, reason="RECONCILER_SGLANG_PYTHON names no Python with SGLang")
def test_sglangs_own_rule_lets_the_agents_requests_pass_with_the_key_and_those_without_not() -> None:
    assert PYTHON is not None
    declaration = a_declaration(adapters=ADAPTERS)
    probes = [*sglang().readiness(declaration), sglang().load_adapter(declaration, "a", "/a"), sglang().adapters()]
    asked = [
        (probe.method, probe.path) for probe in (*probes, sglang().liveness(), sglang().load()) if probe is not None
    ]
    script = (
        "import json, sys; from sglang.srt.utils.auth import AuthLevel, decide_request_auth as decide\n"
        "told = [[decide(method=m, path=p, authorization_header=h, api_key='k', admin_api_key=None,"
        " auth_level=AuthLevel.ADMIN_OPTIONAL if 'lora' in p else AuthLevel.NORMAL).allowed"
        " for h in (None, 'Bearer k', 'Bearer x')] for m, p in json.load(sys.stdin)]\n"
        "print(json.dumps(told))"
    )
    found = subprocess.run([PYTHON, "-c", script], input=json.dumps(asked), capture_output=True, check=True, text=True)
    open_to_all = {sglang().liveness().path, sglang().load().path}
    wanted = [[True] * 3 if path in open_to_all else [False, True, False] for _, path in asked]
    assert json.loads(found.stdout.splitlines()[-1]) == wanted


def test_a_key_is_in_a_file_of_the_leader_and_never_in_a_launch_without_one() -> None:
    assert launch("one-gpu-key").files == {KEY_FILE: SecretSettings({"api-key": KEY})}
    assert launch("two-nodes-key-rank-1").files == {}
    declaration = a_declaration(env={KEY: {"secret": "key"}})
    with pytest.raises(CannotLaunch, match="SGLANG_API_KEY is declared"):
        sglang().launch(declaration, a_site(declaration))


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
