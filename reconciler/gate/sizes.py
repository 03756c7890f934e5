"""What each way of running a model would hold, worked out once a run: sizing takes long, and many models are alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reconciler.engines.counting import counting_rules
from reconciler.engines.memory_flags import memory_ask, stored
from reconciler.gate.card import card
from reconciler.sizing.budget import size

if TYPE_CHECKING:
    from collections.abc import Hashable

    from reconciler.domain.desired import Desired
    from reconciler.domain.lock import LockedSource, TensorRun
    from reconciler.domain.model_spec import ModelSpec
    from reconciler.domain.shape import Shape, Unreadable
    from reconciler.engines.flags import ReadArgs
    from reconciler.gate.subject import Use
    from reconciler.sizing.memory_ask import Card
    from reconciler.sizing.sized import Sized


@dataclass(slots=True)
class Sizes:
    """Everything sized so far."""

    desired: Desired
    _by_question: dict[Hashable, Sized] = field(default_factory=dict)
    _card_by_class: dict[str, Card | None] = field(default_factory=dict)
    _tensors: dict[Hashable, int] = field(default_factory=dict)
    _tensors_of: dict[int, int] = field(default_factory=dict)

    def sized(self, use: Use, version: str, shape: Shape | Unreadable | None, args: ReadArgs) -> Sized:
        """What a GPU of this replica would hold, and whether it fits; on CPUs the host RAM."""
        profile, model = use.profile, use.model
        source = self.locked(model, profile.source or model.source)
        ask = memory_ask(
            model,
            profile,
            args,
            gpus=use.gpus,
            adapters=[self.locked(model, each.source) for each in model.adapters],
            projector=self.locked(model, profile.mmproj),
        )
        found = None if profile.gpu_class is None else self.card(profile.gpu_class)
        rules = counting_rules(profile.engine, version)
        # Shapes and locks live as long as this object, so an id stands for one; hashing them would take longer.
        weights = (None, None) if source is None else (source.weight_bytes, source.format)
        tensors = None if source is None or source.tensors is None else self._alike(source.tensors)
        question = (None if shape is None else id(shape), weights, tensors, ask, found, rules)
        if question not in self._by_question:
            self._by_question[question] = size(shape, stored(source), ask, found, rules)
        return self._by_question[question]

    def locked(self, model: ModelSpec, source: str | None) -> LockedSource | None:
        """What this source was found to be; None without a lock for it."""
        lock = self.desired.locks.get(model.name)
        return None if lock is None or source is None else lock.find(source)

    def _alike(self, tensors: tuple[TensorRun, ...]) -> int:
        """A number for what these tensors say: locks of models that are alike have equal ones, each its own."""
        if id(tensors) not in self._tensors_of:
            said = tuple((run.group, run.layers, run.dtype, run.bytes) for run in tensors)
            self._tensors_of[id(tensors)] = self._tensors.setdefault(said, len(self._tensors))
        return self._tensors_of[id(tensors)]

    def card(self, gpu_class: str) -> Card | None:
        """The memory of one GPU of this class; None where it is not known."""
        if gpu_class not in self._card_by_class:
            self._card_by_class[gpu_class] = card(self.desired.classes, gpu_class)
        return self._card_by_class[gpu_class]
