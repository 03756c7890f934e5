"""Quantization configs as checkpoints carry them, and which modules they reach."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.domain.shape import Quantization, Scheme
from reconciler.sizing.coverage import covering
from reconciler.sizing.fields import Remarks
from reconciler.sizing.modules import language_modules
from reconciler.sizing.quantization import read_quantization
from tests.sizing.builders import a_shape

GROUP = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}


def read(written: dict[str, Any]) -> tuple[Quantization, Remarks]:
    remarks = Remarks()
    found = read_quantization({"quantization_config": written}, None, remarks)
    assert found is not None
    return found, remarks


def compressed(weights: dict[str, Any], inputs: dict[str, Any] | None = None, form: str = "") -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": weights, "input_activations": inputs}
    return {"quant_method": "compressed-tensors", "format": form, "config_groups": {"group_0": group}}


@pytest.mark.parametrize(
    ("written", "scheme", "group"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 64}, Scheme.AWQ, 64),
        ({"w_bit": 4, "q_group_size": 128, "zero_point": True}, Scheme.AWQ, 128),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, Scheme.GPTQ, -1),
        ({"bits": 4, "group_size": 32, "desc_act": False}, Scheme.GPTQ, 32),
        ({"quant_method": "fp8", "activation_scheme": "dynamic"}, Scheme.FP8_TENSOR, None),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, Scheme.FP8_BLOCK, None),
        (compressed(GROUP, form="pack-quantized"), Scheme.PACKED, 128),
        (compressed(GROUP | {"strategy": "channel", "group_size": None}), Scheme.PACKED, -1),
        (compressed({"num_bits": 8, "type": "int", "strategy": "channel"}, {"num_bits": 8}), Scheme.INT8, None),
        (compressed({"num_bits": 8, "type": "float", "strategy": "channel"}, {}), Scheme.FP8_CHANNEL, None),
        (compressed({"num_bits": 8, "type": "float", "strategy": "tensor"}, {}), Scheme.FP8_TENSOR, None),
        (compressed({"num_bits": 8, "type": "float", "strategy": "block"}, {}), Scheme.FP8_BLOCK, None),
        (compressed({"num_bits": 4, "type": "float", "group_size": 16}, {}), Scheme.NVFP4, 16),
        (compressed({"num_bits": 4, "type": "float", "group_size": 32}, None), Scheme.MXFP4, 32),
        (compressed(GROUP, {"num_bits": 8, "type": "float"}), Scheme.W4A8, 128),
        ({"quant_method": "mxfp4"}, Scheme.MXFP4, 32),
        ({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4"}}, Scheme.NVFP4, 16),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, Scheme.FP8_TENSOR, None),
        ({"quant_method": "modelopt", "quant_algo": "FP8_PB_WO"}, Scheme.FP8_BLOCK, None),
        ({"quant_method": "modelopt", "quant_algo": "MXFP8"}, Scheme.MXFP8, 32),
        ({"quant_method": "auto-round", "packing_format": "auto_round:auto_gptq", "bits": 4}, Scheme.GPTQ, None),
    ],
)
def test_each_way_of_storing_is_told(written: dict[str, Any], scheme: Scheme, group: int | None) -> None:
    found, remarks = read(written)
    assert found.parts[-1].scheme is scheme
    assert found.parts[-1].group == group
    assert not remarks.unknown


@pytest.mark.parametrize(
    "written",
    [
        {"quant_method": "hqq"},
        {"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"},
        {"quant_method": "compressed-tensors"},
        compressed({"num_bits": 3, "type": "int"}, {"num_bits": 3, "type": "int"}),
        {"nothing": 1},
    ],
)
def test_what_is_not_known_is_named(written: dict[str, Any]) -> None:
    found, remarks = read(written)
    assert found.parts[0].scheme is Scheme.UNKNOWN
    assert remarks.unknown


def test_the_file_beside_the_config_counts_only_when_the_config_says_nothing() -> None:
    beside = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4"}}
    own = {"quantization_config": {"quant_method": "fp8"}}
    alone, both = read_quantization({}, beside, Remarks()), read_quantization(own, beside, Remarks())
    assert alone is not None
    assert both is not None
    assert (alone.method, both.method) == ("modelopt", "fp8")
    assert read_quantization({}, None, Remarks()) is None


def test_a_nested_language_model_may_carry_it() -> None:
    found = read_quantization({"text_config": {"quantization_config": {"quant_method": "fp8"}}}, None, Remarks())
    assert found is not None
    assert found.method == "fp8"


def stored(written: dict[str, Any], path: str) -> list[int | None]:
    """Groups of the ways in which a module's layers are stored."""
    shape = a_shape(quantization_config=written, num_hidden_layers=3)
    assert shape.quantization is not None
    module = next(each for each in language_modules(shape) if each.path == path)
    return [part.group for part in covering(module, shape.quantization)]


FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
MODELOPT = {"quant_method": "modelopt", "quant_algo": "NVFP4"}
PACKED = compressed(GROUP, form="pack-quantized")
EVERY_DOWN = [f"model.layers.{index}.mlp.down_proj" for index in range(3)]


@pytest.mark.parametrize(
    ("written", "covered"),
    [
        (FP8, True),
        (FP8 | {"modules_to_not_convert": EVERY_DOWN}, False),
        (FP8 | {"modules_to_not_convert": EVERY_DOWN[:2]}, True),
        (FP8 | {"ignored_layers": [name.replace("model.", "model.language_model.") for name in EVERY_DOWN]}, False),
        (FP8 | {"modules_to_not_convert": ["down_proj"]}, True),  # exact names only
        (MODELOPT | {"ignore": ["*.mlp.down_proj"]}, False),
        (MODELOPT | {"ignore": ["model.layers.0*"]}, True),
        (MODELOPT | {"ignore": [f"model.layers.{index}.mlp*" for index in range(3)]}, False),
        (PACKED | {"ignore": ["re:.*down_proj.*"]}, False),
        (PACKED | {"ignore": ["re:.*self_attn.*"]}, True),
        (PACKED | {"ignore": ["re:((a+)+)+$"]}, True),  # could run for ever: matches nothing
        (PACKED | {"ignore": ["re:("]}, True),
        ({"quant_method": "awq", "group_size": 128, "modules_to_not_convert": ["mlp"]}, False),
        ({"quant_method": "gptq", "group_size": 128, "dynamic": {"-:.*down_proj": {}}}, False),
        ({"quant_method": "gptq", "group_size": 128, "modules_in_block_to_quantize": [["self_attn.q_proj"]]}, False),
        ({"quant_method": "gptq", "group_size": 128, "modules_in_block_to_quantize": ["mlp.down_proj"]}, True),
    ],
)
def test_lists_of_names_reach_the_modules_they_mean(written: dict[str, Any], covered: bool) -> None:
    assert bool(stored(written, "mlp.down_proj")) is covered


def test_a_merged_matrix_is_left_out_when_all_its_shards_are() -> None:
    names = [f"model.layers.{index}.self_attn.{each}_proj" for index in range(3) for each in "qkv"]
    assert stored(FP8 | {"modules_to_not_convert": names}, "self_attn.qkv_proj") == []
    assert stored(FP8 | {"modules_to_not_convert": names[:-1]}, "self_attn.qkv_proj") == [None]


def test_one_model_may_be_stored_in_two_ways() -> None:
    layers = {
        "model.layers.0.mlp.down_proj": {"quant_algo": "NVFP4"},
        "model.layers.1.mlp.down_proj": {"quant_algo": "FP8"},
    }
    mixed = {"quant_method": "modelopt", "quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": layers}}
    assert sorted(map(str, stored(mixed, "mlp.down_proj"))) == ["16", "None"]
    assert stored(mixed, "self_attn.o_proj") == []


def test_dynamic_rules_of_gptq_change_the_group_of_some_layers() -> None:
    dynamic = {"+:.*layers\\.1\\..*": {"bits": 8, "group_size": 32}}
    written = {"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": dynamic}
    assert sorted(map(str, stored(written, "mlp.down_proj"))) == ["128", "32"]
