"""What is known of a profile beyond its YAML: the model's shape out of its lock, and what the engine would say of it.

Worked out once a run and kept, since many rules ask for the same, and many models have the same config.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Engine
from reconciler.domain.shape import Shape
from reconciler.engines.flags import flag_table, managed_uses, read_args
from reconciler.gate.overrides import overridden, overrides
from reconciler.gate.ranks import ranks, refusals_by_rank
from reconciler.gate.sizes import Sizes
from reconciler.sizing.capability import capability
from reconciler.sizing.config_shape import read_config
from reconciler.sizing.gguf_shape import is_gguf, read_gguf
from reconciler.sizing.refusal import ParallelAsk

if TYPE_CHECKING:
    from collections.abc import Hashable

    from reconciler.domain.desired import Desired, Where
    from reconciler.domain.flags import FlagTable
    from reconciler.domain.lock import LockedSource
    from reconciler.domain.model_spec import ModelSpec, Profile
    from reconciler.domain.shape import Unreadable
    from reconciler.engines.flags import ManagedUse, ReadArgs
    from reconciler.gate.ranks import Ranks
    from reconciler.gate.subject import Use
    from reconciler.sizing.memory_ask import Card
    from reconciler.sizing.refusal import Refusal
    from reconciler.sizing.sized import Sized

LONGER_CONTEXT = {
    Engine.VLLM: "VLLM_ALLOW_LONG_MAX_MODEL_LEN",
    Engine.SGLANG: "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN",
}
"""Variables by which an engine is told to take a context beyond the trained length (facts/engines.md section 1.4)."""

_YES = frozenset({"1", "true", "yes", "y"})
"""What both programs take for yes in these variables, in any case (vllm/envs.py, sglang/srt/environ.py)."""

_TOWERS_WHOLE = {Engine.VLLM: ("--mm-encoder-tp-mode", "data"), Engine.SGLANG: ("--mm-enable-dp-encoder", True)}
"""The flag and value that keep vision and audio towers whole on every GPU."""


_PARSED = "parsed by the real program"


def is_certain(table: FlagTable) -> bool:
    """Whether the table is of the version that runs, and the program itself gave it."""
    return table.exact and table.source.obtained == _PARSED


@dataclass(slots=True)
class Knowledge:
    """What one run of the gate has worked out so far.

    A profile may be asked about with another count, class, context, concurrency, share or KV type than its file says
    (`_variant`); its engine, version, source, arguments and environment are those of its place.
    """

    desired: Desired
    _shape_by_text: dict[str, Shape | Unreadable] = field(default_factory=dict)
    _shape_by_use: dict[Where, Shape | Unreadable | None] = field(default_factory=dict)
    _refusals: dict[tuple[int, ParallelAsk, Ranks], tuple[Refusal, ...]] = field(default_factory=dict)
    _refusals_by_use: dict[Hashable, tuple[Refusal, ...]] = field(default_factory=dict)
    _args: dict[Where, ReadArgs] = field(default_factory=dict)
    _managed: dict[Where, tuple[ManagedUse, ...]] = field(default_factory=dict)
    _sized_by_use: dict[Hashable, Sized] = field(default_factory=dict)
    _sizes: Sizes = field(init=False)

    def __post_init__(self) -> None:
        self._sizes = Sizes(self.desired)

    def locked(self, model: ModelSpec, profile: Profile) -> LockedSource | None:
        """What the source of this profile was found to be; None without a lock for it."""
        return self._sizes.locked(model, profile.source or model.source)

    def shape(self, use: Use) -> Shape | Unreadable | None:
        """The model's shape, or why none can be read; None where the lock holds no config."""
        if use.where not in self._shape_by_use:
            self._shape_by_use[use.where] = self._read(use)
        return self._shape_by_use[use.where]

    def _read(self, use: Use) -> Shape | Unreadable | None:
        found = self.locked(use.model, use.profile)
        if found is None or found.config is None:
            return None
        config = overridden(found.config, overrides(use.profile.engine, self.args(use))) if use.profile.args else None
        config = found.config if config is None else config
        # Reading takes milliseconds and a fleet serves few different models: each text is read once.
        text = repr((config, found.quant_config, found.model_max_length))
        if text not in self._shape_by_text:
            self._shape_by_text[text] = (
                read_gguf(config)
                if is_gguf(config)
                else read_config(config, found.quant_config, model_max_length=found.model_max_length)
            )
        return self._shape_by_text[text]

    def refusals(self, use: Use) -> tuple[Refusal, ...]:
        """Every reason of the engine against this profile that its shape tells; none where the shape is not known."""
        key = _variant(use)
        if key not in self._refusals_by_use:
            shape = self.shape(use)
            self._refusals_by_use[key] = self._refused(use, shape) if isinstance(shape, Shape) else ()
        return self._refusals_by_use[key]

    def _refused(self, use: Use, shape: Shape) -> tuple[Refusal, ...]:
        ask = self.ask(use)
        if ask.context is not None and (shape.trained is None or ask.context <= shape.trained.longest):
            ask = replace(ask, context=None)  # any length up to the trained one is answered alike
        # Shapes live as long as this object, so an id stands for one; hashing a shape would take longer than asking.
        asked = (id(shape), ask, self.ranks(use))
        if asked not in self._refusals:
            self._refusals[asked] = refusals_by_rank(shape, *asked[1:])
        return self._refusals[asked]

    def sized(self, use: Use) -> Sized:
        """What a GPU of a replica would hold, or on CPUs the host RAM, and whether it fits."""
        key = _variant(use)
        if key not in self._sized_by_use:
            self._sized_by_use[key] = self._sizes.sized(use, self._version(use), self.shape(use), self.args(use))
        return self._sized_by_use[key]

    def card(self, gpu_class: str) -> Card | None:
        """The memory of one GPU of this class; None where it is not known."""
        return self._sizes.card(gpu_class)

    def table(self, use: Use) -> FlagTable:
        """The flags of the engine version that the profile runs."""
        return flag_table(use.profile.engine, self.desired.version(use.profile))

    def args(self, use: Use) -> ReadArgs:
        """The profile's arguments as the engine would read them."""
        if use.where not in self._args:
            plain = {name: text for name, text in (use.profile.env or {}).items() if isinstance(text, str)}
            self._args[use.where] = read_args(self.table(use), use.profile.args, plain)
        return self._args[use.where]

    def managed(self, use: Use) -> tuple[ManagedUse, ...]:
        """Flags and variables of the profile that something else decides."""
        if not use.profile.args and not use.profile.env:
            return ()
        if use.where not in self._managed:
            self._managed[use.where] = managed_uses(self.table(use), use.profile.args, use.profile.env or {})
        return self._managed[use.where]

    def ranks(self, use: Use) -> Ranks:
        """Which GPUs share what, where the profile's arguments say so."""
        return ranks(use.profile.engine, self.args(use))

    def judged_version(self, use: Use) -> str | None:
        """The newest version in the tables, where it stands in for one that nobody names and something depends on it.

        Arguments do, and so does a shape, except for llama.cpp: it spreads layers over any count in every version, so
        a profile without arguments is judged alike whatever runs.
        """
        engine = use.profile.engine
        if self.desired.version(use.profile) is not None or not self.table(use).known:
            return None
        by_shape = engine is not Engine.LLAMACPP and isinstance(self.shape(use), Shape)
        return self.table(use).version if by_shape or use.profile.args else None

    def ask(self, use: Use) -> ParallelAsk:
        """How one replica of this profile would run; on CPUs as on one GPU."""
        profile, model = use.profile, use.model
        gpus = use.gpus if profile.gpu_class is not None else 1
        data = profile.data_parallel
        if profile.engine is Engine.SGLANG and gpus % (data * profile.pipeline_parallel) == 0:
            # Its data-parallel ranks are engines of their own: neither experts nor anything else is split over them.
            gpus, data = gpus // data, 1
        return ParallelAsk(
            engine=profile.engine,
            version=self._version(use),
            gpus=gpus,
            nodes=profile.nodes,
            pipeline=profile.pipeline_parallel,
            data=data,
            expert_parallel=profile.expert_parallel,
            task=model.task,
            context=model.context,
            quantization=profile.quantization,
            dtype=profile.dtype,
            capability=capability(profile.gpu_class) if profile.gpu_class else None,
            towers_whole=self._towers_whole(use),
            longer_context=self._takes_longer_context(use),
        )

    def _version(self, use: Use) -> str:
        return self.desired.version(use.profile) or self.table(use).version

    def _towers_whole(self, use: Use) -> bool:
        if use.profile.engine not in _TOWERS_WHOLE:
            return False
        flag, value = _TOWERS_WHOLE[use.profile.engine]
        found = self.args(use).last(flag)
        return found is not None and found.value == value

    def _takes_longer_context(self, use: Use) -> bool:
        written = (use.profile.env or {}).get(LONGER_CONTEXT.get(use.profile.engine, ""))
        return isinstance(written, str) and written.strip().lower() in _YES


def _variant(use: Use) -> Hashable:
    """The place of a profile, with what `fit` and the remedies ask about in other values than the file has."""
    profile = use.profile
    return (
        use.where,
        use.gpus,
        profile.gpu_class,
        profile.nodes,
        use.model.context,
        profile.max_concurrency,
        profile.memory_share,
        profile.memory_gib,
        profile.kv_cache_dtype,
    )
