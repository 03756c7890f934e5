"""Whether an adapter of peft was made for this model: which modules it changes, in how many layers, and how wide.

peft trains what it finds: a target that the base lacks is left out of the file without a word, so a list of targets
says little by itself. It is told where none of them is in the model, and else the numbers in the file decide: a lock
has them by group (attention, feed-forward) and layer.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from reconciler.domain.tables import table
from reconciler.gate.phrases import listed
from reconciler.sizing.module import Part, Split
from reconciler.sizing.modules import language_modules

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from reconciler.domain.lock import LockedSource
    from reconciler.domain.shape import Shape

_BYTES = {"f32": 4, "f16": 2, "bf16": 2}

ALL_LINEAR = "all-linear"
"""Every matrix of every layer; the output head is not among them (peft/tuners/tuners_utils.py)."""

_OPEN_ENDS = (
    *("rank_pattern", "use_dora", "modules_to_save", "layers_pattern", "exclude_modules", "target_parameters"),
    *("layer_replication", "lora_bias"),
)
"""Settings by which one layer's numbers differ from another's, or are not those of its matrices alone."""

_Sizes = dict[str, tuple[int, int]]
"""Inputs and outputs by module name, each part of a merged matrix for itself."""

_MERGED: Mapping[str, tuple[str, ...]] = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
}
"""Some bases hold these as one matrix (Phi-3), and `all-linear` does not say which."""

_GROUPS = (("attention", "attention"), ("mlp", "feed-forward layers"))
"""Groups of a lock's tensors that are compared, and what they are called."""


