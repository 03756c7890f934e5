"""What of changed values a report shows: no secret, by its form or by the name that it stands under."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.gate.discretion import HIDDEN, discreet

TOKEN = "hf_" + "a" * 40


@pytest.mark.parametrize(
    "value",
    [
        TOKEN,
        ["--max-num-seqs", TOKEN],
        ["--config", f'{{"a": "{TOKEN}"}}'],
        [f"--x={TOKEN}"],
        {"fields": [{"name": TOKEN}]},
        f"https://h.example/a?token={TOKEN}",
    ],
)
def test_nothing_that_has_the_form_of_a_secret_is_shown(value: Any) -> None:
    assert TOKEN not in str(discreet(value))


@pytest.mark.parametrize(
    "value",
    [
        ["--api-key", "canary"],
        ["--api-key=canary"],
        ["--loader", '{"token": "canary", "depth": 4}'],
        "https://me:canary@h.example/v1",
        "https://h.example/a.gguf?sig=canary",
    ],
)
def test_nothing_under_the_name_of_a_secret_is_shown(value: Any) -> None:
    assert "canary" not in str(discreet(value))


def test_all_else_is_shown_as_it_is() -> None:
    value = [["--enable-prefix-caching", "--max-num-seqs=8", "--tokenizer", "a/b"], {"context": 4096, "at": None}]
    assert discreet(value) == value
    assert discreet(["--api-key", "x", "--port", "1"]) == ["--api-key", HIDDEN, "--port", "1"]
