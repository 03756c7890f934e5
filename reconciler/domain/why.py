"""Why a model is not as desired, what is in its way, and which small changes would help: `why MODEL`."""

from __future__ import annotations

from reconciler.domain.base import FORMAT_VERSION, Count, Flag, Frozen, Name, Text
from reconciler.domain.intent import Intent
from reconciler.domain.placement import SlotName


class WhySlot(Frozen):
    """One slot that is not as desired."""

    replica: SlotName
    """The slot, such as llama-70b/0."""
    message: Text
    """What it waits on, or what became of it, as one clause."""


class WhyNode(Frozen):
    """One node that could run it, and what is in the way there."""

    node: Name
    """Its name."""
    message: Text
    """Such as `0 of 4 free: llama-70b/0`."""


class Unblock(Frozen):
    """One change that somebody could make, and what planning says of it."""

    change: Text
    """What to change, in the words of the YAML or of the person at the rack."""
    works: Flag
    """Whether the model then starts, no other model loses its place, and the gate takes it."""
    outcome: Text
    """What follows, as one clause."""


class Why(Frozen):
    """The answer of `why MODEL`."""

    format_version: str = FORMAT_VERSION
    """Of this answer: a higher minor adds fields."""
    commit: str | None = None
    """That says what is wanted."""
    model: Name
    """Its name."""
    desired: Count
    """Replicas wanted."""
    ready: Count
    """Replicas that serve."""
    as_desired: Flag
    """Whether nothing is left to explain."""
    rule: str | None = None
    """Slug of the rule that holds it back; null where it only waits."""
    message: Text
    """The constraint, as one sentence."""
    hint: str | None = None
    """What to do about it where the rule itself knows."""
    slots: tuple[WhySlot, ...] = ()
    """Slots that are not as desired."""
    nodes: tuple[WhyNode, ...] = ()
    """Where it lacks room: nodes that have what it asks for, the nearest to enough first."""
    more_nodes: Count = 0
    """Nodes that are not listed: they have no more."""
    unblock: tuple[Unblock, ...] = ()
    """Up to three changes, the smallest first."""
    intents: tuple[Intent, ...] = ()
    """What people have said about it and what still holds, oldest first."""
