"""Where engines on PyTorch keep compiled kernels, so that a restart does not compile them again (minutes)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.engines.base import Site


def kernel_caches(site: Site) -> Mapping[str, str]:
    """One directory below the site's for each compiler; nothing where the site has none, then their own defaults hold.

    Their defaults lie under $HOME or in /tmp, which a service account may lack and a reboot empties.
    """
    root = site.cache_dir
    if root is None:
        return {}
    return {
        "TORCHINDUCTOR_CACHE_DIR": f"{root}/inductor",
        "TRITON_CACHE_DIR": f"{root}/triton",
        "FLASHINFER_WORKSPACE_BASE": f"{root}/flashinfer",
        "CUDA_CACHE_PATH": f"{root}/cuda",
    }
