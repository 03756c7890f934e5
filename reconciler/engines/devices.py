"""Which GPUs an engine's process sees: variables by vendor."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from reconciler.engines.base import Vendor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.engines.base import Site

_FAMILY = re.compile(r"(mi|gaudi)\d")
_VENDORS = {"mi": Vendor.AMD, "gaudi": Vendor.INTEL}
"""How the product names of those vendors begin; all others in our tables are NVIDIA's."""


def vendor_of(gpu_class: str | None) -> Vendor:
    """Who makes GPUs of this class, by its name, for a node whose GPUs are declared and not measured."""
    found = _FAMILY.match(gpu_class or "")
    return Vendor.NVIDIA if found is None else _VENDORS[found[1]]


def visible_devices(site: Site) -> Mapping[str, str]:
    """Exactly the placed GPUs, in the order placed; none at all for a replica on CPUs.

    By UUID: indices differ between drivers, container runtimes and CUDA's own order of speed, and a list with an index
    that does not exist is cut there without a word. Of AMD's variables only ROCR's is set: HIP's counts within what
    ROCR leaves, so that both together would choose twice.
    """
    uuids = ",".join(gpu.uuid for gpu in site.gpus)
    if not site.gpus:
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ""}
    match site.vendor:
        case Vendor.NVIDIA:
            return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": uuids}
        case Vendor.AMD:
            return {"ROCR_VISIBLE_DEVICES": uuids}
        case Vendor.INTEL:  # takes module numbers only
            return {"HABANA_VISIBLE_MODULES": ",".join(str(gpu.index) for gpu in site.gpus)}
