"""What an engine refuses at a parallel width, from the shape alone: every reason in one answer.

Rules are those of `facts/engines.md` sections 2 and 7, read in vLLM 0.32, SGLang 0.5.23 and llama.cpp b11434; what
moved between versions names the version where it is decided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.finding import Severity
from reconciler.domain.model_spec import Engine
from reconciler.domain.shape import Sense
from reconciler.domain.tables import table
from reconciler.sizing.coverage import covering
from reconciler.sizing.families import family_of
from reconciler.sizing.module import Part, Split
from reconciler.sizing.modules import language_modules, tower_modules
from reconciler.sizing.partition import uneven, uneven_vocabulary
from reconciler.sizing.quant_rules import Setting, straddled
from reconciler.sizing.refusal import Reason, Refusal, version_key
from reconciler.sizing.support import beyond_trained, unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from reconciler.domain.shape import Shape
    from reconciler.sizing.module import Module
    from reconciler.sizing.refusal import ParallelAsk

PADS_VOCABULARY = (0, 2)
"""vLLM pads the vocabulary from here (public reports: 0.1.x refused 250,682 rows over 8, 0.2.x padded)."""


SAID_BY_HEADS = frozenset({Reason.ATTENTION_SPLIT, Reason.RECURRENT_SPLIT})
"""Rules of heads, whose matrices divide exactly when the heads do."""


def refusals(shape: Shape, ask: ParallelAsk) -> tuple[Refusal, ...]:
    """All reasons why the engine would not run the model as asked, most basic first; empty when it would.

    Warnings are among them, by their severity. Rules of memory are not here.
    """
    if ask.engine is Engine.COMFYUI:
        return ()
    found: list[Refusal] = [*unsupported(shape, ask), *beyond_trained(shape, ask)]
    if ask.engine is Engine.LLAMACPP:
        return tuple(found)
    width = ask.width
    if width is None:
        found.append(_no_whole_width(ask))
        return tuple(found)
    row: Mapping[str, Any] = table("engine_models")["engines"][ask.engine.value]
    found.extend(_pipeline(shape, ask, row))
    found.extend(_attention(shape, ask, width, row))
    found.extend(_experts(shape, ask, width, row))
    found.extend(_recurrent(shape, width))
    # A matrix of heads that do not divide would only say so again.
    told = {each.reason for each in found if each.severity is Severity.ERROR}
    found.extend(each for each in _matrices(shape, ask, width, row) if each.reason not in told & SAID_BY_HEADS)
    found.extend(_towers(shape, ask, width, row))
    return _each_once(found)


def _no_whole_width(ask: ParallelAsk) -> Refusal:
    stages = ask.pipeline * ask.data
    return Refusal(
        Reason.PARALLEL_PRODUCT,
        f"{ask.product} GPUs do not divide by {ask.pipeline} pipeline stages x {ask.data} data-parallel ranks",
        {"gpus": ask.product, "stages": stages},
        "pipeline_parallel x data_parallel",
        hint=f"gpus x nodes must be a multiple of {stages}",
    )


def _pipeline(shape: Shape, ask: ParallelAsk, row: Mapping[str, Any]) -> Iterator[Refusal]:
    """Stages hold whole layers; some models cannot be cut at all."""
    if ask.pipeline <= 1:
        return
    if ask.pipeline > len(shape.layers):
        yield Refusal(
            Reason.PIPELINE_LAYERS,
            f"{len(shape.layers)} layers do not fill {ask.pipeline} pipeline stages",
            {"layers": len(shape.layers), "stages": ask.pipeline},
            "num_hidden_layers",
        )
    if shape.architecture in row["no_pipeline"]:
        yield Refusal(
            Reason.PIPELINE_LAYERS,
            f"{ask.engine} {ask.version} has no pipeline stages for {shape.architecture}",
            {"stages": ask.pipeline},
            "architectures",
        )


def _attention(shape: Shape, ask: ParallelAsk, width: int, row: Mapping[str, Any]) -> Iterator[Refusal]:
    """Attention heads divide; KV heads divide or are copied evenly; latent attention has one vector for all heads."""
    counted = {layer.attention for layer in shape.unlike if layer.attention is not None}
    heads = {shape.heads, *(each.heads for each in counted)} - {0}
    for count in sorted(heads):
        if count % width:
            yield Refusal(
                Reason.ATTENTION_SPLIT,
                f"{count} attention heads do not divide by {width}",
                {"heads": count, "width": width},
                "num_attention_heads",
            )
    plain = {each.kv_heads for each in counted if each.latent is None}
    for count in sorted(plain - {0}):
        yield from _kv_heads(shape, ask, count, width, row)


def _kv_heads(shape: Shape, ask: ParallelAsk, count: int, width: int, row: Mapping[str, Any]) -> Iterator[Refusal]:
    numbers = {"kv_heads": count, "width": width}
    if (count % width if count >= width else width % count) == 0:
        if width > count and _copies(shape, ask, row):
            yield Refusal(
                Reason.KV_REPLICATED,
                f"{count} KV heads are copied {width // count} times over {width} GPUs; more GPUs shrink no cache",
                numbers,
                "num_key_value_heads",
                Severity.WARNING,
            )
        elif width > count:
            yield Refusal(
                Reason.KV_SPLIT,
                f"{count} KV heads do not spread over {width} GPUs, and this model's file does not copy them",
                numbers,
                "num_key_value_heads",
                hint=f"at most {count}",
            )
        return
    # TensorRT-LLM rounds the heads of a rank up: it starts, and wastes memory.
    severity = Severity.WARNING if ask.engine is Engine.TRTLLM else Severity.ERROR
    yield Refusal(
        Reason.KV_SPLIT,
        f"{count} KV heads do not spread over {width} GPUs",
        numbers,
        "num_key_value_heads",
        severity,
        hint=f"{ask.engine} needs a width that divides {count}, or that {count} divides",
    )


def _copies(shape: Shape, ask: ParallelAsk, row: Mapping[str, Any]) -> bool:
    """Whether the model file copies KV heads where ranks outnumber them."""
    if shape.architecture not in row["no_replication"]:
        return True
    since = row["no_replication"][shape.architecture]
    return since is not None and version_key(ask.version) >= version_key(since)


def _experts(shape: Shape, ask: ParallelAsk, width: int, row: Mapping[str, Any]) -> Iterator[Refusal]:
    ranks = width * ask.data
    counts = {layer.experts.count for layer in shape.unlike if layer.experts is not None}
    if ask.expert_parallel and (not counts or (ask.engine is Engine.VLLM and not shape.experts)):
        yield Refusal(
            Reason.EXPERTS_SPLIT,
            f"expert parallel needs experts; {ask.engine} finds none in the config of {shape.architecture}",
            {"experts": shape.experts},
            "num_experts",
            hint="expert_parallel: false",
        )
    for count in sorted(counts):
        if shape.architecture in row["few_experts"] and width > count:
            yield Refusal(
                Reason.EXPERTS_SPLIT,
                f"{width} GPUs are more than the {count} experts, which this model's file refuses",
                {"experts": count, "width": width},
                "num_experts",
                hint=f"at most {count}",
            )
        even = ask.engine is Engine.SGLANG or shape.architecture in row["even_experts"]
        if ask.expert_parallel and count % ranks and (even or ask.engine is Engine.TRTLLM):
            yield Refusal(
                Reason.EXPERTS_SPLIT,
                f"{count} experts do not divide by {ranks} expert-parallel ranks",
                {"experts": count, "ranks": ranks},
                "num_experts",
                Severity.WARNING if ask.engine is Engine.TRTLLM else Severity.ERROR,
            )


def _recurrent(shape: Shape, width: int) -> Iterator[Refusal]:
    """Heads of recurrent layers divide; more than one group divides too (mamba_mixer2.py, layers/mamba/gdn)."""
    for recurrent in dict.fromkeys(layer.recurrent for layer in shape.unlike if layer.recurrent is not None):
        counts = {"heads": recurrent.heads, "key heads": recurrent.key_heads}
        if recurrent.groups > 1:
            counts["groups"] = recurrent.groups
        for what, count in counts.items():
            if count and count % width:
                yield Refusal(
                    Reason.RECURRENT_SPLIT,
                    f"the {count} {what} of the recurrent layers do not divide by {width}",
                    {what.replace(" ", "_"): count, "width": width},
                    recurrent.kind.value,
                )


def _matrices(shape: Shape, ask: ParallelAsk, width: int, row: Mapping[str, Any]) -> Iterator[Refusal]:
    """Every matrix of the language model: its plain split, then what its storage adds."""
    expert_width = 1 if ask.expert_parallel else width * (ask.data if ask.engine is Engine.VLLM else 1)
    setting = _setting(shape, ask, width, expert_width)
    padded = version_key(ask.version) >= PADS_VOCABULARY or not version_key(ask.version)
    for module in language_modules(shape):
        if module.split is Split.VOCABULARY:
            yield from uneven_vocabulary(module, width, ask.engine, padded=padded)
            continue
        always = module.part is Part.EXPERTS and shape.architecture in row["expert_width_always_divides"]
        for refusal in uneven(module, width, width if always else expert_width):
            # TensorRT-LLM slices by rounding and checks nothing (section 2.1 e).
            soft = ask.engine is Engine.TRTLLM and module.part is not Part.EXPERTS
            yield _softened(refusal) if soft else refusal
        padded_shared = module.part is Part.SHARED and family_of(shape.architecture).get("shared_padded", False)
        if shape.quantization is not None and ask.engine is not Engine.TRTLLM and not padded_shared:
            for part in covering(module, shape.quantization):
                yield from straddled(module, part, setting)


def _towers(shape: Shape, ask: ParallelAsk, width: int, row: Mapping[str, Any]) -> Iterator[Refusal]:
    """Towers are split like the rest unless they are kept whole; only vLLM's are known."""
    whole = ask.towers_whole or shape.architecture in row["towers_whole"]
    if whole or ask.engine is Engine.TRTLLM:
        return
    since = row["uneven_heads_whole"].get(shape.architecture)
    heads_whole = since is not None and version_key(ask.version) >= version_key(since)
    known = ask.engine is Engine.VLLM
    if shape.architecture in row["whole_if_uneven"] and any(each.heads % width for each in shape.towers):
        return
    for tower in shape.towers:
        if tower.heads and tower.heads % width and not (heads_whole or tower.whole):
            refusal = Refusal(
                Reason.VISION_SPLIT,
                f"{tower.heads} heads of the {_called(tower.sense)} do not divide by {width}",
                {"heads": tower.heads, "width": width},
                f"{tower.name} heads",
                hint="--mm-encoder-tp-mode data keeps the tower whole on every GPU" if known else None,
            )
            yield refusal if known else _softened(refusal)
    setting = _setting(shape, ask, width, width)
    for module in tower_modules(shape):
        if module.path.startswith("attn.") and (heads_whole or _uneven_tower(shape, module, width)):
            continue
        for refusal in _tower_matrix(shape, module, setting):
            yield refusal if known else _softened(refusal)


