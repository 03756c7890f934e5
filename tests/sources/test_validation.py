"""One mistake in a good file → one finding: its rule, its place, what it says and what it advises."""

from __future__ import annotations

import re

import pytest

from reconciler.domain.finding import Severity
from reconciler.domain.fleet_spec import FleetSpec, PoolSpec
from reconciler.domain.lock import Lock
from reconciler.domain.model_spec import ModelSpec
from reconciler.sources.wording import PATTERNS_IN_WORDS
from tests.sources.trees import MODEL, POOL, all_told, loaded, told

PROFILE_FIELDS = [
    ('gpus: "4"', "yaml/type 8:11", 'profiles[0].gpus: expected a whole number, found the text "4" (write 4)'),
    ("gpus: 4.0", "yaml/type 8:11", "a whole number, found the number 4.0 (write 4)"),
    ("gpus: 4.5", "yaml/type 8:11", "a whole number, found the number 4.5"),
    ("gpus: true", "yaml/type 8:11", "a whole number, found true"),
    ("gpus: four", "yaml/type 8:11", 'a whole number, found the text "four"'),
    ("gpus: [4]", "yaml/type 8:11", "a whole number, found a list"),
    (
        "gpus: 010",
        "yaml/type 8:11",
        "010 begins with 0, which some readers take for octal (write 10,",
    ),
    ("gpus: 0x1F", "yaml/type 8:11", '(write 31, or "0x1F" for text)'),
    ("nodes: 0", "yaml/type 8:12", "profiles[0].nodes: expected at least 1, found the number 0"),
    ("nodes:", "yaml/type 8:11", "a whole number, found nothing (write a value, or remove the field)"),
    ("gpuClass: x", "yaml/unknown-field 8:5", "profiles[0] has no field gpuClass (write gpu_class)"),
    ("gpu-clas: x", "yaml/unknown-field 8:5", "(write gpu_class)"),
    ("maxconcurrency: 4", "yaml/unknown-field 8:5", "(write max_concurrency)"),
    ("tensor_parallel: 4", "yaml/unknown-field 8:5", "it is never written: it follows from gpus, nodes"),
    ("replicas: 2", "yaml/unknown-field 8:5", "(write scaling: {min: N})"),
    ("fallbacks: [x]", "yaml/unknown-field 8:5", "fallbacks belongs at the top level"),
    ("count: 2", "yaml/unknown-field 8:5", "profiles[0] has no field count"),
    ("zzzzzz: 2", "yaml/unknown-field 8:5", "(fields here: name, engine, version, source,"),
    ('memory_share: "0.9"', "yaml/type 8:19", 'expected a number, found the text "0.9" (write 0.9)'),
    ("memory_gib: 0", "yaml/type 8:17", "expected more than 0, found the number 0"),
    ("expert_parallel: no", "yaml/type 8:22", 'expected true or false, found the text "no" (write false)'),
    ('expert_parallel: "true"', "yaml/type 8:22", "(write true, without quotes)"),
    ("expert_parallel: 1", "yaml/type 8:22", "expected true or false, found the number 1 (write true)"),
    ("version: 1.10", "yaml/type 8:14", 'expected text, found the number 1.10 (put it in quotes: "1.10")'),
    ("version: true", "yaml/type 8:14", 'expected text, found true (put it in quotes: "true")'),
    ('dtype: ""', "yaml/type 8:12", "expected text that is not empty"),
    ("args: --enforce-eager", "yaml/type 8:11", "expected a list, found text (write one list item for each argument)"),
    ("args: [--port, 8080]", "yaml/type 8:20", "profiles[0].args[1]: expected text, found a number (put it in quotes)"),
    ("env: {TOKEN: 12345678}", "yaml/type 8:18", "expected text, or {secret: NAME}, found a number (put it in quotes)"),
    ("env: {A: {secrt: x}}", "yaml/unknown-field 8:15", "profiles[0].env.A has no field secrt (write secret)"),
    ("env: {A: {secret: X y}}", "yaml/type 8:23", "profiles[0].env.A.secret: expected a name: at most 63"),
    ("env: {A: [x]}", "yaml/type 8:14", "expected text, or {secret: NAME}, found a list"),
    ("env: {1A: x}", "yaml/type 8:11", "expected the name of an environment variable"),
    ("env: [A=x]", "yaml/type 8:10", "expected fields, each as name: value, found a list"),
    (
        "select: {rack: 7}",
        "yaml/type 8:20",
        'expected text, found the number 7 (put it in quotes: "7")',
    ),
    ("source: org/llama", "yaml/type 8:13", "found text (write hf:org/llama@REVISION)"),
    ("source: http://x/y", "yaml/type 8:13", "(plain http is refused for weights; use https)"),
    ("source: file:relative", "yaml/type 8:13", "expected file:/ABSOLUTE/PATH without '..'"),
]
MODEL_FIELDS = [
    ("scaling: {min: true}", "yaml/type 8:16", "scaling.min: expected a whole number, found true"),
    ("scaling: {mni: 1}", "yaml/unknown-field 8:11", "scaling has no field mni (write min)"),
    ("scaling: 2", "yaml/type 8:10", "scaling: expected fields, such as {min: 1}, found the number 2"),
    ("scaling:", "yaml/type 8:9", "found nothing (write a value, or remove the field)"),
    (
        "class: crit",
        "yaml/type 8:8",
        'critical, standard or opportunistic, found the text "crit" (write critical)',
    ),
    ("task: chat", "yaml/type 8:7", "expected generate, embed, rerank, transcribe or image, found"),
    ("rollout: {strategy: inplace}", "yaml/type 8:21", "expected surge, surge_or_in_place or in_place"),
    (
        "rollout: {bake: 30}",
        "yaml/type 8:17",
        "such as 90s, 30m, 2h or 1d, found the number 30 (write 30s if seconds",
    ),
    ("rollout: {bake: 30 min}", "yaml/type 8:17", "(write 30m)"),
    ("rollout: {bake: 1h30m}", "yaml/type 8:17", 'found the text "1h30m"'),
    ("gpus: 4", "yaml/unknown-field 8:1", "there is no field gpus (gpus belongs under profiles[])"),
    ("gpu_class: l4", "yaml/unknown-field 8:1", "(gpu_class belongs under profiles[])"),
    ("max_surge: 2", "yaml/unknown-field 8:1", "(max_surge belongs under rollout)"),
    ("pool: x", "yaml/unknown-field 8:1", "(pool belongs in nodes/POOL.yaml)"),
    ("max_model_len: 4096", "yaml/unknown-field 8:1", "(write context, on the model)"),
    ("aliases: other", "yaml/type 8:10", 'aliases: expected a list, found the text "other" (write [other])'),
    ("aliases: [My Model]", "yaml/type 8:11", "aliases[0]: expected a name: at most 63 of a-z, 0-9"),
    ("aliases: [My Model]", "yaml/type 8:11", "(write my-model)"),
    ("adapters: {name: x, source: 'hf:a/b'}", "yaml/type 8:11", "put `- ` before the first field of each item"),
    (
        "adapters: [{name: x}]",
        "yaml/type 8:12",
        "adapters[0]: source is missing (write source: …, where its",
    ),
    ("adapters: [x]", "yaml/type 8:12", 'adapters[0]: expected fields: {name: …, source: …}, found the text "x"'),
    ("protect: on", "yaml/type 8:10", "(write true)"),
    ("owner: 12", "yaml/type 8:8", 'expected text, found the number 12 (put it in quotes: "12")'),
    ("max_output: 1_000", "yaml/type 8:13", '(write 1000, or "1_000" for text)'),
    ("context: 4096", "yaml/duplicate-key 8:1", "context is written twice; first on line 3 (remove one)"),
]
POOL_FIELDS = [
    (
        "nodes: [5]",
        "yaml/type 2:9",
        "nodes[0]: expected a node's name, a range such as gpu-[01-16], or",
    ),
    ("nodes: gpu-1", "yaml/type 2:8", "nodes: expected a list of nodes"),
    ("nodes: [{nam: a}]", "yaml/unknown-field 2:10", "nodes[0] has no field nam (write name)"),
    ("nodes: [{gpus: []}]", "yaml/type 2:9", "nodes[0]: name is missing"),
    ("nodes: ['a[3-1]']", "yaml/type 2:9", "nodes[0]: a[3-1] runs backwards: 3 is after 1"),
    (
        "nodes: [a]\ngpus: {class: l4, count: two}",
        "yaml/type 3:26",
        "gpus.count: expected a whole number, found",
    ),
    ("nodes: [a]\ngpus: [{class: l4, cnt: 2}]", "yaml/unknown-field 3:20", "gpus[0] has no field cnt (write count)"),
    ("nodes: [a]\ngpus: {class: L4, count: 1}", "yaml/type 3:15", "expected a GPU class such as h100-80gb"),
    ("nodes: [a]\ngpus: 8", "yaml/type 3:7", "gpus: expected {class: GPU_CLASS, count: N}, or a list of these"),
    ("nodes: [a]\ngpus: {class: l4, count: 1, mig: big}", "yaml/type 3:34", "expected a MIG profile such as 1g.10gb"),
    (
        "nodes: [a]\naddress: gpu:7443",
        "yaml/type 3:10",
        "expected an address: https://{node}.example:7443,",
    ),
    ("nodes: [a]\ndrain: off", "yaml/type 3:8", "(write false)"),
    ("nodes: [a]\nmemory: 4", "yaml/unknown-field 3:1", "(write memory_gib)"),
]
FLEET_FIELDS = [
    (
        "limits: {models_removed: 0.2}",
        "yaml/type 2:26",
        "a share such as 20%, or a count, found the number 0.2",
    ),
    ("limits: {models_removed: -1}", "yaml/type 2:26", "expected a share such as 20%, or a count, found the number -1"),
    ("limits: {models_removed: 200%}", "yaml/type 2:26", 'a share such as 20%, or a count, found the text "200%"'),
    (
        'defaults: {engine_versions: {vlm: "1"}}',
        "yaml/type 2:30",
        "llamacpp or comfyui, found vlm (write vllm)",
    ),
    ("defaults: {engine_versions: {vllm: 0.28}}", "yaml/type 2:36", '(put it in quotes: "0.28")'),
    ("gpu_classes: {own: {memory_mib: 1}}", "yaml/type 2:20", "gpu_classes.own: engine_mib is missing"),
    ("idle_timeout: 5m", "yaml/unknown-field 2:1", "(idle_timeout belongs under defaults)"),
    ("models: [a]", "yaml/unknown-field 2:1", "(one model a file: models/NAME.yaml)"),
]


