"""Whatever bytes a file holds: findings or an object, never an exception, and never one where the other belongs."""

from __future__ import annotations

import json

from hypothesis import example, given, settings
from hypothesis import strategies as st

from reconciler.domain.finding import Severity
from reconciler.domain.model_spec import ModelSpec
from reconciler.sources.documents import parse
from reconciler.sources.loaded import Loaded
from reconciler.sources.loader import load
from reconciler.sources.reading import read
from tests.sources.trees import FLEET, MODEL, POOL, a_tree

GOOD = {
    "cluster.yaml": FLEET + "defaults: {rollout: {strategy: surge}, engine_versions: {vllm: '0.32.0'}}\n",
    "models/llama.yaml": MODEL + "    env: {A: b, C: {secret: d}}\n    args: [--x]\nscaling: {min: 2}\naliases: [l]\n",
    "nodes/gpu.yaml": POOL,
    "locks/llama.json": '{"sources": [{"source": "hf:a/b@c", "revision": "c", "format": "gguf", "config": {}}]}',
}
PIECES = [
    *(
        "\n",
        " ",
        "  ",
        "\t",
        "- ",
        ": ",
        ":",
        "? ",
        "#",
        "&a ",
        "*a",
        "!",
        "!!int ",
        "<<: ",
        "|",
        ">",
        "%",
        "@",
        "`",
        "'",
    ),
    *(
        '"',
        "[",
        "]",
        "{",
        "}",
        ",",
        "---\n",
        "...\n",
        "%YAML 1.1\n",
        "null",
        "~",
        "true",
        "no",
        "010",
        "0x1F",
        "1_0",
        ".inf",
    ),
    *(
        "9" * 30,
        "1e999",
        "\\ud800",
        "\x00",
        "\u2028",
        "\ufeff",
        "\r",
        "é",
        "name",
        "profiles",
        "env",
        "gpus",
        "gpu-[1-3]",
    ),
]


def holds(result: Loaded, size: int) -> None:
    """What is true of every load of the good files, one of them changed to `size` bytes."""
    errors = {finding.file for finding in result.findings if finding.severity is Severity.ERROR}
    assert (result.desired is None) == bool(errors)
    # Every file is an object, or told about.
    assert result.partial.models or "cluster/models/llama.yaml" in errors
    assert result.partial.nodes or "cluster/nodes/gpu.yaml" in errors
    assert result.partial.locks or "cluster/locks/llama.json" in errors
    assert result.partial.fleet.name != "unnamed" or "cluster/cluster.yaml" in errors
    for finding in result.findings:
        assert finding.message
        assert len(finding.message) + len(finding.hint or "") < 1000
        assert finding.model_dump_json().encode().decode().isprintable()
        assert finding.line is None or 1 <= finding.line <= size + 1
        assert finding.column is None or 1 <= finding.column <= size + 1
    assert "".join(result.texts.values()).encode()


@given(path=st.sampled_from(sorted(GOOD)), data=st.binary(max_size=300))
def test_any_bytes(path: str, data: bytes) -> None:
    holds(load(a_tree({**GOOD, path: data})), len(data))


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=60).map("".join))
@example("? ? ? [a")
@example("{? }")
@example("- &a - *a")
@example("a: !<tag:yaml.org,2002:float> [&x 1, *x, {<<: *x}]")
@example("{a: b:c, 'd':e, f::g}")
def test_anything_that_looks_like_yaml(text: str) -> None:
    document = parse(text.encode("utf-8", "surrogatepass"))
    if document.readable and not document.faults:
        # What was read is plain data.
        assert json.dumps(document.value, allow_nan=False, ensure_ascii=False).encode()
    assert document.readable or document.faults
    reading = read(ModelSpec, text.encode("utf-8", "surrogatepass"))
    assert (reading.spec is None) == any(fault.severity is Severity.ERROR for fault in reading.faults)


@settings(max_examples=200)
@given(data=st.data(), path=st.sampled_from(sorted(GOOD)))
def test_a_good_file_with_something_put_in_or_cut_out(data: st.DataObject, path: str) -> None:
    text = GOOD[path]
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 6)))
        text = text[:start] + data.draw(st.sampled_from(["", *PIECES])) + text[end:]
    raw = text.encode("utf-8", "surrogatepass")
    holds(load(a_tree({**GOOD, path: raw})), len(raw))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(10**17), 10**17) | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(min_size=1, max_size=6), inner, max_size=4),
    )
)
def test_json_is_read_as_json(value: object) -> None:
    """JSON is YAML: whatever can be written with visible characters means the same in both."""
    text = json.dumps({"a": value}, ensure_ascii=False)
    document = parse(text.encode("utf-8", "surrogatepass"))
    if not document.faults:
        assert document.value == json.loads(text)
    else:
        assert {fault.rule for fault in document.faults} <= {"yaml/syntax", "yaml/too-deep"}
