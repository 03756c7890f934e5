"""The chat template and the longest input, from wherever a checkpoint keeps them."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from reconciler.weights.tokenizer import Tokenizer, read_tokenizer
from tests.weights.memory_files import MemoryFiles
from tests.weights.tensor_files import Content

CONFIG, OWN, OLDER = "tokenizer_config.json", "chat_template.jinja", "chat_template.json"


def read(named: str | None = None, **files: Any) -> Tokenizer:
    paths = {"config": CONFIG, "own": OWN, "older": OLDER}
    return read_tokenizer(MemoryFiles({paths[each]: Content.of(value) for each, value in files.items()}, named=named))


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_nothing_is_known_without_a_file() -> None:
    assert read() == Tokenizer(None, None)


def test_a_file_of_its_own_wins_over_the_configs_and_that_over_the_processors() -> None:
    config, older = {"chat_template": "from the config"}, {"chat_template": "older"}
    assert read(config=config, own="own ü", older=older).chat_template_sha256 == sha("own ü")
    assert read(config=config, older=older).chat_template_sha256 == sha("from the config")
    assert read(config={}, older=older).chat_template_sha256 == sha("older")


def test_several_templates_are_one_digest_that_sees_each_change() -> None:
    def digest(*templates: str) -> str | None:
        named = [{"name": f"t{at}", "template": each} for at, each in enumerate(templates)]
        return read(config={"chat_template": named}).chat_template_sha256

    assert len({digest("a"), digest("a", "b"), digest("a", "c"), None}) == 4
    assert digest("a", "b") == digest("a", "b")
    assert digest() is None


@pytest.mark.parametrize(
    ("written", "longest"),
    [(4096, 4096.0), (10**30, 1e30), (512.5, 512.5), (True, None), ("4096", None), (None, None), ([1], None)],
)
def test_only_a_number_is_a_longest_input(written: object, longest: float | None) -> None:
    assert read(config={"model_max_length": written}).model_max_length == longest


@pytest.mark.parametrize("template", [7, {}, True, None])
def test_what_is_no_template_is_none(template: object) -> None:
    assert read(config={"chat_template": template}).chat_template_sha256 is None
