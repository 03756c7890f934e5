"""Rules on the locks: what the gate knows of a model, it knows from there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.finding import Problem, Severity
from reconciler.domain.model_spec import Engine
from reconciler.gate.rule import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.domain.desired import Where
    from reconciler.domain.model_spec import ModelSpec
    from reconciler.gate.subject import Context


@rule(Severity.ERROR)
def missing(context: Context) -> Iterator[Problem]:
    """Without its lock nothing is known of a model, and a change that cannot work would pass.

    `reconciler lock MODEL` looks at each source once and writes cluster/locks/MODEL.json, to be committed with the
    model: revision, bytes and config, so that the gate needs no network. A source that the lock does not hold yet, or
    holds without a config, is told at its own place.

        source: hf:org/llama@v2  refused where the lock holds hf:org/llama@v1: run reconciler lock

    A model that shall be served unchecked says so with unverified: true; then this is one warning.
    """
    for model in context.models:
        if model.name in context.unreadable_locks:
            continue
        lacking = dict(_lacking(context, model))
        if model.unverified and lacking:
            where = context.desired.where_by_model[model.name].at("unverified")
            message = f"{model.name} is served unverified: heads, memory and context are not checked"
            yield Problem(where, message, None, model.name, severity=Severity.WARNING)
            continue
        hint = f"run reconciler lock {model.name} and commit locks/{model.name}.json, or write unverified: true"
        for where, message in lacking.items():
            yield Problem(where, message, hint, model.name)


def _lacking(context: Context, model: ModelSpec) -> Iterator[tuple[Where, str]]:
    """Places of sources of weights, and what the model's lock lacks for each; none for an external model."""
    place = context.desired.where_by_model[model.name]
    lock = context.desired.locks.get(model.name)
    for position, profile in enumerate(model.profiles):
        source = profile.source or model.source
        if model.external is not None or source is None:
            continue
        where = place.at("source") if profile.source is None else place.at("profiles", position, "source")
        found = None if lock is None else lock.find(source)
        if lock is None:
            yield where, f"{model.name} has no lock"
        elif found is None:
            yield where, f"the lock of {model.name} does not hold {source}"
        elif found.config is None and profile.engine is not Engine.COMFYUI:  # its checkpoints have no config
            yield where, f"the lock of {model.name} holds no config of {source}"
