"""One model of the catalog as its YAML file states it (`cluster/models/<name>.yaml`).

Fields that were not written stay unset (`model_fields_set`), so that a default never reaches a digest.
What several fields must agree on is checked in `domain.consistency`, so that all findings come at once.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from reconciler.domain.base import (
    Duration,
    Flag,
    Frozen,
    Gibs,
    Name,
    Number,
    Parts,
    PositiveNumber,
    Replicas,
    Text,
    Tokens,
    Whole,
)
from reconciler.domain.source import SourceText

EnvName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class Engine(StrEnum):
    """The program a replica runs."""

    VLLM = "vllm"
    SGLANG = "sglang"
    TRTLLM = "trtllm"
    LLAMACPP = "llamacpp"
    COMFYUI = "comfyui"


class Task(StrEnum):
    """What requests a model answers; readiness asks one of this kind."""

    GENERATE = "generate"
    EMBED = "embed"
    RERANK = "rerank"
    TRANSCRIBE = "transcribe"
    IMAGE = "image"


class PriorityClass(StrEnum):
    """Who gives way when GPUs are short; the order of the members is the order of importance."""

    CRITICAL = "critical"
    STANDARD = "standard"
    OPPORTUNISTIC = "opportunistic"


class Strategy(StrEnum):
    """How a replica is replaced: beside itself, after it has stopped, or beside itself only where there is room."""

    SURGE = "surge"
    SURGE_OR_IN_PLACE = "surge_or_in_place"
    IN_PLACE = "in_place"


class SecretRef(Frozen):
    """A secret by name; the agent resolves it in its secrets directory."""

    secret: Name
    """Name of its file in the agent's secrets directory."""


class External(Frozen):
    """A model that somebody else serves; nothing is launched for it."""

    url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+$")]
    """Base URL of its OpenAI API."""
    model: Annotated[str, StringConstraints(pattern=r"^[^\s]{1,256}$")] | None = None
    """Name it has there, such as org/name; the model's own name or an alias when not written."""
    api_key_env: EnvName | None = None
    """Environment variable of the reconciler that holds the key."""


class Scaling(Frozen):
    """How many replicas. Without `target` the count is exactly `min`."""

    min: Replicas = 1
    """Replicas that must always run; 0 with max above it is on demand (`reconciler wake` loads one), 0 with max 0 is
    kept but not run."""
    max: Replicas | None = None
    """Upper bound; min when not written."""
    idle_timeout: Duration | None = None
    """On demand: stop the replica after this long without a request; 0 is the fleet's default. `reconciler wake` loads
    it again."""
    target: PositiveNumber | None = None
    """Requests in flight per replica that scaling aims at."""


class Rollout(Frozen):
    """How replicas of a model are replaced; fields not written come from the fleet's defaults, then from these."""

    strategy: Strategy = Strategy.SURGE
    """surge starts the successor beside the running replica, in_place stops the running one first."""
    max_surge: Replicas = 1
    """Replicas that may run above the desired count during a rollout."""
    max_unavailable: Replicas | None = None
    """Replicas that may be missing during a rollout; 0, or 1 in place."""
    min_ready: Duration = Field(default="10s", validate_default=True)
    """A successor counts only after it has been ready for this long."""
    ready_timeout: Duration = Field(default="30m", validate_default=True)
    """A replica without progress for this long while starting has failed."""
    drain_timeout: Duration = Field(default="2m", validate_default=True)
    """Requests in flight get this long to end before the engine is signalled."""
    withdraw_delay: Duration = Field(default="5s", validate_default=True)
    """Time between withdrawal from routing and the start of the drain, so that clients notice."""
    bake: Duration = Field(default="0s", validate_default=True)
    """The first successor of a rollout serves for this long before the next replica is replaced."""


class Adapter(Frozen):
    """A LoRA adapter served beside its base model."""

    name: Name
    """Name under which requests ask for it."""
    source: SourceText
    """Where its files come from."""
    scale: Number | None = None
    """Strength, for llama.cpp only."""


