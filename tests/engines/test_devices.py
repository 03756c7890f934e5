"""Which GPUs a process sees."""

from __future__ import annotations

import pytest

from reconciler.domain.placement import PlacedGpu
from reconciler.domain.tables import table
from reconciler.engines.base import Site, Vendor
from reconciler.engines.devices import vendor_of, visible_devices

GPUS = (PlacedGpu(uuid="GPU-b", index=5), PlacedGpu(uuid="GPU-a", index=2))


@pytest.mark.parametrize(
    ("gpus", "vendor", "env"),
    [
        (GPUS, Vendor.NVIDIA, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "GPU-b,GPU-a"}),
        (GPUS, Vendor.AMD, {"ROCR_VISIBLE_DEVICES": "GPU-b,GPU-a"}),
        (GPUS, Vendor.INTEL, {"HABANA_VISIBLE_MODULES": "5,2"}),
        ((), Vendor.NVIDIA, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ""}),
    ],
)
def test_the_placed_gpus_are_seen_in_their_order(
    gpus: tuple[PlacedGpu, ...], vendor: Vendor, env: dict[str, str]
) -> None:
    assert visible_devices(Site("127.0.0.1", 20_000, "/weights", gpus=gpus, vendor=vendor)) == env


def test_every_class_of_the_tables_has_its_vendor() -> None:
    by_vendor: dict[Vendor, list[str]] = {}
    for name in table("gpu_classes")["classes"]:
        by_vendor.setdefault(vendor_of(name), []).append(name)
    assert all(name.startswith("mi") for name in by_vendor[Vendor.AMD])
    assert all(name.startswith("gaudi") for name in by_vendor[Vendor.INTEL])
    assert not any(name.startswith(("mi2", "mi3", "gaudi")) for name in by_vendor[Vendor.NVIDIA])


@pytest.mark.parametrize("gpu_class", [None, "mine", "mig-slice", "gaudy", "h100-80gb/1g.10gb"])
def test_a_class_that_is_nobody_elses_is_nvidias(gpu_class: str | None) -> None:
    assert vendor_of(gpu_class) is Vendor.NVIDIA
