"""GPUs of each class in use now, and at the fullest moment while a plan is carried out."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Strategy
from reconciler.domain.observed import ReachableNode
from reconciler.domain.outlook import ClassPeak
from reconciler.domain.plan import Action

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from reconciler.domain.desired import Desired
    from reconciler.domain.observed import Observation
    from reconciler.domain.placement import Placement
    from reconciler.domain.plan import Change
    from reconciler.planning.aim import Aim


def peaks(
    desired: Desired, observed: Observation, acts_by_model: Mapping[str, Sequence[Change]], aims: Mapping[str, Aim]
) -> tuple[ClassPeak, ...]:
    """A row for every class that the changes touch, sorted.

    All models change side by side, each at its fullest moment, and nothing that stops for good has gone before the
    others begin: what really happens is at most this.
    """
    class_by_uuid, used = _in_use(observed)
    extra = Counter[str]()
    touched: set[str] = set()
    for model, acts in acts_by_model.items():
        course = _Course(class_by_uuid)
        course.follow(acts, aims[model])
        extra += course.peak
        touched |= course.touched
    total = _in_service(desired)
    return tuple(
        ClassPeak(
            gpu_class=name,
            used=used[name],
            peak=max(used[name], min(used[name] + extra[name], total[name])),
            total=total[name],
        )
        for name in sorted(touched)
    )


class _Course:
    """One model's GPUs by class over its rollout, against what it holds now."""

    def __init__(self, class_by_uuid: Mapping[str, str]) -> None:
        self._class_by_uuid = class_by_uuid
        self._level: defaultdict[str, int] = defaultdict(int)
        self.peak = Counter[str]()
        self.touched: set[str] = set()

    def follow(self, acts: Sequence[Change], aim: Aim) -> None:
        """Creates first, then replacements turn by turn; what stops for good goes last."""
        moving = [change for change in acts if change.after is not None]
        self._take(change.after for change in moving if change.action is Action.CREATE)
        replaced = [change for change in moving if change.action is Action.REPLACE and change.before is not None]
        for turn in _turns([each for each in replaced if each.strategy is Strategy.SURGE], aim.policy.max_surge):
            self._take(change.after for change in turn)
            self._give(change.before for change in turn)
        for turn in _turns(
            [each for each in replaced if each.strategy is not Strategy.SURGE], aim.policy.max_unavailable
        ):
            self._give(change.before for change in turn)
            self._take(change.after for change in turn)
        self._give(change.before for change in acts if change.action is Action.DELETE)

    def _take(self, placements: Iterable[Placement | None]) -> None:
        for gpu_class in self._classes(placements):
            self._level[gpu_class] += 1
            self.peak[gpu_class] = max(self.peak[gpu_class], self._level[gpu_class])

    def _give(self, placements: Iterable[Placement | None]) -> None:
        for gpu_class in self._classes(placements):
            self._level[gpu_class] -= 1

    def _classes(self, placements: Iterable[Placement | None]) -> Iterator[str]:
        for placement in placements:
            for uuid in placement.gpu_uuids if placement is not None else ():
                if uuid in self._class_by_uuid:
                    self.touched.add(self._class_by_uuid[uuid])
                    yield self._class_by_uuid[uuid]


def _turns(changes: Sequence[Change], at_once: int) -> Iterator[Sequence[Change]]:
    size = max(1, at_once)
    return (changes[first : first + size] for first in range(0, len(changes), size))


def _in_use(observed: Observation) -> tuple[Mapping[str, str], Counter[str]]:
    """The class of every GPU that was ever reported, and how many of each are held, by whomever."""
    class_by_uuid: dict[str, str] = {}
    held: set[str] = set()
    for each in observed.nodes:
        node = each if isinstance(each, ReachableNode) else each.last
        if node is not None:
            class_by_uuid.update((gpu.uuid, gpu.gpu_class) for gpu in node.gpus)
            held.update(uuid for replica in node.replicas for uuid in replica.entry.placement.gpu_uuids)
            held.update(uuid for process in node.foreign for uuid in process.gpus)
    return class_by_uuid, Counter(class_by_uuid[uuid] for uuid in held if uuid in class_by_uuid)


def _in_service(desired: Desired) -> Counter[str]:
    """GPUs of the inventory by class that are not drained, nor their nodes."""
    total = Counter[str]()
    for node in desired.nodes:
        if not node.drain:
            total.update(
                gpu_class for index, gpu_class in enumerate(node.gpu_class_by_index()) if index not in node.drain_gpus
            )
    return total
