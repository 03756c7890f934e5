"""A wrong type beside a secret hides neither: the secret is told, the type is told, and the value is in no word."""

from __future__ import annotations

import pytest

from reconciler.sources.documents import parse
from tests.gate.tree import judged
from tests.sources.trees import FLEET, MODEL

POOL = "pool: gpu\nnodes: [gpu-01]\ngpus: {class: h100-80gb, count: 8}\nmemory_gib: 1024\n"
TOKEN = "hf_abcdefghijklmnopqrstuvwxyz0123"
PASSWORD = "sup3rs3cretwords"
RULE = "security/plain-secret"


def found(text: str, *, top: str = "unverified: true\n") -> list[tuple[str, int | None, str]]:
    files = {"cluster.yaml": FLEET, "nodes/gpu.yaml": POOL, "models/llama.yaml": MODEL + text + top}
    findings = judged(files).findings
    for each in findings:
        for secret in (TOKEN, PASSWORD):
            assert secret not in f"{each.message} {each.hint}", each.rule
    return [(each.rule, each.line, each.message) for each in findings if each.rule in {RULE, "yaml/type"}]


FIRST = MODEL.count("\n") + 1


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        pytest.param(
            f"    env:\n      HF_TOKEN: {TOKEN}\n      COUNT: 12\n",
            [(RULE, FIRST + 1), ("yaml/type", FIRST + 2)],
            id="a number among variables",
        ),
        pytest.param(
            f"    env:\n      HF_TOKEN: {TOKEN}\n      DB_PASSWORD: [{PASSWORD}]\n",
            [(RULE, FIRST + 1), ("yaml/type", FIRST + 2), (RULE, FIRST + 2)],
            id="a list where the secret itself stands",
        ),
        pytest.param(
            f"    env:\n      DB_PASSWORD: {PASSWORD}\n    gpus: '2'\n",
            [(RULE, FIRST + 1), ("yaml/type", FIRST + 2)],
            id="text for a count in the same profile",
        ),
        pytest.param(
            f"    args: [--api-key, {PASSWORD}, 8080]\n",
            [(RULE, FIRST), ("yaml/type", FIRST)],
            id="a number among arguments",
        ),
        pytest.param(
            f"    args: ['--api-key={PASSWORD}']\n    gpus: two\n",
            [(RULE, FIRST), ("yaml/type", FIRST + 1)],
            id="joined to its flag",
        ),
        pytest.param(
            "    env:\n      HF_TOKEN: {secret: hf}\n      PORT: 12\n",
            [("yaml/type", FIRST + 2)],
            id="none is there",
        ),
        pytest.param(
            "    env:\n      VLLM_API_KEY: {secret: llama-70b-key-of-production}\n    gpus: four\n",
            [("yaml/type", FIRST + 2)],
            id="the name of a secret",
        ),
        pytest.param(
            f"    env:\n      VLLM_API_KEY: {{secret: {TOKEN}}}\n    gpus: four\n",
            [(RULE, FIRST + 1), ("yaml/type", FIRST + 2)],
            id="the secret itself where its name belongs",
        ),
    ],
)
def test_both_are_told(text: str, rules: list[tuple[str, int]]) -> None:
    assert sorted((rule, line) for rule, line, _ in found(text)) == sorted(rules)


def test_a_secret_that_a_rule_sees_is_told_once() -> None:
    """The fault is in another part: what is left of the file has the profile whole."""
    told = found(f"    env:\n      HF_TOKEN: {TOKEN}\n", top="context: '4096'\nunverified: true\n")
    assert [rule for rule, _, _ in told].count(RULE) == 1


def test_the_words_are_those_of_the_rule() -> None:
    ((_, _, message), _) = sorted(found(f"    env:\n      HF_TOKEN: {TOKEN}\n      COUNT: 12\n"))
    assert message == "HF_TOKEN holds a Hugging Face token in plain text"


@pytest.mark.parametrize(
    "text",
    [
        f"external: {{url: 'https://a.example', api_key_env: sk-proj-{PASSWORD}}}\n",
        f"profiles:\n  - {{name: p, engine: vllm, args: --api-key {PASSWORD}}}\n",
    ],
    ids=["the key for the name of its variable", "all arguments as one text"],
)
def test_what_people_paste_in_the_wrong_form_is_not_shown_with_its_line(text: str) -> None:
    shown = parse(f"name: m\n{text}".encode()).shown_text()
    assert PASSWORD not in shown
    assert "api_key_env" in shown or "args" in shown


def test_the_name_of_a_variable_is_shown() -> None:
    assert "OPENAI_API_KEY" in parse(b"external: {api_key_env: OPENAI_API_KEY}\n").shown_text()
