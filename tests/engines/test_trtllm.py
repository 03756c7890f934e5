"""TensorRT-LLM's command lines and options files: pinned as golden files, held against the flag tables.

The program does not install without its GPUs, so no golden was parsed by it, and each says so. What comes nearest:
click, on which it is built, given the options that the project's own reference of its command line has (1.4), or that
its source declares (1.2).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.domain.flag_tables import flag_table
from reconciler.domain.model_spec import Engine
from reconciler.engines.base import CannotLaunch
from reconciler.engines.flags import read_args
from reconciler.engines.registry import support
from tests.conftest import compare
from tests.engines.conformance import a_site
from tests.engines.shown import shown
from tests.engines.test_flag_parsers import click_of
from tests.engines.trtllm_cases import CASES, OLD, RECENT, TWO_NODES, a_declaration

if TYPE_CHECKING:
    from reconciler.engines.base import EngineSupport, Launch

GOLDEN = Path(__file__).parent / "golden"
UNPARSED = "# not parsed by the real program"
DIRECTORY: dict[str, Any] = {"directory": "/run/replica"}
PROGRAM = "trtllm-serve"


def trtllm() -> EngineSupport:
    found = support(Engine.TRTLLM)
    assert found is not None
    return found


def launch(name: str) -> Launch:
    declaration, site = CASES[name]
    return trtllm().launch(declaration, a_site(declaration, **DIRECTORY | dict(site)))


def with_files(found: Launch) -> str:
    """The launch, and behind it what must stand in which file."""
    files = "".join(f"# {name}\n{content}" for name, content in found.files.items())
    return f"{UNPARSED}\n{shown(PROGRAM, found)}{files}"


def options_of(found: Launch) -> str:
    content = found.files["trtllm.yaml"]
    assert isinstance(content, str)
    return content


@pytest.mark.parametrize("name", CASES)
def test_a_command_line_is_as_pinned(name: str, *, rewrite: bool) -> None:
    compare(GOLDEN / f"trtllm-{name}.txt", with_files(launch(name)), rewrite=rewrite)


@pytest.mark.parametrize("name", CASES)
def test_our_own_table_takes_every_command_line(name: str) -> None:
    found = launch(name)
    read = read_args(flag_table(Engine.TRTLLM, CASES[name][0].version), found.arguments[2:])
    assert read.problems == ()


@pytest.mark.parametrize("name", CASES)
def test_click_takes_every_command_line_and_reads_what_was_meant(name: str) -> None:
    declaration, found = CASES[name][0], launch(name)
    table = flag_table(Engine.TRTLLM, declaration.version)
    values = click_of(table).make_context("serve", list(found.arguments[1:])).params
    ranks = values["tensor_parallel_size"] * values["pipeline_parallel_size"]
    assert ranks == declaration.gpus * declaration.nodes
    assert values["gpus_per_node"] == declaration.gpus
    assert values["max_seq_len"] == declaration.context
    assert values["model"] == "/weights/m"


def test_every_golden_is_of_a_case() -> None:
    assert {path.name for path in GOLDEN.glob("trtllm-*.txt")} == {f"trtllm-{name}.txt" for name in CASES}


@pytest.mark.parametrize("fields", [{}, {"gpus": 4, "max_concurrency": 8}, {"dtype": "float16"}])
def test_the_options_file_repeats_no_flag_and_switches_the_numbers_on(fields: dict[str, Any]) -> None:
    declaration = a_declaration(**fields)
    found = trtllm().launch(declaration, a_site(declaration, directory="/run/replica"))
    options = json.loads(options_of(found))
    assert options.pop("enable_iter_perf_stats") is True
    assert options == ({"dtype": "float16"} if "dtype" in fields else {})
    assert found.arguments[found.arguments.index("--extra_llm_api_options") + 1] == "/run/replica/trtllm.yaml"


def test_a_version_without_the_flag_gets_the_cache_type_by_file_and_the_same_share() -> None:
    declaration = a_declaration(version=OLD, kv_cache_dtype="fp8", memory_share=0.8)
    found = trtllm().launch(declaration, a_site(declaration, directory="/run/replica"))
    cache = json.loads(options_of(found))["kv_cache_config"]
    assert cache == {"dtype": "fp8", "free_gpu_memory_fraction": 0.8}
    assert "--kv_cache_dtype" not in found.arguments
    assert found.arguments[found.arguments.index("--kv_cache_free_gpu_memory_fraction") + 1] == "0.8"


def test_a_version_with_the_flag_gets_the_cache_type_by_flag_alone() -> None:
    declaration = a_declaration(version=RECENT, kv_cache_dtype="fp8")
    found = trtllm().launch(declaration, a_site(declaration, directory="/run/replica"))
    assert "kv_cache_config" not in options_of(found)
    assert found.arguments[found.arguments.index("--kv_cache_dtype") + 1] == "fp8"


def test_words_that_the_launcher_would_cut_are_refused_with_the_word() -> None:
    declaration = a_declaration(gpus=8, nodes=2, args=("--reasoning_parser", "a b"))
    with pytest.raises(CannotLaunch, match="'a b'"):
        trtllm().launch(declaration, a_site(declaration, **TWO_NODES))
    one = declaration.model_copy(update={"nodes": 1})
    assert trtllm().launch(one, a_site(one)).arguments[-1] == "a b", "one node needs no launcher"


def test_an_interpreter_that_mpirun_would_cut_is_refused() -> None:
    declaration = a_declaration(gpus=8, nodes=2)
    with pytest.raises(CannotLaunch, match="my python"):
        trtllm().launch(declaration, a_site(declaration, **TWO_NODES, interpreter="/opt/my python"))
