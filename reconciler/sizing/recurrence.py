"""Reads the recurrent part of hybrid and attention-free models: Mamba 1 and 2, gated delta, KDA, short convolutions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from reconciler.domain.shape import Recurrence, Recurrent

if TYPE_CHECKING:
    from reconciler.sizing.fields import Fields


def read_recurrent(fields: Fields, hidden: int, heads: int) -> Recurrent | None:
    """The one recurrent part its layers share; None for a model of attention alone.

    The keys tell the kind: each family of config classes has its own.
    """
    found = _of_its_kind(fields, hidden, heads)
    dtype = fields.text("mamba_ssm_cache_dtype") or fields.text("mamba_ssm_dtype")
    return found if found is None or dtype is None else replace(found, state_dtype=dtype)


def _of_its_kind(fields: Fields, hidden: int, heads: int) -> Recurrent | None:
    if fields.section("linear_attn_config") is not None:
        return _kimi_delta(fields, hidden)
    if (values := fields.whole("linear_num_value_heads")) is not None:
        return _gated_delta(fields, values)
    if fields.written("conv_L_cache", "conv_dim") is not None or fields.model_type in ("lfm2", "lfm2_moe"):
        return Recurrent(
            Recurrence.SHORT_CONVOLUTION,
            inner=fields.whole("conv_dim") or hidden,
            convolution=fields.whole("conv_L_cache") or 0,
        )
    if fields.model_type in ("bailing_hybrid", "minimax", "minimax_text_01") or fields.text("linear_attention_type"):
        width = fields.whole("head_dim") or (hidden // heads if heads else 0)
        return Recurrent(
            Recurrence.LIGHTNING,
            inner=width * heads,
            heads=heads,
            head_dim=width,
            state=width,
            groups=fields.whole("group_norm_size") or 1,
        )
    return _mamba(fields, hidden)


def _kimi_delta(fields: Fields, hidden: int) -> Recurrent | None:
    inner = fields.section("linear_attn_config")
    heads = inner.whole("num_heads") if inner is not None else None
    if inner is None or not heads:
        return None
    width = inner.whole("head_dim") or hidden // heads
    return Recurrent(
        Recurrence.KIMI_DELTA,
        inner=heads * width,
        heads=heads,
        head_dim=width,
        key_heads=heads,
        key_dim=width,
        state=width,
        convolution=inner.whole("short_conv_kernel_size") or 0,
        rank=width,
    )


def _gated_delta(fields: Fields, values: int) -> Recurrent:
    width, key_dim = fields.whole("linear_value_head_dim") or 0, fields.whole("linear_key_head_dim") or 0
    return Recurrent(
        Recurrence.GATED_DELTA,
        inner=values * width,
        heads=values,
        head_dim=width,
        key_heads=fields.whole("linear_num_key_heads") or values,
        key_dim=key_dim,
        state=key_dim,
        convolution=fields.whole("linear_conv_kernel_dim") or 0,
    )


def _mamba(fields: Fields, hidden: int) -> Recurrent | None:
    """Mamba 2 counts heads and groups; Mamba 1 has neither."""
    expand = fields.number("mamba_expand") or fields.number("expand")
    state = fields.whole("mamba_d_state", "ssm_state_size", "state_size")
    if state is None:
        return None
    kernel = fields.whole("mamba_d_conv", "conv_kernel") or 0
    # num_heads is Mamba 2's own; in other families it means attention heads.
    heads = fields.whole("mamba_n_heads", "mamba_num_heads", "n_mamba_heads")
    if heads is None and fields.model_type == "mamba2":
        heads = fields.whole("num_heads")
    expanded = int((expand or 2) * hidden)
    if not heads:
        inner = fields.whole("intermediate_size") if fields.model_type in ("mamba", "falcon_mamba") else None
        rank = fields.written("mamba_dt_rank", "time_step_rank")
        return Recurrent(
            Recurrence.MAMBA1,
            inner=inner or expanded,
            state=state,
            convolution=kernel,
            rank=rank if type(rank) is int else -(-hidden // 16),  # transformers: "auto" is ceil(hidden / 16)
        )
    width = fields.whole("mamba_head_dim", "mamba_headdim")
    width = (
        width or fields.whole("mamba_d_head") or (fields.whole("head_dim") if fields.model_type == "mamba2" else None)
    )
    inner = fields.whole("mamba_d_ssm") or (heads * width if width and fields.model_type == "nemotron_h" else expanded)
    return Recurrent(
        Recurrence.MAMBA2,
        inner=inner,
        heads=heads,
        head_dim=width or inner // heads,
        groups=fields.whole("mamba_n_groups", "mamba_ngroups", "n_groups") or 1,
        state=state,
        convolution=kernel,
    )
