"""When `run` asks external models, in virtual time: with a pass, at most every 30 s, and never in a pass's way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from reconciler.controller.externals import Externals, externals_of
from reconciler.domain.external import ExternalAnswer, ExternalVerdict
from reconciler.fleet.virtual_clock import run_virtually
from tests.builders import a_desired, a_model

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reconciler.domain.desired import Desired
    from reconciler.domain.model_spec import ModelSpec

READY = ExternalAnswer(ExternalVerdict.REACHABLE, "served by llm.example")
REFUSED = ExternalAnswer(ExternalVerdict.KEY_REFUSED, "llm.example refuses the key in LLM_KEY (401)")


def external(name: str) -> ModelSpec:
    return a_model(name, source=None, context=None, profiles=[], external={"url": "https://llm.example/v1"})


def wanting(*names: str) -> Desired:
    return a_desired([external(name) for name in names] + [a_model("own")], [])


async def after(seconds: float) -> None:
    """Let virtual time pass."""
    with anyio.move_on_after(seconds):
        await anyio.sleep_forever()


@dataclass
class Somebody:
    """Answers after a while, and remembers when it was asked for what."""

    answer: ExternalAnswer = READY
    takes: float = 0.0
    asked: list[tuple[float, list[str]]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    async def ask(self, models: Sequence[ModelSpec]) -> Mapping[str, ExternalAnswer]:
        self.asked.append((anyio.current_time(), [model.name for model in models]))
        await after(self.takes)
        return {model.name: self.answer for model in models}


def passes(somebody: Somebody, *at: tuple[float, Desired, ExternalAnswer]) -> None:
    """Passes at these instants; a minute later all is over."""

    async def run() -> None:
        externals = Externals(somebody.said.append, somebody.ask)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(externals.follow)
            for instant, desired, answer in at:
                await after(instant - anyio.current_time())
                somebody.answer = answer
                externals.aimed(desired)
                assert anyio.current_time() == instant, "a pass waited"
            await after(60)
            tasks.cancel_scope.cancel()

    run_virtually(run)


def test_it_is_asked_with_a_pass_and_at_most_every_half_minute() -> None:
    somebody = Somebody(takes=2)
    passes(somebody, *((instant, wanting("a"), READY) for instant in (0, 1, 2, 29, 30, 45, 61, 90, 91)))
    assert somebody.asked == [(instant, ["a"]) for instant in (0, 30, 61, 91)]
    assert somebody.said == ["1 of 1 external model ready"]


def test_a_commit_with_other_models_is_asked_about_at_once() -> None:
    somebody = Somebody()
    passes(somebody, (0, wanting("a"), READY), (3, wanting("a", "b"), READY), (4, wanting("a", "b"), READY))
    assert somebody.asked == [(0, ["a"]), (3, ["a", "b"])]
    assert somebody.said == ["1 of 1 external model ready", "external model b ready: served by llm.example"]


def test_only_changes_are_said() -> None:
    somebody = Somebody()
    passes(
        somebody, *((30 * turn, wanting("a"), answer) for turn, answer in enumerate([READY, REFUSED, REFUSED, READY]))
    )
    assert len(somebody.asked) == 4
    assert somebody.said == [
        "1 of 1 external model ready",
        "external model a waits: llm.example refuses the key in LLM_KEY (401)",
        "external model a ready: served by llm.example",
    ]


def test_without_external_models_nobody_is_asked() -> None:
    somebody = Somebody()
    passes(somebody, (0, wanting(), READY), (40, wanting(), READY))
    assert (somebody.asked, somebody.said) == ([], [])


def test_the_external_models_of_a_tree_or_one_of_them() -> None:
    tree = wanting("a", "b")
    assert [model.name for model in externals_of(tree)] == ["a", "b"]
    assert [model.name for model in externals_of(tree, "b")] == ["b"]
    assert externals_of(tree, "own") == ()