def only(text: str, place: str, fragment: str) -> None:
    """The text holds one line, with that place and that fragment."""
    assert text.count("\n") == 0, text
    assert text.startswith(f"{place} "), text
    assert fragment in text


@pytest.mark.parametrize(("field", "place", "fragment"), PROFILE_FIELDS)
def test_a_field_of_a_profile(field: str, place: str, fragment: str) -> None:
    result = loaded(model=f"{MODEL}    {field}\n")
    only(all_told(result), place, fragment)
    assert (result.findings[0].model, result.findings[0].profile) == ("llama", "h100")
    assert result.findings[0].file == "cluster/models/llama.yaml"


@pytest.mark.parametrize(("field", "place", "fragment"), MODEL_FIELDS)
def test_a_field_of_a_model(field: str, place: str, fragment: str) -> None:
    result = loaded(model=f"{MODEL}{field}\n")
    only(all_told(result), place, fragment)
    assert (result.findings[0].model, result.findings[0].profile) == ("llama", None)


@pytest.mark.parametrize(("field", "place", "fragment"), POOL_FIELDS)
def test_a_field_of_a_pool(field: str, place: str, fragment: str) -> None:
    result = loaded(pool=f"pool: gpu\n{field}\n")
    only(all_told(result), place, fragment)
    assert result.findings[0].model is None


