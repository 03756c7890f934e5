"""Holds the bytes that a lock found against those that the shape gives: the factor of each group, and the doubts.

A lock's bytes are authoritative: they say what lies in the files. What an engine leaves there (layers that predict
further tokens, a head that is tied anyway) or loads in another type (32-bit checkpoints) is told apart first.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from reconciler.domain.lock import WeightFormat
from reconciler.sizing.estimate import Estimate
from reconciler.sizing.held_types import FULL, HALF, file_unit
from reconciler.sizing.holdings import Group
from reconciler.sizing.weight_plan import QUANTIZED_GROUPS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.lock import TensorRun
    from reconciler.domain.shape import Shape
    from reconciler.sizing.memory_ask import Stored
    from reconciler.sizing.weight_plan import WeightPlan

AGREES = 0.02
"""Sizes nearer than this differ by small parts that no config tells; beyond, the band takes in both."""
NEAR = 0.1
"""Groups further apart hold different tensors: they are counted together, so that no byte is lost."""
LEAST_STORED = 0.25
"""Of 16-bit weights whose storage is not known: 4 bits are the fewest that engines take."""
GIB = 2**30

_BY_NAME = {"vision": Group.TOWERS} | {group.value: group for group in Group if group is not Group.ADAPTERS}
_FULL_TYPES = frozenset({"f32", "float32"})


@dataclass(frozen=True, slots=True)
class Scaling:
    """What to make of the bytes that the shape gives."""

    factors: Mapping[Group, float] = field(default_factory=dict)
    low: float = 1.0
    """The band around them, as factors of it."""
    high: float = 1.0
    tower_bytes: int = 0
    """Of towers that the shape does not describe."""
    doubts: tuple[str, ...] = ()

    def apply(self, group: Group, size: int) -> Estimate:
        """Bytes of one group."""
        factor = self.factors.get(group, 1.0)
        likely = size if factor == 1.0 else round(size * factor)
        if self.low == self.high == 1.0:
            return Estimate.exactly(likely)
        return Estimate(min(likely, int(likely * self.low)), likely, max(likely, int(likely * self.high)))


def scaled(shape: Shape, stored: Stored, plan: WeightPlan) -> Scaling:
    """The factors between what the shape gives and what the files hold."""
    if not plan.described(HALF):
        return Scaling(doubts=("the shape gives no weights: nothing is counted",))
    if stored.tensors:
        return _by_group(shape, stored.tensors, plan)
    if stored.weight_bytes:
        return _by_total(shape, stored, stored.weight_bytes, plan)
    doubts = ["its towers are not counted: how they are built is not known"] if plan.undescribed else []
    if not plan.opaque:
        return Scaling(doubts=tuple(doubts))
    method = shape.quantization.method if shape.quantization is not None else ""
    doubts.append(f"how {method or 'its quantization'} stores weights is not known: counted as 16 bit")
    return Scaling(low=LEAST_STORED, doubts=tuple(doubts))


def _by_total(shape: Shape, stored: Stored, weight_bytes: int, plan: WeightPlan) -> Scaling:
    """One factor for everything, against the reading of the files that comes nearest."""
    if stored.format is WeightFormat.GGUF:  # every matrix in a type of its own, the embedding too
        return Scaling(dict.fromkeys(Group, weight_bytes / plan.described(HALF)))
    if plan.opaque:
        return _opaque(weight_bytes, plan.files[HALF])
    described = plan.described(file_unit(shape))
    if plan.undescribed and weight_bytes > described:
        return Scaling(tower_bytes=weight_bytes - described)
    size = min(plan.readings, key=lambda each: abs(weight_bytes - each))
    factor = weight_bytes / size
    return _banded(dict.fromkeys(Group, factor), weight_bytes, size)


def _opaque(weight_bytes: int, plain: Mapping[Group, int]) -> Scaling:
    """Matrices take what the parts that are never quantized leave of the files."""
    fixed = sum(size for group, size in plain.items() if group not in QUANTIZED_GROUPS)
    matrices = sum(size for group, size in plain.items() if group in QUANTIZED_GROUPS)
    if weight_bytes <= fixed or not matrices:
        return _banded(dict.fromkeys(Group, weight_bytes / (fixed + matrices)), weight_bytes, fixed + matrices)
    return Scaling(dict.fromkeys(QUANTIZED_GROUPS, (weight_bytes - fixed) / matrices))


def _by_group(shape: Shape, runs: tuple[TensorRun, ...], plan: WeightPlan) -> Scaling:
    """A factor for each group; groups that hold other tensors than the shape's are counted together."""
    derived = plan.files[FULL if _mostly_full(runs) else HALF]
    found = dict.fromkeys(Group, 0)
    for run in runs:
        if not _left_aside(shape, run):
            found[_BY_NAME.get(run.group, Group.OTHER)] += run.bytes
    if shape.tied:
        found[Group.OUTPUT_HEAD] = 0
    towers = found[Group.TOWERS] if not derived[Group.TOWERS] else 0
    if towers:
        found[Group.TOWERS] = 0
    apart = [group for group in Group if abs(found[group] - derived[group]) > NEAR * max(found[group], derived[group])]
    if not sum(derived[group] for group in apart):
        apart = list(Group) if sum(found[group] for group in apart) else []
    factors = {group: found[group] / derived[group] for group in Group if derived[group]}
    if apart:
        together = sum(found[group] for group in apart) / sum(derived[group] for group in apart)
        factors |= {group: together for group in apart if derived[group]}
    scaling = Scaling(factors) if plan.opaque else _banded(factors, sum(found.values()), sum(derived.values()))
    return replace(scaling, tower_bytes=towers)


def _left_aside(shape: Shape, run: TensorRun) -> bool:
    """Layers beyond the model's own predict further tokens; what is neither a layer's nor known is not the model's."""
    if run.layers is None:
        return run.group == Group.OTHER.value
    return run.layers[0] >= len(shape.layers)


def _mostly_full(runs: tuple[TensorRun, ...]) -> bool:
    full = sum(run.bytes for run in runs if run.dtype.lower() in _FULL_TYPES)
    return full * 2 > sum(run.bytes for run in runs)


def _banded(factors: Mapping[Group, float], weight_bytes: int, size: int) -> Scaling:
    """The lock decides what is likely; where the shape says otherwise the band takes in both."""
    factor = weight_bytes / size
    if abs(factor - 1) <= AGREES or not weight_bytes:
        return Scaling(factors)
    doubt = (
        f"the lock has {weight_bytes / GIB:.1f} GiB of weights, the config gives {size / GIB:.1f} GiB: "
        "the lock's figure is used"
    )
    return Scaling(factors, min(1.0, 1 / factor), max(1.0, 1 / factor), doubts=(doubt,))
