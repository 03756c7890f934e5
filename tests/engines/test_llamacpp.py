"""llama.cpp's command lines, pinned as a golden file, and each taken by the real programs."""

from __future__ import annotations

import signal
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from reconciler.agent.probes import Prober
from reconciler.domain.model_spec import Engine
from reconciler.engines.base import Health, InFlight, Paths
from reconciler.engines.registry import support
from tests.agent.engine_process import PROGRAMS, free_port, started, wait_until
from tests.conftest import compare
from tests.engines.declarations import ADAPTERS, CASES, a_declaration, a_site
from tests.tiny_gguf import write_tiny_gguf, write_tiny_lora

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.domain.declaration import Declaration
    from reconciler.engines.base import EngineSupport, Launch, Verdict

GOLDEN = Path(__file__).parent / "golden" / "llamacpp_commands.txt"
REFUSED_HERE = frozenset({"cpu, projector"})
"""Wants a projector, which no test makes: the program takes its flag and says so of the file it gets instead."""


def llamacpp() -> EngineSupport:
    found = support(Engine.LLAMACPP)
    assert found is not None
    return found


def shown(name: str, launch: Launch) -> str:
    """One command line: its name, its environment, each flag with what follows it on a line."""
    lines = [f"# {name}", *(f"{key}={value}" for key, value in launch.env.items()), "llama-server"]
    for word in launch.arguments:
        if word.startswith("-"):
            lines.append(f"  {word}")
        else:
            lines[-1] += f" {word}"
    return "\n".join([*lines, ""])


def test_command_lines_are_as_pinned(*, rewrite: bool) -> None:
    seen = (shown(name, llamacpp().launch(declaration, a_site(declaration))) for name, declaration in CASES.items())
    compare(GOLDEN, "\n".join(seen), rewrite=rewrite)


def test_every_launch_says_what_decides_gpus_memory_and_address() -> None:
    decided = {"--model", "--host", "--port", "--ctx-size", "--parallel", "--fit", "--cache-ram", "--device"}
    for declaration in CASES.values():
        launch = llamacpp().launch(declaration, a_site(declaration))
        assert decided <= set(launch.arguments)
        seen = {value.count("GPU-") for name, value in launch.env.items() if name.endswith("VISIBLE_DEVICES")}
        assert seen == {declaration.gpus}


def test_the_base_url_is_one_for_ipv6_too() -> None:
    declaration = a_declaration()
    assert llamacpp().launch(declaration, a_site(declaration, host="::1")).url == "http://[::1]:20000"


def test_a_comma_in_a_path_does_not_make_two_adapters() -> None:
    declaration = CASES["cpu, adapters"]
    arguments = llamacpp().launch(declaration, a_site(declaration, weights="/a,b")).arguments
    assert arguments[arguments.index("--lora") + 1] == '"/a,b/sql.gguf","/a,b/chat.gguf"'


def test_it_is_killed_after_it_was_asked_twice() -> None:
    stop = llamacpp().stop
    assert timedelta() < stop.repeat_after < stop.kill_after


def weights(directory: Path, declaration: Declaration) -> str:
    """Write the files that a declaration names."""
    write_tiny_gguf(directory / "tiny.gguf", context=8192)
    for adapter in declaration.adapters:
        write_tiny_lora(directory / f"{adapter.name}.gguf")
    return str(directory)


def without_gpus(arguments: Sequence[str]) -> list[str]:
    """The same flags for a machine without GPUs, where no device of that name exists."""
    words = list(arguments)
    words[words.index("--device") + 1] = "none"
    return words


async def judge_all(declaration: Declaration, url: str, paths: Paths) -> list[Verdict]:
    engine, prober = llamacpp(), Prober()
    verdicts = [
        engine.judge(declaration, probe, await prober.send(url, probe, timedelta(seconds=30)), paths)
        for probe in engine.readiness(declaration)
    ]
    await prober.aclose()
    return verdicts


async def read_load(url: str) -> InFlight | None:
    engine, prober = llamacpp(), Prober()
    answer = await prober.send(url, engine.load(), timedelta(seconds=30))
    await prober.aclose()
    return engine.read_load(answer)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program[-1].rpartition("/")[2])
