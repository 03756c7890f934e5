"""What a driver told of one card, its GPU class, and whether that is what was declared. Pure."""

from __future__ import annotations

import re
from functools import cache

from reconciler.agent.plain import plain
from reconciler.domain.base import Count, Flag, Frozen, Text
from reconciler.domain.observed import GpuLinks
from reconciler.domain.tables import gpu_classes, table
from reconciler.engines.base import Vendor

TOLERANCE = 0.1
"""Of a class's memory: ECC costs GDDR boards a sixteenth, driver generations shift the figure by up to 1.4 %
(facts/engines.md section 5); the sizes of one name that are classes of their own lie further apart."""

MOST_MIB = 2**26
"""64 TiB: no card has more, and a number beyond it is a fault of its driver."""

_UUID = re.compile(r"[A-Za-z0-9][A-Za-z0-9./_-]*")
"""What the variables for visible devices can carry: their words are parted by commas."""

_MAKERS = re.compile(r"\b(nvidia|amd|tesla|geforce|generation)\b")


class Card(Frozen):
    """One GPU, or one MIG slice, as its driver tells."""

    vendor: Vendor
    bus: Text | None
    """PCI address; a slice has its card's. None where the driver tells nothing of a card."""
    uuid: Text | None
    """As the variables for visible devices take it."""
    name: Text
    """The product's; a slice has its card's."""
    mig: Text | None = None
    """MIG profile of a slice, such as `1g.10gb`."""
    card_mib: Count | None = None
    """Memory of the whole card."""
    memory_mib: Count | None = None
    used_mib: Count | None = None
    failure: Text | None = None
    """Why its driver does not answer for it, in the driver's words."""
    links: GpuLinks = GpuLinks()


class Measurement(Frozen):
    """What all drivers of a node told at one time."""

    cards: tuple[Card, ...] = ()
    """In the order of the PCI bus, each card's slices one after the other."""
    problem: Text | None = None
    """Why a driver told nothing."""
    absent: Flag = False
    """There is no driver at all: what is declared is all there is to know."""


def sound(card: Card) -> tuple[Card, str | None]:
    """The card as it can be shown and counted, and what of it a person should know although it answers.

    Its texts become plain ones. One without a UUID that an engine could be given, or with a size that no card has, is
    one that does not answer: nothing may be placed on it. More memory in use than there is is all of it.
    """
    name = plain(card.name) or f"{'AMD' if card.vendor is Vendor.AMD else 'NVIDIA'} GPU"
    failure = None if card.failure is None else plain(card.failure) or "its driver says nothing"
    used, total = card.used_mib, card.memory_mib
    uuid = card.uuid if card.uuid is not None and _UUID.fullmatch(card.uuid) else None
    if failure is None:
        failure = _impossible(card, uuid)
    if failure is not None:
        sizes = {"card_mib": _size(card.card_mib), "memory_mib": _size(total), "used_mib": None}
        return card.model_copy(update={"name": name, "failure": failure, "uuid": uuid, **sizes}), None
    doubt = None
    if used is not None and total is not None and used > total:
        who = ", ".join(filter(None, [uuid, card.bus]))
        doubt = f"{name} ({who}) tells {used} MiB in use of {total} MiB: it counts as full"
        used = total
    return card.model_copy(update={"name": name, "uuid": uuid, "used_mib": used}), doubt


def _impossible(card: Card, uuid: str | None) -> str | None:
    if card.uuid is None:
        return "its driver tells no UUID by which an engine could be told to use it"
    if uuid is None:
        return f"its driver tells the UUID {plain(card.uuid) or 'of blanks'}, which no engine can be told to use"
    for size in (card.card_mib, card.memory_mib):
        if size is not None and _size(size) is None:
            return f"its driver tells that it has {size} MiB of memory"
    return None


def _size(memory_mib: int | None) -> int | None:
    """None where it cannot be."""
    return memory_mib if memory_mib is not None and 0 < memory_mib <= MOST_MIB else None


def class_of(card: Card) -> str:
    """Its GPU class: of the tables by name and memory, else the name as one word; `CLASS/PROFILE` for a slice."""
    name = card.name.lower()
    base = _in_tables(name, card.card_mib) or re.sub(r"[^a-z0-9]+", "-", _MAKERS.sub("", name)).strip("-") or "unknown"
    return f"{base}/{card.mig}" if card.mig else base


def contradicts(declared: str, card: Card) -> bool:
    """Whether a card cannot be of the class that is declared for it.

    Of a class of the fleet's own an agent knows neither name nor size: nothing contradicts it.
    """
    base, _, profile = declared.partition("/")
    if profile.removesuffix("+me") != (card.mig or ""):
        return True
    known = gpu_classes().get(base)
    if known is None:
        return False
    measured = _in_tables(card.name.lower(), card.card_mib)
    if measured is not None:
        return measured != base
    return card.card_mib is not None and abs(card.card_mib - known.memory_mib) > TOLERANCE * known.memory_mib


@cache
def _in_tables(name: str, memory_mib: int | None) -> str | None:
    rows = table("gpu_names")["names"]
    classes: list[str] = next((row["classes"] for row in rows if re.search(row["name"], name)), [])
    if memory_mib is None:
        return classes[0] if len(classes) == 1 else None
    known = gpu_classes()
    by_distance = sorted(classes, key=lambda each: abs(known[each].memory_mib - memory_mib))
    near = (each for each in by_distance if abs(known[each].memory_mib - memory_mib) <= TOLERANCE * memory_mib)
    return next(near, None)
