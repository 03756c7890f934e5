"""What reaches one engine process, and the digest over it that says whether a restart is needed.

The digest is taken over the fields that were set to something other than their default, in canonical JSON:
a field added to the schema later, or a default written out, changes no digest and restarts nothing (promise 8).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from reconciler.domain.adapter_slots import USUAL_WIDTH, larger_rooms, room_for, slot_rank, wider_slots
from reconciler.domain.base import Count, Flag, Frozen, Name, Number, Positive, PositiveNumber, Text, digest
from reconciler.domain.model_spec import Engine, EnvName, SecretRef, Task
from reconciler.domain.source import SourceText

if TYPE_CHECKING:
    from typing import Any

    from reconciler.domain.desired import Desired
    from reconciler.domain.model_spec import ModelSpec, Profile


_RANK_FLAG = "--max-lora-rank"

LOADS_LIVE = frozenset({Engine.VLLM, Engine.SGLANG})
"""Engines that load adapters while they serve; llama.cpp takes all of them at its start, with their scales."""


class DeclaredAdapter(Frozen):
    """One adapter that is given to the engine at launch."""

    name: Name
    source: SourceText
    scale: Number | None = None


class Declaration(Frozen):
    """One engine process as declared; the agent builds its command line from this and from the placement.

    A default here stands for "not declared" and must never change its meaning: it is left out of the digest.
    """

    model: Name
    """The served name."""
    engine: Engine
    source: SourceText
    aliases: tuple[Name, ...] = ()
    """Further served names, sorted: their order means nothing."""
    task: Task = Task.GENERATE
    context: Positive | None = None
    version: Text | None = None
    gpu_class: Text | None = None
    """None runs on CPUs."""
    gpus: Count = 0
    """Per node; 0 on CPUs."""
    nodes: Positive = 1
    pipeline_parallel: Positive = 1
    data_parallel: Positive = 1
    expert_parallel: Flag = False
    memory_share: Number | None = None
    kv_cache_dtype: Text | None = None
    dtype: Text | None = None
    quantization: Text | None = None
    max_concurrency: Positive | None = None
    mmproj: SourceText | None = None
    memory_gib: PositiveNumber | None = None
    """Only on CPUs, where it becomes the cache size."""
    cpu_cores: Positive | None = None
    """Only on CPUs, where it becomes the thread count."""
    adapters: tuple[DeclaredAdapter, ...] = ()
    adapter_rank: Positive | None = Field(default=None, exclude_if=lambda rank: rank is None)
    """Width of the slots for adapters, where their locks ask for more than the usual one and they are loaded live; else
    it is not sent, so that an older agent reads the rest."""
    args: tuple[str, ...] = ()
    env: dict[EnvName, str | SecretRef] | None = None

    @property
    def loads_adapters(self) -> bool:
        """Whether adapters come and go while it serves; then which ones is not in the launch digest.

        Only an engine that was started with slots for some, from which SGLang also learns the modules they change; with
        one API server, since each of several would know its own adapters only (vLLM refuses to start so, SGLang to
        load); and on one node, since an adapter's path is sent and may differ on others. None that has a scale, which
        is said at a start.
        """
        if not self.adapters or any(adapter.scale is not None for adapter in self.adapters):
            return False
        return self.engine in LOADS_LIVE and self.data_parallel == 1 and self.nodes == 1

    def launch_digest(self) -> str:
        """64 hex digits; two declarations with one digest are served by the same process, adapters loaded live apart.

        In place of those it has the room that is made for them.
        """
        return self._digest(room_for(len(self.adapters)), self.adapter_rank)

    def digests_with_more_room(self) -> tuple[str, ...]:
        """Launch digests of processes that were started for more or wider adapters, and serve this too."""
        if not self.loads_adapters:
            return ()
        rooms = (room_for(len(self.adapters)), *larger_rooms(len(self.adapters)))
        widths = (self.adapter_rank, *wider_slots(self.adapter_rank))
        return tuple(self._digest(room, width) for room in rooms for width in widths)[1:]

    def _digest(self, room: int, width: int | None) -> str:
        declared = self.declared()
        if self.loads_adapters:
            declared |= {"adapters": {"room": room}} | ({} if width is None else {"adapter_rank": width})
        return digest(declared)

    def declared(self) -> dict[str, Any]:
        """The fields that differ from their default, as plain JSON data."""
        return self.model_dump(mode="json", exclude_defaults=True)


def declare(desired: Desired, model: ModelSpec, profile: Profile) -> Declaration:
    """What a replica of this model under this profile would run. The model is not external.

    The profile's name, select, scaling, class, owner, fallbacks and rollout do not reach the process and stay out.
    """
    source = profile.source or model.source
    assert source is not None, f"{model.name} has neither source nor external"  # noqa: S101  # the loader refuses it
    on_gpus = profile.gpu_class is not None
    declaration = Declaration(
        model=model.name,
        engine=profile.engine,
        source=source,
        aliases=tuple(sorted(model.aliases)),
        task=model.task,
        context=model.context,
        version=desired.version(profile),
        gpu_class=profile.gpu_class,
        gpus=(1 if profile.gpus is None else profile.gpus) if on_gpus else 0,
        nodes=profile.nodes,
        pipeline_parallel=profile.pipeline_parallel,
        data_parallel=profile.data_parallel,
        expert_parallel=profile.expert_parallel,
        memory_share=profile.memory_share,
        kv_cache_dtype=profile.kv_cache_dtype,
        dtype=profile.dtype,
        quantization=profile.quantization,
        max_concurrency=profile.max_concurrency,
        mmproj=profile.mmproj,
        memory_gib=None if on_gpus else profile.memory_gib,
        cpu_cores=None if on_gpus else profile.cpu_cores,
        adapters=tuple(DeclaredAdapter.model_validate(each.model_dump()) for each in model.adapters),
        args=profile.args,
        env=profile.env or None,
    )
    width = _slot_width(desired, model, profile) if declaration.loads_adapters else USUAL_WIDTH
    return declaration if width == USUAL_WIDTH else declaration.model_copy(update={"adapter_rank": width})


def _slot_width(desired: Desired, model: ModelSpec, profile: Profile) -> int:
    """As wide as the widest adapter by its lock, or the usual width where `args` say it: then they decide alone."""
    lock = desired.locks.get(model.name)
    if lock is None or any(word.split("=")[0].replace("_", "-") == _RANK_FLAG for word in profile.args):
        return USUAL_WIDTH
    sources = {adapter.source for adapter in model.adapters}
    ranks = [(each.adapter_config or {}).get("r") for each in lock.sources if each.source in sources]
    return slot_rank(rank for rank in ranks if type(rank) is int and rank > 0)
