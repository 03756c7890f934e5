"""What holds for every rule: its slug is its path, it can be explained, and it speaks the project's words."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

from reconciler import gate
from reconciler.domain.finding import Severity
from reconciler.gate.check import RULES
from reconciler.gate.rule import Rule, rule
from reconciler.sizing.refusal import Reason
from tests.gate.vocabulary import banned_words

SOURCES = sorted(Path(gate.__file__).parent.glob("*.py"))

NOW = {
    "heads": {
        *("attention-split", "kv-split", "kv-replicated", "vocab-split", "mlp-split", "experts-split", "quant-group"),
        *("vision-split", "recurrent-split", "pipeline-layers", "parallel-product"),
    },
    "memory": {"weights", "request", "pool", "tight", "host-ram", "startup-slack", "share", "unknown"},
    "context": {"beyond-trained", "slots"},
    "args": {"managed-flag", "unknown-flag", "removed-flag", "wrong-form"},
    "lock": {"missing", "stale", "revision-unpinned", "template-changed", "licence"},
    "security": {"remote-code", "advisory", "plain-http", "plain-secret", "env", "engine-exposed"},
    "inventory": {
        *("unknown-class", "node-too-small", "gpus-range", "single-gpu-engine", "cpu-profile", "mig", "unsupported"),
        *("overcommitted", "mixed-cards", "fabric"),
    },
    "rollout": {"no-surge-room", "outage", "limits", "no-scaler"},
    "refs": {"fallback-missing", "fallback-cycle", "adapter-duplicate", "adapter-architecture", "alias-collision"},
    "yaml": {
        *("syntax", "duplicate-key", "unknown-field", "type", "empty", "alias", "directive", "tag", "too-large"),
        *("too-deep", "not-a-file", "name-mismatch", "duplicate-name"),
    },
}
"""The rules of design section 5 that this version decides."""


def test_the_rules_of_the_design_that_are_due_are_there() -> None:
    assert {f"{group}/{name}" for group, names in NOW.items() for name in names} <= set(RULES)


def test_every_reason_that_sizing_gives_is_a_rule_here() -> None:
    assert {reason.value for reason in Reason} <= set(RULES)


def test_a_slug_is_the_path_of_its_rule() -> None:
    paths = {}
    for module in pkgutil.iter_modules(gate.__path__):
        for name, value in vars(importlib.import_module(f"{gate.__name__}.{module.name}")).items():
            if isinstance(value, Rule):
                paths[value.slug] = f"{module.name}/{name.lower().replace('_', '-')}"

    assert paths == {slug: slug for slug in RULES}


@pytest.mark.parametrize("slug", RULES)
def test_a_rule_says_why_in_one_sentence(slug: str) -> None:
    why = RULES[slug].why

    assert re.fullmatch(r"[A-Z][^\n]{20,160}[.]", why)
    assert not re.search(r"[.] [A-Z]", why)


@pytest.mark.parametrize("slug", RULES)
def test_a_rule_explains_itself_in_paragraphs_with_what_to_do(slug: str) -> None:
    paragraphs = RULES[slug].explanation.split("\n\n")

    assert len(paragraphs) >= 2
    assert all(len(line) <= 120 for line in RULES[slug].explanation.splitlines())
    assert sum(len(paragraph) for paragraph in paragraphs) > 150


@pytest.mark.parametrize(
    "slug",
    sorted(set(RULES) - {"yaml/empty", "yaml/too-large", "yaml/too-deep", "yaml/not-a-file", "yaml/name-mismatch"}),
)
def test_an_explanation_has_an_example(slug: str) -> None:
    assert re.search(r"^ {4}\S", RULES[slug].explanation, re.MULTILINE)


@pytest.mark.parametrize("slug", RULES)
def test_explanations_use_no_synonym(slug: str) -> None:
    assert not banned_words(f"{RULES[slug].why} {RULES[slug].explanation}")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_no_text_in_the_gate_uses_a_synonym(path: Path) -> None:
    texts = [
        node.value
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]

    assert [text for text in texts if banned_words(text)] == []


@pytest.mark.parametrize("text", ["the host is full", "Services", "a worker, gone", "two pods"])
def test_the_banned_words_are_found(text: str) -> None:
    assert banned_words(text)


PLANNED = {"rollout/failed", "rollout/protected", "rollout/nodes-vanished", "rollout/not-heard"}
"""What the planner finds with the fleet before it; only its words are here."""


def test_what_is_found_while_reading_or_planning_has_no_check_here() -> None:
    for slug, one in RULES.items():
        assert (one.check is None) == (slug.startswith("yaml/") or slug in PLANNED)


def test_a_function_becomes_a_rule_by_its_name_and_its_docstring() -> None:
    @rule(Severity.WARNING, counts=True)
    def no_such_thing(context: object) -> tuple[()]:
        """It is there to be
        seen.

        And explained.

            like: this
        """
        del context
        return ()

    assert (no_such_thing.slug, no_such_thing.severity, no_such_thing.counts) == (
        "test_rules/no-such-thing",
        "warning",
        True,
    )
    assert no_such_thing.why == "It is there to be seen."
    assert no_such_thing.explanation == "And explained.\n\n    like: this"
