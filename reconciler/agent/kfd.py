"""AMD's GPUs as the kernel shows them below /sys/class/kfd: no library and no privilege is needed for that.

The fields are those of the kernel's `kfd_topology.c`. A node with `simd_count` 0 is a CPU. ROCm names a GPU by its
`unique_id`: `GPU-` and 16 hex digits, which ROCR_VISIBLE_DEVICES takes. Read, not run: no such card was at hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MIB = 2**20

_NAMES = {
    0x7408: "MI250X",
    0x740C: "MI250X",
    0x740F: "MI210",
    0x74A1: "MI300X",
    0x74B5: "MI300X",
    0x74A5: "MI325X",
    0x75A0: "MI350X",
    0x75A3: "MI355X",
}
"""PCI device ids (the PCI ID database) of the classes in our tables; 74b5 is a MI300X given to a virtual machine."""


def kfd_cards(sysfs: Path) -> Iterator[dict[str, Any]]:
    """AMD's GPUs in the order in which ROCm numbers them, with the fields of `cards.Card`."""
    nodes = sysfs / "class/kfd/kfd/topology/nodes"
    try:
        numbered = sorted((int(each.name), each) for each in nodes.iterdir() if each.name.isdecimal())
    except OSError:
        return
    for _, node in numbered:
        facts = _properties(node)
        if facts.get("simd_count") and facts.get("vendor_id", 0x1002) == 0x1002:  # noqa: PLR2004  # AMD's id
            yield _card(sysfs, facts)


def _card(sysfs: Path, facts: dict[str, int]) -> dict[str, Any]:
    location, device_id = facts.get("location_id", 0), facts.get("device_id", 0)
    slot = f"{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 7}"
    bus = f"{facts.get('domain', 0):04x}:{slot}"
    device = sysfs / "bus/pci/devices" / bus
    total, used, numa = (_number(device / name) for name in ("mem_info_vram_total", "mem_info_vram_used", "numa_node"))
    hive, unique = facts.get("hive_id"), facts.get("unique_id")
    memory = None if total is None else total // _MIB
    return {
        "vendor": "amd",
        "bus": bus,
        "uuid": f"GPU-{unique:016x}" if unique else None,
        "name": f"AMD {_NAMES.get(device_id, f'GPU {device_id:04x}')}",
        "mig": None,
        "card_mib": memory,
        "memory_mib": memory,
        "used_mib": None if used is None else used // _MIB,
        "failure": None if unique else "it has no unique_id by which ROCm could be told to use it",
        # A hive is a set of GPUs that reach each other over XGMI, every pair of them.
        "links": {"nvlink": f"{hive:x}" if hive else None, "numa": None if numa is None or numa < 0 else numa},
    }


def _properties(node: Path) -> dict[str, int]:
    """`name value` a line; one that may not be read (a GPU of another container) has none."""
    try:
        lines = (node / "properties").read_text("ascii").splitlines()
    except OSError:
        return {}
    words = (line.split() for line in lines)
    return {each[0]: int(each[1]) for each in words if len(each) == 2 and each[1].isdecimal()}  # noqa: PLR2004


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text("ascii"))
    except (OSError, ValueError):
        return None
