"""What differs between two locks, in words."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.domain.lock import Lock, LockedFile, LockedSource, TensorRun, WeightFormat
from reconciler.weights.lock_changes import lock_changes

FIRST, SECOND = "1" * 40, "2" * 40
SOURCE = "hf:org/name@main"


def entry(**fields: Any) -> LockedSource:
    given: dict[str, Any] = {
        "source": SOURCE,
        "revision": FIRST,
        "format": WeightFormat.SAFETENSORS,
        "weight_bytes": 2**30,
        "config": {"a": 1, "b": None},
        "tensors": (TensorRun(group="mlp", dtype="bf16", bytes=2**30),),
        "files": (LockedFile(path="a.safetensors", bytes=2**30, sha256="x"), LockedFile(path="config.json", bytes=9)),
        "licence": "mit",
        "chat_template_sha256": "c" * 64,
        "model_max_length": 4096,
    }
    return LockedSource.model_validate(given | fields)


def changes(before: LockedSource | None, after: LockedSource) -> list[str]:
    told = lock_changes(None if before is None else Lock(sources=(before,)), Lock(sources=(after,)))
    assert all(each.startswith(f"{SOURCE}: ") for each in told)
    return [each.removeprefix(f"{SOURCE}: ") for each in told]


def test_the_same_is_no_change() -> None:
    assert changes(entry(), entry()) == []


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"revision": SECOND}, "moved from 11111111 to 22222222"),
        ({"revision": "sha256:ab"}, "moved from 11111111 to sha256:ab"),
        ({"format": WeightFormat.OTHER}, "format changed: safetensors → other"),
        (
            {"weight_bytes": 2**30 + 4},
            "weights changed: 1.00 GiB (1,073,741,824 bytes) → 1.00 GiB (1,073,741,828 bytes)",
        ),
        (
            {"files": (LockedFile(path="a.safetensors", bytes=2**30, sha256="y"),)},
            "weights changed: a.safetensors",
        ),
        (
            {"tensors": (TensorRun(group="mlp", dtype="f16", bytes=2**30),)},
            "weights changed: same size, other tensors",
        ),
        ({"config": {"a": 2, "b": None}}, "config changed: a"),
        ({"config": {"a": 1}}, "config changed: b"),
        ({"config": {"a": 1, "b": None, "c": None}}, "config changed: c"),
        ({"config": dict.fromkeys("abcdefg")}, "config changed: a, c, d, e and 2 more"),
        ({"licence": "gpl-3.0"}, "licence changed: mit → gpl-3.0"),
        ({"licence": None}, "licence changed: mit → not stated"),
        ({"chat_template_sha256": "d" * 64}, "chat template changed: cccccccc → dddddddd"),
        ({"chat_template_sha256": None}, "chat template changed: cccccccc → none"),
        ({"model_max_length": 8192}, "model_max_length changed: 4096.0 → 8192.0"),
    ],
)
def test_each_change_is_named(fields: dict[str, Any], told: str) -> None:
    assert changes(entry(), entry(**fields)) == [told]


def test_a_moved_revision_is_told_with_all_that_came_with_it() -> None:
    after = entry(revision=SECOND, licence="gpl-3.0", chat_template_sha256="d" * 64, quant_config={"bits": 4})
    assert changes(entry(licence=None), after) == [
        "moved from 11111111 to 22222222",
        "quant_config changed: bits",
        "licence changed: not stated → gpl-3.0",
        "chat template changed: cccccccc → dddddddd",
    ]


@pytest.mark.parametrize(
    "field", ["config", "tensors", "files", "licence", "chat_template_sha256", "model_max_length", "weight_bytes"]
)
def test_what_an_older_lock_does_not_say_is_no_change(field: str) -> None:
    assert changes(entry(**{field: None}), entry()) == []


def test_a_source_that_is_not_locked_and_one_that_is_not_used_are_named() -> None:
    assert changes(None, entry()) == ["not locked yet"]
    other = entry(source="https://a.example/x.gguf?key=s3cret")
    assert lock_changes(Lock(sources=(entry(), other)), Lock(sources=(entry(),))) == (
        "https://a.example/x.gguf: locked, and no longer used",
    )
    assert lock_changes(None, Lock(sources=(other,))) == ("https://a.example/x.gguf: not locked yet",)
