"""Reads a checkpoint's quantization config: AWQ, GPTQ, FP8, compressed-tensors, MX and ModelOpt; the rest by name only.

Formats as vLLM 0.32 parses them (`model_executor/layers/quantization`); the file a checkpoint carries beside its
config (hf_quant_config.json or quantize_config.json) counts when the config says nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reconciler.domain.shape import Matching, Quantization, QuantPart, Scheme

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.sizing.fields import Remarks

AWQ_METHODS = frozenset({"awq", "auto_awq", "awq_marlin", "awq_gemm"})
GPTQ_METHODS = frozenset({"gptq", "auto_gptq", "gptq_marlin"})
MOST_NAMES = 50_000
"""Names in one list that are looked at: a config of 500 layers with 100 modules each."""


def read_quantization(
    config: Mapping[str, Any], quant_config: Mapping[str, Any] | None, remarks: Remarks
) -> Quantization | None:
    """What the checkpoint says of its own weights; None when it says nothing, hence 16 bit."""
    written = _first_object(config, "quantization_config", "compression_config")
    if written is None:
        for name in ("text_config", "llm_config", "language_config"):
            if isinstance(nested := config.get(name), dict):
                written = written or _first_object(nested, "quantization_config", "compression_config")
        if written is not None:
            return _of_the_language_model(_read(written, remarks))
    if written is None:
        written = quant_config if isinstance(quant_config, dict) and quant_config else None
    if written is None:
        return None
    return _with_own_experts(_read(written, remarks), config, written)


def _with_own_experts(
    quantization: Quantization, config: Mapping[str, Any], written: Mapping[str, Any]
) -> Quantization:
    """DeepSeek-V4 keeps its experts in FP4 beside an FP8 config (models/deepseek_v4/quant_config.py)."""
    if quantization.method != "fp8" or config.get("expert_dtype") != "fp4":
        return quantization
    nvidia = str(written.get("moe_quant_algo", "")).upper() == "NVFP4"
    scheme, group = (Scheme.NVFP4, 16) if nvidia else (Scheme.MXFP4, 32)
    experts = QuantPart(scheme, bits=4, group=group, targets=("experts",))
    return replace(quantization, parts=(experts, *quantization.parts))


def _of_the_language_model(quantization: Quantization) -> Quantization:
    """AWQ that speaks in the language model's section leaves the towers alone (vLLM, internvl.py and others)."""
    if quantization.method not in AWQ_METHODS or quantization.skipped:
        return quantization
    return replace(quantization, skipped=("vision_model", "vision_tower"))


def _first_object(config: Mapping[str, Any], *names: str) -> dict[str, Any] | None:
    return next((value for name in names if isinstance(value := config.get(name), dict) and value), None)


def _read(written: Mapping[str, Any], remarks: Remarks) -> Quantization:
    method = _method(written)
    found = _weights(method, written, remarks)
    cached = _cache_dtype(method, written)
    return found if cached is None else replace(found, cache_dtype=cached)


def _cache_dtype(method: str, written: Mapping[str, Any]) -> str | None:
    """What vLLM 0.32 makes of an `auto` cache: utils/torch_utils.py for ModelOpt, layers/attention for the rest."""
    if method == "compressed-tensors":
        return "fp8" if isinstance(written.get("kv_cache_scheme"), dict) else None
    if not method.startswith("modelopt"):
        return None
    inner = written.get("quantization")
    places = (inner if isinstance(inner, dict) else written, written)
    keys = ("kv_cache_scheme", "kv_cache_quant_algo")
    said = next((value for key in keys for place in places if (value := place.get(key))), None)
    if isinstance(said, dict) and said.get("type") == "float":
        fp8 = said.get("num_bits") == 8 and said.get("dynamic") is False  # noqa: PLR2004  # FP8
        return "fp8" if fp8 else "nvfp4" if said.get("num_bits") == 4 else None  # noqa: PLR2004  # NVFP4
    return said.lower() if isinstance(said, str) and said.lower() in ("fp8", "nvfp4") else None


def _weights(method: str, written: Mapping[str, Any], remarks: Remarks) -> Quantization:
    if method in AWQ_METHODS:
        return _awq(method, written)
    if method in GPTQ_METHODS:
        return _gptq(method, written)
    if method == "auto-round":
        packing = str(written.get("packing_format", ""))
        return _awq(method, written) if "awq" in packing else _gptq(method, written)
    if method == "fp8":
        return _fp8(method, written)
    if method == "fbgemm_fp8":  # FP8 by output channel, whole modules left out by name
        part = QuantPart(Scheme.FP8_CHANNEL, bits=8)
        return Quantization(method, (part,), _names(written, "modules_to_not_convert"), Matching.EXACT)
    if method == "compressed-tensors":
        return _compressed_tensors(method, written, remarks)
    if method.startswith("modelopt"):
        return _modelopt(method, written, remarks)
    if method in ("mxfp4", "gpt_oss_mxfp4"):
        part = QuantPart(Scheme.MXFP4, bits=4, group=32, targets=("experts",))
        return Quantization(method, (part,), _names(written, "modules_to_not_convert"), Matching.SUBSTRING)
    if method == "mxfp8":
        part = QuantPart(Scheme.MXFP8, bits=8, group=32)
        return Quantization(method, (part,), _names(written, "ignored_layers"), Matching.SUBSTRING)
    remarks.wonder(f"quantization method {method or 'without a name'!r} is not known: its own rules are not checked")
    return Quantization(method, (QuantPart(Scheme.UNKNOWN),))