@pytest.mark.parametrize(("field", "place", "fragment"), FLEET_FIELDS)
def test_a_field_of_the_fleet(field: str, place: str, fragment: str) -> None:
    only(all_told(loaded(fleet=f"name: prod\n{field}\n")), place, fragment)


def test_a_missing_field_is_told_at_what_should_hold_it() -> None:
    result = loaded(model="source: hf:a/b@c\ncontext: 1\nprofiles:\n- name: x\n")
    assert [told(each).partition(" (")[0] for each in result.findings] == [
        "yaml/type 1:1 name is missing",
        "yaml/type 4:3 profiles[0]: engine is missing",
    ]


def test_a_misspelt_field_is_not_also_missing() -> None:
    result = loaded(model=MODEL.replace("engine:", "Engin:"))
    only(all_told(result), "yaml/unknown-field 6:5", "(write engine)")


def test_fields_that_a_merge_key_would_bring_are_not_missing() -> None:
    text = MODEL.replace("  - name: h100\n", "  - <<: {name: h100}\n")
    assert [finding.rule for finding in loaded(model=text).findings] == ["yaml/alias"]


def test_all_mistakes_of_a_file_are_told_at_once() -> None:
    text = """\
name: Llama
context: "32768"
scaling: {min: 1.0, mx: 2}
profiles:
  - name: h100
    engine: vlm
    gpus: two
    env: {A: 1, B: {secret: b, x: 1}}
  - {engine: sglang}
"""
    assert [told(each).split(" ")[1] for each in loaded(model=text).findings] == [
        "1:7",
        "2:10",
        "3:16",
        "3:21",
        "6:13",
        "7:11",
        "8:14",
        "8:32",
        "9:5",
    ]


