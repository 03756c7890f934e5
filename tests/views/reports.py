"""Reports for tests of views: built by hand, and every one that could be."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from reconciler.domain.comparison import LedgerRow, ModelChange, Way
from reconciler.domain.finding import Finding, GateReport, Severity, Summary
from reconciler.domain.model_spec import Strategy
from reconciler.domain.plan import Action, FieldChange
from reconciler.gate.check import RULES

MODEL = """\
name: llama-70b
source: hf:meta-llama/Llama-3.3-70B-Instruct@6f6073b
context: 32768
scaling: {min: 2}
profiles:
  - name: h100
    engine: vllm
    gpu_class: h100-80gb
    gpus: 6
rollout:
  strategy: surge
"""
FILE = "cluster/models/llama-70b.yaml"


def a_finding(rule: str = "heads/kv-split", message: str = "8 KV heads do not split over 6", **fields: Any) -> Finding:
    placed = {"severity": Severity.ERROR, "file": FILE, "line": 9, "column": 11, "model": "llama-70b", **fields}
    return Finding(rule=rule, message=message, **placed)


def a_report(*findings: Finding, models: int = 14, **fields: Any) -> GateReport:
    """A report of these findings, with its counts."""
    count = {severity: sum(each.severity is severity for each in findings) for severity in Severity}
    errors, warnings, notes = (count[each] for each in Severity)
    summary = Summary(errors=errors, warnings=warnings, notes=notes, models=models, nodes=61, seconds=0.4)
    return GateReport(ok=not errors, findings=findings, summary=summary, **fields)


def a_way(gpus: int = 4, replicas: int = 2, gib: float | None = 41.9, tokens: int | None = 438_000) -> Way:
    return Way(
        profile="h100",
        gpu_class="h100-80gb",
        gpus=gpus,
        replicas=replicas,
        gib_per_gpu=gib,
        kv_tokens=tokens,
    )


def a_story() -> GateReport:
    """A pull request in which most of what can happen does."""
    split = a_finding(
        message="8 KV heads do not spread over 6 GPUs",
        valid=(4, 8),
        hint="vllm needs a width that divides 8, or that 8 divides",
        profile="h100",
        caused=True,
    )
    room = a_finding(
        "rollout/no-surge-room",
        "llama-70b cannot be replaced beside itself: no node has 6 h100-80gb free (4 at most, gpu-03)",
        severity=Severity.WARNING,
        line=11,
        column=13,
        hint="rollout.strategy: surge_or_in_place",
        caused=True,
    )
    older = a_finding(
        "lock/missing",
        "wide has no lock: its heads, memory and context cannot be checked",
        hint="run reconciler lock wide, and commit what it writes",
        file="cluster/models/wide.yaml",
        line=1,
        column=1,
        model="wide",
        caused=False,
    )
    changes = (
        ModelChange(
            model="llama-70b",
            action=Action.REPLACE,
            fields=(FieldChange(field="gpus", before=4, after=6),),
            before=a_way(),
            after=a_way(gpus=6, gib=None, tokens=None),
            strategy=Strategy.SURGE,
            outage_seconds=0.0,
        ),
        ModelChange(model="new-one", action=Action.CREATE, after=a_way(gpus=2, replicas=1, gib=61.3, tokens=64_512)),
        ModelChange(model="old-chat", action=Action.DELETE, before=a_way(replicas=1)),
        ModelChange(
            model="qwen-32b",
            action=Action.REPLACE,
            fields=(FieldChange(field="context", before=8192, after=16384),),
            before=a_way(gpus=8, replicas=1, gib=24.3, tokens=1_200_000),
            after=a_way(gpus=8, replicas=1, gib=25.1, tokens=1_180_000),
            strategy=Strategy.IN_PLACE,
            outage_seconds=190.0,
        ),
        ModelChange(model="sdxl", action=Action.UPDATE, before=a_way(gpus=1), after=a_way(gpus=1)),
    )
    ledger = (
        LedgerRow(gpu_class="h100-80gb", total=40, before=36, after=38, peak=40, short=4, free=2),
        LedgerRow(gpu_class="l40s", total=16, before=4, after=4, peak=4, short=0, free=12),
    )
    return a_report(split, room, older, ledger=ledger, changes=changes)


SLUGS = sorted(RULES)
texts = st.text(alphabet=st.characters(codec=None), max_size=60)
hostile = st.sampled_from(
    [
        "<script>alert(1)</script>",
        "a | b",
        "`code` ``more``",
        "[link](https://evil.example)",
        "![](https://evil.example/pixel.png)",
        "@everyone @org/team #12 a@example.com hf:org/m@0123abc",
        "::error::not ours",
        "##[add-mask]x",
        "a%0A::warning::b",
        "]]><failure/>",
        "<!-- reconciler validate -->",
        "--> <b>",
        "\\|\\`",
        "www.evil.example",
        "&lt;b&gt; &amp;",
        "$x^2$ ~~gone~~ **loud** __under__",
        "\x1b[31mred\u202e\u200b\ud800\ufffe",
    ]
)
words = texts | hostile
encodable = st.text(max_size=20).filter(bool) | st.just("a | `b` <c>")
"""Types that have a shortest length take no half of a surrogate pair."""


@st.composite
def findings(draw: st.DrawFn) -> Finding:
    """Any finding, of a rule that we know or not."""
    spaced = draw(st.sampled_from(["a.yaml", "models/b\x1b.yaml", "c\u202e|`<x>.yaml", "a b/ü,:%.yaml"]) | words)
    return Finding(
        rule=draw(st.sampled_from([*SLUGS, "later/rule"])),
        severity=draw(st.sampled_from(Severity)),
        message=draw(words),
        hint=draw(st.none() | words),
        file=draw(st.sampled_from([None, spaced])),
        line=draw(st.sampled_from([None, 1, 9])),
        column=draw(st.sampled_from([None, 1, 200])),
        model=draw(st.none() | words),
        profile=draw(st.none() | words),
        valid=draw(st.sampled_from([None, (), (1, 2, 3, 4, 9)])),
        caused=draw(st.sampled_from([None, True, False])),
    )


@st.composite
def ways(draw: st.DrawFn) -> Way | None:
    """Any way to run a model, or none."""
    if draw(st.booleans()):
        return None
    return Way(
        profile="p",
        gpu_class=draw(st.none() | encodable),
        gpus=draw(st.integers(0, 10**9)),
        replicas=draw(st.integers(0, 10**9)),
        gib_per_gpu=draw(st.sampled_from([None, 0.0, 41.94, 1e6])),
        kv_tokens=draw(st.sampled_from([None, 0, 10**12])),
    )


@st.composite
def changes(draw: st.DrawFn) -> ModelChange:
    """Any change, whether it makes sense or not."""
    values = draw(st.lists(words, max_size=4))
    fields = tuple(FieldChange(field="args", before=value, after=None) for value in values)
    return ModelChange(
        model=draw(st.sampled_from(["a", "b.c", "d-e_f"])),
        action=draw(st.sampled_from(Action)),
        fields=fields,
        before=draw(ways()),
        after=draw(ways()),
        strategy=draw(st.sampled_from([None, *Strategy])),
        outage_seconds=draw(st.sampled_from([None, 0.0, 0.4, 190.0, 1e6])),
    )


@st.composite
def reports(draw: st.DrawFn) -> GateReport:
    """Any report."""
    count = st.integers(0, 10**6)
    rows = [
        LedgerRow(gpu_class=draw(encodable), total=draw(count), before=1, after=2, peak=3, short=draw(count), free=4)
        for _ in range(draw(st.integers(0, 2)))
    ]
    ledger = draw(st.sampled_from([None, tuple(rows)]))
    changed = draw(st.none() | st.lists(changes(), max_size=3).map(tuple))
    return a_report(*draw(st.lists(findings(), max_size=4)), ledger=ledger, changes=changed)


files = st.dictionaries(st.sampled_from(["a.yaml", "models/b\x1b.yaml"]), texts, max_size=2)