def _method(written: Mapping[str, Any]) -> str:
    """As vLLM normalises it: ModelOpt by its producer, older GPTQ and AWQ files by their keys."""
    producer = written.get("producer")
    named = written.get("quant_method")
    if isinstance(named, str) and named:
        return named.lower().replace("compressed_tensors", "compressed-tensors")
    if isinstance(producer, dict) and producer.get("name") == "modelopt":
        return "modelopt"
    if isinstance(written.get("quantization"), dict) or "quant_algo" in written:
        return "modelopt"
    if "w_bit" in written or "q_group_size" in written or ("zero_point" in written and "desc_act" not in written):
        return "awq"
    if "bits" in written and "desc_act" in written:
        return "gptq"
    return ""


def _awq(method: str, written: Mapping[str, Any]) -> Quantization:
    part = QuantPart(
        Scheme.AWQ,
        bits=_whole(written, "w_bit", "bits"),
        group=_whole(written, "q_group_size", "group_size"),
        symmetric=written.get("zero_point") is False,
    )
    return Quantization(method, (part,), _names(written, "modules_to_not_convert"), Matching.SUBSTRING)


def _gptq(method: str, written: Mapping[str, Any]) -> Quantization:
    """`dynamic` holds patterns: `-:` leaves modules in 16 bit, the rest overrides bits and group."""
    group, bits = _whole(written, "group_size"), _whole(written, "bits")
    ordered = written.get("desc_act") is True and group != -1
    parts: list[QuantPart] = []
    skipped: list[str] = []
    dynamic = written.get("dynamic")
    for pattern, override in dynamic.items() if isinstance(dynamic, dict) else ():
        if pattern.startswith("-:"):
            skipped.append(f"re:{pattern[2:]}")
        elif isinstance(override, dict):
            own_group = _whole(override, "group_size")
            own = QuantPart(
                Scheme.GPTQ,
                bits=_whole(override, "bits") or bits,
                group=group if own_group is None else own_group,
                targets=(f"re:{pattern.removeprefix('+:')}",),
            )
            parts.append(own)
            ordered = ordered or (override.get("desc_act", written.get("desc_act")) is True and own.group != -1)
    only = written.get("modules_in_block_to_quantize")
    names = tuple(_flat(only))[:MOST_NAMES] if isinstance(only, list) else ()
    symmetric = written.get("sym") is not False
    parts.append(QuantPart(Scheme.GPTQ, bits=bits, group=group, targets=names, symmetric=symmetric))
    return Quantization(method, tuple(parts), tuple(skipped), Matching.TARGETS, ordered=ordered)


def _fp8(method: str, written: Mapping[str, Any]) -> Quantization:
    block = written.get("weight_block_size")
    skipped = _names(written, "ignored_layers") or _names(written, "modules_to_not_convert")
    if isinstance(block, list) and len(block) == 2 and all(type(each) is int and each > 0 for each in block):  # noqa: PLR2004  # rows and columns
        part = QuantPart(Scheme.FP8_BLOCK, bits=8, block=(block[0], block[1]))
    else:
        part = QuantPart(Scheme.FP8_TENSOR, bits=8)
    return Quantization(method, (part,), skipped, Matching.EXACT)


def _compressed_tensors(method: str, written: Mapping[str, Any], remarks: Remarks) -> Quantization:
    groups = written.get("config_groups")
    parts = tuple(
        _compressed_part(group, str(group.get("format") or written.get("format") or ""), remarks)
        for group in (groups.values() if isinstance(groups, dict) else ())
        if isinstance(group, dict)
    )
    if not parts:
        remarks.wonder("the compressed-tensors config has no config_groups: its rules are not checked")
        parts = (QuantPart(Scheme.UNKNOWN),)
    return Quantization(method, parts, _names(written, "ignore"), Matching.TARGETS)