def test_words_that_look_like_booleans_are_noted_where_they_are_text() -> None:
    result = loaded(model=f"{MODEL}    dtype: off\n    args: ['no', no]\n", pool=POOL.replace("true", "yes"))
    notes = [told(each).partition("; ") for each in result.findings if each.severity is Severity.NOTE]
    assert [(found, advised) for found, _, advised in notes] == [
        (
            "yaml/type 8:12 profiles[0].dtype: off is text here",
            'many tools read it as false (put it in quotes to say so: "off")',
        ),
        (
            "yaml/type 9:18 profiles[0].args[1]: no is text here",
            'many tools read it as false (put it in quotes to say so: "no")',
        ),
    ]
    assert [finding.severity for finding in result.findings if finding.file == "cluster/nodes/gpu.yaml"] == ["error"]


@pytest.mark.parametrize(
    "line",
    [
        "env: {T: canary-4711, U: 4711}",
        "env: {T: [canary-4711]}",
        "env: {T: {secret: canary 4711}}",
        "env: canary-4711",
        "args: --api-key=canary-4711",
        "source: https://user:canary-4711@x",
        "source: canary-4711:x",
        "env: {T: 0x4711canary, T: canary-4711}",
        "env: {T=canary-4711, U=canary: 1}",
        "env:\n      canary-4711:\n",
        "expert_parallel: hf_canary4711canary4711canary4711",
        "hf_canary4711canary4711canary4711: 1",
    ],
)
def test_no_finding_repeats_what_may_be_secret(line: str) -> None:
    result = loaded(model=f"{MODEL}    {line}\n")
    assert result.findings
    assert not re.search("canary|4711", all_told(result))


def test_no_finding_repeats_a_url_or_a_variable_of_an_external_model() -> None:
    text = "name: llama\nexternal: {url: 'canary @x', api_key_env: sk-canary}\n"
    result = loaded(model=text)
    assert len(result.findings) == 2
    assert "canary" not in all_told(result)


def test_a_file_with_thousands_of_mistakes_is_told_of_in_part() -> None:
    text = f"{MODEL}    args: [{', '.join(['1'] * 5000)}]\n"
    result = loaded(model=text)
    assert len(result.findings) == 200
    assert result.desired is None


def test_every_pattern_of_the_schema_is_put_in_words() -> None:
    schemas = [str(spec.model_json_schema()) for spec in (ModelSpec, PoolSpec, FleetSpec, Lock)]
    patterns = {spec for schema in schemas for spec in re.findall(r"'pattern': '(.*?)'[,}]", schema)}
    told_in_words = {repr(pattern)[1:-1] for pattern in PATTERNS_IN_WORDS}
    without = {pattern for pattern in patterns if "hf:" not in pattern and "smhd" not in pattern}
    assert without
    assert without <= told_in_words


def test_a_finding_is_one_line_whatever_the_names_in_the_file() -> None:
    result = loaded(model=MODEL + '    select: {"a\\n\\tb": 1}\n"x\\ny": 1\n')
    assert [told(each).partition(" (")[0] for each in result.findings] == [
        "yaml/type 8:24 profiles[0].select.a\\n\\tb: expected text, found the number 1",
        "yaml/unknown-field 9:1 there is no field x\\ny",
    ]
