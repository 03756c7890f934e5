"""Which engines this version launches, and the module of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Engine
from reconciler.engines.llamacpp import LlamaCpp

if TYPE_CHECKING:
    from reconciler.engines.base import EngineSupport

_LLAMACPP = LlamaCpp()


def support(kind: Engine) -> EngineSupport | None:
    """The engine's module; None when this version does not launch it."""
    match kind:
        case Engine.LLAMACPP:
            return _LLAMACPP
        case Engine.VLLM | Engine.SGLANG | Engine.TRTLLM | Engine.COMFYUI:
            return None


def launchable() -> tuple[Engine, ...]:
    """The engines that `support` knows, in the order of the enum."""
    return tuple(kind for kind in Engine if support(kind) is not None)
