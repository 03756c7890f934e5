"""The CUDA generation of a GPU class, which decides what kernels there are."""

from __future__ import annotations

from reconciler.domain.tables import table


def capability(gpu_class: str) -> tuple[int, int] | None:
    """Compute capability of a class, of a MIG slice that of its card; None where it is not known or not CUDA."""
    found = table("capabilities")["classes"].get(gpu_class.split("/", 1)[0])
    return (found[0], found[1]) if found is not None else None
