"""AMD's GPUs from a sysfs tree, in the kernel's own form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.agent.cards import Card, class_of
from reconciler.agent.kfd import kfd_cards
from reconciler.domain.observed import GpuLinks

if TYPE_CHECKING:
    from pathlib import Path

HIVE = 0xC0FFEE


def topology(sysfs: Path, number: int, **properties: int) -> Path:
    node = sysfs / "class/kfd/kfd/topology/nodes" / str(number)
    node.mkdir(parents=True)
    lines = {"cpu_cores_count": 0, "simd_count": 0, **properties}
    (node / "properties").write_text("".join(f"{name} {value}\n" for name, value in lines.items()))
    return node


def device(sysfs: Path, bus: str, *, total: int, used: int, numa: int) -> None:
    folder = sysfs / "bus/pci/devices" / bus
    folder.mkdir(parents=True)
    for name, value in (("mem_info_vram_total", total), ("mem_info_vram_used", used), ("numa_node", numa)):
        (folder / name).write_text(f"{value}\n")


def cards(sysfs: Path) -> list[Card]:
    return [Card.model_validate(each) for each in kfd_cards(sysfs)]


def test_two_cards_of_one_hive(tmp_path: Path) -> None:
    topology(tmp_path, 0, cpu_cores_count=96)
    common = {"simd_count": 1_216, "vendor_id": 0x1002, "device_id": 0x74A1, "domain": 1, "hive_id": HIVE}
    topology(tmp_path, 10, **common, location_id=0x2600, unique_id=0x1A2B)
    topology(tmp_path, 2, **common, location_id=0x0500, unique_id=0xFEDCBA9876543210)
    device(tmp_path, "0001:05:00.0", total=206_141_652_992, used=297_795_584, numa=0)
    device(tmp_path, "0001:26:00.0", total=206_141_652_992, used=150_000_000_000, numa=1)
    first, second = cards(tmp_path)
    assert (first.uuid, second.uuid) == ("GPU-fedcba9876543210", "GPU-0000000000001a2b")
    assert [class_of(each) for each in (first, second)] == ["mi300x", "mi300x"]
    assert (first.bus, first.memory_mib, first.used_mib) == ("0001:05:00.0", 196_592, 284)
    assert second.used_mib == 143_051
    assert (first.links, second.links) == (GpuLinks(nvlink="c0ffee", numa=0), GpuLinks(nvlink="c0ffee", numa=1))
    assert first.failure is None


def test_a_card_without_an_id_cannot_be_named_and_one_of_another_product_has_its_number(tmp_path: Path) -> None:
    topology(tmp_path, 1, simd_count=96, device_id=0x7448, location_id=0x0300)
    (card,) = cards(tmp_path)
    assert (card.uuid, card.failure) == (None, "it has no unique_id by which ROCm could be told to use it")
    assert class_of(card) == "gpu-7448"
    assert (card.memory_mib, card.used_mib, card.links) == (None, None, GpuLinks())


def test_what_is_no_gpu_or_may_not_be_read_is_none(tmp_path: Path) -> None:
    assert cards(tmp_path) == []
    topology(tmp_path, 0, cpu_cores_count=96)
    (topology(tmp_path, 1, simd_count=96) / "properties").unlink()
    assert cards(tmp_path) == []