def other_model(adapter: LockedSource, shape: Shape) -> Iterator[str]:
    """Each sign of another base, as the end of a sentence that begins with the adapter's name."""
    runs = adapter.tensors or ()
    last = max((*(run.layers[1] for run in runs if run.layers is not None), *_named_layers(adapter)), default=-1)
    if last >= len(shape.layers):
        yield f"changes layer {last}, and the model has {len(shape.layers)} layers (0 to {len(shape.layers) - 1})"
        return
    targets = _targets(adapter)
    foreign = _foreign(targets, shape.architecture)
    if foreign is not None:
        yield foreign
        return
    for group, called in _GROUPS:
        wanted = _numbers(adapter, targets, group, shape)
        found = [run for run in runs if run.group == group]
        if not wanted or not found or any(run.dtype not in _BYTES for run in found):
            continue
        numbers = sum(run.bytes // _BYTES[run.dtype] for run in found)
        layers = len(
            {each for run in found if run.layers is not None for each in range(run.layers[0], run.layers[1] + 1)}
        )
        if layers and numbers not in {each * layers for each in wanted}:
            yield (
                f"is made for {called} of another width: it has {numbers // layers:,} numbers a layer,"
                f" and this model takes {wanted[0]:,} at rank {rank(adapter)}"
            )


def _named_layers(adapter: LockedSource) -> Iterator[int]:
    """Layers that its config lists: peft lets none be listed that the base does not have."""
    written = (adapter.adapter_config or {}).get("layers_to_transform")
    for each in written if isinstance(written, list) else [written]:
        if type(each) is int:
            yield each


def rank(adapter: LockedSource) -> int | None:
    """The width of the adapter's matrices; None where its config does not say."""
    found = (adapter.adapter_config or {}).get("r")
    return found if type(found) is int and found > 0 else None


def _targets(adapter: LockedSource) -> frozenset[str] | None:
    """Names of the modules it changes, without their paths; None where a pattern, or nothing, says so."""
    written = (adapter.adapter_config or {}).get("target_modules")
    if written == ALL_LINEAR:
        return frozenset({ALL_LINEAR})
    if not isinstance(written, list) or not written or not all(isinstance(each, str) for each in written):
        return None
    return frozenset(each.rpartition(".")[2] for each in written)


def _foreign(targets: frozenset[str] | None, architecture: str) -> str | None:
    """What it says of targets of which the model has none; None where it has one, or that is not known."""
    own = _modules().get(architecture)
    if not targets or own is None or not targets <= frozenset(table("adapter_modules")["usual"]) or targets & own:
        return None
    has = [each for each in table("adapter_modules")["usual"] if each in own and each not in _MERGED]
    return f"changes {listed(sorted(targets))}, which {architecture} does not have; it has {listed(has)}"


@cache
def _modules() -> Mapping[str, frozenset[str]]:
    """Usual targets by architecture."""
    rows = table("adapter_modules")["models"]
    return {name: frozenset(row["targets"]) for row in rows for name in row["architectures"]}


def _numbers(adapter: LockedSource, targets: frozenset[str] | None, group: str, shape: Shape) -> tuple[int, ...]:
    """What its matrices in one layer may hold; empty where the config or the shape leaves it open."""
    config, width = adapter.adapter_config or {}, rank(adapter)
    if not targets or width is None or any(config.get(key) for key in _OPEN_ENDS):
        return ()
    if config.get("bias", "none") != "none":
        return ()
    sizes = _attention_sizes(shape) if group == "attention" else _feed_forward_sizes(shape)
    if sizes is None:
        return ()
    if targets == {ALL_LINEAR}:
        if not _is_plain(shape):
            return ()
        targets = frozenset((*sizes, *_MERGED))
    return tuple(width * each for each in _sums(sizes, targets))


def _sums(sizes: _Sizes, targets: Collection[str]) -> tuple[int, ...]:
    """Inputs and outputs of the targets together: with parts on their own, and with those that may be merged merged."""
    plain = {name: size for name, size in sizes.items() if name in targets}
    apart = sum(inputs + outputs for inputs, outputs in plain.values())
    found = [apart] if plain else []
    for name, parts in _MERGED.items():
        if name in targets and all(part in sizes for part in parts):
            rest = sum(inputs + outputs for each, (inputs, outputs) in plain.items() if each not in parts)
            found.append(rest + sizes[parts[0]][0] + sum(sizes[part][1] for part in parts))
    return tuple(found)


def _is_plain(shape: Shape) -> bool:
    """Whether attention and feed-forward layers have all the matrices of a layer, so that `all-linear` means them."""
    own = _modules().get(shape.architecture, frozenset())
    usual = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", *_MERGED}
    layered = [each for each in language_modules(shape) if each.part is not Part.VOCABULARY]
    return bool(own) and own <= usual and all(each.layers for each in layered)


def _attention_sizes(shape: Shape) -> _Sizes | None:
    """Plain attention; None where layers differ or attention is of another kind."""
    modules = [each for each in language_modules(shape) if each.layers and each.path.startswith("self_attn.")]
    every = tuple(range(len(shape.layers)))
    queries = [each for each in modules if each.split is Split.QKV]
    outputs = [each for each in modules if each.path == "self_attn.o_proj"]
    if len(modules) != len(queries) + len(outputs) or len(queries) != 1 or len(outputs) != 1:
        return None
    (qkv,), (out,) = queries, outputs
    if qkv.layers != every or out.layers != every:
        return None
    return {
        "q_proj": (qkv.inputs, qkv.heads * qkv.head_dim),
        "k_proj": (qkv.inputs, qkv.kv_heads * qkv.head_dim),
        "v_proj": (qkv.inputs, qkv.kv_heads * qkv.value_dim),
        "o_proj": (out.inputs, out.outputs[0]),
    }


def _feed_forward_sizes(shape: Shape) -> _Sizes | None:
    """Feed-forward layers with a gate, the same in every layer; None where they differ, or experts take their place."""
    modules = [each for each in language_modules(shape) if each.part in (Part.MLP, Part.SHARED, Part.EXPERTS)]
    every = tuple(range(len(shape.layers)))
    named = {each.path: each for each in modules}
    both, down = named.get("mlp.gate_up_proj"), named.get("mlp.down_proj")
    if len(modules) != len(named) or both is None or down is None or len(modules) != len((both, down)):
        return None
    if both.layers != every or down.layers != every:
        return None
    gate, up = both.outputs
    return {
        "gate_proj": (both.inputs, gate),
        "up_proj": (both.inputs, up),
        "down_proj": (down.inputs, down.outputs[0]),
    }