def _compressed_part(group: Mapping[str, Any], form: str, remarks: Remarks) -> QuantPart:
    weights, inputs = group.get("weights"), group.get("input_activations")
    if not isinstance(weights, dict):
        return QuantPart(Scheme.UNKNOWN, targets=_names(group, "targets"))
    bits, size, kind = _whole(weights, "num_bits"), _whole(weights, "group_size"), weights.get("type", "int")
    strategy = weights.get("strategy") or ("group" if size else "tensor")
    scheme, block = Scheme.UNKNOWN, None
    if kind == "float" and bits == 4:  # noqa: PLR2004  # FP4
        scheme = Scheme.NVFP4 if size == 16 else Scheme.MXFP4  # noqa: PLR2004  # NVFP4 scales 16 values, MXFP4 32
    elif kind == "float" and strategy == "block":
        scheme, block = Scheme.FP8_BLOCK, _pair(weights.get("block_structure")) or (128, 128)
    elif kind == "float":
        scheme = {"group": Scheme.MXFP8, "tensor": Scheme.FP8_TENSOR}.get(str(strategy), Scheme.FP8_CHANNEL)
    elif inputs is None or form == "pack-quantized":
        scheme = Scheme.PACKED
    elif bits == 8:  # noqa: PLR2004  # W8A8
        scheme = Scheme.INT8
    elif isinstance(inputs, dict) and inputs.get("type") == "float":
        scheme = Scheme.W4A8
    if scheme is Scheme.UNKNOWN:
        remarks.wonder(f"compressed-tensors weights of {bits} bits ({kind}) are not known: their rules are not checked")
    if strategy == "channel" and scheme is Scheme.PACKED:
        size = -1
    symmetric = weights.get("symmetric") is not False
    return QuantPart(scheme, bits, size, block, _names(group, "targets"), symmetric=symmetric)


_MODELOPT = {
    "FP8": QuantPart(Scheme.FP8_TENSOR, bits=8),
    "FP8_PER_CHANNEL_PER_TOKEN": QuantPart(Scheme.FP8_CHANNEL, bits=8),
    "FP8_PB_WO": QuantPart(Scheme.FP8_BLOCK, bits=8, block=(128, 128)),
    "NVFP4": QuantPart(Scheme.NVFP4, bits=4, group=16),
    "W4A16_NVFP4": QuantPart(Scheme.NVFP4, bits=4, group=16),
    "MXFP8": QuantPart(Scheme.MXFP8, bits=8, group=32),
}


def _modelopt(method: str, written: Mapping[str, Any], remarks: Remarks) -> Quantization:
    inner = written.get("quantization")
    inner = inner if isinstance(inner, dict) else written
    algorithm = str(inner.get("quant_algo") or written.get("quant_algo") or "").upper()
    skipped = _names(inner, "exclude_modules") or _names(written, "ignore")
    if algorithm == "MIXED_PRECISION":
        by_algorithm: dict[str, list[str]] = {}
        layers = inner.get("quantized_layers")
        for name, how in layers.items() if isinstance(layers, dict) else ():
            if isinstance(how, dict):
                by_algorithm.setdefault(str(how.get("quant_algo", "")).upper(), []).append(name)
        parts = tuple(_modelopt_part(each, tuple(names), remarks) for each, names in by_algorithm.items())
        return Quantization(method, parts or (QuantPart(Scheme.UNKNOWN),), skipped, Matching.GLOB, algorithm=algorithm)
    return Quantization(
        method, (_modelopt_part(algorithm, (), remarks),), skipped, Matching.GLOB, algorithm=algorithm or None
    )


def _modelopt_part(algorithm: str, targets: tuple[str, ...], remarks: Remarks) -> QuantPart:
    known = _MODELOPT.get(algorithm)
    if known is None:
        remarks.wonder(f"ModelOpt algorithm {algorithm or 'without a name'!r} is not known: its rules are not checked")
        known = QuantPart(Scheme.UNKNOWN)
    return QuantPart(known.scheme, known.bits, known.group, known.block, targets)


def _whole(written: Mapping[str, Any], *names: str) -> int | None:
    return next((value for name in names if type(value := written.get(name)) is int), None)


def _pair(value: Any) -> tuple[int, int] | None:
    """`[128, 128]` or `"128x128"`."""
    if isinstance(value, str):
        parts = value.split("x")
        value = [int(each) if each.isdecimal() and len(each) < 7 else 0 for each in parts]  # noqa: PLR2004  # no block is wider
    if isinstance(value, list) and len(value) == 2 and all(type(each) is int and each > 0 for each in value):  # noqa: PLR2004  # rows and columns
        return value[0], value[1]
    return None


def _names(written: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = written.get(name)
    return tuple(each for each in value[:MOST_NAMES] if isinstance(each, str)) if isinstance(value, list) else ()


def _flat(value: list[Any]) -> list[str]:
    """Names out of a list, or a list of lists, as GPTQModel writes them."""
    out: list[str] = []
    for each in value:
        if isinstance(each, str):
            out.append(each)
        elif isinstance(each, list):
            out.extend(name for name in each if isinstance(name, str))
    return out
