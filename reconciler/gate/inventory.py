"""Rules on what the nodes of the inventory can run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.finding import Problem, Severity
from reconciler.domain.model_spec import Engine
from reconciler.engines.versions import at_least
from reconciler.engines.vllm_environment import BY_UUID
from reconciler.gate.capacity import GPU_COUNTS, is_known
from reconciler.gate.card import SLICE
from reconciler.gate.common_ground import apart, unlike
from reconciler.gate.competing import overcommitments
from reconciler.gate.fitting import shortages
from reconciler.gate.nearest import Spellings
from reconciler.gate.not_taken import (
    fields_without_effect,
    not_understood,
    task_not_taken,
    vendor_not_taken,
    version_not_launched,
    versions_nobody_names,
    words_not_taken,
)
from reconciler.gate.phrases import listed
from reconciler.gate.rule import rule
from reconciler.sizing.refusal import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.gate.subject import Context

_CPU_ENGINES = (Engine.LLAMACPP, Engine.VLLM)
"""Engines with a build that serves from CPUs (facts/engines.md section 1.3: vLLM's is a wheel of its own)."""


@rule(Severity.ERROR)
def unknown_class(context: Context) -> Iterator[Problem]:
    """A GPU class that is neither built in nor defined in cluster.yaml has no known memory, so nothing can be sized.

    Every gpu_class of a profile and every gpus.class of a node must be one of the built-in classes or one that
    cluster.yaml defines. They are written in full, because one name is sold in several sizes:

        gpu_class: h100          refused: h100-80gb or h100-nvl-94gb?
        gpu_class: h100-80gb     the card that the driver reports with 81,559 MiB

    A MIG slice is the class of its card and the profile: h100-80gb/1g.10gb.
    A card that the tables do not know is described once, with what its driver and an engine report, in MiB:

        gpu_classes:
          rtx-8000: {memory_mib: 49152, engine_mib: 48600}

    A class that is known but that no node has is told by inventory/node-too-small.
    """
    if context.inventory is None:
        return
    names = tuple(dict.fromkeys([*context.inventory.classes, *context.desired.classes]))
    known = Spellings(name for name in names if is_known(context.desired, name))
    built_in = Spellings(context.desired.classes)
    for node in context.nodes:
        for position, group in enumerate(node.gpus):
            if not is_known(context.desired, group.gpu_class):
                message, hint = _not_a_class("class", group.gpu_class, built_in)
                yield Problem(node.where.at("gpus", position, "class"), message, hint)
    for use in context.uses:
        gpu_class = use.profile.gpu_class
        if gpu_class is not None and not is_known(context.desired, gpu_class):
            yield use.problem("gpu_class", *_not_a_class("gpu_class", gpu_class, known))


def _not_a_class(field: str, gpu_class: str, known: Spellings) -> tuple[str, str]:
    close = known.nearest(gpu_class)
    hint = f"{field}: {close}" if close else "define it in cluster.yaml under gpu_classes"
    return f"{gpu_class} is not a GPU class", hint


@rule(Severity.ERROR, counts=True)
def node_too_small(context: Context) -> Iterator[Problem]:
    """A replica's share of one node must exist on one node: its GPU class, its GPUs, its host RAM and its CPU cores.

    It compares each profile with every node that its select leaves, by what the node has and not by what is free.
    With nodes: N there must be N such nodes. Drained nodes and cards count, because a drain ends; where only drained
    ones could take the replica a note says so. What the inventory does not state (memory_gib, cpu_cores) is not
    refused.

        gpus: 4                  on nodes with 2 cards each: engines do not spread one replica over nodes
                                 unless nodes: 2 says so

    Take a count or a class that a node has, drop the select that leaves the larger nodes out, or add the node to the
    inventory. A profile that no node can take is refused even where the model has another one that fits.
    """
    # A profile that can never be tried is refused although a later one would run: `cluster/` describes one fleet, so
    # it is a slip or a leftover, and passing it would put the model on its second choice without anyone having said so.
    if context.inventory is None:
        return
    misnamed = any(not is_known(context.desired, name) for name in context.inventory.classes)
    for use in context.uses:
        gpu_class = use.profile.gpu_class
        if misnamed and gpu_class not in (None, *context.inventory.classes):
            continue  # inventory/unknown-class: the misnamed cards may be just these
        if gpu_class is None and use.profile.gpus is not None:
            continue  # inventory/cpu-profile: it is not known what was meant
        if gpu_class is not None and (use.gpus not in GPU_COUNTS or not is_known(context.desired, gpu_class)):
            continue  # inventory/gpus-range or inventory/unknown-class: the true cause, told once
        yield from shortages(context.inventory, use, context.desired.classes)


@rule(Severity.ERROR, counts=True)
def gpus_range(context: Context) -> Iterator[Problem]:
    """A replica takes 1 to 64 GPUs of one node, and a node has 1 to 64 of one class.

    No machine holds more: the largest have 16 cards, and eight cards cut into MIG slices make 56.
    A larger number is a slip, or GPUs of several nodes added up.

        gpus: 0                  refused: leave gpu_class out for a profile on CPUs
        gpus: 128                refused: nodes: 16 with gpus: 8 spreads one replica over 16 nodes

    For a model that shall not run write scaling: {min: 0, max: 0}. A node without GPUs leaves gpus out.
    """
    for node in context.nodes:
        for position, group in enumerate(node.gpus):
            if group.count not in GPU_COUNTS:
                message = f"count is {group.count}; a node has 1 to 64 GPUs of a class"
                hint = "leave gpus out for a node without GPUs" if group.count == 0 else "count GPUs of one node"
                yield Problem(node.where.at("gpus", position, "count"), message, hint)
    for use in context.uses:
        if use.profile.gpu_class is not None and use.gpus not in GPU_COUNTS:
            message = f"gpus is {use.gpus}; a replica takes 1 to 64 GPUs of one node"
            over = "gpus counts those of one node; nodes: N spreads a replica over N nodes"
            yield use.problem("gpus", message, over if use.gpus > 0 else "leave gpu_class and gpus out to run on CPUs")


@rule(Severity.ERROR, counts=True)
def single_gpu_engine(context: Context) -> Iterator[Problem]:
    """ComfyUI computes on one GPU, so further GPUs would be held and never used.

    It loads a workflow's models into the memory of one card and has no tensor parallelism.

        engine: comfyui
        gpus: 2                  refused: the second card would stay idle

    Write gpus: 1. To serve more requests at once raise scaling.min: each replica has a card of its own.
    """
    for use in context.uses:
        if use.profile.engine is not Engine.COMFYUI:
            continue
        if use.gpus > 1:
            yield use.problem("gpus", f"comfyui uses one GPU; gpus is {use.gpus}", "gpus: 1")
        if use.profile.nodes > 1:
            yield use.problem("nodes", f"comfyui uses one GPU of one node; nodes is {use.profile.nodes}", "nodes: 1")


@rule(Severity.ERROR)
def cpu_profile(context: Context) -> Iterator[Problem]:
    """A profile without gpu_class runs on CPUs, so it reserves host RAM and cores, and its engine must be able to.

    On CPUs memory_gib and cpu_cores are what GPUs are elsewhere: they choose the node, and they become the engine's
    cache size and threads. Without them two replicas could be put on one node that has room for one.
    llama.cpp and vLLM (its CPU build) serve from CPUs; sglang, trtllm and comfyui do not.

        engine: llamacpp
        memory_gib: 16
        cpu_cores: 8

    Where GPUs were meant, write gpu_class: a count alone does not say of which kind.
    """
    for use in context.uses:
        profile = use.profile
        if profile.gpu_class is not None:
            continue
        here = listed(tuple(context.inventory.classes)) if context.inventory else ""
        give = f"a gpu_class (here: {here})" if here else "a gpu_class"
        missing = [name for name in ("memory_gib", "cpu_cores") if getattr(profile, name) is None]
        # One cause a profile: gpus, or an engine that needs them, says that a GPU class was meant and forgotten.
        if profile.gpus is not None:
            yield use.problem("gpus", f"gpus is {profile.gpus}, of no GPU class", f"give it {give} first")
        elif profile.engine not in _CPU_ENGINES:
            message = f"{profile.engine} does not run on CPUs, and profile {profile.name} has no gpu_class"
            yield use.problem("engine", message, f"write {give}, or engine: llamacpp")
        elif missing:
            message = f"profile {profile.name} has no gpu_class, so it runs on CPUs and needs {' and '.join(missing)}"
            yield use.problem((), message, f"write {': N, '.join(missing)}: N, or {give}")


@rule(Severity.ERROR, counts=True)
def mig(context: Context) -> Iterator[Problem]:
    """MIG slices cannot reach each other, so a replica on slices takes one.

    A slice is a GPU with its own memory; there is no NVLink and no peer access between slices, and a process sees one.

        gpu_class: h100-80gb/1g.10gb
        gpus: 2                  refused
        version: "0.23.0"        refused: vLLM before 0.24 takes GPUs by number only, and a slice has none

    Take a larger slice, a whole card, or more replicas.
    """
    for use in context.uses:
        gpu_class, nodes = use.profile.gpu_class, use.profile.nodes
        if gpu_class is None or not SLICE.match(gpu_class):
            continue
        if use.gpus in GPU_COUNTS and use.gpus > 1:
            message = f"a replica on MIG slices takes one; gpus is {use.gpus} of {gpu_class}"
            yield use.problem("gpus", message, "gpus: 1")
        if nodes > 1:
            yield use.problem("nodes", f"a replica on a MIG slice has one node; nodes is {nodes}", "nodes: 1")
        version = context.desired.version(use.profile)
        if use.profile.engine is Engine.VLLM and not at_least(version, BY_UUID):
            message = f"vllm {version} takes GPUs by number only, and a MIG slice has none"
            yield use.problem("gpu_class", message, f"vllm {BY_UUID} is the first that takes one by its id", valid=())


@rule(Severity.ERROR, across=versions_nobody_names)
def unsupported(context: Context) -> Iterator[Problem]:
    """Some models an engine version does not load at any width: its architecture, its config, or how it is quantized.

    It is judged for the version that the profile or the fleet's defaults name, and for the generation of the GPU class
    (FP8 and NVFP4 kernels need one that has them). Where nobody names a version the newest in the tables is taken, and
    a note says which, once for each engine.

        engine: vllm, architecture dropped two versions ago      refused, with the last version that took it
        an architecture that the tables do not know              a warning: it may be newer than they are
        a lock whose config tells no shape                       a warning: nothing more can be checked
        a part of a config that is not understood                a note: what was assumed instead
        kv_cache_dtype: fp9                                      refused, with the words the version takes
        task: embed, engine: trtllm                              refused, with the engines that embed
        version: 0.8.5, engine: vllm                             a warning: no --runner, which every launch has
        gpu_class: mi300x, engine: trtllm                        refused, with the engines that run on AMD's GPUs
        quantization: fp8, engine: trtllm                        refused: only the checkpoint can say so there
        dtype: bfloat16, engine: llamacpp                        refused: the file decides, and nothing would change

    Take another engine, another version or another checkpoint. A field that an engine has no use for (memory_share of
    llama.cpp, mmproj of vLLM, most of ComfyUI) is refused with the reason, so that nothing written is without effect.
    """
    for use in context.uses:
        refused = [each for each in context.knowledge.refusals(use) if each.reason is Reason.UNSUPPORTED]
        for refusal in refused:
            field = "dtype" if refusal.decided_by == "dtype" else "engine"
            yield use.problem(field, refusal.message, refusal.hint, severity=refusal.severity)
        yield from task_not_taken(use)
        yield from vendor_not_taken(use)
        yield from version_not_launched(context, use)
        yield from words_not_taken(context, use)
        yield from fields_without_effect(use)
    yield from not_understood(context)


@rule(Severity.ERROR)
def overcommitted(context: Context) -> Iterator[Problem]:
    """All models must have room at once: their minimums together, each replica on one node or on its nodes: N.

    Packing is tried by best fit, then by counting what must be short, then by trying every way. It is an error only
    where that proves that no way exists; the message names the models and the nodes that compete, with the numbers,
    and the hint what was checked to help. Where a search was too long to end, a warning says so.

        two models of scaling: {min: 2} and gpus: 4      on one node of 8: 16 are needed, and 8 are there

    Drained nodes and GPUs count, because a drain ends, and what is suspended does not, because it does not start; where
    it fits only so, a warning says that something waits. A model with min: 0 has no minimum.

    The planner says the same of the fleet as it is: which node has what free, and who holds the rest.

        it needs 4 h100-80gb on one node; gpu-01 has 2 of 8 free (llama-70b/0)

    Add a node, lower a scaling.min, or ask for less.
    """
    yield from overcommitments(context)


@rule(Severity.WARNING)
def fabric(context: Context) -> Iterator[Problem]:
    """The nodes of one replica talk at every token, so they should be on one fast network, named by a label fabric.

    A replica with nodes: N is placed on nodes with the same value of that label, where one value has enough of them.
    Where none has, or no node says, it is placed on any, which works as fast as the network between them.

        labels: {fabric: ib-1}        on the nodes of one InfiniBand or RoCE network

    Label the nodes of each network, or take fewer nodes.
    """
    yield from apart(context)


@rule(Severity.ERROR)
def mixed_cards(context: Context) -> Iterator[Problem]:
    """All GPUs of a replica are of one class, since the smallest of them would decide what every one can hold.

    Ranks of vLLM, SGLang and TensorRT-LLM get equal parts of a model, and MIG slices are a class of their own. So cards
    of another class on the same node do not make up what is missing.

        gpus: [{class: h100-80gb, count: 4}, {class: l40s, count: 4}]      a node
        gpu_class: h100-80gb
        gpus: 8                                                            refused: it has 4 of that class

    Ask for as many as a node has of one class.
    """
    yield from unlike(context)
