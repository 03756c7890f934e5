"""Which options `fit` shows, and that each verdict is what its reasons and figures say."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.finding import Severity
from reconciler.domain.model_spec import Engine
from reconciler.gate.fit.options import EVERYTHING, USUAL_CLASSES, USUAL_COUNTS, Narrowing, model_fit
from reconciler.gate.fit.source import engines_for, with_source
from reconciler.gate.subject import context_of
from tests.gate.fleet import SOURCE, a_fleet, a_model, a_node

if TYPE_CHECKING:
    from reconciler.domain.desired import Desired
    from reconciler.domain.fit import FitOption, ModelFit

NODES = (a_node("h-01"), a_node("l-01", "l40s", 4), a_node("c-01", None, memory_gib=64.0, cpu_cores=16))


def fitted(desired: Desired, wanted: Narrowing = EVERYTHING) -> ModelFit:
    return model_fit(context_of(desired, frozenset()), desired.models[0], wanted)


def llama(*profiles: dict[str, Any], shape: str = "plain", **fields: Any) -> Desired:
    return a_fleet([a_model("llama", *(profiles or ({"gpus": 2},)), **fields)], NODES, shape)


def places(fit: ModelFit) -> list[tuple[str | None, str | None, int]]:
    return [(each.profile, each.gpu_class, each.gpus) for each in fit.options]


def option(fit: ModelFit, gpus: int, gpu_class: str | None = "h100-80gb") -> FitOption:
    return next(each for each in fit.options if (each.gpu_class, each.gpus) == (gpu_class, gpus))


def without(desired: Desired, *parts: str) -> Desired:
    """The fleet whose lock lacks these parts; without any, the whole lock is gone."""
    lock = desired.locks["llama"]
    entries = tuple(each.model_copy(update=dict.fromkeys(parts)) for each in lock.sources)
    return replace(desired, locks={"llama": lock.model_copy(update={"sources": entries})} if parts else {})


def test_every_count_that_splits_is_shown_on_every_class_and_the_others_are_left_out_with_their_reason() -> None:
    fit = fitted(llama(shape="llama-8b"))

    assert places(fit) == [
        *(("p0", "h100-80gb", gpus) for gpus in (1, 2, 4, 8)),
        *(("p0", "l40s", gpus) for gpus in (1, 2, 4)),
    ]
    assert [(each.gpu_class, each.gpus) for each in fit.left_out] == [
        *(("h100-80gb", gpus) for gpus in (3, 5, 6, 7)),
        ("l40s", 3),
    ]
    assert all(any(rule.startswith("heads/") for rule in each.reasons) for each in fit.left_out)
    assert [each.gpus for each in fit.options if each.declared] == [2]
    assert fit.shape is not None
    assert (fit.shape.layers, fit.shape.heads, fit.shape.kv_heads, fit.shape.latent) == (32, 32, 8, False)


def test_a_declared_count_that_does_not_split_is_refused_without_figures() -> None:
    fit = fitted(llama({"gpus": 6}, shape="llama-8b"))
    six = option(fit, 6)

    assert (six.declared, six.verdict, six.per_gpu_gib.needs) == (True, "refused", None)
    assert {"heads/attention-split", "heads/kv-split"} <= set(six.reasons)
    assert option(fit, 4).verdict == "fits"
    assert not fit.passes


def test_the_fewest_gpus_that_fit_are_marked_once_a_class() -> None:
    fit = fitted(llama(shape="llama-8b"))

    for gpu_class in ("h100-80gb", "l40s"):
        options = [each for each in fit.options if each.gpu_class == gpu_class]
        fitting = [each for each in options if each.verdict == "fits"]
        assert [each for each in options if each.least] == fitting[:1]
    assert not any(each.least for each in fitted(llama(shape="llama-8b"), Narrowing(declared=True)).options)


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [
        (Narrowing(declared=True), [("h100-80gb", 2)]),
        (Narrowing(gpu_class="l40s"), [("l40s", 1), ("l40s", 2), ("l40s", 4)]),
        (Narrowing(gpu_class="h200"), [("h200", gpus) for gpus in USUAL_COUNTS]),
        (Narrowing(gpu_class="h200", gpus=3), [("h200", 3)]),
        (Narrowing(gpus=4), [("h100-80gb", 4), ("l40s", 4)]),
        (Narrowing(gpus=8), [("h100-80gb", 8)]),
        (Narrowing(engine=Engine.SGLANG), []),
        (Narrowing(gpu_class="h100-80gb/1g.10gb"), [("h100-80gb/1g.10gb", 1)]),
    ],
)
def test_narrowing(wanted: Narrowing, shown: list[tuple[str, int]]) -> None:
    fit = fitted(llama(shape="llama-8b"), wanted)

    assert [(each.gpu_class, each.gpus) for each in fit.options] == shown
    assert bool(fit.notes) is not bool(shown)


def test_classes_that_select_leaves_out_are_not_shown() -> None:
    fit = fitted(llama({"gpus": 2, "select": {"node": "h-01"}}, shape="llama-8b"))

    assert {each.gpu_class for each in fit.options} == {"h100-80gb"}


def test_a_longer_context_needs_more_and_the_longest_request_stays() -> None:
    short, long = (option(fitted(llama(shape="llama-8b", context=tokens)), 2) for tokens in (4096, 65536))

    assert short.per_gpu_gib.needs is not None
    assert long.per_gpu_gib.needs is not None
    assert short.per_gpu_gib.needs < long.per_gpu_gib.needs
    assert short.longest_request == long.longest_request


def test_what_is_longer_than_trained_is_refused_and_still_sized() -> None:
    two = option(fitted(llama(shape="llama-8b", context=10**6)), 2)

    assert two.verdict == "refused"
    assert "context/beyond-trained" in two.reasons
    assert two.per_gpu_gib.needs is not None


@pytest.mark.parametrize("unverified", [False, True])
def test_without_a_lock_it_is_unknown_and_the_command_that_helps_is_named(*, unverified: bool) -> None:
    fit = fitted(without(llama(unverified=unverified)))

    assert [(each.gpus, each.verdict, each.reasons) for each in fit.options] == [(2, "unknown", ("lock/missing",))]
    assert [each.hint for each in fit.options[0].remarks] == ["run reconciler lock llama"]
    assert not fit.passes


def test_a_lock_without_a_config_or_for_another_source_tells_too_little() -> None:
    bare = fitted(without(llama(), "config"))
    stale = fitted(llama({"gpus": 2, "source": "hf:org/other@v1"}))

    for fit, words in ((bare, f"holds no config of {SOURCE}"), (stale, "does not hold hf:org/other@v1")):
        assert [each.verdict for each in fit.options] == ["unknown"]
        assert "lock/missing" in fit.options[0].reasons
        assert any(words in each.message for each in fit.options[0].remarks)


def unreadable(shape: str, weight_bytes: int) -> Desired:
    """The fleet whose lock holds a config without a single figure."""
    desired = llama(shape=shape)
    lock = desired.locks["llama"]
    entries = tuple(
        each.model_copy(update={"config": {"model_type": "riddle"}, "weight_bytes": weight_bytes})
        for each in lock.sources
    )
    return replace(desired, locks={"llama": lock.model_copy(update={"sources": entries})})


def test_a_config_that_tells_no_shape_is_unknown_unless_its_weights_alone_are_too_large() -> None:
    small, large = fitted(unreadable("llama-8b", 2**30)), fitted(unreadable("llama-8b", 2**40))

    assert [(each.gpus, each.verdict, each.reasons) for each in small.options] == [(2, "unknown", ("memory/unknown",))]
    assert [(each.gpus, each.verdict, each.reasons) for each in large.options] == [(2, "refused", ("memory/weights",))]
    assert small.options[0].per_gpu_gib.total == pytest.approx(79.2, abs=0.1)


def test_a_profile_on_cpus_has_no_class_and_no_count() -> None:
    cpu = {"engine": "llamacpp", "gpu_class": None, "memory_gib": 40.0, "cpu_cores": 8}
    fit = fitted(llama(cpu, shape="llama-8b-gguf"))

    assert places(fit) == [("p0", None, 0)]
    assert fit.options[0].declared
    assert fit.options[0].per_gpu_gib.total == 40.0
    assert fitted(llama(cpu, shape="llama-8b-gguf"), Narrowing(gpus=2)).options == ()
    on_cards = fitted(llama(cpu, shape="llama-8b-gguf"), Narrowing(gpu_class="l40s"))
    assert [each.gpus for each in on_cards.options] == [1, 2, 3, 4], "llama.cpp splits over any count"


def test_external_models_and_images_have_nothing_to_fit() -> None:
    external = a_fleet([a_model("gpt", source=None, external={"url": "https://api.example/v1"}, context=None)])
    image = llama({"engine": "comfyui", "gpus": 1}, task="image")

    for desired in (external, image):
        fit = fitted(desired)
        assert (fit.options, fit.counts, fit.passes, len(fit.notes)) == ((), False, True, 1)


def sourced(shape: str, nodes: tuple[Any, ...], *engines: Engine, **fields: Any) -> ModelFit:
    locked = llama(shape=shape).locks["llama"].sources[0]
    base = a_fleet([], nodes)
    made = with_source(base, locked, engines or engines_for(locked.format), 4096, fields)
    return model_fit(context_of(made, frozenset()), made.models[0], Narrowing(source=SOURCE))


def test_a_source_is_shown_for_every_engine_that_takes_its_format() -> None:
    fit = sourced("llama-8b", NODES)

    assert fit.model == SOURCE
    assert {each.engine for each in fit.options} == {Engine.VLLM, Engine.SGLANG, Engine.TRTLLM}
    assert {each.gpu_class for each in fit.options} == {"h100-80gb", "l40s"}
    assert {(each.profile, each.declared) for each in fit.options} == {(None, False)}


def test_without_an_inventory_a_source_is_shown_on_usual_cards() -> None:
    fit = sourced("llama-8b", (), Engine.VLLM)

    assert list(dict.fromkeys(each.gpu_class for each in fit.options)) == list(USUAL_CLASSES)
    assert {each.gpus for each in fit.options} == set(USUAL_COUNTS)


def test_a_gguf_file_is_also_held_against_the_largest_node_without_gpus() -> None:
    fit = sourced("llama-8b-gguf", NODES)
    given = sourced("llama-8b-gguf", (), memory_gib=24.0)

    assert {each.engine for each in fit.options} == {Engine.LLAMACPP}
    assert option(fit, 0, None).per_gpu_gib.total == 64.0
    assert option(given, 0, None).per_gpu_gib.total == 24.0


def test_of_an_address_no_signature_and_no_password_is_told() -> None:
    fit = fitted(llama(source="https://me:canary@h.example/a.gguf?sig=canary"))
    assert fit.source == "https://h.example/a.gguf"


def test_an_encoder_holds_no_cache() -> None:
    fit = sourced("bge-large", (a_node("h-01"),), Engine.VLLM)

    assert {each.per_gpu_gib.kv_one_request for each in fit.options} == {0.0}


SHAPES = ("llama-8b", "llama-70b", "qwen-3-30b-a3b", "deepseek-v3", "gpt-oss-20b", "nemotron-h-8b", "mamba-2.8b")


@given(
    shape=st.sampled_from(SHAPES),
    engine=st.sampled_from([Engine.VLLM, Engine.SGLANG, Engine.TRTLLM]),
    gpus=st.integers(min_value=1, max_value=8),
    context=st.integers(min_value=1, max_value=2**18),
    weight_bytes=st.integers(min_value=2**20, max_value=2**40),
    share=st.none() | st.floats(min_value=0.05, max_value=1.0),
)
def test_a_verdict_is_what_its_reasons_and_figures_say(
    shape: str, engine: Engine, gpus: int, context: int, weight_bytes: int, share: float | None
) -> None:
    profile = {"engine": engine, "gpus": gpus} | ({} if share is None else {"memory_share": share})
    desired = llama(profile, shape=shape, context=context)
    lock = desired.locks["llama"]
    heavy = tuple(each.model_copy(update={"weight_bytes": weight_bytes}) for each in lock.sources)
    fit = fitted(replace(desired, locks={"llama": lock.model_copy(update={"sources": heavy})}))

    assert [each.gpus for each in fit.options if each.declared] == [gpus]
    for each in fit.options:
        per = each.per_gpu_gib
        errors = {remark.rule for remark in each.remarks if remark.severity is Severity.ERROR}
        assert (each.verdict == "refused") is bool(errors)
        assert set(each.reasons) == errors or each.verdict != "refused"
        assert bool(each.reasons) is (each.verdict != "fits")
        if per.needs is not None:
            assert per.needs_low is not None
            assert per.needs_high is not None
            assert per.needs_low <= per.needs <= per.needs_high
            assert per.usable is not None
            assert per.total is not None
            assert per.usable <= per.total
            assert each.verdict != "fits" or per.needs_high <= per.usable
    shown = {(each.gpu_class, each.gpus) for each in fit.options}
    assert shown.isdisjoint((each.gpu_class, each.gpus) for each in fit.left_out)