@pytest.mark.parametrize("name", sorted(CASES.keys() - REFUSED_HERE))
def test_the_real_program_takes_the_command_line_and_gets_ready(
    tmp_path: Path, program: tuple[str, ...], name: str
) -> None:
    declaration = CASES[name]
    site = a_site(declaration, weights(tmp_path, declaration), port=free_port())
    launch, paths = llamacpp().launch(declaration, site), Paths(site.model_path, site.adapter_paths)
    port = int(launch.url.rpartition(":")[2])
    command = [*program, *without_gpus(launch.arguments)]
    with started(command, port, tmp_path / "log") as engine:
        wait_until(engine.healthy, f"{name} is healthy")
        verdicts = anyio.run(judge_all, declaration, launch.url, paths)
        assert {verdict.health for verdict in verdicts} == {Health.OK}, verdicts
        assert len(verdicts) == (4 if declaration.adapters else 3)
        assert anyio.run(read_load, launch.url) == InFlight(running=0, waiting=0)
        stages = [step.stage for line in engine.log().splitlines() if (step := llamacpp().read_progress(line))]
        assert stages == ["loading weights", "warming up", "opening slots", "loaded"]
        slots = engine.request("/slots")[1].decode()
        assert slots.count('"id"') == (declaration.max_concurrency or 1)
        wait_until(lambda: engine.catches(signal.SIGTERM), "it handles SIGTERM")
        engine.process.terminate()
        assert engine.process.wait(10) == 0


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program[-1].rpartition("/")[2])
def test_gpus_that_are_not_there_are_refused_and_not_replaced_by_the_cpu(
    tmp_path: Path, program: tuple[str, ...]
) -> None:
    declaration = CASES["four gpus"]
    launch = llamacpp().launch(declaration, a_site(declaration, weights(tmp_path, declaration), port=free_port()))
    with started([*program, *launch.arguments], 0, tmp_path / "log") as engine:
        assert engine.process.wait(20) == 1
        failure = llamacpp().read_failure(engine.log())
        assert failure is not None
        assert failure.startswith(
            "llama-server sees no GPU CUDA0: it was built without CUDA, or fewer GPUs are visible"
        )


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program[-1].rpartition("/")[2])
@pytest.mark.parametrize("name", sorted(REFUSED_HERE))
def test_the_real_program_takes_the_flag_and_refuses_the_file(
    tmp_path: Path, program: tuple[str, ...], name: str
) -> None:
    declaration = CASES[name]
    launch = llamacpp().launch(declaration, a_site(declaration, weights(tmp_path, declaration), port=free_port()))
    write_tiny_gguf(tmp_path / "mmproj.gguf", context=8192)
    with started([*program, *launch.arguments], 0, tmp_path / "log") as engine:
        assert engine.process.wait(20) == 1
        failure = llamacpp().read_failure(engine.log())
        assert failure is not None
        assert failure.startswith("the multimodal projector")


def test_every_slot_has_room_for_the_declared_context(tmp_path: Path) -> None:
    declaration = CASES["cpu, a context that is no multiple of 256"]
    launch = llamacpp().launch(declaration, a_site(declaration, weights(tmp_path, declaration), port=free_port()))
    with started([*PROGRAMS[0], *launch.arguments], int(launch.url.rpartition(":")[2]), tmp_path / "log") as engine:
        wait_until(engine.healthy, "it is healthy")
        prompt = list(range(300, 300 + 20)) * 49  # 980 tokens
        status, body = engine.request("/completion", {"prompt": prompt, "n_predict": 20})
        assert (status, b'"truncated":false' in body) == (200, True)
        assert b'"tokens_predicted":20' in body


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program[-1].rpartition("/")[2])
def test_adapters_that_are_not_as_declared_are_seen(tmp_path: Path, program: tuple[str, ...]) -> None:
    """Launched as `sql, chat`, and held against what else could have been declared; then somebody sets a scale."""
    started_as = CASES["cpu, adapters"]
    site = a_site(started_as, weights(tmp_path, started_as), port=free_port())
    launch, paths = llamacpp().launch(started_as, site), Paths(site.model_path, site.adapter_paths)
    turned, fewer = (a_declaration(adapters=each) for each in (ADAPTERS[::-1], ADAPTERS[:1]))
    with started([*program, *launch.arguments], site.port, tmp_path / "log") as engine:
        wait_until(engine.healthy, "it is healthy")

        def said_of(declaration: Declaration) -> str:
            return anyio.run(judge_all, declaration, launch.url, paths)[2].detail

        assert said_of(started_as) == ""
        assert said_of(CASES["cpu, scaled adapters"]) == "/lora-adapters lists sql at scale 1.0, and 0.5 is declared"
        assert f"lists {tmp_path}/sql.gguf as number 0 where chat is declared" in said_of(turned)
        assert said_of(fewer) == "/lora-adapters lists 2 adapters, and 1 are declared"
        assert engine.request("/lora-adapters", [{"id": 0, "scale": 1}, {"id": 1, "scale": 0.25}])[0] == 200
        assert said_of(started_as) == "/lora-adapters lists chat at scale 0.25, and 1 is declared"


def test_an_input_of_the_whole_context_is_embedded(tmp_path: Path) -> None:
    declaration = CASES["cpu, embed"]
    launch = llamacpp().launch(declaration, a_site(declaration, weights(tmp_path, declaration), port=free_port()))
    with started([*PROGRAMS[0], *launch.arguments], int(launch.url.rpartition(":")[2]), tmp_path / "log") as engine:
        wait_until(engine.healthy, "it is healthy")
        status, body = engine.request("/v1/embeddings", {"model": "tiny", "input": "a" * 2000})
        assert (status, b'"prompt_tokens":2001' in body) == (200, True), body[:200]
