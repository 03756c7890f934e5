"""The flags of llama-server that the wheel's server takes, each with what it sets in xllamacpp.CommonParams.

Spellings and readings are those of llama.cpp's `common/arg.cpp` (b11434).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xllamacpp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_TRUE = frozenset({"on", "enabled", "true", "1"})
_FALSE = frozenset({"off", "disabled", "false", "0"})
_AUTO = frozenset({"auto", "-1"})

_FLASH = xllamacpp.llama_flash_attn_type
_POOLING = xllamacpp.llama_pooling_type
_SPLIT = xllamacpp.llama_split_mode
_TYPES = xllamacpp.ggml_type

_CACHE_TYPES = {
    name: getattr(_TYPES, f"GGML_TYPE_{name.upper()}")
    for name in ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
}
_POOLINGS = {
    name: getattr(_POOLING, f"LLAMA_POOLING_TYPE_{name.upper()}") for name in ("none", "mean", "cls", "last", "rank")
}
_SPLITS = {name: getattr(_SPLIT, f"LLAMA_SPLIT_MODE_{name.upper()}") for name in ("none", "layer", "row", "tensor")}


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag: its spellings, whether a value follows, and what it does to the parameters."""

    names: tuple[str, ...]
    apply: Callable[[Any, str], None]
    takes_value: bool = True


def _number(value: str) -> int:
    """As std::stoi: leading blanks, a sign, digits; what follows does not count."""
    found = re.match(r"\s*[+-]?[0-9]+", value)
    if found is None:
        raise ValueError("stoi")
    return int(found.group())


def _fields(value: str) -> list[str]:
    """Comma-separated; a field in double quotes may hold commas and doubled quotes."""
    fields, quoted, position = [""], False, 0
    while position < len(value):
        char = value[position]
        if char == '"' and (quoted or not fields[-1]):
            if quoted and value[position + 1 : position + 2] == '"':
                fields[-1] += char
                position += 1
            else:
                quoted = not quoted
        elif char == "," and not quoted:
            fields.append("")
        else:
            fields[-1] += char
        position += 1
    return fields


def _set(params: Any, path: str, value: object) -> None:
    *owners, name = path.split(".")
    setattr(reduce(getattr, owners, params), name, value)


def _int(path: str, *names: str) -> Flag:
    return Flag(names, lambda params, value: _set(params, path, _number(value)))


def _text(path: str, *names: str) -> Flag:
    return Flag(names, lambda params, value: _set(params, path, value))


def _switch(path: str, on: object, *names: str) -> Flag:
    return Flag(names, lambda params, _: _set(params, path, on), takes_value=False)


def _choice(path: str, choices: dict[str, Any], *names: str) -> Flag:
    def apply(params: Any, value: str) -> None:
        if value not in choices:
            raise ValueError(f"{value!r} is none of {', '.join(choices)}")
        _set(params, path, choices[value])

    return Flag(names, apply)


def _threads(path: str, *names: str) -> Flag:
    def apply(params: Any, value: str) -> None:
        count = _number(value)
        _set(params, path, count if count > 0 else os.cpu_count() or 1)

    return Flag(names, apply)


def _slots(params: Any, value: str) -> None:
    count = _number(value)
    if count == 0:
        raise ValueError("error: invalid value for n_parallel")
    params.n_parallel = count


def _hosts(params: Any, value: str) -> None:
    hosts = [host.strip() for host in _fields(value) if host.strip()]
    if not hosts:
        raise ValueError("--host requires at least one address")
    params.hostnames = hosts


def _alias(params: Any, value: str) -> None:
    params.model_alias = {*params.model_alias, *(name.strip() for name in value.split(",") if name.strip())}


def _gpu_layers(params: Any, value: str) -> None:
    params.n_gpu_layers = {"auto": -1, "all": -2}[value] if value in {"auto", "all"} else _number(value)


def _devices(params: Any, value: str) -> None:
    """The wheel's server takes every GPU it sees: no choice among them can be kept, only checked."""
    if value == "none":
        params.n_gpu_layers = 0
        params.mmproj_use_gpu = False
        return
    seen = {device["name"] for device in xllamacpp.get_device_info() if device["type"].name.endswith("GPU")}
    named = set(value.split(","))
    for device in sorted(named - seen):
        raise ValueError(f"invalid device: {device}")
    for device in sorted(seen - named):
        raise ValueError(f"{device} cannot be left out here; hide it with CUDA_VISIBLE_DEVICES")


def _tensor_split(params: Any, value: str) -> None:
    shares = [float(share) for share in re.split(r"[,/]+", value)]
    room = len(params.tensor_split)
    if len(shares) >= room:
        raise ValueError(f"got {len(shares)} input configs, but system only has {room} devices")
    params.tensor_split = [*shares, *[0.0] * (room - len(shares))]


def _lora(params: Any, value: str) -> None:
    _add_adapters(params, [(path, 1.0) for path in _fields(value)])


def _lora_scaled(params: Any, value: str) -> None:
    adapters = []
    for field in _fields(value):
        path, colon, scale = field.partition(":")
        if not colon or ":" in scale:
            raise ValueError("lora-scaled format: FNAME:SCALE")
        adapters.append((path, float(scale)))
    _add_adapters(params, adapters)


