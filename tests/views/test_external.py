"""Lines about external models: all of them at first, then what changed."""

from __future__ import annotations

from reconciler.domain.external import ExternalAnswer, ExternalVerdict
from reconciler.views.external import changed_lines, external_lines

READY = ExternalAnswer(ExternalVerdict.REACHABLE, "served by llm.example")
SILENT = ExternalAnswer(ExternalVerdict.UNREACHABLE, "llm.example did not answer within 2 s")


def test_what_is_ready_is_counted_and_what_waits_is_named() -> None:
    assert external_lines({"b": READY, "z": SILENT, "a": SILENT}) == [
        "1 of 3 external models ready",
        "  a waits: llm.example did not answer within 2 s",
        "  z waits: llm.example did not answer within 2 s",
    ]
    assert external_lines({"b": READY}) == ["1 of 1 external model ready"]


def test_without_external_models_nothing_is_said() -> None:
    assert external_lines({}) == changed_lines({}, {}) == changed_lines({"a": READY}, {}) == []


def test_only_another_answer_is_said_again() -> None:
    before = {"a": READY, "b": SILENT, "c": READY}
    assert changed_lines({}, before) == external_lines(before)
    assert changed_lines(before, before) == []
    assert changed_lines(before, {"a": SILENT, "b": READY, "c": READY, "d": READY}) == [
        "external model a waits: llm.example did not answer within 2 s",
        "external model b ready: served by llm.example",
        "external model d ready: served by llm.example",
    ]
