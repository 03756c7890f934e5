"""What a model's config says of its layers, heads, experts and quantization: all that arithmetic needs.

Figures are of the whole model, before any of it is split over GPUs. Nothing here knows an engine.
What a reader could not tell is named in `Shape.unknown`; what it took from the family's defaults is in `Shape.assumed`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Recurrence(StrEnum):
    """How a recurrent layer mixes tokens; its state does not grow with them."""

    MAMBA1 = "mamba1"
    MAMBA2 = "mamba2"
    GATED_DELTA = "gated_delta"
    KIMI_DELTA = "kimi_delta"
    SHORT_CONVOLUTION = "short_convolution"
    LIGHTNING = "lightning"
    """Linear attention with a decay per head."""


@dataclass(frozen=True, slots=True)
class Latent:
    """Latent attention (MLA): one compressed vector a token, the same for every head."""

    kv_rank: int
    rope_dim: int
    nope_dim: int
    value_dim: int
    query_rank: int | None = None
    """None: queries are projected straight from the hidden state."""


@dataclass(frozen=True, slots=True)
class Narrow:
    """Queries and outputs that go through fewer numbers than the heads have (DeepSeek-V4)."""

    query_rank: int
    output_rank: int
    output_groups: int


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention of one layer. Cache per token: `kv_heads` x (`head_dim` + `value_dim`), or the latent vector."""

    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    window: int | None = None
    """Tokens it looks back; None looks at all of them."""
    latent: Latent | None = None
    shares_cache: bool = False
    """It reads the cache of an earlier layer and holds none."""
    gate: int = 0
    """Outputs a head of a gate on what attention gives, a matrix of its own; 0 when there is none."""
    chunked: bool = False
    """`window` is the length of chunks that do not look at each other (Llama 4)."""
    index_dim: int = 0
    """Numbers a token that an indexer of its own caches to choose what it looks at (DSA); 0 without one."""
    index_heads: int = 0
    """Heads of that indexer."""
    narrow: Narrow | None = None
    compression: int | None = None
    """Tokens that share one cached vector beside its window (DeepSeek-V4); 0: the window alone; None: not so built."""


@dataclass(frozen=True, slots=True)
class Recurrent:
    """Recurrent part of one layer: heads of `head_dim` values over `state` numbers each, in `groups`."""

    kind: Recurrence
    inner: int
    """Width of its values over all heads."""
    heads: int = 0
    head_dim: int = 0
    groups: int = 1
    state: int = 0
    key_heads: int = 0
    key_dim: int = 0
    convolution: int = 0
    """Taps of the convolution before it."""
    rank: int = 0
    """Rank of the time step (Mamba 1) or of the gates (delta)."""
    state_dtype: str | None = None
    """Type of its state as the config writes it; None leaves it to the engine."""


@dataclass(frozen=True, slots=True)
class Experts:
    """Routed experts of one layer; `shared_width` is the width of those every token passes, 0 without."""

    count: int
    active: int
    width: int
    shared_width: int = 0
    hidden: int | None = None
    """Their input width where it is not the model's own."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One decoder or encoder layer."""

    attention: Attention | None = None
    recurrent: Recurrent | None = None
    dense: int | None = None
    """Width of its plain feed-forward part."""
    experts: Experts | None = None


class Sense(StrEnum):
    """What a tower reads."""

    VISION = "vision"
    AUDIO = "audio"
    TEXT = "text"
    """The encoder of an encoder-decoder."""


@dataclass(frozen=True, slots=True)
class Bridge:
    """Two projections in a row, from a tower to the language model: `source` to `middle` to `target`."""

    name: str
    source: int
    middle: int
    target: int
    gated: bool = False
    copies: int = 1
    """How many of them there are, such as one for each layer that is tapped."""
    whole: bool = False
    """Its model file never splits it."""


@dataclass(frozen=True, slots=True)
class Tower:
    """An encoder beside the language model, with the projections that follow it."""

    sense: Sense
    name: str
    """Path of its modules in a checkpoint."""
    layers: int
    hidden: int
    heads: int
    head_dim: int
    width: int
    """Of its feed-forward part; 0 where not known."""
    gated: bool = False
    bridges: tuple[Bridge, ...] = ()
    unquantized: tuple[str, ...] = ()
    """Of attention, mlp and bridges those that stay in 16 bit whatever a quantization config says."""
    patch: int = 0
    """Numbers of the input that its first layer joins into one token; 0 where not known."""
    positions: int = 0
    """Rows of its learned position table."""
    whole: bool = False
    """Its model file never splits it."""


class Scheme(StrEnum):
    """How weights are stored; it decides which sizes have to divide."""

    AWQ = "awq"
    GPTQ = "gptq"
    PACKED = "packed"
    """compressed-tensors integers with 16-bit activations."""
    FP8_BLOCK = "fp8_block"
    FP8_TENSOR = "fp8_tensor"
    FP8_CHANNEL = "fp8_channel"
    INT8 = "int8"
    W4A8 = "w4a8"
    MXFP4 = "mxfp4"
    MXFP8 = "mxfp8"
    NVFP4 = "nvfp4"
    GGUF = "gguf"
    UNKNOWN = "unknown"


