"""What decides memory besides the model's shape and the engine: how a replica would run, on what, from which files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.domain.lock import WeightFormat
from reconciler.domain.model_spec import Task

if TYPE_CHECKING:
    from reconciler.domain.lock import TensorRun


@dataclass(frozen=True, slots=True)
class Stored:
    """The weights of one source as its lock describes them; without any figure they are counted from the shape."""

    weight_bytes: int | None = None
    """Of all weights; authoritative."""
    tensors: tuple[TensorRun, ...] | None = None
    format: WeightFormat = WeightFormat.SAFETENSORS


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU as its class describes it."""

    gpu_class: str
    memory_bytes: int
    """What the driver reports."""
    engine_bytes: int
    """What an engine sees of it: the runtime's total."""


@dataclass(frozen=True, slots=True)
class LoraAsk:
    """Adapters served beside the model."""

    slots: int
    """How many are held on the GPU at once."""
    rank: int
    """Slots are as wide as this, whatever rank an adapter has."""
    file_bytes: int = 0
    """Of all adapters' files together, where locks know; llama.cpp holds them as they are."""


@dataclass(frozen=True, slots=True)
class MemoryAsk:
    """How one replica would run, as far as memory goes. None means: the engine version's own default."""

    tensor: int
    """Ranks that share each matrix; 1 for llama.cpp, and on CPUs of one node."""
    context: int | None
    """Tokens one request may use; None only where nothing is cached."""
    gpus: int = 1
    """GPUs of the whole replica, all nodes together; 0 on CPUs."""
    pipeline: int = 1
    data: int = 1
    """Data-parallel ranks inside the replica; each holds its own attention weights and cache."""
    expert_parallel: bool = False
    task: Task = Task.GENERATE
    concurrency: int | None = None
    """Requests served at once: vLLM's --max-num-seqs, llama.cpp's slots."""
    share: float | None = None
    """The engine's own share of the GPU (`memory_share`)."""
    dtype: str | None = None
    kv_cache_dtype: str | None = None
    """KV type; llama.cpp may have another for V, `value_cache_dtype`."""
    value_cache_dtype: str | None = None
    quantization: str | None = None
    """Set by the profile: quantized while loading where the checkpoint is not."""
    batch_tokens: int | None = None
    """max-num-batched-tokens, chunked-prefill-size or ubatch-size."""
    block_tokens: int | None = None
    """block-size: tokens of one KV block."""
    eager: bool = False
    """No CUDA graphs (enforce-eager)."""
    kv_cache_bytes: int | None = None
    """kv-cache-memory-bytes: the pool per GPU, whatever the share."""
    offload_bytes: int = 0
    """cpu-offload-gb: weights of each GPU that lie in host RAM."""
    decode_context: int = 1
    """decode-context-parallel-size: ranks that share the cache of one request."""
    lora: LoraAsk | None = None
    towers_whole: bool = False
    """mm-encoder-tp-mode data: towers are whole on every rank."""
    projector: Stored | None = None
    """llama.cpp's mmproj."""
    full_windows: bool = False
    """swa-full, or vLLM without its hybrid manager: windows are cached as full attention."""
    flash_attention: bool = True
    unified_cache: bool = False
    """llama.cpp: slots share one cache of `context` tokens instead of having one each."""
    host_bytes: int | None = None
    """Host RAM reserved on each node (`memory_gib`)."""
    threads: int | None = None
    """`cpu_cores`."""
    unsized: tuple[str, ...] = ()
    """Flags that move memory in ways not counted here, as written: they widen the band and are named."""
