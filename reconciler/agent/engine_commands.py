"""The usual command of each engine on this machine, for an agent whose config lists none."""

from __future__ import annotations

import shutil
import sys
from importlib.util import find_spec

from reconciler.domain.model_spec import Engine


def default_command(kind: Engine) -> tuple[str, ...] | None:
    """The words that start an engine, before its arguments; None when it is not installed.

    llama.cpp is `llama-server` where that is on PATH, else our own small server over the xllamacpp wheel. vLLM is the
    `vllm` on PATH, SGLang `sglang`, TensorRT-LLM `trtllm-serve`; in an environment of its own each is named in
    `agent.json` by its whole path. ComfyUI is no program on PATH: its command is a Python and its `main.py`.
    """
    match kind:
        case Engine.LLAMACPP if shutil.which("llama-server") is not None:
            return ("llama-server",)
        case Engine.LLAMACPP if find_spec("xllamacpp") is not None:
            return (sys.executable, "-m", "reconciler.agent.llama_server")
        case Engine.VLLM if shutil.which("vllm") is not None:
            return ("vllm",)
        case Engine.SGLANG if shutil.which("sglang") is not None:
            return ("sglang", "serve")
        case Engine.TRTLLM if shutil.which("trtllm-serve") is not None:
            return ("trtllm-serve",)
        case Engine.LLAMACPP | Engine.VLLM | Engine.SGLANG | Engine.TRTLLM | Engine.COMFYUI:
            return None
