"""What a launch reads of weights."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from reconciler.agent.weight_files import adapter_rank, size_of, vocabulary_bytes
from tests.tiny_llama import write_tiny_llama

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_is_as_large_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"x" * 300)
    assert size_of(tmp_path / "m.gguf") == 300


def test_a_directory_with_two_forms_of_the_weights_counts_the_one_that_is_loaded(tmp_path: Path) -> None:
    for name, size in (("a.safetensors", 100), ("b.safetensors", 50), ("pytorch_model.bin", 999), ("config.json", 7)):
        (tmp_path / name).write_bytes(b"x" * size)
    assert size_of(tmp_path) == 150


def test_what_holds_no_weights_has_no_size(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert size_of(tmp_path) is None
    assert size_of(tmp_path / "none") is None


def test_embedding_and_output_head_are_told_apart_from_the_rest(tmp_path: Path) -> None:
    # 320 words x 64 numbers of two bytes, twice
    assert vocabulary_bytes(write_tiny_llama(tmp_path / "llama")) == 2 * 320 * 64 * 2


def test_files_that_do_not_tell_their_tensors_have_no_vocabulary(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"x" * 100)
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    assert vocabulary_bytes(tmp_path) is None
    assert vocabulary_bytes(tmp_path / "m.gguf") is None
    assert vocabulary_bytes(tmp_path / "none") is None


@pytest.mark.parametrize(
    ("text", "rank"),
    [(json.dumps({"r": 24}), 24), ('{"r": 0}', None), ('{"r": true}', None), ("{}", None), ("[1]", None), ("{", None)],
)
def test_an_adapters_rank_stands_in_its_config(tmp_path: Path, text: str, rank: int | None) -> None:
    (tmp_path / "adapter_config.json").write_text(text)
    (tmp_path / "adapter_model.safetensors").write_bytes(b"")
    assert adapter_rank(tmp_path) == rank
    assert adapter_rank(tmp_path / "adapter_model.safetensors") == rank


def test_an_adapter_of_another_kind_tells_no_rank(tmp_path: Path) -> None:
    (tmp_path / "sql.gguf").write_bytes(b"GGUF")
    assert adapter_rank(tmp_path / "sql.gguf") is None
