"""Every engine of the registry holds what every engine must hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reconciler.domain.model_spec import Engine
from reconciler.engines.registry import launchable, support
from tests.engines import conformance

if TYPE_CHECKING:
    from collections.abc import Callable

    from reconciler.engines.base import EngineSupport


@pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("kind", launchable())
def test_it_conforms(kind: Engine, check: Callable[[EngineSupport], None]) -> None:
    engine = support(kind)
    assert engine is not None
    assert engine.kind is kind
    check(engine)


def test_every_check_is_run() -> None:
    made = {
        name
        for name, value in vars(conformance).items()
        if callable(value) and getattr(value, "__module__", "") == conformance.__name__ and not name.startswith("_")
    }
    assert made - {check.__name__ for check in conformance.CHECKS} == {"a_declaration", "a_site", "launches"}