class Matching(StrEnum):
    """How names in a quantization config meet module paths."""

    EXACT = "exact"
    SUBSTRING = "substring"
    GLOB = "glob"
    TARGETS = "targets"
    """compressed-tensors: an exact path, the end of one, `re:` and a pattern, or `Linear` for all."""


@dataclass(frozen=True, slots=True)
class QuantPart:
    """One way of storing weights and the modules it covers; no targets covers all."""

    scheme: Scheme
    bits: int | None = None
    group: int | None = None
    """Inputs that share a scale; -1 is a whole column, None where it has no meaning."""
    block: tuple[int, int] | None = None
    """Outputs and inputs that share a scale."""
    targets: tuple[str, ...] = ()
    symmetric: bool = True


@dataclass(frozen=True, slots=True)
class Quantization:
    """What the checkpoint's quantization config says."""

    method: str
    """As written."""
    parts: tuple[QuantPart, ...]
    skipped: tuple[str, ...] = ()
    """Names of modules that stay in 16 bit."""
    matching: Matching = Matching.EXACT
    ordered: bool = False
    """GPTQ with activation order (desc_act) over groups."""
    algorithm: str | None = None
    """ModelOpt's quant_algo, as written."""
    cache_dtype: str | None = None
    """Type of the KV cache that the checkpoint carries scales for: fp8 or nvfp4; None when it says nothing."""


@dataclass(frozen=True, slots=True)
class Trained:
    """The length the model was made for, tokens, and the key that decided; `stretch` is RoPE scaling not in it yet."""

    tokens: int
    key: str
    stretch: float = 1.0
    override: int | None = None
    """A larger length that the config allows besides (model_max_length)."""

    @property
    def longest(self) -> int:
        """Tokens with scaling applied."""
        return max(int(self.tokens * self.stretch), self.override or 0)


@dataclass(frozen=True, slots=True)
class Shape:
    """One model as its config describes it."""

    architecture: str
    """First of `architectures`, or GGUF's architecture."""
    model_type: str
    hidden: int
    vocabulary: int
    heads: int
    """Attention heads as an engine counts them first; 0 without attention."""
    kv_heads: int
    """KV heads as an engine counts them first; 0 without attention or with latent attention."""
    layers: tuple[Layer, ...]
    experts: int = 0
    """Routed experts in the config's own top-level figures; 0 where an engine finds none."""
    tied: bool = False
    """Embedding and output head are one tensor."""
    towers: tuple[Tower, ...] = ()
    quantization: Quantization | None = None
    trained: Trained | None = None
    dtype: str | None = None
    encoder: bool = False
    """It attends both ways and holds no cache."""
    gated: bool = True
    """Dense feed-forward parts have a gate beside the up projection."""
    positions: int | None = None
    """Rows of a learned position table that is split like the vocabulary."""
    beside: tuple[int, int] | None = None
    """Rows and width of an embedding table beside the first, for all layers together (Gemma 3n)."""
    rotary: int = 0
    """Numbers of the tables of sines and cosines for its positions."""
    predicted: int = 0
    """Layers in its files that predict further tokens (MTP); engines leave them out unless they draft with them."""
    remote_code: bool = False
    """The config names Python code of its own (auto_map)."""
    file: str = "config.json"
    """Where the figures come from: config.json or gguf."""
    assumed: tuple[str, ...] = field(default=(), compare=False)
    """Figures the config leaves out, taken from its family's defaults: one sentence each."""
    unknown: tuple[str, ...] = field(default=(), compare=False)
    """What could not be told: one sentence each."""

    unlike: tuple[Layer, ...] = field(init=False, repr=False, compare=False)
    """The layers without repeats, in order: readers give equal layers as one object."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "unlike", tuple({id(layer): layer for layer in self.layers}.values()))

    def __hash__(self) -> int:  # type: ignore[explicit-override]  # typing has no override before 3.12
        """Of a few figures: a shape is looked up thousands of times a run, and what differs mostly differs in these."""
        ends = (self.layers[:1], self.layers[-1:], len(self.layers))
        return hash((self.architecture, self.hidden, self.vocabulary, self.heads, self.kv_heads, ends, self.trained))

    def alike(self) -> dict[Layer, tuple[int, ...]]:
        """Each different layer with the indices of those like it."""
        indices: dict[Layer, list[int]] = {}
        by_object = {id(layer): indices.setdefault(layer, []) for layer in self.unlike}
        for index, layer in enumerate(self.layers):
            by_object[id(layer)].append(index)
        return {layer: tuple(found) for layer, found in indices.items()}


@dataclass(frozen=True, slots=True)
class Unreadable:
    """No shape could be read; `because` is one clause for people."""

    because: str
