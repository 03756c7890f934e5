"""ComfyUI: its command lines, pinned; its answers, from a real HTTP server that stands in for it.

It is in no package registry, so no golden was parsed by it, and each says so.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from reconciler.agent.probes import Prober
from reconciler.domain.model_spec import Engine
from reconciler.engines.base import Answer, Health, InFlight, Vendor
from reconciler.engines.registry import support
from tests.conftest import compare
from tests.engines.conformance import a_declaration, a_site
from tests.engines.http_stand_in import standing_in
from tests.engines.shown import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.declaration import Declaration
    from reconciler.engines.base import EngineSupport, Verdict

GOLDEN = Path(__file__).parent / "golden"
UNPARSED = "# not parsed by the real program"
DIRECTORY: dict[str, Any] = {"directory": "/run/replica"}

CASES: Mapping[str, tuple[Declaration, Mapping[str, Any]]] = {
    "one-gpu": (a_declaration(Engine.COMFYUI, source="file:/workflows/poster.json", context=None), {}),
    "one-gpu-args": (a_declaration(Engine.COMFYUI, context=None, args=("--highvram",)), {}),
    "one-amd-gpu": (a_declaration(Engine.COMFYUI, gpu_class="mi300x", context=None), {"vendor": Vendor.AMD}),
    "one-gpu-no-directory": (a_declaration(Engine.COMFYUI, context=None), {"directory": None, "cache_dir": None}),
}

GPU = {"name": "cuda:0 NVIDIA L40S : cudaMallocAsync", "type": "cuda", "index": 0, "vram_total": 47_000_000_000}
"""As `/system_stats` of 0.3 shows one (server.py)."""


def comfyui() -> EngineSupport:
    found = support(Engine.COMFYUI)
    assert found is not None
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_command_line_is_as_pinned(name: str, *, rewrite: bool) -> None:
    declaration, site = CASES[name]
    launch = comfyui().launch(declaration, a_site(declaration, **DIRECTORY | dict(site)))
    seen = f"{UNPARSED}\n{shown('python /opt/ComfyUI/main.py', launch)}"
    compare(GOLDEN / f"comfyui-{name}.txt", seen, rewrite=rewrite)


def test_every_golden_is_of_a_case() -> None:
    assert {path.name for path in GOLDEN.glob("comfyui-*.txt")} == {f"comfyui-{name}.txt" for name in CASES}


async def asked(url: str) -> tuple[list[Verdict], InFlight | None]:
    """What is judged of a server, and how many workflows it has in flight."""
    engine, prober, declaration = comfyui(), Prober(), CASES["one-gpu"][0]
    within = timedelta(seconds=10)
    verdicts = [
        engine.judge(declaration, probe, await prober.send(url, probe, within))
        for probe in engine.readiness(declaration)
    ]
    load = engine.read_load(await prober.send(url, engine.load(), within))
    await prober.aclose()
    return verdicts, load


@pytest.mark.parametrize(
    ("running", "pending", "load"),
    [([], [], InFlight(0, 0)), ([[0, "a", {}]], [[1, "b", {}], [2, "c", {}]], InFlight(1, 2))],
)
def test_it_is_ready_when_its_queue_answers_which_tells_what_is_in_flight(
    running: list[Any], pending: list[Any], load: InFlight
) -> None:
    pages = {
        "/system_stats": {"system": {"os": "posix"}, "devices": [GPU]},
        "/queue": {"queue_running": running, "queue_pending": pending},
    }
    with standing_in(pages) as url:
        verdicts, found = anyio.run(asked, url)
    assert [verdict.health for verdict in verdicts] == [Health.OK, Health.OK]
    assert found == load


@pytest.mark.parametrize(
    ("pages", "details"),
    [
        (
            {
                "/system_stats": {"devices": [{"name": "cpu", "type": "cpu"}]},
                "/queue": {"queue_running": [], "queue_pending": []},
            },
            ["/system_stats shows no GPU: it computes on the CPU", ""],
        ),
        (
            {"/system_stats": {"status": "ok"}, "/queue": {"items": []}},
            [
                "/system_stats answers without devices: another program is on this port",
                "/queue answers without a queue",
            ],
        ),
    ],
)
def test_what_is_not_it_or_has_no_gpu_is_never_ready(pages: dict[str, Any], details: list[str]) -> None:
    with standing_in(pages) as url:
        verdicts, _ = anyio.run(asked, url)
    assert [verdict.detail for verdict in verdicts] == details
    assert verdicts[0].health is Health.WRONG


def test_a_queue_that_is_no_list_is_not_counted() -> None:
    assert comfyui().read_load(Answer(200, b'{"queue_running": 1, "queue_pending": []}')) is None