class Profile(Frozen):
    """One way to run a model; profiles are tried in the order written."""

    name: Name
    """Unique within the model."""
    engine: Engine
    """The program: vllm, sglang, trtllm, llamacpp or comfyui."""
    version: Text | None = None
    """Engine version; else the fleet's default for this engine, else the newest known."""
    source: SourceText | None = None
    """Weights for this profile when they differ from the model's."""
    gpu_class: Text | None = None
    """Kind of GPU, such as h100-80gb; without it the profile runs on CPUs."""
    gpus: Whole | None = Field(default=None, json_schema_extra={"minimum": 1, "maximum": 64})
    """GPUs per replica on one node, 1 to 64; 1 where gpu_class is set."""
    nodes: Parts = 1
    """Nodes one replica spans; gpus stays per node."""
    pipeline_parallel: Parts = 1
    """Pipeline stages."""
    data_parallel: Parts = 1
    """Data-parallel ranks inside one replica."""
    expert_parallel: Flag = False
    """Spread experts over the GPUs instead of splitting each."""
    memory_share: Number | None = None
    """Share of the GPU the engine may take, 0 to 1; the engine version's own default when not written."""
    kv_cache_dtype: Text | None = None
    """Type of the KV cache, in the engine's own words."""
    dtype: Text | None = None
    """Compute type, in the engine's own words."""
    quantization: Text | None = None
    """Quantization method, in the engine's own words."""
    max_concurrency: Parts | None = None
    """Requests served at once: vLLM's --max-num-seqs, llama.cpp's slots, and so on."""
    mmproj: SourceText | None = None
    """llama.cpp's multimodal projector."""
    memory_gib: Gibs | None = None
    """Host RAM reserved on each node, GiB."""
    cpu_cores: Parts | None = None
    """CPU cores reserved on each node; on a CPU profile also the engine's threads."""
    select: dict[Text, Text] | None = None
    """Node labels that must match, or node: NAME."""
    args: tuple[str, ...] = ()
    """Further engine arguments, passed as written."""
    env: dict[EnvName, str | SecretRef] | None = None
    """Environment of the engine: text, or a secret by name."""


class ModelSpec(Frozen):
    """One model in the catalog; the file's stem is its name."""

    name: Name
    """Name of the model, and the first name under which it is served."""
    source: SourceText | None = None
    """Weights; this or external."""
    external: External | None = None
    """A model that somebody else serves; this or source."""
    context: Tokens | None = None
    """Tokens one request may use, prompt and answer together."""
    aliases: tuple[Name, ...] = ()
    """Further names under which it is served."""
    task: Task = Task.GENERATE
    """generate, embed, rerank, transcribe or image."""
    priority: PriorityClass | None = Field(default=None, alias="class")
    """critical, standard or opportunistic; opportunistic for an on-demand model, else standard."""
    scaling: Scaling = Scaling()
    """How many replicas. {min: 2} runs two for ever. {min: 0, max: 1} is on demand: none runs until somebody says
    `reconciler wake MODEL`, one is loaded then, and it stops once nobody has asked it anything for `idle_timeout`.
    {min: 0, max: 0} keeps the model in the catalog and runs none."""
    profiles: tuple[Profile, ...] = ()
    """Ways to run it, tried in order."""
    adapters: tuple[Adapter, ...] = ()
    """LoRA adapters served beside it."""
    fallbacks: tuple[Name, ...] = ()
    """Models that answer when this one cannot, in order."""
    rollout: Rollout = Rollout()
    """How its replicas are replaced."""
    max_output: Tokens | None = None
    """Longest answer in tokens, for routers."""
    owner: Text | None = None
    """Team that answers for it."""
    protect: Flag = False
    """Never delete its replicas because the file is gone."""
    suspend: Flag = False
    """Change nothing about it until this is removed."""
    restart: Text | None = None
    """A token; changing it restarts every replica by the rollout policy."""
    moved: Name | None = None
    """Its former name: replicas are taken over instead of deleted and created."""
    unverified: Flag = False
    """Serve without a lock; what cannot be checked becomes one warning."""

    @property
    def kind(self) -> Literal["external", "served"]:
        """Whether replicas are launched for it."""
        return "external" if self.external is not None else "served"

    @property
    def replicas(self) -> int:
        """Replicas wanted when nobody asks for more: exactly `scaling.min`.

        Where `max` is below it, which the gate refuses, the lower of the two: so no rule builds on the mistake.
        """
        if self.external is not None:
            return 0
        return self.scaling.min if self.scaling.max is None else min(self.scaling.min, self.scaling.max)

    @property
    def is_on_demand(self) -> bool:
        """Whether it runs only while somebody asks for it: min 0 with max above it."""
        return self.external is None and self.scaling.min == 0 and (self.scaling.max or 0) > 0
