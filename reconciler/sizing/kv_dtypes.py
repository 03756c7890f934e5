"""What the cache stores of one token, to the byte, in every type that engines offer.

vLLM 0.32: `config/cache.py` names the types, `v1/kv_cache_interface.py` and the backends' `customize_spec` their sizes
(triton_attn, flashinfer, turboquant_attn, ultraquant_attn). SGLang 0.5.23: `mem_cache/kv_cache_dtype.py`,
`model_executor/pool_configurator.py`. TensorRT-LLM: fp8 one byte, nvfp4 half of one and a scale for sixteen numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from reconciler.domain.model_spec import Engine

if TYPE_CHECKING:
    from reconciler.domain.shape import Shape
    from reconciler.sizing.counting import CountingRules
    from reconciler.sizing.memory_ask import MemoryAsk

FP32_NAMES = frozenset({"float32", "float", "fp32", "f32"})
HALF = 2
"""Bytes of bfloat16 and float16."""
FP4_GROUP = 16
"""Numbers of an NVFP4 cache that share a one-byte scale."""
MXFP8_GROUP = 32
TOKEN_HEAD_SCALE = 4
"""A float32 scale for each side of each head of each token."""
PACKED_LATENT = {"fp8": 656, "nvfp4": 352}
"""Bytes of a packed latent vector of 512 + 64 numbers (fp8_ds_mla, nvfp4_ds_mla): values, RoPE in 16 bit, scales."""
_PACKED_AS_WRITTEN = {"fp8_ds_mla": PACKED_LATENT["fp8"], "nvfp4_ds_mla": PACKED_LATENT["nvfp4"]}
_TURBO = {"turboquant_k8v4": (8, 4), "turboquant_4bit_nc": (4, 4), "turboquant_k3v4_nc": (3, 4),
          "turboquant_3bit_nc": (3, 3)}  # fmt: skip
"""Bits of keys and of values; keys below 8 bit carry a 16-bit norm, values a scale and a zero point."""
_ULTRA_GROUP = 32
_DEAF = frozenset({"FalconForCausalLM", "RWForCausalLM"})
"""Architectures whose layers vLLM builds without telling them the cache type: they keep the model's own (falcon.py)."""


@dataclass(frozen=True, slots=True)
class CacheType:
    """A cache type by its engine's name; `auto` is resolved to `plain` and the bytes of one number."""

    name: str
    plain: int = HALF
    """Bytes of one number of a cache that is not quantized: those of the model's own type."""

    @property
    def family(self) -> str:
        """fp8, nvfp4 or nothing in particular."""
        for word in ("fp8", "nvfp4", "fp4"):
            if self.name.startswith(word):
                return "nvfp4" if word == "fp4" else word
        return ""

    def head_bytes(self, keys: int, values: int) -> int:
        """Bytes that one KV head takes for one token: `keys` and `values` numbers."""
        name = self.name
        if name.endswith("_per_token_head"):
            data = (keys // 2 + values // 2) if name.startswith("int4") else keys + values
            return data + 2 * TOKEN_HEAD_SCALE
        if name in _TURBO:
            return _turbo(*_TURBO[name], keys, values)
        if name == "ultraquant_4bit":
            return keys // 2 + keys // _ULTRA_GROUP + values // 2 + values // _ULTRA_GROUP
        if name == "mxfp8":
            return keys + values + (keys + values) // MXFP8_GROUP
        if self.family == "nvfp4":
            return sum(side // 2 + side // FP4_GROUP for side in (keys, values))
        return (keys + values) * self.number_bytes

    def latent_bytes(self, numbers: int, *, sparse: bool) -> int:
        """Bytes of one latent vector; behind sparse attention FP8 ones are packed with scales."""
        if self.name in _PACKED_AS_WRITTEN:
            return _PACKED_AS_WRITTEN[self.name]
        if sparse and self.family in PACKED_LATENT:
            return PACKED_LATENT[self.family]
        if self.family == "nvfp4":
            return numbers // 2 + numbers // FP4_GROUP
        return numbers * self.number_bytes

    @property
    def number_bytes(self) -> int:
        """Bytes of one number, scales aside."""
        if self.name in FP32_NAMES:
            return 4
        if self.name.startswith(("fp8", "int8", "mxfp8")):
            return 1
        return HALF if self.name in ("bfloat16", "bf16", "float16", "fp16", "half") else self.plain


def cache_type(shape: Shape, ask: MemoryAsk, rules: CountingRules) -> CacheType:
    """The type this engine takes: the one asked for, else what the checkpoint carries scales for, else the model's own.

    A checkpoint in float32 runs in 16 bit unless `dtype` says otherwise (vLLM `_resolve_auto_dtype`, SGLang).
    """
    plain = model_number_bytes(ask)
    if rules.engine is Engine.VLLM and shape.architecture in _DEAF:
        return CacheType("auto", plain)
    asked = ask.kv_cache_dtype
    if asked is not None and asked != "auto":
        return CacheType(asked.lower(), plain)
    return CacheType(_carried(shape, rules.engine) or "auto", plain)


def _carried(shape: Shape, engine: Engine) -> str | None:
    """What an `auto` cache becomes for a checkpoint with scales for it."""
    quantization = shape.quantization
    carried = quantization.cache_dtype if quantization is not None else None
    if quantization is None or carried is None:
        return None
    by_modelopt = quantization.method.startswith("modelopt")
    match engine:
        case Engine.VLLM:
            return carried
        case Engine.SGLANG:  # kv_cache_quant_algo FP8 alone; other schemes wait to be asked for
            return carried if by_modelopt and carried == "fp8" else None
        case Engine.TRTLLM:
            return carried if by_modelopt else None
        case Engine.LLAMACPP | Engine.COMFYUI:
            return None
        case _:
            assert_never(engine)


def model_number_bytes(ask: MemoryAsk) -> int:
    """Bytes of one number of the model's own type."""
    return 4 if ask.dtype in FP32_NAMES else HALF


def spared_layers(kind: CacheType, layers: int, *, hybrid: bool) -> frozenset[int]:
    """Layers that TurboQuant leaves in 16 bit: the first and the last two of a model of attention alone."""
    if kind.name not in _TURBO or hybrid:
        return frozenset()
    count = min(2, layers // 2)
    return frozenset((*range(count), *range(layers - count, layers)))


def _turbo(key_bits: int, value_bits: int, keys: int, values: int) -> int:
    """Packed key and value of one head, up to the next even number of bytes."""
    packed = keys if key_bits == 8 else -(-keys * key_bits // 8) + 2  # noqa: PLR2004  # FP8 keys have no norm
    slot = packed + -(-values * value_bits // 8) + 4
    return slot + slot % 2
