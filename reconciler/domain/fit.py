"""What each GPU would hold, as `reconciler fit --format json` prints it (design section 4).

Figures are of the fullest GPU of a replica; null is what is not known. Sizes are GiB of 2^30 bytes, for people and for
programs alike.
"""

from __future__ import annotations

from typing import Literal

from reconciler.domain.base import FORMAT_VERSION, Frozen
from reconciler.domain.finding import Severity
from reconciler.domain.model_spec import Engine

Verdict = Literal["fits", "tight", "refused", "unknown"]
"""refused: even the lower bound does not fit, or the engine refuses for another reason; tight: inside the band."""


class PerGpu(Frozen):
    """One GPU in GiB; on CPUs the host RAM that `memory_gib` reserves. All null where nothing can be sized."""

    total: float | None = None
    """What the engine sees of the card."""
    usable: float | None = None
    """What weights, KV and overheads may use together."""
    weights: float | None = None
    """Of the weights."""
    kv_one_request: float | None = None
    """Cache of one request of full length."""
    kv_cache: float | None = None
    """What is left for the cache of all requests."""
    activations: float | None = None
    """Of what is computed on the way."""
    graphs: float | None = None
    """Of captured graphs."""
    runtime: float | None = None
    """Contexts, communicators, what the allocator wastes."""
    needs_low: float | None = None
    """Lower bound of what it needs."""
    needs: float | None = None
    """Weights, one request of full length and overheads: to be compared with `usable`."""
    needs_high: float | None = None
    """Upper bound of what it needs."""
    reserves: float | None = None
    """What the engine takes, whatever it needs."""


class FitRemark(Frozen):
    """One sentence on an option: an error refuses it, a warning lies inside the band or is worth knowing."""

    rule: str
    """Slug of the rule."""
    severity: Severity
    """error, warning or note."""
    message: str
    """What it says."""
    hint: str | None = None
    """What to do about it."""


class FitOption(Frozen):
    """One way to run a model: a profile on one GPU class with one count."""

    profile: str | None
    """None for a SOURCE."""
    engine: Engine
    """The program."""
    gpu_class: str | None
    """None on CPUs."""
    gpus: int
    """Per replica on one node; 0 on CPUs."""
    declared: bool
    """Whether the profile asks for this class and count."""
    verdict: Verdict
    """fits, tight, refused or unknown."""
    reasons: tuple[str, ...]
    """Rules that make the verdict, the gravest first; [] where it fits."""
    per_gpu_gib: PerGpu
    """What the fullest GPU would hold, GiB."""
    kv_bytes_per_token: int | None
    """Of one token on one GPU."""
    kv_tokens: int | None
    """Tokens that the cache holds over all requests."""
    longest_request: int | None
    """Tokens of the longest request that fits, at most the trained length; 0 where none does."""
    concurrency: float | None
    """Full-length requests that the cache holds at once; llama.cpp's slots."""
    version: str | None = None
    """The engine version it was judged for."""
    nodes: int = 1
    """Nodes a replica spans; `gpus` is on each."""
    least: bool = False
    """Whether fewer GPUs of the class do not hold a request of this length with this profile."""
    remarks: tuple[FitRemark, ...] = ()
    """What else there is to say."""
    basis: str | None = None
    """Whence the overheads: engine, versions, class, family, how many starts were observed."""
    doubts: tuple[str, ...] = ()
    """What widens the band."""


class LeftOut(Frozen):
    """A count at which the engine would not start, whatever the memory."""

    profile: str | None
    """Name of the profile."""
    engine: Engine
    """The program."""
    gpu_class: str
    """Kind of GPU."""
    gpus: int
    """The count."""
    reasons: tuple[str, ...]
    """Rules that refuse them."""
    message: str
    """The first reason in a sentence."""


class FitShape(Frozen):
    """The model in a few figures."""

    architecture: str
    """The model's own name for it."""
    layers: int
    """How many."""
    heads: int
    """Attention heads."""
    kv_heads: int
    """0 with latent attention."""
    latent: bool
    """Whether attention is latent (MLA)."""
    experts: int
    """Routed experts of a layer."""
    weight_type: str | None
    """Quantization, else the type of the weights: `fp8`, `bfloat16`."""
    weight_gib: float | None
    """All weights, GiB."""
    trained: int | None
    """Tokens it was trained for."""


class ModelFit(Frozen):
    """One model and all its options; a SOURCE is named as it was asked for."""

    model: str
    """Name of the model; null for a source."""
    options: tuple[FitOption, ...]
    """One for each count and class."""
    source: str | None = None
    """What was looked at."""
    revision: str | None = None
    """What the lock says the source resolved to."""
    context: int | None = None
    """Tokens a request was sized for."""
    shape: FitShape | None = None
    """What its config says."""
    left_out: tuple[LeftOut, ...] = ()
    """Counts that the engine would not take."""
    notes: tuple[str, ...] = ()
    """Why there is nothing to size, or what was assumed."""
    counts: bool = True
    """Whether it counts for the exit code: external models and those of task image have nothing to fit."""

    @property
    def passes(self) -> bool:
        """Whether every declared option fits or is tight; of a SOURCE, or where none is declared, any option."""
        judged = [each for each in self.options if each.declared]
        good = [each.verdict in {"fits", "tight"} for each in judged or self.options]
        return not self.counts or (bool(good) and (all(good) if judged else any(good)))


class FitReport(Frozen):
    """The answer of `fit`."""

    format_version: str = FORMAT_VERSION
    """Of this answer: a higher minor adds fields."""
    models: tuple[ModelFit, ...]
    """One for each model that was asked about."""

    @property
    def passes(self) -> bool:
        """Whether the command ends with 0."""
        return all(each.passes for each in self.models)
