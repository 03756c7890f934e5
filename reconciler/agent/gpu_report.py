"""Prints what the drivers of this node say of its GPUs, as one JSON object; the agent runs it as a program of its own.

A driver may hang a call for ever or crash whoever asks, and the agent must outlive both. Each run opens the driver and
closes it again, so that the agent never keeps one from being reloaded, or a card from being reset. Nothing here but the
standard library and NVML: it runs every half a minute and is over in a tenth of a second.
"""

from __future__ import annotations

import json
import re
import signal
import sys
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pynvml

from reconciler.agent.kfd import kfd_cards

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Card = dict[str, Any]
    """One GPU or MIG slice, with the fields of `cards.Card`."""

_MIB = 2**20

_ENDS_AFTER = 90
"""Seconds after which it ends by itself if nobody ended it: its agent may be gone while a driver hangs."""

_NO_DRIVER = (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
"""Nothing of NVIDIA's is in use on this node; every other error is a driver that should answer and does not."""

_PER_CARD = (pynvml.NVMLError, ValueError)
"""What one card's answer may end in; NVML's binding decodes texts, and those of a broken card may be no UTF-8."""

_BUS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")

_EIGHTHS = 8
"""MIG profiles are named by the memory of their slice in eighths of the card's, rounded up (NVIDIA's go-nvlib)."""


def main(sysfs: Path) -> None:
    """Report on stdout."""
    cards, problem, absent = _nvidia(sysfs)
    amd = list(kfd_cards(sysfs))
    problem = None if absent and amd else problem
    print(json.dumps({"cards": cards + amd, "problem": problem, "absent": absent and not amd}))  # noqa: T201  # its product


def _nvidia(sysfs: Path) -> tuple[list[Card], str | None, bool]:
    """Cards in the order of the PCI bus; why there are none; whether that is because there is no driver at all."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return [], f"NVIDIA's driver says: {str(error).rstrip('.')}", error.value in _NO_DRIVER
    try:
        return list(_cards(sysfs)), None, False
    except _PER_CARD as error:
        return [], f"NVIDIA's driver says: {_told(error)}", False
    finally:
        pynvml.nvmlShutdown()


def _cards(sysfs: Path) -> Iterator[Card]:
    found = [_handle(number) for number in range(pynvml.nvmlDeviceGetCount())]
    last, keyed = "", []
    for handle, card in found:
        last = card["bus"] or last  # one that does not even tell its place stays behind its neighbour
        keyed.append((last, handle, card))
    keyed.sort(key=lambda each: each[0])
    handles = {card["bus"]: handle for _, handle, card in keyed if card["failure"] is None and card["bus"]}
    nvlink, switch = islands(handles, _linked), islands(handles, _on_one_switch)
    for _, handle, card in keyed:
        bus = card["bus"]
        card["links"]["numa"] = None if bus is None else numa_node(sysfs, bus)
        try:
            slices = None if card["failure"] is not None else _slices(handle, card)
        except _PER_CARD as error:  # lost meanwhile: the others are not
            slices, card["failure"] = None, _told(error)
        if slices is not None:
            yield from slices
            continue
        card["links"] |= {"nvlink": nvlink.get(bus), "switch": switch.get(bus)}
        yield card


def _handle(number: int) -> tuple[Any, Card]:
    """One card; with `failure` where its driver does not answer for it, and what could be read before that."""
    card: Card = {
        "vendor": "nvidia",
        "bus": None,
        "uuid": None,
        "name": "NVIDIA GPU",
        "mig": None,
        "card_mib": None,
        "memory_mib": None,
        "used_mib": None,
        "failure": None,
        "links": {},
    }
    handle = None
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(number)
        bus = _text(pynvml.nvmlDeviceGetPciInfo(handle).busId).lower()
        card["bus"] = bus if _BUS.fullmatch(bus) else None
        card["uuid"] = _text(pynvml.nvmlDeviceGetUUID(handle)).strip() or None
        card["name"] = _text(pynvml.nvmlDeviceGetName(handle)).strip() or card["name"]
        card |= _memory(handle)
        card["card_mib"] = card["memory_mib"]
    except _PER_CARD as error:
        card["failure"] = _told(error)
    return handle, card


def _memory(handle: Any) -> Mapping[str, int | None]:
    """Total and used MiB, without what the driver keeps for itself; None where a GPU has no memory of its own."""
    try:
        info = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    except (pynvml.NVMLError_FunctionNotFound, pynvml.NVMLError_ArgumentVersionMismatch):  # drivers before 510
        info = pynvml.nvmlDeviceGetMemoryInfo(handle)
    except pynvml.NVMLError_NotSupported:
        return {"memory_mib": None, "used_mib": None}
    return {"memory_mib": info.total // _MIB, "used_mib": info.used // _MIB}


def _slices(handle: Any, card: Card) -> list[Card] | None:
    """The MIG slices of a card, each a GPU with its own UUID and memory; None where it is not divided."""
    try:
        divided = pynvml.nvmlDeviceGetMigMode(handle)[0] == pynvml.NVML_DEVICE_MIG_ENABLE
        if not divided:
            return None
        slices = []
        for number in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            try:
                part = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
            except pynvml.NVMLError_NotFound:  # numbers are given once and may have gaps
                continue
            told = pynvml.nvmlDeviceGetAttributes(part)
            profile = mig_profile(told.gpuInstanceSliceCount, told.memorySizeMB, card["card_mib"] or 0)
            own = {"uuid": _text(pynvml.nvmlDeviceGetUUID(part)).strip() or None, "mig": profile, **_memory(part)}
            slices.append({**card, **own, "links": {"numa": card["links"]["numa"]}})
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        return None
    return slices


def mig_profile(slices: int, memory_mib: int, card_mib: int) -> str:
    """`1g.10gb`: as NVIDIA names it. The `+me` of one with media extensions is not told apart."""
    card_gb = -(-card_mib // 1_024)
    eighths = -(-memory_mib * _EIGHTHS // max(card_mib, 1))
    return f"{slices}g.{round(eighths * card_gb / _EIGHTHS)}gb"


def _linked(one: Any, other: Any) -> bool:
    """Whether two cards reach each other over NVLink, as vLLM asks it too."""
    status = pynvml.nvmlDeviceGetP2PStatus(one, other, pynvml.NVML_P2P_CAPS_INDEX_NVLINK)
    return bool(status == pynvml.NVML_P2P_STATUS_OK)


def _on_one_switch(one: Any, other: Any) -> bool:
    """Whether only PCIe switches are between two cards: PIX and PXB in `nvidia-smi topo -m`."""
    return bool(pynvml.nvmlDeviceGetTopologyCommonAncestor(one, other) <= pynvml.NVML_TOPOLOGY_MULTIPLE)


def islands(handles: Mapping[str, Any], joined: Any) -> dict[str, str]:
    """Names of islands by bus id: in one, every two cards are `joined`. A card without a neighbour is in none."""
    pairs = {(one, other) for one, other in combinations(handles, 2) if _asked(joined, handles[one], handles[other])}
    made: list[list[str]] = []
    for bus in handles:
        home = next((each for each in made if all((member, bus) in pairs for member in each)), None)
        if home is None:
            made.append([bus])
        else:
            home.append(bus)
    return {bus: each[0] for each in made if len(each) > 1 for bus in each}


def _asked(joined: Any, one: Any, other: Any) -> bool:
    """False also where the driver cannot tell."""
    try:
        return bool(joined(one, other))
    except _PER_CARD:
        return False


def numa_node(sysfs: Path, bus: str) -> int | None:
    """The NUMA node of a PCI device; None where the machine has one only, or does not tell (-1)."""
    domain, _, rest = bus.partition(":")
    try:
        number = int((sysfs / "bus/pci/devices" / f"{int(domain, 16):04x}:{rest}" / "numa_node").read_text("ascii"))
    except (OSError, ValueError):
        return None
    return number if number >= 0 else None


def _told(error: Exception) -> str:
    """In the driver's words, or that what it told is no text."""
    if isinstance(error, UnicodeDecodeError):
        return f"its driver tells a text that is not UTF-8 ({error.object[:16]!r})"
    return str(error).rstrip(".") or type(error).__name__


def _text(value: Iterable[int] | str) -> str:
    return value if isinstance(value, str) else bytes(value).decode(errors="replace")


if __name__ == "__main__":
    signal.alarm(_ENDS_AFTER)
    main(Path(sys.argv[1]))
