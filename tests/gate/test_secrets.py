"""What looks like a secret, by form and by name, and what only sounds like one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.gate.phrases import one_line
from reconciler.gate.secrets import kind_in_address, kind_of, kind_under, redacted
from reconciler.sources.masking import mask
from tests.gate.tree import judged

A = "a" * 40
FORMS = {
    f"hf_{A}": "a Hugging Face token",
    f"sk-ant-{A}": "an Anthropic key",
    f"sk-proj-{A}": "an OpenAI key",
    f"ghp_{A}": "a GitHub token",
    f"github_pat_{A}": "a GitHub token",
    f"glpat-{A}": "a GitLab token",
    "ASIA" + "A" * 16: "an AWS access key",
    "AIza" + "a" * 35: "a Google API key",
    f"nvapi-{A}": "an NVIDIA API key",
    "xoxb-" + "1" * 12: "a Slack token",
    "npm_" + "a" * 36: "an npm token",
    f"eyJ{A}.eyJ{A}.{A}": "a signed web token",
    f"-----BEGIN OPENSSH PRIVATE KEY-----\n{A}\n-----END OPENSSH PRIVATE KEY-----": "a private key",
    "http://me:secret@proxy:3128": "a password in an address",
}


@pytest.mark.parametrize(("text", "kind"), FORMS.items(), ids=[text[:11] for text in FORMS])
def test_a_secret_is_told_by_its_form_whatever_is_around_it(text: str, kind: str) -> None:
    assert kind_of(text) == kind
    assert kind_of(f'{{"key": "{text}"}}') == kind
    assert kind_under("ANYTHING", text) == kind


@pytest.mark.parametrize("text", [text for text in FORMS if "://" not in text])
def test_nothing_of_its_form_is_shown(text: str) -> None:
    blank = "\n".join("*" * len(line) for line in text.split("\n"))
    assert redacted(f"before {text} after") == f"before {blank} after"
    assert A not in one_line(f"--flag {text}: no number")
    assert A not in mask(f"args: [{text}]", [], None)


def test_a_key_without_an_end_has_the_rest_and_two_keys_are_two() -> None:
    begin, end = "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"
    assert A not in redacted(f"{begin}\n{A}")
    assert redacted(f"{begin}{A}{end} between {begin}{A}{end}").strip("*") == " between "
    assert A not in redacted(f"{begin}\n{A}\n{begin}\n{A}\n{end}")


@pytest.mark.parametrize(
    "piece", ["-----BEGIN PRIVATE KEY-----", "-eyJaaaaaaaaaaa", "-eyJ", "a.", "://a", "token ", "?key="]
)
@pytest.mark.timeout(5)
def test_a_text_that_only_begins_like_many_secrets_is_passed_once(piece: str) -> None:
    text = f"@{piece * (256 * 1024 // len(piece))}"
    kind_in_address(text)
    assert len(mask(text, [], None)) == len(text)


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "hf-token", "--api-key", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "S3_CREDENTIALS", "TOKEN"]
)
def test_a_name_that_holds_secrets_makes_any_text_one(name: str) -> None:
    assert kind_under(name, "letmein") == "a secret"


@pytest.mark.parametrize(
    "text", ["", "true", "0", "none", "/run/secrets/x", "~/x", "$OTHER", "${OTHER}", "file:x", "abc"]
)
def test_settings_and_paths_under_such_a_name_are_none(text: str) -> None:
    assert kind_under("HF_TOKEN", text) is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("CACHE_KEY", "models-of-the-first-floor"),
        ("ROUTING_KEY", "llama-3.1-70b-instruct-awq"),
        ("TOKENIZER", "org/tokenizer"),
        ("VLLM_MAX_TOKENS", "4096"),
        ("TOKENIZERS_PARALLELISM", "false"),
        ("MODEL", "sk-learn"),
        ("BRANCH", "hf_transfer"),
        ("URL", "https://user@example/x"),
        ("REVISION", "0e9e39f249a16976918f6564b8830bc894c89659"),
    ],
)
def test_what_only_sounds_like_a_secret_is_none(name: str, text: str) -> None:
    assert kind_under(name, text) is None


@pytest.mark.parametrize(
    "text", ["q7Rz0Pw2Xv9Lk4Tb8Yn1", "0e9e39f249a16976918f6564b8830bc8", "1b4e28ba-2fa1-4d2b-883f-0016d3cca427"]
)
def test_a_key_is_told_by_its_letters_where_the_name_leaves_it_open(text: str) -> None:
    assert kind_under("LICENSE_KEY", text) == "a secret"
    assert kind_under("LICENSE", text) is None


def test_a_signature_in_the_query_of_an_address_is_one() -> None:
    assert kind_in_address("https://s3.example/m.gguf?X-Amz-Signature=0123456789") == "a signature or key in its query"
    assert kind_in_address("https://s3.example/m.gguf?version=4") is None


@pytest.mark.parametrize(
    "line",
    [
        "args: [--api-key, letmein, --seed, '7']",
        "args: [--hf-token=letmein]",
        'args: ["--hf-token", "letmein"]',
        "args:\n  - --hf-token\n  - letmein\n",
        "labels: {api-key: letmein}",
        "    HF_TOKEN: letmein",
        "source: https://weights.example/m.gguf?X-Amz-Signature=letmein&x=1",
    ],
)
def test_a_line_is_shown_without_what_stands_under_the_name_of_a_secret(line: str) -> None:
    assert mask(line, [], None) == line.replace("letmein", "*******")


@pytest.mark.parametrize(
    "line",
    [
        "args: [--tokenizer, x, --max-num-batched-tokens, '8192']",
        "api_key_env: GPT_KEY",
        "address: https://node.internal:7443",
        "# a token\nname: x",
        "env: {HF_TOKEN: {}}",
        "args: [--hf-token, --seed, '7']",
        "source: hf:org/llama@0e9e39f249a16976918f6564b8830bc894c89659",
    ],
)
def test_a_line_without_one_is_shown_as_it_is(line: str) -> None:
    assert mask(line, [], None) == line


@given(st.text(alphabet="ab_-./:@=?& hfsk0", max_size=60))
def test_redacting_keeps_the_length_and_twice_is_once(text: str) -> None:
    assert len(redacted(text)) == len(text)
    assert redacted(redacted(text)) == redacted(text)


@pytest.mark.parametrize(
    "line",
    [
        "    args: [--max-model-le, {}]",
        "    args: [{}]",
        "    args: [--seed, {}]",
        "    env: {{A: {}}}",
        "    select: {{node: {}}}",
        "    version: {}",
        "    kv_cache_dtype: {}",
    ],
)
def test_no_finding_of_any_rule_repeats_it(line: str) -> None:
    secret = f"hf_{A}"
    model = "\n".join(
        [
            *("name: m", "source: hf:org/m@v1", "context: 8192", "profiles:", "  - name: p", "    engine: vllm"),
            *("    gpu_class: h100-80gb", line.format(secret), ""),
        ]
    )
    nodes = "pool: h\ngpus: {class: h100-80gb, count: 1}\nnodes: [a]\n"
    report = judged({"cluster.yaml": "name: prod\n", "nodes/h.yaml": nodes, "models/m.yaml": model})

    assert report.findings
    assert secret not in report.model_dump_json()
