"""Which engines this version launches, and the module of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Engine
from reconciler.engines.comfyui import ComfyUi
from reconciler.engines.llamacpp import LlamaCpp
from reconciler.engines.sglang import Sglang
from reconciler.engines.trtllm import TensorRtLlm
from reconciler.engines.vllm import Vllm

if TYPE_CHECKING:
    from reconciler.engines.base import EngineSupport

_LLAMACPP = LlamaCpp()
_VLLM = Vllm()
_SGLANG = Sglang()
_TRTLLM = TensorRtLlm()
_COMFYUI = ComfyUi()


def support(kind: Engine) -> EngineSupport | None:
    """The engine's module; None when this version does not launch it."""
    match kind:
        case Engine.LLAMACPP:
            return _LLAMACPP
        case Engine.VLLM:
            return _VLLM
        case Engine.SGLANG:
            return _SGLANG
        case Engine.TRTLLM:
            return _TRTLLM
        case Engine.COMFYUI:
            return _COMFYUI


def launchable() -> tuple[Engine, ...]:
    """The engines that `support` knows, in the order of the enum."""
    return tuple(kind for kind in Engine if support(kind) is not None)
