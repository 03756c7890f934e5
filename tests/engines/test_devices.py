"""Which GPUs a process sees."""

from __future__ import annotations

import pytest

from reconciler.domain.placement import PlacedGpu
from reconciler.domain.tables import table
from reconciler.engines.base import Site, Vendor
from reconciler.engines.devices import vendor_of, visible_devices

NOTHING = {
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    "CUDA_VISIBLE_DEVICES": "",
    "ROCR_VISIBLE_DEVICES": "",
    "HABANA_VISIBLE_MODULES": "",
}
GPUS = (PlacedGpu(uuid="GPU-b", index=5), PlacedGpu(uuid="GPU-a", index=2))


@pytest.mark.parametrize(
    ("gpus", "vendor", "env"),
    [
        (GPUS, Vendor.NVIDIA, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "GPU-b,GPU-a"}),
        (GPUS, Vendor.AMD, {"ROCR_VISIBLE_DEVICES": "GPU-b,GPU-a"}),
        (GPUS, Vendor.INTEL, {"HABANA_VISIBLE_MODULES": "5,2"}),
        ((), Vendor.NVIDIA, NOTHING),
        ((), Vendor.AMD, NOTHING),
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


@pytest.mark.parametrize(
    ("gpu_class", "vendor"),
    [
        ("radeon-w7900-48gb", Vendor.AMD),
        ("radeon", Vendor.AMD),
        ("rx-7900-xtx", Vendor.AMD),
        ("w7900", Vendor.AMD),
        ("instinct-mi100", Vendor.AMD),
        ("amd-lab", Vendor.AMD),
        ("mi300a", Vendor.AMD),
        ("gaudi3-pcie", Vendor.INTEL),
        ("intel-lab", Vendor.INTEL),
        ("hl-325l", Vendor.INTEL),
    ],
)
def test_a_class_of_the_fleets_own_says_by_its_name_who_made_it(gpu_class: str, vendor: Vendor) -> None:
    assert vendor_of(gpu_class) is vendor


@pytest.mark.parametrize("gpu_class", [None, "mine", "mig-slice", "gaudy", "v100-16gb", "amdahl", "h100-80gb/1g.10gb"])
def test_a_class_that_is_nobody_elses_is_nvidias(gpu_class: str | None) -> None:
    assert vendor_of(gpu_class) is Vendor.NVIDIA
