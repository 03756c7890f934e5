"""Rules on how a model's heads, layers, experts and weights split over GPUs. The arithmetic is in `sizing.heads`.

Each rule tells the refusals of its own kind, so that one answer holds every reason. They hold for the engine version
that a profile runs; where versions differ, `sizing` names the version at the rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.finding import Severity
from reconciler.domain.model_spec import Engine
from reconciler.engines.fields import not_taken
from reconciler.gate.capacity import GPU_COUNTS
from reconciler.gate.rule import rule
from reconciler.sizing.refusal import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.domain.finding import Problem
    from reconciler.gate.subject import Context, Use
    from reconciler.sizing.refusal import Refusal


@rule(Severity.ERROR, counts=True)
def attention_split(context: Context) -> Iterator[Problem]:
    """Tensor parallelism gives each GPU whole attention heads, so their number must divide by its width.

    The width is gpus * nodes / (pipeline_parallel * data_parallel).

        64 heads over 8 GPUs     8 heads each
        64 heads over 6 GPUs     refused by vLLM, SGLang and TensorRT-LLM

    Take a count that divides the heads. llama.cpp splits by layers and does not ask.
    SGLang's --attn-dp-size and --attn-cp-size make the width of attention smaller, TensorRT-LLM's
    --enable_attention_dp makes it 1; both are counted.
    """
    yield from _told(context, Reason.ATTENTION_SPLIT)


@rule(Severity.ERROR, counts=True)
def kv_split(context: Context) -> Iterator[Problem]:
    """KV heads are split whole, or copied whole where there are fewer than GPUs; nothing in between works.

    So the width must divide the KV heads, or they must divide the width.

        8 KV heads over 4 or 16  each GPU holds 2, or each is copied twice
        8 KV heads over 6        refused, even where the attention heads divide by 6

    Models with latent attention (MLA) hold one latent on every GPU and are not asked. A few model files do not copy
    heads; for these more GPUs than KV heads are refused too.
    TensorRT-LLM pads instead of refusing, which wastes memory: a warning there.
    vLLM's --decode-context-parallel-size shares the copies out, so there must be as many copies as it says.
    """
    yield from _told(context, Reason.KV_SPLIT)


@rule(Severity.WARNING, counts=True)
def kv_replicated(context: Context) -> Iterator[Problem]:
    """With more GPUs than KV heads each head is held several times, so the cache stops shrinking.

        8 KV heads over 16 GPUs  every GPU holds one head, as with 8 GPUs: the same cache per GPU, twice the cards

    It works. Where cache is what lacks, shorter context, a smaller kv_cache_dtype or more replicas help instead.
    """
    yield from _told(context, Reason.KV_REPLICATED)


@rule(Severity.ERROR, counts=True)
def vocab_split(context: Context) -> Iterator[Problem]:
    """The embedding is split by rows; vLLM pads them to a multiple of 64, and that must divide by the width.

        128,256 rows over 3      divides
        151,936 rows over 3      refused, though many heads divide by 3

    Powers of two up to 64 always pass. SGLang and TensorRT-LLM pad as far as needed and never refuse.
    """
    yield from _told(context, Reason.VOCAB_SPLIT)


@rule(Severity.ERROR, counts=True)
def mlp_split(context: Context) -> Iterator[Problem]:
    """The feed-forward layers are cut along their inner width, which must divide by the tensor-parallel width.

        intermediate_size 14,336 over 7   2,048 each
        intermediate_size 11,008 over 5   refused

    Take a count that divides it, or split by layers with pipeline_parallel.
    """
    yield from _told(context, Reason.MLP_SPLIT)


@rule(Severity.ERROR, counts=True)
def experts_split(context: Context) -> Iterator[Problem]:
    """Experts are cut along their inner width, or with expert_parallel dealt out whole; either must come out even.

        moe_intermediate_size 1,408 over 3     refused without expert_parallel
        expert_parallel over more GPUs than experts   refused

    SGLang also wants the experts to divide by the GPUs; vLLM deals the rest to the first ones, unless --enable-eplb
    moves them about: then experts and spare copies together must divide.
    In vLLM data-parallel ranks multiply the width that experts are cut by.
    """
    yield from _told(context, Reason.EXPERTS_SPLIT)


@rule(Severity.ERROR, counts=True)
def quant_group(context: Context) -> Iterator[Problem]:
    """Quantized weights share a scale per group or block, and a GPU cannot hold part of one.

        AWQ, groups of 128, input 11,008 over 2    5,504 is 43 groups: passes
        AWQ, groups of 128, input 18,944 over 8    2,368 is 18.5 groups: refused
        FP8, blocks of 128, output 576 a GPU       refused

    Take a smaller width, a checkpoint with smaller groups, or expert_parallel where experts decide.
    Which kernels a GPU class has can matter; what was decided for is named.
    """
    yield from _told(context, Reason.QUANT_GROUP)


@rule(Severity.ERROR, counts=True)
def vision_split(context: Context) -> Iterator[Problem]:
    """A vision or audio tower is split like the language model, and has heads and widths of its own.

        16 tower heads over 32   refused, although 32 suits the language model

    vLLM keeps towers whole on every GPU with args: [--mm-encoder-tp-mode, data].
    """
    yield from _told(context, Reason.VISION_SPLIT)


@rule(Severity.ERROR, counts=True)
def recurrent_split(context: Context) -> Iterator[Problem]:
    """Recurrent layers (Mamba, gated delta, KDA) have heads and groups that must divide by the width as well.

    One group is copied to every GPU; several are split whole and never copied.

        8 groups over 8          one each
        8 groups over 16         refused, even where 16 divides the attention heads

    Take a width that divides the heads and the groups of these layers.
    """
    yield from _told(context, Reason.RECURRENT_SPLIT)


@rule(Severity.ERROR, counts=True)
def pipeline_layers(context: Context) -> Iterator[Problem]:
    """A pipeline stage holds at least one layer, and the engine must have stages for this architecture.

        pipeline_parallel: 64    refused for a model of 32 layers
        pipeline_parallel: 3     fine for 32 layers: the engines spread the rest over some of the stages

    Take fewer stages, or 1 where the message says that the model's file has none; tensor parallelism remains.
    """
    yield from _told(context, Reason.PIPELINE_LAYERS)


@rule(Severity.ERROR, counts=True)
def parallel_product(context: Context) -> Iterator[Problem]:
    """Tensor parallelism is what is left of the GPUs after pipeline and data parallelism, and must be whole.

        gpus: 8, pipeline_parallel: 2, data_parallel: 2     width 2
        gpus: 8, pipeline_parallel: 3                       refused

    It is gpus * nodes / (pipeline_parallel * data_parallel), and never written.
    data_parallel is for vLLM and SGLang, which there stay on one node; TensorRT-LLM and llama.cpp serve more at once
    with more replicas. llama.cpp spreads its layers over the GPUs by itself and has no stages to count.
    nodes: N is for vLLM, SGLang and TensorRT-LLM: llama.cpp spans nodes only by programs that no agent would know of.
    expert_parallel is for those that split a model over GPUs, which llama.cpp and ComfyUI do not.
    Flags that make groups of GPUs (--decode-context-parallel-size, --attn-dp-size) must divide the width too.
    """
    for use in context.uses:
        yield from _not_taken(context, use)
    yield from _told(context, Reason.PARALLEL_PRODUCT)


_FIELDS = ("pipeline_parallel", "nodes", "data_parallel", "expert_parallel")
"""How a replica is cut: an engine that has no use for one of these refuses it whatever the count."""
_MORE_REPLICAS = "remove it; scaling.min: N serves more at once"
_INSTEAD = {"nodes": "nodes: 1; vllm, sglang and trtllm span nodes", "data_parallel": _MORE_REPLICAS}


def _not_taken(context: Context, use: Use) -> Iterator[Problem]:
    """Fields that the engine has no use for, or not together (facts/engines.md section 1.3)."""
    profile = use.profile
    for field in _FIELDS:
        value = getattr(profile, field)
        because = not_taken(profile.engine, field)
        if value == type(profile).model_fields[field].default or because is None:
            continue
        if field == "nodes" and profile.engine is Engine.COMFYUI:
            continue  # inventory/single-gpu-engine tells it
        valid = () if field == "nodes" else None
        written = str(value).lower() if value is True else value
        yield use.problem(field, f"{field} is {written}; {because}", _INSTEAD.get(field, "remove it"), valid=valid)
    if profile.engine is not Engine.SGLANG or profile.data_parallel == 1:
        return
    told = f"data_parallel is {profile.data_parallel}"
    if profile.nodes > 1:
        message = f"{told} over {profile.nodes} nodes; SGLang's ranks stay on one"
        yield use.problem("data_parallel", message, _MORE_REPLICAS)
    elif context.knowledge.ranks(use).own_requests:
        message = f"{told} beside --attn-dp-size, which exclude each other in SGLang"
        yield use.problem("data_parallel", message, "remove one of the two")


def _told(context: Context, reason: Reason) -> Iterator[Problem]:
    for use in context.uses:
        if use.profile.gpu_class is not None and use.gpus not in GPU_COUNTS:
            continue  # inventory/gpus-range tells it, once
        by_numbers: dict[object, Refusal] = {}
        for refusal in context.knowledge.refusals(use):
            if refusal.reason is reason:
                # Two matrices of one width (up and down) are one reason.
                by_numbers.setdefault(tuple(refusal.numbers.items()) or refusal.message, refusal)
        for refusal in by_numbers.values():
            yield use.problem(_field(refusal), refusal.message, refusal.hint, severity=refusal.severity)


def _field(refusal: Refusal) -> str:
    """The field to change: the count, unless no count would help."""
    if refusal.reason is Reason.PIPELINE_LAYERS:
        return "pipeline_parallel"
    if refusal.hint == "expert_parallel: false":
        return "expert_parallel"
    return "args" if refusal.decided_by == "args" else "gpus"
