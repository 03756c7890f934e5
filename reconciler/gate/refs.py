"""Rules on names that refer to other things in the catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.finding import Problem, Severity
from reconciler.domain.model_spec import Engine
from reconciler.domain.shape import Shape
from reconciler.gate.adapters import NO_ADAPTERS, too_wide, unfit
from reconciler.gate.cycles import cycles
from reconciler.gate.nearest import Spellings, nearest
from reconciler.gate.rule import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.domain.desired import Where
    from reconciler.domain.lock import LockedSource
    from reconciler.domain.model_spec import Adapter, ModelSpec
    from reconciler.gate.subject import Context, Use


@rule(Severity.ERROR)
def fallback_missing(context: Context) -> Iterator[Problem]:
    """A fallback that is not in the catalog would answer nobody on the day it is needed.

    Every entry of fallbacks must be the name of a model that has a file in models/. An alias, or a name that a model
    had before it moved, is not one: the message says which name to write.
    A model whose file is broken is not missing; it has findings of its own.

        fallbacks: [qwen-32]     refused when the catalog has qwen-32b

    Correct the spelling, add the model (external ones count), or remove the entry.
    """
    spellings = Spellings(sorted({*context.desired.model_by_name, *context.broken}))
    names = frozenset(spellings.names)
    name_by_alias = {alias: model.name for model in context.models for alias in model.aliases}
    name_by_moved = {model.moved: model.name for model in context.models if model.moved}
    for model in context.models:
        for position, fallback in enumerate(model.fallbacks):
            if fallback in names:
                continue
            message, right = f"there is no model {fallback}", spellings.nearest(fallback)
            if right == model.name:
                right = nearest(fallback, sorted(names - {model.name}))
            if fallback in name_by_alias:
                right = name_by_alias[fallback]
                message = f"{fallback} is an alias of {right}; fallbacks name models"
            elif fallback in name_by_moved:
                right = name_by_moved[fallback]
                message = f"there is no model {fallback}: it moved to {right}"
            hint = f"write {right}" if right else "add its file to models/, or remove the entry"
            yield Problem(_at(context, model, "fallbacks", position), message, hint, model.name)


@rule(Severity.ERROR)
def fallback_cycle(context: Context) -> Iterator[Problem]:
    """Fallbacks that lead back to their start would send a request in a circle while all of them are down.

    Routers follow fallbacks from model to model. Each circle is told once, at the entry of its first model by name.

        a: fallbacks: [b]
        b: fallbacks: [a]        refused: a → b → a

    Decide which model is the last resort and remove its entry. A model cannot fall back to itself either.
    """
    edges = {
        model.name: tuple(name for name in model.fallbacks if name in context.desired.model_by_name)
        for model in context.models
    }
    for cycle in cycles(edges):
        model = context.desired.model_by_name[cycle[0]]
        following = cycle[1] if len(cycle) > 1 else cycle[0]
        circle = " → ".join([*cycle, cycle[0]])
        message = f"fallbacks lead in a circle: {circle}" if len(cycle) > 1 else f"{model.name} falls back to itself"
        hint = f"remove {cycle[0]} from the fallbacks of {cycle[-1]}" if len(cycle) > 1 else "remove the entry"
        where = _at(context, model, "fallbacks", model.fallbacks.index(following))
        yield Problem(where, message, hint, model.name)


@rule(Severity.ERROR)
def adapter_duplicate(context: Context) -> Iterator[Problem]:
    """An adapter is asked for by its name, so two things of one model cannot share it.

    Engines serve the model, its aliases and its adapters side by side, told apart by the name in a request.
    Two adapters with one name, or an adapter named as its model or as an alias of it, could not be told apart:
    some engines refuse to start, others answer from whichever they find first.

        name: llama-70b
        adapters:
          - {name: sql, source: …}
          - {name: sql, source: …}    refused

    Give each adapter a name of its own.
    """
    for model in context.models:
        holder_by_name = dict.fromkeys(model.aliases, f"an alias of {model.name}")
        holder_by_name[model.name] = "the model itself"
        for position, adapter in enumerate(model.adapters):
            if adapter.name in holder_by_name:
                message = f"the adapter name {adapter.name} is taken: by {holder_by_name[adapter.name]}"
                where = _at(context, model, "adapters", position, "name")
                yield Problem(where, message, "give the adapter a name of its own", model.name)
            else:
                holder_by_name[adapter.name] = f"adapter {position + 1} of this model"


@rule(Severity.ERROR)
def adapter_architecture(context: Context) -> Iterator[Problem]:
    """An adapter is made for one base model and one way of loading it; beside another the engine ends at start.

    Judged from the lock, for every profile that would load it: the format (peft for vLLM and SGLang, GGUF for
    llama.cpp), the kind of adapter, its rank against --max-lora-rank, its architecture where it is written, the modules
    and layers it changes, and the width of attention and feed-forward layers it was made for. The name of its base is
    not compared: checkpoints of one base have many names. scale is read by llama.cpp alone. TensorRT-LLM and ComfyUI
    load none.

        args: [--max-lora-rank, "16"]    refused beside an adapter of rank 64
        source: hf:org/sql-70b@…         refused beside a model with 32 layers: it changes layer 79
        target_modules: [c_attn]         refused beside a Llama, which has no module of that name

    Of targets that the base lacks peft trains nothing and says nothing, so that a list is refused only where the model
    has none of it; all-linear is read as every matrix of the layers.

    Take the adapter for this base and this engine, or raise --max-lora-rank.
    """
    told: set[tuple[str, str, str]] = set()
    for use in context.uses:
        for position, adapter in enumerate(use.model.adapters):
            for message, hint in _unfit(context, use, adapter):
                if (use.model.name, adapter.name, message) not in told:
                    told.add((use.model.name, adapter.name, message))
                    where = _at(context, use.model, "adapters", position)
                    yield Problem(where, f"{adapter.name} {message}", hint, use.model.name, use.profile.name)
    yield from _scales(context)


@rule(Severity.ERROR)
def alias_collision(context: Context) -> Iterator[Problem]:
    """A request names one model, so no two models may be served under one name.

    An alias must differ from every model's name, from every other alias, and from its own model's name.
    A model whose file is broken keeps its name.

        llama-70b: aliases: [chat]
        qwen-32b:  aliases: [chat]    refused: chat is an alias of llama-70b

    Two models under one alias are not a way to split traffic: which of them answers would depend on the router.
    Remove the alias from one of them.
    """
    holder_by_name = {name: f"the name of model {name}, whose file is broken" for name in context.broken}
    holder_by_name |= {model.name: "the name of a model" for model in context.models}
    for model in context.models:
        for position, alias in enumerate(model.aliases):
            where = _at(context, model, "aliases", position)
            if alias == model.name:
                yield Problem(where, f"{alias} is the model's own name", "remove the alias", model.name)
            elif alias in model.aliases[:position]:
                yield Problem(where, f"{alias} is written twice", "remove one of the two", model.name)
            elif alias in holder_by_name:
                message = f"{alias} is already {holder_by_name[alias]}"
                yield Problem(where, message, "remove the alias from one of them", model.name)
            else:
                holder_by_name[alias] = f"an alias of {model.name}"


def _unfit(context: Context, use: Use, adapter: Adapter) -> Iterator[tuple[str, str]]:
    """Why this profile would not load the adapter, with what to do; none where the lock does not tell."""
    if use.profile.engine in NO_ADAPTERS:
        yield NO_ADAPTERS[use.profile.engine], "remove the adapter, or run the model on vllm, sglang or llamacpp"
        return
    base, found = context.knowledge.locked(use.model, use.profile), _locked(context, use.model, adapter)
    if base is None or found is None:
        return
    engine, shape = use.profile.engine, context.knowledge.shape(use)
    given = context.knowledge.args(use).last("--lora-target-modules") is not None
    for reason in unfit(engine, found, base, shape if isinstance(shape, Shape) else None, targets_given=given):
        yield reason, "take the adapter that was made for this model and engine"
    slots = context.knowledge.args(use).sizing().get("max-lora-rank")
    wide = too_wide(engine, found, slots.value if slots is not None and type(slots.value) is int else None)
    if wide is not None:
        yield wide, "raise --max-lora-rank, or take an adapter of a lower rank"


def _locked(context: Context, model: ModelSpec, adapter: Adapter) -> LockedSource | None:
    lock = context.desired.locks.get(model.name)
    return None if lock is None else lock.find(adapter.source)


def _scales(context: Context) -> Iterator[Problem]:
    """A scale that no profile, or not every profile, reads."""
    for model in context.models:
        others = sorted({profile.engine.value for profile in model.profiles if profile.engine is not Engine.LLAMACPP})
        if not others:
            continue
        severity = None if len(others) == len({profile.engine for profile in model.profiles}) else Severity.WARNING
        for position, adapter in enumerate(model.adapters):
            if adapter.scale is not None:
                where = _at(context, model, "adapters", position, "scale")
                message = f"{adapter.name} has a scale, which {' and '.join(others)} would not read"
                hint = "remove scale, or run the model on llama.cpp"
                yield Problem(where, message, hint, model.name, severity=severity)


def _at(context: Context, model: ModelSpec, *path: str | int) -> Where:
    return context.desired.where_by_model[model.name].at(*path)
