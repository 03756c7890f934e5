"""What `args` say of which GPUs share what, beside the fields: attention over fewer GPUs, experts in more copies.

`facts/engines.md` section 7, rules 4, 11, 19 and 20: SGLang's --attn-dp-size and --attn-cp-size, TensorRT-LLM's
--enable_attention_dp, vLLM's --decode-context-parallel-size, and the spare experts of --enable-eplb.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Engine
from reconciler.sizing.heads import refusals
from reconciler.sizing.refusal import Reason, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.domain.shape import Shape
    from reconciler.engines.flags import ReadArgs
    from reconciler.sizing.refusal import ParallelAsk

_OF_ATTENTION = frozenset({Reason.ATTENTION_SPLIT, Reason.KV_SPLIT, Reason.KV_REPLICATED})


@dataclass(frozen=True, slots=True)
class Ranks:
    """How GPUs of one replica share the work, where `args` say so."""

    attention: int = 1
    """Groups that each run attention for requests or context of their own: its width is the rest."""
    own_requests: bool = False
    """Some of these groups take requests of their own (--attn-dp-size)."""
    whole_attention: bool = False
    """Every GPU runs whole attention."""
    decode_context: int = 1
    """GPUs that share the KV cache of one request along its length."""
    balanced: bool = False
    """vLLM moves experts about, so every rank holds as many."""
    spare_experts: int = 0


NO_RANKS = Ranks()


def ranks(engine: Engine, args: ReadArgs) -> Ranks:
    """What the flags of this engine say; `NO_RANKS` where they say nothing."""
    match engine:
        case Engine.VLLM:
            return Ranks(
                decode_context=_whole(args, "--decode-context-parallel-size", 1),
                balanced=_on(args, "--enable-eplb"),
                spare_experts=_spare(args),
            )
        case Engine.SGLANG:
            groups = _whole(args, "--attn-dp-size", 1)
            return Ranks(
                attention=groups * _whole(args, "--attn-cp-size", 1),
                own_requests=groups > 1,
                spare_experts=_whole(args, "--ep-num-redundant-experts", 0),
            )
        case Engine.TRTLLM:
            return Ranks(whole_attention=_on(args, "--enable_attention_dp"))
        case Engine.LLAMACPP | Engine.COMFYUI:
            return NO_RANKS


def refusals_by_rank(shape: Shape, ask: ParallelAsk, given: Ranks) -> tuple[Refusal, ...]:
    """The engine's refusals for this shape, with attention and experts split as the flags say."""
    found = refusals(shape, ask)
    width = ask.width
    if given == NO_RANKS or width is None:
        return found
    if given.spare_experts or given.balanced:
        found = (*_without_uneven(found), *_experts(shape, ask, width, given))
    if given.whole_attention:
        return tuple(each for each in found if each.reason not in _OF_ATTENTION)
    if given.attention > 1:
        rest = (each for each in found if each.reason not in _OF_ATTENTION)
        found = (*rest, *_narrow(shape, ask, width, given.attention))
    if given.decode_context > 1:
        wasted = (each for each in found if each.reason is not Reason.KV_REPLICATED)
        found = (*wasted, *_decode_context(shape, width, given.decode_context))
    return found


