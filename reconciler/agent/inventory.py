"""What the node has: its GPUs as measured or declared, and the engines that its agent may start and can. Pure."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.agent.cards import Card, Measurement, class_of, contradicts, sound
from reconciler.agent.plain import plain
from reconciler.domain.observed import ObservedGpu
from reconciler.engines.base import Vendor
from reconciler.placement.room import BUSY_MIB
from reconciler.views.words import counted, spans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from reconciler.agent.config import AgentConfig
    from reconciler.domain.model_spec import Engine
    from reconciler.domain.placement import PlacedGpu
    from reconciler.engines.base import EngineSupport

_WHERE = "correct gpus in agent.json, of the local node in nodes/"
GONE = "the driver no longer shows it"


@dataclass(frozen=True, slots=True)
class Inventory:
    """The GPUs of a node as of the last time that they were looked at."""

    gpus: tuple[ObservedGpu, ...] = ()
    problems: tuple[str, ...] = ()
    """What a person should know: cards that do not answer, and what contradicts the declaration. One sentence each."""
    cards: tuple[Card, ...] = ()
    """As their drivers told, in the order of `gpus`; none where they are declared only."""

    @property
    def shown(self) -> object:
        """What changes in transitions: everything but how much memory is in use, of which it counts whether it is."""
        states = tuple((gpu.uuid, gpu.gpu_class, gpu.answers, (gpu.used_mib or 0) > BUSY_MIB) for gpu in self.gpus)
        return states, self.problems

    def vendor_of(self, placed: Sequence[PlacedGpu]) -> Vendor | None:
        """Who made the placed GPUs, as their driver knows; None where nothing measured them."""
        uuids = {gpu.uuid for gpu in placed}
        return next((card.vendor for card in self.cards if card.uuid in uuids), None)

    def strangers(self, placed: Sequence[PlacedGpu]) -> tuple[PlacedGpu, ...]:
        """Placed GPUs that a measured node does not have: an engine would be started on fewer, or none, unasked."""
        known = {gpu.uuid for gpu in self.gpus}
        measured = bool(self.cards) or self.is_silent
        return tuple(gpu for gpu in placed if measured and gpu.uuid not in known)

    @property
    def is_silent(self) -> bool:
        """Whether a driver is there and does not answer for some GPU."""
        return not all(gpu.answers for gpu in self.gpus)


def declared_gpus(config: AgentConfig) -> tuple[ObservedGpu, ...]:
    """The declared GPUs as an observation shows them: `used_mib` is None, nothing measures them.

    Their UUIDs follow from node and index, so that a restarted agent names the same cards.
    """
    return tuple(
        ObservedGpu(uuid=_declared_uuid(config.node, index), index=index, gpu_class=gpu_class)
        for index, gpu_class in enumerate(config.gpus)
    )


def inventory(config: AgentConfig, found: Measurement, before: Inventory) -> Inventory:
    """The node's GPUs after a measurement: those that drivers show, with declared classes where there are such.

    A card that was there before and is not now is lost: unknown, not free and not gone. Without any driver the declared
    GPUs hold; with one that shows none they do not answer. What a driver tells that cannot be is told as a problem.
    """
    found, doubts = _checked(found)
    cards = _with_lost(found, before.cards)
    if not cards:
        return _none_found(config, found)
    declared = config.gpus
    shown = cards[: len(declared)] if declared else cards
    gpus = tuple(_observed(config, index, card) for index, card in enumerate(shown))
    return Inventory(gpus, (*_silences(found, shown), *doubts, *_contradictions(declared, cards)), shown)


def installed_engines(config: AgentConfig, support: Callable[[Engine], EngineSupport | None]) -> tuple[Engine, ...]:
    """Engines that the config lists, that this version can run, and whose program is there; sorted."""
    return tuple(
        kind
        for kind, command in sorted(config.engines.items())
        if support(kind) is not None and shutil.which(command[0]) is not None
    )


def numa_nodes(measured: Sequence[ObservedGpu], placed: Sequence[PlacedGpu], *, numactl: bool) -> tuple[int, ...]:
    """NUMA node of each placed GPU, in their order, for an engine to bind to; none where one is not known.

    Engines bind by means of `numactl`, and end at once where it is not installed.
    """
    known = {gpu.uuid: gpu.links.numa for gpu in measured if gpu.links is not None}
    found = tuple(numa for gpu in placed if (numa := known.get(gpu.uuid)) is not None)
    return found if numactl and len(found) == len(placed) else ()


def _checked(found: Measurement) -> tuple[Measurement, tuple[str, ...]]:
    """What was told, as it can be counted, and what is wrong with it. No UUID is two GPUs."""
    cards: dict[str, Card] = {}
    doubts: list[str] = []
    for number, told in enumerate(found.cards):
        card, doubt = sound(told)
        doubts += [] if doubt is None else [doubt]
        first = cards.setdefault(card.uuid or f"#{number}", card)
        if first is not card:
            places = " and again ".join(f"at {each.bus or 'no place'}" for each in (first, card))
            doubts.append(f"the driver shows {card.name} with the UUID {card.uuid} {places}: it counts once")
    problem = None if found.problem is None else plain(found.problem) or "the driver gives no reason"
    return found.model_copy(update={"cards": tuple(cards.values()), "problem": problem}), tuple(dict.fromkeys(doubts))


def _with_lost(found: Measurement, before: tuple[Card, ...]) -> tuple[Card, ...]:
    """The cards found, and those of before that are missing among them, in their places.

    A card that tells neither UUID nor place is one of the missing, if any is. One that was divided anew has other UUIDs
    at its place: its former parts are no longer there, and nobody has lost them.
    """
    known = {card.uuid: card for card in before}
    answered = {card.bus for card in found.cards if card.failure is None}
    present = {card.uuid for card in found.cards}
    missing = [card for card in before if card.uuid not in present and card.bus not in answered]
    failing = {card.bus: card.failure for card in found.cards if card.bus is not None}
    unplaced = [card for card in missing if card.bus not in failing]
    placed: list[tuple[tuple[bool, str, bool], Card]] = []
    failures: list[str | None] = []
    bus = ""
    for card in found.cards:
        bus = card.bus or bus  # one that does not even tell its place stays behind its neighbour
        if card.failure is None:
            placed.append((_place(card.vendor, bus), card))
        elif card.uuid in known:
            placed.append((_place(card.vendor, bus), _silent(known[card.uuid], card.failure)))
        elif card.bus is None and len(failures) < len(unplaced):
            failures.append(card.failure)
        elif card.bus not in {each.bus for each in missing}:  # else it is told of by its parts
            placed.append((_place(card.vendor, bus, nameless=card.bus is None), card))
    nameless = iter(failures)
    for card in missing:
        failure = failing[card.bus] if card.bus in failing else next(nameless, None)
        placed.append((_place(card.vendor, card.bus or ""), _silent(card, found.problem or failure or GONE)))
    return tuple(card for _, card in sorted(placed, key=lambda each: each[0]))


def _place(vendor: Vendor, bus: str, *, nameless: bool = False) -> tuple[bool, str, bool]:
    """Where a card stands among those of its node: NVIDIA's first, each vendor's by PCI address."""
    return vendor is not Vendor.NVIDIA, bus, nameless


def _silent(card: Card, failure: str) -> Card:
    return card.model_copy(update={"failure": failure, "used_mib": None})


def _none_found(config: AgentConfig, found: Measurement) -> Inventory:
    declared = declared_gpus(config)
    if found.absent or not declared:
        return Inventory(declared, () if found.absent or found.problem is None else (found.problem,))
    reason = found.problem or "the driver shows no GPU"
    silent = tuple(gpu.model_copy(update={"answers": False}) for gpu in declared)
    return Inventory(silent, (f"{counted(len(declared), 'GPU')} declared, and none can be used: {reason}",))


def _observed(config: AgentConfig, index: int, card: Card) -> ObservedGpu:
    return ObservedGpu(
        uuid=card.uuid or f"unknown-{index}",
        index=index,
        gpu_class=config.gpus[index] if config.gpus else class_of(card),
        memory_mib=card.memory_mib,
        used_mib=card.used_mib,
        answers=card.failure is None,
        links=card.links,
    )


def _silences(found: Measurement, cards: Sequence[Card]) -> Iterator[str]:
    """Which cards do not answer, and why."""
    silent: dict[str, list[int]] = {}
    for index, card in enumerate(cards):
        if card.failure is not None:
            silent.setdefault(card.failure, []).append(index)
    if found.problem is not None and found.problem not in silent:
        yield found.problem
    for failure, indices in silent.items():
        alone = len(indices) == 1
        who = f"{_named(indices[0], cards[indices[0]])} does" if alone else f"GPUs {spans(indices)} do"
        yield f"{who} not answer: {failure}"


def _named(index: int, card: Card) -> str:
    """`GPU 3 (NVIDIA H100 80GB HBM3, GPU-…, 00000000:3d:00.0)`."""
    return f"GPU {index} ({', '.join(filter(None, [card.name, card.uuid, card.bus]))})"


def _contradictions(declared: Sequence[str], cards: Sequence[Card]) -> Iterator[str]:
    """What the declaration says and no driver does."""
    if not declared:
        return
    if len(declared) != len(cards):
        rest = "only those that are there are used" if len(cards) < len(declared) else "the others are not used"
        yield f"{counted(len(declared), 'GPU')} declared and the driver shows {len(cards)}: {rest}; {_WHERE}"
    wrong: dict[tuple[str, str], list[int]] = {}
    for index, (gpu_class, card) in enumerate(zip(declared, cards, strict=False)):
        if card.failure is None and contradicts(gpu_class, card):
            size = "" if card.memory_mib is None else f" with {card.memory_mib} MiB"
            told = f"{card.name}{f' MIG {card.mig}' if card.mig else ''}{size}, class {class_of(card)}"
            wrong.setdefault((gpu_class, told), []).append(index)
    for (gpu_class, told), indices in wrong.items():
        who = f"GPU {indices[0]} is" if len(indices) == 1 else f"GPUs {spans(indices)} are"
        yield f"{who} declared {gpu_class}, which counts, and the driver shows {told}; {_WHERE}"


def _declared_uuid(node: str, index: int) -> str:
    """In the form of NVML's: GPU-8-4-4-4-12 hex digits."""
    text = hashlib.sha256(f"{node}/{index}".encode()).hexdigest()
    return f"GPU-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:32]}"
