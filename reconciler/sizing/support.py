"""What an engine version does not take at any width: architectures, configs its loader refuses, storage of weights.

And contexts longer than the trained length. A registry of ours that holds every name of a version makes a missing name
a refusal where the family is known; a name nobody knows is a warning, for it may be newer than our tables.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from reconciler.domain.finding import Severity
from reconciler.domain.model_spec import Engine
from reconciler.domain.shape import Scheme
from reconciler.domain.tables import table
from reconciler.sizing.quant_rules import MARLIN_GROUPS
from reconciler.sizing.refusal import Reason, Refusal, version_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reconciler.domain.shape import Quantization, QuantPart, Shape
    from reconciler.sizing.refusal import ParallelAsk

_STEM = re.compile(r"^(.+?)(?:For[A-Z]\w*|LMHeadModel|Model|ChatModel)?$")
SHORTEST_STEM = 5
"""Letters of a family's name that two architectures must share to be called kin; shorter ones meet by chance."""
ORDER_REFUSED = (0, 32)
"""vLLM from here refuses GPTQ with activation order (auto_gptq.py); before, Marlin took it."""
HEAD_MULTIPLE = 8
"""TensorRT-LLM's attention kernels want head sizes that are multiples of 8 (public report of 0.6)."""


def unsupported(shape: Shape, ask: ParallelAsk) -> Iterator[Refusal]:
    """Reasons that hold at every width."""
    row: Mapping[str, Any] = table("engine_models")["engines"].get(ask.engine.value, {})
    if ask.engine is Engine.LLAMACPP:
        yield from _llamacpp(shape, ask, row)
        return
    yield from _architecture(shape, ask, row)
    yield from _loader(shape, ask, row)
    if ask.engine is Engine.VLLM and shape.quantization is not None:
        yield from _storage(shape, shape.quantization, ask, row["quantization"])
    yield from _device(shape, ask, row["quantization"])


def beyond_trained(shape: Shape, ask: ParallelAsk) -> Iterator[Refusal]:
    """More context than the model was made for; llama.cpp serves it and says so."""
    if shape.trained is None or ask.context is None or ask.context <= shape.trained.longest:
        return
    trained = shape.trained
    key = trained.key if trained.stretch == 1 else f"{trained.key} x RoPE factor {trained.stretch:g}"
    allowed = ask.longer_context or ask.engine in (Engine.LLAMACPP, Engine.TRTLLM)
    yield Refusal(
        Reason.BEYOND_TRAINED,
        f"{ask.context:,} tokens are more than the {trained.longest:,} that the model was trained for ({key})",
        {"context": ask.context, "trained": trained.longest},
        trained.key,
        Severity.WARNING if allowed else Severity.ERROR,
        hint=f"context: {trained.longest}",
    )


def _architecture(shape: Shape, ask: ParallelAsk, row: Mapping[str, Any]) -> Iterator[Refusal]:
    name, version = shape.architecture, version_key(ask.version)
    last = row["removed"].get(name)
    if last is not None and version > version_key(last):
        yield _refused(f"{ask.engine} {ask.version} does not take {name}: {last} was the last to", "architectures")
        return
    if name in row["plugin_only"]:
        yield _refused(f"{ask.engine} {ask.version} takes {name} only with a plugin", "architectures")
        return
    if last is not None or name in row["taken"] or name in row["backend"]:
        return
    kin = _kin(name, row["taken"])
    complete = row["complete_for"]
    certain = complete is not None and version_key(complete[0]) <= version < version_key(complete[1])
    if kin is not None and certain and not shape.remote_code:
        hint = f"the nearest it takes is {kin}"
        yield _refused(f"{ask.engine} {ask.version} does not take {name}", "architectures", hint=hint)
        return
    yield _refused(
        f"our tables do not know {name or 'an architecture without a name'} for {ask.engine} {ask.version}",
        "architectures",
        Severity.WARNING,
    )


def _kin(name: str, taken: list[str]) -> str | None:
    """A registered architecture of the same family: one's name begins with the other's."""
    mine = _stem(name)
    if len(mine) < SHORTEST_STEM:
        return None
    stems = {_stem(each): each for each in taken}
    near = [stem for stem in stems if len(stem) >= SHORTEST_STEM and (stem.startswith(mine) or mine.startswith(stem))]
    return stems[max(near, key=len)] if near else None