def _narrow(shape: Shape, ask: ParallelAsk, width: int, groups: int) -> Iterator[Refusal]:
    """Attention over the GPUs of one group (parallel_hook.py asserts that the groups divide the width)."""
    if width % groups:
        message = f"{width} GPUs do not divide by {groups} attention groups (--attn-dp-size, --attn-cp-size)"
        yield _product(message, f"gpus must be a multiple of {groups}")
        return
    narrow = replace(ask, gpus=width // groups, nodes=1, pipeline=1, data=1)
    yield from (each for each in refusals(shape, narrow) if each.reason in _OF_ATTENTION)


def _decode_context(shape: Shape, width: int, size: int) -> Iterator[Refusal]:
    """vLLM, config/parallel.py and config/model.py: copies of KV heads are what the context is shared over."""
    flag = "--decode-context-parallel-size"
    if width % size:
        yield _product(f"{width} GPUs do not divide by {flag} {size}", f"gpus must be a multiple of {size}")
    latent = any(layer.attention is not None and layer.attention.latent is not None for layer in shape.layers)
    if latent or not shape.kv_heads:
        return  # latent attention has one vector for all heads, on every GPU
    copies = width // shape.kv_heads
    each = shape.heads // shape.kv_heads
    if width <= shape.kv_heads or size > copies:
        message = f"{flag} {size} needs {size} copies of each of the {shape.kv_heads} KV heads; {width} GPUs hold"
        numbers = {"kv_heads": shape.kv_heads, "width": width, "copies": copies}
        hint = f"at least {size * shape.kv_heads} GPUs, or a smaller {flag}"
        yield Refusal(Reason.KV_SPLIT, f"{message} {max(copies, 1)}", numbers, "num_key_value_heads", hint=hint)
    elif each % size:
        message = f"{each} query heads for each KV head do not divide by {flag} {size}"
        yield Refusal(Reason.KV_SPLIT, message, {"heads": each, "size": size}, "num_attention_heads")


def _experts(shape: Shape, ask: ParallelAsk, width: int, given: Ranks) -> Iterator[Refusal]:
    """Experts and their spare copies together are dealt out evenly (fused_moe/layer.py, config/parallel.py)."""
    over = width * ask.data
    lacking = None
    if ask.engine is Engine.VLLM and not given.balanced:
        lacking = "num_redundant_experts needs --enable-eplb"
    elif ask.engine is Engine.VLLM and not ask.expert_parallel:
        lacking = "--enable-eplb needs expert_parallel: true"
    if lacking is not None:
        yield Refusal(Reason.EXPERTS_SPLIT, lacking, {}, "args")
        return
    if given.balanced and over == 1:
        message = "--enable-eplb moves experts between GPUs and needs more than one"
        yield Refusal(Reason.EXPERTS_SPLIT, message, {"ranks": over}, "num_experts", hint="at least 2 GPUs")
    for count in sorted({layer.experts.count for layer in shape.layers if layer.experts is not None}):
        if ask.expert_parallel and (count + given.spare_experts) % over:
            message = f"{count} experts and {given.spare_experts} spare ones do not divide by {over} ranks"
            numbers = {"experts": count, "spare": given.spare_experts, "ranks": over}
            yield Refusal(Reason.EXPERTS_SPLIT, message, numbers, "num_experts")


def _without_uneven(found: tuple[Refusal, ...]) -> Iterator[Refusal]:
    """All but experts counted without their spare copies."""
    return (each for each in found if each.reason is not Reason.EXPERTS_SPLIT or "ranks" not in each.numbers)


def _product(message: str, hint: str) -> Refusal:
    return Refusal(Reason.PARALLEL_PRODUCT, message, {}, "gpus", hint=hint)


def _whole(args: ReadArgs, name: str, default: int) -> int:
    """The whole number a flag holds; its default where it is not one, which the program refuses by itself."""
    found = args.last(name)
    return found.value if found is not None and type(found.value) is int and found.value >= default else default


def _on(args: ReadArgs, name: str) -> bool:
    found = args.last(name)
    return found is not None and found.value is True


def _spare(args: ReadArgs) -> int:
    """`num_redundant_experts` of --eplb-config, as JSON or dotted; the last one counts."""
    spare = 0
    for each in args.flags:
        if each.flag.name == "--eplb-config":
            value = each.value.get("num_redundant_experts") if isinstance(each.value, dict) else None
            if each.key == "num_redundant_experts" and each.words[0].isdecimal():
                value = int(each.words[0])
            spare = value if type(value) is int else spare
    return spare
