"""Weight matrices of recurrent layers, as vLLM's `layers/mamba` builds them; SGLang's are the same in size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reconciler.domain.shape import Recurrence
from reconciler.sizing.module import Module, Part, Split

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reconciler.domain.shape import Recurrent


def recurrent_modules(
    recurrent: Recurrent, hidden: int, family: Mapping[str, Any], layers: tuple[int, ...]
) -> Iterator[Module]:
    """The matrices of one kind of recurrent layer; convolutions are never quantized."""
    path = family.get("recurrent", "mixer")

    def column(name: str, inputs: int, *outputs: int, shards: tuple[str, ...] = (), quantized: bool = True) -> Module:
        return Module(
            Part.RECURRENT,
            Split.COLUMN,
            f"{path}.{name}",
            inputs,
            outputs,
            tuple(f"{path}.{each}" for each in shards),
            layers,
            quantized=quantized,
        )

    def row(name: str, inputs: int, outputs: int, *, quantized: bool = True) -> Module:
        return Module(
            Part.RECURRENT, Split.ROW, f"{path}.{name}", inputs, (outputs,), layers=layers, quantized=quantized
        )

    inner = recurrent.inner
    match recurrent.kind:
        case Recurrence.MAMBA1:
            # vLLM gives Mamba 1 no quantization config.
            yield column("conv1d", recurrent.convolution, inner, quantized=False)
            yield column("in_proj", hidden, inner, inner, quantized=False)
            yield row("x_proj", inner, recurrent.rank + 2 * recurrent.state, quantized=False)
            yield column("dt_proj", recurrent.rank, inner, quantized=False)
            yield row("out_proj", inner, hidden, quantized=False)
        case Recurrence.MAMBA2:
            # One group is copied to every rank; more than one has to divide, which its own rule says.
            groups = recurrent.groups * recurrent.state if recurrent.groups > 1 else 0
            sizes = (inner, inner, groups, groups, recurrent.heads)
            yield column("in_proj", hidden, *(size for size in sizes if size))
            yield row("out_proj", inner, hidden)
        case Recurrence.GATED_DELTA:
            keys = recurrent.key_heads * recurrent.key_dim
            yield column("conv1d", recurrent.convolution, 2 * keys + inner, quantized=False)
            if family.get("interleaved"):
                yield column("in_proj_qkvz", hidden, 2 * (keys + inner))
                yield column("in_proj_ba", hidden, 2 * recurrent.heads)
            else:
                yield column("in_proj_qkvz", hidden, keys, keys, inner, inner, shards=("in_proj_qkv", "in_proj_z"))
                yield column("in_proj_ba", hidden, recurrent.heads, recurrent.heads, shards=("in_proj_b", "in_proj_a"))
            yield row("out_proj", inner, hidden)
        case Recurrence.KIMI_DELTA:
            yield column("conv1d", recurrent.convolution, 3 * inner, quantized=False)
            names = ("q_proj", "k_proj", "v_proj", "b_proj", "f_a_proj")
            yield column("in_proj_qkvgfab", hidden, inner, inner, inner, recurrent.heads, shards=names)
            yield column("f_b_proj", recurrent.rank, inner)
            yield column("g_b_proj", recurrent.rank, inner)
            yield row("o_proj", inner, hidden)
        case Recurrence.SHORT_CONVOLUTION:
            yield column("conv", recurrent.convolution, inner, quantized=False)
            yield column("in_proj", hidden, inner, inner, inner)
            yield row("out_proj", inner, hidden)
        case Recurrence.LIGHTNING:
            yield column("query_key_value", hidden, inner, inner, inner)
            yield column("g_proj", hidden, inner)
            yield row("dense", inner, hidden)
