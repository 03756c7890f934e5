"""Where engines on PyTorch keep compiled kernels, so that a restart does not compile them again (minutes)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.engines.base import Vendor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.engines.base import Site


def kernel_caches(site: Site) -> Mapping[str, str]:
    """One directory below the site's for each compiler; nothing where the site has none, then their own defaults hold.

    Their defaults lie under $HOME or in /tmp, which a service account may lack and a reboot empties. Of AMD's only
    MIOpen's: AITER keeps its kernels in its own package, and given a directory it no longer finds those that came built
    (`AITER_JIT_DIR`, jit/core.py).
    """
    root = site.cache_dir
    if root is None:
        return {}
    miopen = {"MIOPEN_USER_DB_PATH": f"{root}/miopen/db", "MIOPEN_CUSTOM_CACHE_DIR": f"{root}/miopen/kernels"}
    return {
        "TORCHINDUCTOR_CACHE_DIR": f"{root}/inductor",
        "TORCH_EXTENSIONS_DIR": f"{root}/torch-extensions",
        "TRITON_CACHE_DIR": f"{root}/triton",
        "TILELANG_CACHE_DIR": f"{root}/tilelang",
        "TVM_FFI_CACHE_DIR": f"{root}/tvm-ffi",
        "FLASHINFER_WORKSPACE_BASE": f"{root}/flashinfer",
        # TensorRT-LLM's compiler of FP8 kernels, which FlashInfer has too; under $HOME otherwise (compiler.cuh)
        "TRTLLM_DG_CACHE_DIR": f"{root}/trtllm-deep-gemm",
        "CUDA_CACHE_PATH": f"{root}/cuda",
        **(miopen if site.gpus and site.vendor is Vendor.AMD else {}),
    }