def _add_adapters(params: Any, adapters: Sequence[tuple[str, float]]) -> None:
    params.lora_adapters = [
        *params.lora_adapters,
        *(xllamacpp.CommonAdapterLoraInfo(path, scale) for path, scale in adapters),
    ]


def _api_key(params: Any, value: str) -> None:
    params.api_keys = [*params.api_keys, *(key for key in _fields(value) if key)]


def _rerank(params: Any, _: str) -> None:
    params.embedding, params.pooling_type = True, _POOLINGS["rank"]


def _timeout(params: Any, value: str) -> None:
    params.timeout_read = params.timeout_write = _number(value)


def _template_file(params: Any, value: str) -> None:
    params.chat_template = Path(value).read_text("utf-8")


_ON_OFF = {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)}
_FLASH_CHOICES = {
    **dict.fromkeys(sorted(_TRUE), _FLASH.LLAMA_FLASH_ATTN_TYPE_ENABLED),
    **dict.fromkeys(sorted(_FALSE), _FLASH.LLAMA_FLASH_ATTN_TYPE_DISABLED),
    **dict.fromkeys(sorted(_AUTO), _FLASH.LLAMA_FLASH_ATTN_TYPE_AUTO),
}

FLAGS: tuple[Flag, ...] = (
    _text("model.path", "-m", "--model"),
    Flag(("-a", "--alias"), _alias),
    Flag(("--host",), _hosts),
    _int("port", "--port"),
    _switch("reuse_port", True, "--reuse-port"),
    # memory
    _int("n_ctx", "-c", "--ctx-size"),
    Flag(("-np", "--parallel"), _slots),
    _switch("kv_unified", True, "-kvu", "--kv-unified"),
    _switch("kv_unified", False, "-no-kvu", "--no-kv-unified"),
    _choice("fit_params", _ON_OFF, "-fit", "--fit"),
    _int("cache_ram_mib", "-cram", "--cache-ram"),
    _int("n_ctx_checkpoints", "-ctxcp", "--ctx-checkpoints", "--swa-checkpoints"),
    _int("n_batch", "-b", "--batch-size"),
    _int("n_ubatch", "-ub", "--ubatch-size"),
    _choice("cache_type_k", _CACHE_TYPES, "-ctk", "--cache-type-k"),
    _choice("cache_type_v", _CACHE_TYPES, "-ctv", "--cache-type-v"),
    _choice("flash_attn_type", _FLASH_CHOICES, "-fa", "--flash-attn"),
    _switch("swa_full", True, "--swa-full"),
    # where it computes
    _threads("cpuparams.n_threads", "-t", "--threads"),
    _threads("cpuparams_batch.n_threads", "-tb", "--threads-batch"),
    _int("n_threads_http", "--threads-http"),
    Flag(("-dev", "--device"), _devices),
    Flag(("-ngl", "--gpu-layers", "--n-gpu-layers"), _gpu_layers),
    _choice("split_mode", _SPLITS, "-sm", "--split-mode"),
    Flag(("-ts", "--tensor-split"), _tensor_split),
    _int("main_gpu", "-mg", "--main-gpu"),
    # what it serves
    _switch("embedding", True, "--embedding", "--embeddings"),
    Flag(("--rerank", "--reranking"), _rerank, takes_value=False),
    _choice("pooling_type", _POOLINGS, "--pooling"),
    Flag(("--lora",), _lora),
    Flag(("--lora-scaled",), _lora_scaled),
    _switch("lora_init_without_apply", True, "--lora-init-without-apply"),
    _text("mmproj.path", "-mm", "--mmproj"),
    _switch("mmproj_use_gpu", True, "--mmproj-offload"),
    _switch("mmproj_use_gpu", False, "--no-mmproj-offload"),
    _text("chat_template", "--chat-template"),
    Flag(("--chat-template-file",), _template_file),
    _switch("use_jinja", True, "--jinja"),
    _switch("use_jinja", False, "--no-jinja"),
    _int("n_predict", "-n", "--predict", "--n-predict"),
    _switch("ctx_shift", True, "--context-shift"),
    _switch("ctx_shift", False, "--no-context-shift"),
    _switch("cache_prompt", True, "--cache-prompt"),
    _switch("cache_prompt", False, "--no-cache-prompt"),
    _switch("cont_batching", True, "-cb", "--cont-batching"),
    _switch("cont_batching", False, "-nocb", "--no-cont-batching"),
    _int("sampling.seed", "-s", "--seed"),
    _switch("warmup", True, "--warmup"),
    _switch("warmup", False, "--no-warmup"),
    # what it shows
    _switch("endpoint_metrics", True, "--metrics"),
    _switch("endpoint_slots", True, "--slots"),
    _switch("endpoint_slots", False, "--no-slots"),
    _switch("endpoint_props", True, "--props"),
    _switch("ui", True, "--ui", "--webui"),
    _switch("ui", False, "--no-ui", "--no-webui"),
    _switch("offline", True, "--offline"),
    Flag(("--api-key",), _api_key),
    Flag(("-to", "--timeout"), _timeout),
    _int("verbosity", "-lv", "--verbosity", "--log-verbosity"),
)

FLAG_BY_NAME = {name: flag for flag in FLAGS for name in flag.names}