def _tower_matrix(shape: Shape, module: Module, setting: Setting) -> Iterator[Refusal]:
    yield from uneven(module, setting.width, setting.width)
    if shape.quantization is not None:
        for part in covering(module, shape.quantization):
            yield from straddled(module, part, setting)


def _uneven_tower(shape: Shape, module: Module, width: int) -> bool:
    """Whether the heads of this module's tower have been refused already."""
    return any(tower.name == module.where and tower.heads % width for tower in shape.towers)


def _called(sense: Sense) -> str:
    return "encoder" if sense is Sense.TEXT else f"{sense} tower"


def _setting(shape: Shape, ask: ParallelAsk, width: int, expert_width: int) -> Setting:
    return Setting(ask.engine, version_key(ask.version), width, expert_width, shape.hidden, ask.capability)


def _softened(refusal: Refusal) -> Refusal:
    return Refusal(refusal.reason, refusal.message, refusal.numbers, refusal.decided_by, Severity.WARNING, refusal.hint)


def _each_once(found: list[Refusal]) -> tuple[Refusal, ...]:
    """One refusal a message: merged and stacked matrices say the same thing twice."""
    by_message: dict[tuple[Reason, str], Refusal] = {}
    for refusal in found:
        by_message.setdefault((refusal.reason, refusal.message), refusal)
    return tuple(by_message.values())
