"""Which GPUs an engine's process sees: variables by vendor."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from reconciler.engines.base import Vendor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.engines.base import Site

_FAMILIES = {
    Vendor.AMD: re.compile(r"mi\d|(amd|instinct|radeon|firepro)(?![a-z])|rx-?\d{3}|w\d{4}"),
    Vendor.INTEL: re.compile(r"gaudi\d|(intel|gaudi|hl)(?![a-z])"),
}
"""How names of those makers' products begin, those of a fleet's own classes too; all others are NVIDIA's."""


def vendor_of(gpu_class: str | None) -> Vendor:
    """Who makes GPUs of this class, by its name, for a node whose GPUs are declared and not measured."""
    name = gpu_class or ""
    return next((vendor for vendor, family in _FAMILIES.items() if family.match(name)), Vendor.NVIDIA)


def visible_devices(site: Site) -> Mapping[str, str]:
    """Exactly the placed GPUs, in the order placed; none at all, of no vendor, for a replica on CPUs.

    By UUID: indices differ between drivers, container runtimes and CUDA's own order of speed, and a list with an index
    that does not exist is cut there without a word. Of AMD's variables only ROCR's is set: HIP's counts within what
    ROCR leaves, so that both together would choose twice.
    """
    uuids = ",".join(gpu.uuid for gpu in site.gpus)
    if not site.gpus:
        return {
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": "",
            "ROCR_VISIBLE_DEVICES": "",
            "HABANA_VISIBLE_MODULES": "",
        }
    match site.vendor:
        case Vendor.NVIDIA:
            return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": uuids}
        case Vendor.AMD:
            return {"ROCR_VISIBLE_DEVICES": uuids}
        case Vendor.INTEL:  # takes module numbers only
            return {"HABANA_VISIBLE_MODULES": ",".join(str(gpu.index) for gpu in site.gpus)}
