"""The table of `fit` as people see it, and its JSON as programs do."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from reconciler.domain.finding import Severity
from reconciler.domain.fit import FitOption, FitRemark, FitReport, FitShape, LeftOut, ModelFit, PerGpu
from reconciler.domain.model_spec import Engine
from reconciler.views.fit import fit_json, fit_text, overview_text
from reconciler.views.schemas import schema
from tests.conftest import compare

GOLDEN = Path(__file__).parent / "fit"
LLAMA = "hf:meta-llama/Llama-3.3-70B-Instruct@6f6073b423013f6a7d4d9f39144961bfbfbc386b"
SHAPE = FitShape(
    architecture="LlamaForCausalLM",
    layers=80,
    heads=64,
    kv_heads=8,
    latent=False,
    experts=0,
    weight_type="bfloat16",
    weight_gib=131.4,
    trained=131072,
)
BASIS = "vllm 0.30 to 0.32, h100-80gb, dense 70B class: 6 observed starts"


def per_gpu(weights: float, kv: float, overhead: float, usable: float, *, band: tuple[float, float]) -> PerGpu:
    needs = weights + kv + overhead
    return PerGpu(
        total=79.2,
        usable=usable,
        weights=weights,
        kv_one_request=kv,
        kv_cache=max(0.0, usable - weights - overhead),
        activations=overhead,
        graphs=0.0,
        runtime=0.0,
        needs_low=needs - band[0],
        needs=needs,
        needs_high=needs + band[1],
        reserves=usable,
    )


def option(gpus: int = 4, per: PerGpu | None = None, **fields: Any) -> FitOption:
    plain: dict[str, Any] = {
        "profile": "h100",
        "engine": Engine.VLLM,
        "gpu_class": "h100-80gb",
        "declared": False,
        "verdict": "fits",
        "reasons": (),
        "kv_bytes_per_token": 81920,
        "kv_tokens": 440000,
        "longest_request": 131072,
        "concurrency": 13.4,
        "version": "0.32.0",
        "basis": BASIS,
    }
    return FitOption(gpus=gpus, per_gpu_gib=per or per_gpu(33.0, 2.5, 6.4, 72.8, band=(0.9, 0.9)), **(plain | fields))


def refused_by_size(gpus: int = 2, **fields: Any) -> FitOption:
    remark = FitRemark(
        rule="memory/request", severity=Severity.ERROR, message="needs 76.9 of 72.8 GiB a GPU: 65.8 weights, …"
    )
    per = per_gpu(65.8, 5.0, 6.1, 72.8, band=(0.5, 0.9))
    fixed = {"verdict": "refused", "reasons": ("memory/request",), "concurrency": 0.2, "longest_request": 6784}
    return option(gpus, per, remarks=(remark,), **(fixed | fields))


def left_out(*gpus: int, rules: tuple[str, ...] = ("heads/kv-split",), **fields: Any) -> tuple[LeftOut, ...]:
    plain: dict[str, Any] = {
        "profile": "h100",
        "engine": Engine.VLLM,
        "gpu_class": "h100-80gb",
        "message": "8 KV heads do not spread over 3 GPUs",
    }
    return tuple(LeftOut(gpus=each, reasons=rules, **(plain | fields)) for each in gpus)


def llama(*options: FitOption, **fields: Any) -> ModelFit:
    plain: dict[str, Any] = {"source": LLAMA, "context": 32768, "shape": SHAPE}
    return ModelFit(model="llama-70b", options=options, **(plain | fields))


FITTING = llama(
    refused_by_size(),
    option(declared=True, least=True),
    option(8, per_gpu(16.6, 1.3, 6.9, 72.8, band=(0.9, 0.9)), concurrency=39.4),
    left_out=left_out(3, 5, 6, 7),
)
UNKNOWN = ModelFit(
    model="mystery",
    source="hf:org/mystery@v1",
    context=8192,
    options=(
        option(
            declared=True,
            verdict="unknown",
            reasons=("lock/missing",),
            per=PerGpu(),
            longest_request=None,
            concurrency=None,
            basis=None,
            remarks=(
                FitRemark(
                    rule="lock/missing",
                    severity=Severity.WARNING,
                    message="mystery has no lock",
                    hint="run reconciler lock mystery",
                ),
            ),
        ),
    ),
)
EXTERNAL = ModelFit(model="gpt", options=(), notes=("external: somebody else's cards hold it",), counts=False)
CPU = ModelFit(
    model="tiny",
    source="package:tiny/model.gguf",
    context=2048,
    shape=SHAPE.model_copy(
        update={"layers": 30, "heads": 9, "kv_heads": 3, "weight_type": "Q4_1", "weight_gib": 0.0915}
    ),
    options=(
        option(
            0,
            per_gpu(0.0915, 0.044, 0.1, 2.0, band=(0.01, 0.05)).model_copy(
                update={"kv_cache": 0.088, "reserves": 0.2795}
            ),
            profile="cpu",
            engine=Engine.LLAMACPP,
            gpu_class=None,
            declared=True,
            version="b11549",
            concurrency=2.0,
            longest_request=8192,
            basis=None,
        ),
    ),
)
TABLES = {
    "fits": FITTING,
    "declared-too-small": llama(
        refused_by_size(declared=True),
        option(least=True),
        refused_by_size(2, gpu_class="l40s"),
        left_out=(
            *left_out(3, 6, rules=("heads/attention-split", "heads/kv-split", "heads/vocab-split")),
            *left_out(4, 8, rules=("inventory/unsupported",), gpu_class="l40s", message="fp8 needs a newer card"),
        ),
    ),
    "nothing-holds-it": llama(refused_by_size(declared=True, longest_request=0, concurrency=0.0)),
    "does-not-split": llama(
        option(
            6,
            PerGpu(),
            declared=True,
            verdict="refused",
            reasons=("heads/kv-split",),
            longest_request=None,
            concurrency=None,
            basis=None,
            remarks=(
                FitRemark(
                    rule="heads/kv-split",
                    severity=Severity.ERROR,
                    message="8 KV heads do not spread over 6 GPUs",
                    hint="vllm needs a width that divides 8, or that 8 divides",
                ),
            ),
        ),
        option(least=True),
        option(8),
    ),
    "tight-source": ModelFit(
        model=LLAMA,
        source=LLAMA,
        context=32000,
        shape=SHAPE.model_copy(update={"latent": True, "kv_heads": 0, "experts": 256, "weight_type": "fp8"}),
        options=(
            option(
                per=per_gpu(64.0, 2.5, 6.1, 72.8, band=(0.5, 0.9)),
                profile=None,
                verdict="tight",
                reasons=("memory/tight",),
                least=True,
                doubts=tuple(f"--flag-{number} moves memory in a way that is not counted" for number in range(8)),
            ),
            option(profile=None, verdict="tight", reasons=("memory/startup-slack",), gpus=8),
        ),
    ),
    "two-nodes": llama(option(8, nodes=2, declared=True)),
    "unknown": UNKNOWN,
    "cpu": CPU,
    "too-many-slots": CPU.model_copy(
        update={
            "options": (
                CPU.options[0].model_copy(
                    update={
                        "gpu_class": "l4",
                        "gpus": 1,
                        "verdict": "refused",
                        "reasons": ("memory/pool",),
                        "concurrency": 64.0,
                        "per_gpu_gib": CPU.options[0].per_gpu_gib.model_copy(
                            update={"kv_cache": 2.816, "reserves": 3.0075}
                        ),
                    }
                ),
            )
        }
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_the_table(name: str, *, rewrite: bool) -> None:
    compare(GOLDEN / f"{name}.txt", fit_text(FitReport(models=(TABLES[name],))), rewrite=rewrite)


def test_several_models_are_summed_up(*, rewrite: bool) -> None:
    report = FitReport(models=(EXTERNAL, FITTING, TABLES["nothing-holds-it"], UNKNOWN))
    compare(GOLDEN / "several.txt", fit_text(report), rewrite=rewrite)


def test_what_is_declared_fits_on_one_line_a_profile(*, rewrite: bool) -> None:
    declared = [
        each.model_copy(update={"options": tuple(one for one in each.options if one.declared)})
        for each in (EXTERNAL, FITTING, TABLES["declared-too-small"], TABLES["two-nodes"], UNKNOWN, CPU)
    ]
    compare(GOLDEN / "overview.txt", overview_text(FitReport(models=tuple(declared))), rewrite=rewrite)


def test_an_empty_catalog_is_told() -> None:
    assert fit_text(FitReport(models=())) == "0 models\n"


@pytest.mark.parametrize(
    ("fit", "passes"),
    [
        (FITTING, True),
        (TABLES["declared-too-small"], False),
        (TABLES["tight-source"], True),
        (llama(refused_by_size(profile=None)), False),
        (UNKNOWN, False),
        (EXTERNAL, True),
        (llama(), False),
        (llama(option(declared=True), refused_by_size(profile="other", declared=True)), False),
    ],
)
def test_every_declared_option_has_to_pass_and_one_of_a_source(fit: ModelFit, *, passes: bool) -> None:
    assert FitReport(models=(fit,)).passes is passes
    assert FitReport(models=(fit, UNKNOWN)).passes is False


def test_the_json_has_every_key_of_the_contract_and_is_what_its_schema_says() -> None:
    report = FitReport(models=(*TABLES.values(), EXTERNAL))
    parsed = json.loads(fit_json(report))

    Draft202012Validator(schema("fit")).validate(parsed)
    assert parsed["format_version"] == "1.0"
    assert {"model", "options"} <= set(parsed["models"][0])
    for each in (one for model in parsed["models"] for one in model["options"]):
        assert {
            *("profile", "engine", "gpu_class", "gpus", "declared", "verdict", "reasons", "per_gpu_gib"),
            *("kv_bytes_per_token", "kv_tokens", "longest_request", "concurrency"),
        } <= set(each)
        assert list(each["per_gpu_gib"]) == [
            *("total", "usable", "weights", "kv_one_request", "kv_cache", "activations", "graphs", "runtime"),
            *("needs_low", "needs", "needs_high", "reserves"),
        ]
    assert FitReport.model_validate(parsed) == report


texts = st.text(alphabet=st.characters(codec=None), min_size=1, max_size=40)
sizes = st.floats(min_value=0, max_value=2000, allow_nan=False)
some_options = st.builds(
    option,
    st.integers(min_value=1, max_value=64),
    st.builds(per_gpu, sizes, sizes, sizes, sizes, band=st.tuples(sizes, sizes)) | st.just(PerGpu()),
    profile=st.none() | st.sampled_from(["a", "b"]),
    engine=st.sampled_from(Engine),
    gpu_class=st.sampled_from([None, "h100-80gb", "l40s"]),
    declared=st.booleans(),
    verdict=st.sampled_from(["fits", "tight", "refused", "unknown"]),
    reasons=st.lists(st.sampled_from(["memory/tight", "memory/pool", "heads/kv-split"]), max_size=2).map(tuple),
    longest_request=st.none() | st.integers(min_value=0, max_value=10**7),
    concurrency=st.none() | sizes,
    remarks=st.lists(
        st.builds(FitRemark, rule=texts, severity=st.sampled_from(Severity), message=texts, hint=st.none() | texts),
        max_size=2,
    ).map(tuple),
    doubts=st.lists(texts, max_size=8).map(tuple),
    basis=st.none() | texts,
)


@given(st.lists(some_options, max_size=5), texts, st.none() | st.integers(min_value=1, max_value=10**7))
def test_each_declared_option_is_marked_and_no_text_moves_the_cursor(
    options: list[FitOption], name: str, context: int | None
) -> None:
    report = FitReport(models=(ModelFit(model=name, options=tuple(options), context=context),))
    text = fit_text(report)

    assert {unicodedata.category(each) for each in text.replace("\n", "")}.isdisjoint(
        {"Cc", "Cf", "Cs", "Zl", "Zp", "Co"}
    )
    marked = [line for line in text.splitlines() if line.startswith("  ▸ ")]
    assert len(marked) == sum(each.declared for each in options)
    assert FitReport.model_validate(json.loads(fit_json(report))) == report
