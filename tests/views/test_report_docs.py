"""The page on reports shows what the reports are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "reports.md"


@pytest.mark.parametrize("form", ["text", "github"])
def test_the_page_shows_the_example(form: str, *, rewrite: bool) -> None:
    example = (HERE / "reports" / f"example.{form}").read_text("utf-8")
    block = re.compile(rf"(<!-- example\.{form} -->\n```\n).*?\n(```\n)", re.DOTALL)
    page = PAGE.read_text("utf-8")
    shown = block.sub(lambda found: f"{found[1]}{example}{found[2]}", page, count=1)
    if rewrite:
        PAGE.write_text(shown, "utf-8")

    assert f"<!-- example.{form} -->" in page
    assert shown == PAGE.read_text("utf-8"), "pytest --rewrite writes it"


def test_the_picture_is_there_and_small() -> None:
    picture = PAGE.with_name("reports.png").read_bytes()

    assert picture.startswith(b"\x89PNG")
    assert len(picture) < 200_000
