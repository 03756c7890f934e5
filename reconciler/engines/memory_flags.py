"""What a profile asks of memory: its YAML fields, and the arguments that sizing reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reconciler.domain.adapter_slots import gpu_slots, slot_rank
from reconciler.domain.lock import WeightFormat
from reconciler.domain.model_spec import Engine
from reconciler.sizing.memory_ask import LoraAsk, MemoryAsk, Stored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.domain.lock import LockedSource
    from reconciler.domain.model_spec import ModelSpec, Profile
    from reconciler.engines.flags import ReadArgs

_GIB = 2**30
_BATCH = ("max-num-batched-tokens", "chunked-prefill-size", "ubatch-size")


def memory_ask(
    model: ModelSpec,
    profile: Profile,
    args: ReadArgs,
    *,
    gpus: int,
    adapters: Sequence[LockedSource | None] = (),
    projector: LockedSource | None = None,
) -> MemoryAsk:
    """How one replica would run on `gpus` GPUs of each of its nodes; 0 on CPUs, where it has one rank on each.

    `adapters` are the locked sources of the model's adapters, None for one without; `projector` is that of `mmproj`.
    A count that the profile's stages and ranks do not divide is refused elsewhere and rounded down here.
    """
    read = {word: each.value for word, each in args.sizing().items()}
    on_gpus = profile.gpu_class is not None and gpus > 0
    ranks, data = (gpus if on_gpus else 1) * profile.nodes, profile.data_parallel
    if profile.engine is Engine.SGLANG:
        # Its data-parallel ranks are engines of their own: neither experts nor anything else is split over them.
        ranks, data = max(1, ranks // data), 1
    tensor = 1 if profile.engine is Engine.LLAMACPP else max(1, ranks // (profile.pipeline_parallel * data))
    return MemoryAsk(
        tensor=tensor,
        context=model.context,
        gpus=ranks if on_gpus else 0,
        pipeline=profile.pipeline_parallel,
        data=data,
        expert_parallel=profile.expert_parallel,
        task=model.task,
        concurrency=profile.max_concurrency,
        share=profile.memory_share,
        dtype=profile.dtype,
        kv_cache_dtype=profile.kv_cache_dtype,
        quantization=profile.quantization,
        batch_tokens=_batch(read),
        block_tokens=_whole(read.get("block-size")),
        eager=read.get("enforce-eager") is True,
        kv_cache_bytes=_whole(read.get("kv-cache-memory-bytes")),
        offload_bytes=_gib(read.get("cpu-offload-gb")) or 0,
        decode_context=_whole(read.get("decode-context-parallel-size")) or 1,
        lora=_lora(model, profile.engine, _whole(read.get("max-lora-rank")), adapters),
        towers_whole=read.get("mm-encoder-tp-mode") in ("data", True),
        projector=stored(projector) if projector is not None else None,
        full_windows=read.get("swa-full") is True,
        flash_attention=read.get("flash-attn") not in ("off", "false", "disabled", "0"),
        host_bytes=_gib(profile.memory_gib),
        threads=profile.cpu_cores,
        unsized=tuple(dict.fromkeys(each.spelling for each in args.unsized())),
    )


def stored(source: LockedSource | None) -> Stored:
    """The weights of a source as its lock has them; nothing is known of them without one."""
    if source is None:
        return Stored(format=WeightFormat.SAFETENSORS)
    return Stored(source.weight_bytes, source.tensors, source.format)


def _batch(read: dict[str, Any]) -> int | None:
    """Tokens of one step; SGLang's -1 means no chunks, which is no number."""
    return next((found for word in _BATCH if (found := _whole(read.get(word))) is not None), None)


def _whole(value: object) -> int | None:
    return value if type(value) is int and value > 0 else None


def _gib(value: object) -> int | None:
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return int(value * _GIB)
    return None


def _lora(
    model: ModelSpec, engine: Engine, rank: int | None, adapters: Sequence[LockedSource | None]
) -> LoraAsk | None:
    """The slots of a launch, as wide as the flag says, else as the widest adapter needs."""
    if not model.adapters:
        return None
    known = [found for each in adapters if each is not None and (found := _rank(each)) is not None]
    size = sum(each.weight_bytes or 0 for each in adapters if each is not None)
    return LoraAsk(gpu_slots(engine, len(model.adapters)), rank or slot_rank(known), size)


def _rank(source: LockedSource) -> int | None:
    return _whole((source.adapter_config or {}).get("r"))
