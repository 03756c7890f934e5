"""Why no node can take a replica of a profile: selection, GPU class, GPUs, host RAM, CPU cores, in this order.

It asks what exists, not what is free: whether all models fit together is packing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.domain.finding import Severity
from reconciler.engines.fields import runs_on
from reconciler.gate.capacity import NODE
from reconciler.gate.nearest import nearest
from reconciler.gate.phrases import cards, listed, number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from reconciler.domain.finding import Problem
    from reconciler.domain.fleet_spec import GpuClass
    from reconciler.gate.capacity import Inventory, Kind
    from reconciler.gate.subject import Use


@dataclass(frozen=True, slots=True)
class _Need:
    """Something else than GPUs that a replica reserves on each of its nodes."""

    field: str
    amount: float
    unit: str
    offer: Callable[[Kind], float | None]

    def met_by(self, kind: Kind) -> bool:
        """Whether these nodes offer enough; what the inventory does not say is not too small."""
        offered = self.offer(kind)
        return offered is None or offered >= self.amount

    @property
    def words(self) -> str:
        """`64 GiB of host RAM`."""
        return f"{number(self.amount)} {self.unit}"


def shortages(inventory: Inventory, use: Use, classes: Mapping[str, GpuClass]) -> Iterator[Problem]:
    """What keeps the profile off every node: the first true causes, or a note that only a drain does."""
    select = use.profile.select or {}
    kinds = inventory.kinds(use.profile.gpu_class, select)
    wide = [kind for kind in kinds if kind.gpus >= use.gpus]
    if not kinds and not inventory.selected(select):
        yield _selects_nothing(inventory, use, select)
    elif not kinds:
        yield _class_absent(inventory, use, select, classes)
    elif _nodes(wide) < use.profile.nodes:
        yield _too_few_gpus(inventory, use, kinds, classes)
    else:
        yield from _reservations(use, wide)


def _reservations(use: Use, wide: Sequence[Kind]) -> Iterator[Problem]:
    needs = _needs(use)
    short = [need for need in needs if _nodes(filter(need.met_by, wide)) < use.profile.nodes]
    if short:
        yield from (_too_little(use, wide, need) for need in short)
        return
    rest = list(wide)
    for position, need in enumerate(needs):
        if _nodes(filter(need.met_by, rest)) < use.profile.nodes:
            yield _too_little(use, rest, need, needs[:position])
            return
        rest = [kind for kind in rest if need.met_by(kind)]
    if _nodes(kind for kind in rest if kind.takes(use.gpus)) < use.profile.nodes:
        yield _only_drained(use, rest)


def _needs(use: Use) -> list[_Need]:
    memory, cores = use.profile.memory_gib, use.profile.cpu_cores
    needs = []
    if memory is not None:
        needs.append(_Need("memory_gib", memory, "GiB of host RAM", lambda kind: kind.memory_gib))
    if cores is not None:
        needs.append(_Need("cpu_cores", cores, "CPU cores", lambda kind: kind.cpu_cores))
    return needs


def _selects_nothing(inventory: Inventory, use: Use, select: Mapping[str, str]) -> Problem:
    if not select:
        return use.problem((), "the inventory has no nodes", "describe them in nodes/<pool>.yaml")
    label = next((label for label in select if not inventory.selected({label: select[label]})), None)
    if label is None:
        every = " and ".join(f"{key}: {value}" for key, value in select.items())
        return use.problem("select", f"no node has {every} together", "each is on some node: leave one out")
    value, values, at = select[label], inventory.values(label), ("select", label)
    if not values:
        close = nearest(label, inventory.labels)
        hint = f"{close}: {value}" if close else f"labels here: {listed(inventory.labels) or 'none'}"
        return use.problem(at, f"no node has a label {label}", hint)
    close = nearest(value, values)
    hint = f"{label}: {close}" if close else f"{label} here: {listed(values)}"
    return use.problem(at, f"there is no node {value}" if label == NODE else f"no node has {label}: {value}", hint)


def _class_absent(
    inventory: Inventory, use: Use, select: Mapping[str, str], classes: Mapping[str, GpuClass]
) -> Problem:
    # Told at gpu_class with the classes that are here: the class is the cause, whatever the count.
    gpu_class = use.profile.gpu_class or ""
    if select and gpu_class in inventory.classes:
        chosen = [node.name for node in inventory.selected(select)]
        holders = [name for kind in inventory.kinds(gpu_class, {}) for name in kind.nodes]
        hint = f"select is the cause: {listed(sorted(holders))} {'has' if len(holders) == 1 else 'have'} it"
        return use.problem("gpu_class", f"select leaves {listed(chosen)}, without {gpu_class}", hint, valid=())
    message = f"no node has {gpu_class}; classes here: {listed(tuple(inventory.classes), most=8) or 'none'}"
    return use.problem("gpu_class", message, _another_class(inventory, use, classes), valid=())


def _too_few_gpus(inventory: Inventory, use: Use, kinds: Sequence[Kind], classes: Mapping[str, GpuClass]) -> Problem:
    fitting = sorted(name for kind in kinds if kind.gpus >= use.gpus for name in kind.nodes)
    if not use.gpus:
        return use.problem("nodes", f"{use.profile.nodes} nodes{_left(use)} are needed; here: {listed(fitting)}")
    asked = _cards(use)
    hint = _without_select(inventory, use) or _another_class(inventory, use, classes)
    if fitting:
        return use.problem("nodes", f"{_wanted(use, asked)}, and {_have(fitting)}", hint)
    most = min(kinds, key=lambda kind: (-kind.gpus, kind.drain, kind.nodes))
    drained = ", drained" if most.drain else ""
    message = f"no node{_left(use)} has {asked}; the most one has is {most.gpus} ({most.nodes[0]}{drained})"
    return use.problem("gpus", message, hint)


def _too_little(use: Use, kinds: Sequence[Kind], need: _Need, met: Sequence[_Need] = ()) -> Problem:
    """Of `kinds`, which have the GPUs and meet `met`, too few meet `need`."""
    having = " and ".join([*([_cards(use)] if use.gpus else []), *(each.words for each in met)])
    fitting = sorted(name for kind in kinds if need.met_by(kind) for name in kind.nodes)
    most, name = _best(kinds, need, use.profile.nodes)
    hint = f"{need.field}: {number(most)}"
    if fitting:
        wanted = _wanted(use, f"{having} and {need.words}" if having else need.words)
        return use.problem(need.field, f"{wanted}, and {_have(fitting)}", hint)
    with_cards = f" with {having}" if having else ""
    message = f"no node{_left(use)}{with_cards} offers {need.words}; the most one offers is {number(most)} ({name})"
    return use.problem(need.field, message, hint)


def _only_drained(use: Use, kinds: Sequence[Kind]) -> Problem:
    # A drain ends, so it refuses nothing; the note is for whoever wonders why nothing starts.
    drained = listed(sorted(name for kind in kinds if not kind.takes(use.gpus) for name in kind.nodes))
    asked = _cards(use) if use.gpus else "what it reserves"
    message = f"without what is drained ({drained}) too few nodes have {asked}: a replica waits until it is returned"
    return use.problem("gpu_class" if use.gpus else (), message, "remove drain", severity=Severity.NOTE)


def _without_select(inventory: Inventory, use: Use) -> str | None:
    """That the selection is what keeps it out, where it is."""
    everywhere = [kind for kind in inventory.kinds(use.profile.gpu_class, {}) if kind.gpus >= use.gpus]
    if not use.profile.select or _nodes(everywhere) < use.profile.nodes:
        return None
    return f"without select: {listed(sorted(name for kind in everywhere for name in kind.nodes))}"


def _another_class(inventory: Inventory, use: Use, classes: Mapping[str, GpuClass]) -> str | None:
    """A class here with enough GPUs on enough nodes, none smaller than what was asked for, that the engine runs on."""
    wanted = classes.get(use.profile.gpu_class or "")
    if wanted is None:
        return None
    for gpu_class, most in inventory.classes.items():
        size = classes.get(gpu_class)
        if size is None or most < use.gpus or size.engine_mib < wanted.engine_mib or size is wanted:
            continue
        enough = [kind for kind in inventory.kinds(gpu_class, {}) if kind.gpus >= use.gpus]
        if not runs_on(use.profile.engine, gpu_class) or _nodes(enough) < use.profile.nodes:
            continue
        return f"gpu_class: {gpu_class}  ({most} on {inventory.kinds(gpu_class, {})[0].nodes[0]})"
    return None


def _best(kinds: Sequence[Kind], need: _Need, nodes: int) -> tuple[float, str]:
    """The most that this many of the nodes offer, and one that offers it."""
    offers = sorted(
        (-amount, name) for kind in kinds for name in kind.nodes if (amount := need.offer(kind)) is not None
    )
    amount, name = offers[min(nodes, len(offers)) - 1]
    return -amount, name


def _nodes(kinds: Iterable[Kind]) -> int:
    return sum(len(kind.nodes) for kind in kinds)


def _cards(use: Use) -> str:
    return cards(use.gpus, use.profile.gpu_class or "")


def _left(use: Use) -> str:
    return " that select leaves" if use.profile.select else ""


def _wanted(use: Use, asked: str) -> str:
    count = use.profile.nodes
    return f"{count} nodes{_left(use)} with {asked} each are needed"


def _have(names: Sequence[str]) -> str:
    return f"{len(names)} {'has' if len(names) == 1 else 'have'} them ({listed(sorted(names))})"
