"""The table of usual LoRA targets by architecture, and what is read out of it."""

from __future__ import annotations

from collections import Counter

import pytest

from reconciler.domain.tables import table

ROWS = {name: set(row["targets"]) for row in table("adapter_modules")["models"] for name in row["architectures"]}
LLAMA = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "qkv_proj", "gate_up_proj"}


def test_an_architecture_is_in_one_row_and_its_targets_are_among_the_usual_ones() -> None:
    names = Counter(name for row in table("adapter_modules")["models"] for name in row["architectures"])
    assert len(names) > 100
    assert [name for name, count in names.items() if count > 1] == []
    assert set().union(*ROWS.values()) <= set(table("adapter_modules")["usual"])


@pytest.mark.parametrize(
    ("architecture", "targets"),
    [
        ("LlamaForCausalLM", LLAMA),
        ("Qwen2ForCausalLM", LLAMA),
        ("Qwen3ForCausalLM", LLAMA),
        ("Gemma2ForCausalLM", LLAMA),
        ("GPT2LMHeadModel", {"c_attn", "c_proj", "c_fc"}),
        ("FalconForCausalLM", {"query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"}),
        ("OPTForCausalLM", {"q_proj", "k_proj", "v_proj", "qkv_proj", "out_proj", "fc1", "fc2"}),
    ],
)
def test_models_have_the_modules_that_their_checkpoints_have(architecture: str, targets: set[str]) -> None:
    assert ROWS[architecture] == targets


@pytest.mark.parametrize("architecture", ["NemotronHForCausalLM", "JambaForCausalLM", "Qwen3NextForCausalLM"])
def test_of_recurrent_layers_too_which_lie_in_files_of_their_own(architecture: str) -> None:
    assert {"in_proj", "out_proj", "q_proj", "o_proj"} <= ROWS[architecture]


@pytest.mark.parametrize("architecture", ["LlavaForConditionalGeneration", "GPTNeoXForCausalLM"])
def test_models_whose_parts_are_chosen_at_run_time_are_not_judged(architecture: str) -> None:
    assert architecture not in ROWS