def _stem(name: str) -> str:
    found = _STEM.match(name)
    return found[1] if found else name


def _loader(shape: Shape, ask: ParallelAsk, row: Mapping[str, Any]) -> Iterator[Refusal]:
    """Configs that the config classes themselves refuse (transformers `validate_architecture`)."""
    if shape.heads and shape.model_type in row["strict_heads"] and shape.hidden % shape.heads:
        yield _refused(
            f"its loader refuses a hidden size of {shape.hidden:,}, no multiple of {shape.heads} attention heads",
            "hidden_size",
        )
    if ask.engine is Engine.TRTLLM:
        widths = {layer.attention.head_dim for layer in shape.unlike if layer.attention is not None}
        for width in sorted(each for each in widths if each % HEAD_MULTIPLE):
            yield _refused(f"a head size of {width} is no multiple of {HEAD_MULTIPLE}", "head_dim")


def _storage(shape: Shape, quantization: Quantization, ask: ParallelAsk, known: Mapping[str, Any]) -> Iterator[Refusal]:
    """Quantization methods and options of vLLM (layers/quantization/__init__.py and the files beside it)."""
    method = quantization.method
    current = version_key(ask.version) >= ORDER_REFUSED
    if current and method in known["deprecated"]:
        hint = "--allow-deprecated-quantization"
        yield _refused(f"quantization {method} is deprecated and refused", "quant_method", hint=hint)
    elif current and method and method not in known["taken"]:
        yield _refused(f"vllm {ask.version} has no quantization method {method}", "quant_method")
    if quantization.ordered and current:
        yield _refused("GPTQ with activation order (desc_act) over groups is refused", "desc_act")
    for part in quantization.parts:
        yield from _options(part, known, current=current)
    backend = shape.architecture in table("engine_models")["engines"]["vllm"]["backend"]
    if backend and method.endswith("mxfp4"):
        yield _refused("MXFP4 is not supported for models that run through transformers", "quant_method")


def _options(part: QuantPart, known: Mapping[str, Any], *, current: bool) -> Iterator[Refusal]:
    """Bits, symmetry and groups that have no kernel (auto_gptq.py, auto_awq.py)."""
    if part.scheme is Scheme.GPTQ:
        if part.bits is not None and part.bits not in known["gptq_bits"]:
            yield _refused(f"GPTQ of {part.bits} bits is refused: 4 or 8", "bits")
        if not part.symmetric:
            yield _refused("GPTQ without symmetry (sym: false) is refused", "sym")
        if current and part.group is not None and part.group not in MARLIN_GROUPS:
            yield _refused(f"GPTQ groups of {part.group} have no kernel: -1, 32, 64 or 128", "group_size")
    if part.scheme is Scheme.AWQ and part.bits is not None and part.bits not in known["awq_bits"]:
        yield _refused(f"AWQ of {part.bits} bits is refused: 4", "bits")


def _device(shape: Shape, ask: ParallelAsk, known: Mapping[str, Any]) -> Iterator[Refusal]:
    """What the generation of the GPU does not compute."""
    if ask.capability is None:
        return
    told = f"{ask.capability[0]}.{ask.capability[1]}"
    method = shape.quantization.method.removeprefix("auto_") if shape.quantization is not None else ""
    least = known["min_capability"].get(method)
    if least is not None and ask.capability < tuple(least):
        yield _refused(f"{method} needs compute capability {least[0]}.{least[1]}, the GPUs have {told}", "quant_method")
    if ask.dtype == "bfloat16" and ask.capability < (8, 0):
        yield _refused(f"bfloat16 needs compute capability 8.0, the GPUs have {told}", "dtype", hint="dtype: float16")


def _llamacpp(shape: Shape, ask: ParallelAsk, row: Mapping[str, Any]) -> Iterator[Refusal]:
    """Layer split takes any count; tensor split is not written for every architecture (src/llama-model.cpp)."""
    if ask.split_mode == "tensor" and ask.product > 1 and shape.architecture in row["no_tensor_split"]:
        yield _refused(
            f"--split-mode tensor is not implemented for {shape.architecture}",
            "general.architecture",
            hint="--split-mode layer",
        )


def _refused(message: str, decided_by: str, severity: Severity = Severity.ERROR, *, hint: str | None = None) -> Refusal:
    return Refusal(Reason.UNSUPPORTED, message, {}, decided_by, severity, hint)
