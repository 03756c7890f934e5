"""The sources that a model's file names, each with its place: weights, projectors and adapters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reconciler.domain.desired import Where
    from reconciler.domain.model_spec import ModelSpec

_URL = re.compile(r"https?://(?:[^/?#]*@)?(?P<place>[^?#]*)")


@dataclass(frozen=True, slots=True)
class Written:
    """One source of a model."""

    source: str
    """As written."""
    where: Where
    what: str
    """How a message names it; what of an address may be secret is left out."""
    weights: bool
    """Whether the model is loaded from it."""


def sources(model: ModelSpec, where: Where) -> tuple[Written, ...]:
    """Each source once, at the first place that names it."""
    loaded = {profile.source or model.source for profile in model.profiles}
    found: dict[str, Written] = {}

    def add(source: str | None, at: Where, what: str) -> None:
        if source is not None:
            found.setdefault(source, Written(source, at, f"{what} {shown(source)}", source in loaded))

    add(model.source, where.at("source"), "the source")
    for position, profile in enumerate(model.profiles):
        place = where.at("profiles", position)
        add(profile.source, place.at("source"), "the source")
        add(profile.mmproj, place.at("mmproj"), "the projector")
    for position, adapter in enumerate(model.adapters):
        add(adapter.source, where.at("adapters", position, "source"), f"adapter {adapter.name}")
    return tuple(found.values())


def shown(source: str) -> str:
    """A source as people may read it: of an address without user, password and query, which may be secret."""
    found = _URL.match(source)
    return f"https://{found['place']}" if found else source


def without_revision(source: str) -> str:
    """What stays the same when another revision is taken: `hf:org/llama#file`."""
    return re.sub(r"^(hf:[^@#]+)@[^#]*", r"\1", source)
