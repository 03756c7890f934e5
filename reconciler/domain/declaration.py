"""What reaches one engine process, and the digest over it that says whether a restart is needed.

The digest is taken over the fields that were set to something other than their default, in canonical JSON:
a field added to the schema later, or a default written out, changes no digest and restarts nothing (promise 8).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.base import Count, Flag, Frozen, Name, Number, Positive, PositiveNumber, Text, digest
from reconciler.domain.model_spec import Engine, EnvName, SecretRef, Task
from reconciler.domain.source import SourceText

if TYPE_CHECKING:
    from typing import Any

    from reconciler.domain.desired import Desired
    from reconciler.domain.model_spec import ModelSpec, Profile


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
    args: tuple[str, ...] = ()
    env: dict[EnvName, str | SecretRef] | None = None

    def launch_digest(self) -> str:
        """64 hex digits; two declarations with one digest run the same process."""
        return digest(self.declared())

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
    return Declaration(
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
