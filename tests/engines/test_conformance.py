"""Every engine of the registry holds what every engine must hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reconciler.domain.flag_tables import key_variables
from reconciler.domain.model_spec import Engine
from reconciler.engines.registry import launchable, support
from tests.engines import conformance, conformance_words

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from reconciler.engines.base import EngineSupport


CHECKS = (*conformance.CHECKS, *conformance_words.CHECKS)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("kind", launchable())
def test_it_conforms(kind: Engine, check: Callable[[EngineSupport], None]) -> None:
    engine = support(kind)
    assert engine is not None
    assert engine.kind is kind
    check(engine)


@pytest.mark.parametrize(
    ("module", "helpers"),
    [
        (conformance, {"a_declaration", "a_site", "launches"}),
        (conformance_words, {"every_launch", "whole", "moved_to", "launched", "flags"}),
    ],
)
def test_every_check_is_run(module: ModuleType, helpers: set[str]) -> None:
    made = {
        name
        for name, value in vars(module).items()
        if callable(value) and getattr(value, "__module__", "") == module.__name__ and not name.startswith("_")
    }
    assert made - {check.__name__ for check in module.CHECKS} == helpers


def test_a_key_is_marked_as_one_where_the_module_takes_it() -> None:
    taken = {name: (kind,) for kind in launchable() if (engine := support(kind)) for name in engine.key_env}
    assert key_variables() == taken, "marks.json and the modules name the same variables"
