"""`reconciler explain`: every rule and every field has an answer, and a misspelt name leads to one."""

from __future__ import annotations

import pytest

from reconciler.domain.effects import FLEET_EFFECTS, MODEL_EFFECTS, POOL_EFFECTS
from reconciler.gate.check import RULES
from reconciler.views.explain import explain, nearest
from reconciler.views.fields import fields

EVERY_FIELD = {
    *(f"model.{path}" for path in MODEL_EFFECTS),
    *(f"pool.{path}" for path in POOL_EFFECTS),
    *(f"cluster.{path}" for path in FLEET_EFFECTS),
}


@pytest.mark.parametrize("slug", RULES)
def test_every_rule_explains_itself(slug: str) -> None:
    text = explain(slug)

    assert text is not None
    assert text.startswith(f"{slug}  ({RULES[slug].severity})\n\n{RULES[slug].why}\n\n")
    assert text.endswith("\n")
    assert explain(slug.partition("/")[2]) is not None


def test_every_field_that_can_be_written_is_known() -> None:
    assert {field.name for field in fields()} == EVERY_FIELD


@pytest.mark.parametrize("name", sorted(EVERY_FIELD))
def test_every_field_says_what_it_is_what_it_takes_and_what_a_change_does(name: str) -> None:
    text = explain(name)

    assert text is not None
    title, blank, place, *meaning, takes, default, change = text.splitlines()
    assert (title, blank) == (name, "")
    assert place.endswith("yaml")
    assert len(meaning[0].strip()) > 5
    assert all(each.startswith("    ") and len(each) <= 120 for each in meaning)
    assert takes.startswith("    takes    ")
    assert default.startswith("    default  ")
    assert change.startswith("    change   ")


def test_how_a_model_is_loaded_on_demand_is_found_where_one_looks() -> None:
    for name in ("scaling", "scaling.min", "scaling.idle_timeout"):
        told = " ".join((explain(name) or "").split())
        assert "on demand" in told.lower(), name
        assert "reconciler wake" in told, name
    assert "{min: 0, max: 1}" in (explain("scaling") or "")


def test_a_field_of_one_place() -> None:
    assert (
        explain("profiles.gpus")
        == """\
profiles.gpus

  profiles.gpus  in models/<name>.yaml
    GPUs per replica on one node, 1 to 64; 1 where gpu_class is set.
    takes    whole number, 1 to 64
    default  not set
    change   restart: replicas are replaced by the model's rollout policy
"""
    )


def test_a_field_of_many_places_is_told_for_each_and_once_where_they_are_alike() -> None:
    text = explain("gpus") or ""

    assert "  profiles.gpus  in models/<name>.yaml\n" in text
    assert "  gpus, nodes.gpus  in nodes/<pool>.yaml\n" in text
    assert "{class, count, mig}, or list of {class, count, mig}" in text


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("rollout.max_surge", "default  1"),
        ("min_ready", "takes    duration such as 90s, 30m, 2h or 1d"),
        ("min_ready", "default  10s"),
        ("profiles.engine", "takes    one of vllm, sglang, trtllm, llamacpp, comfyui"),
        ("model.name", "default  none: it is required"),
        ("cluster.limits", "takes    {models_removed, replicas_removed, concurrent_starts}"),
        ("limits.models_removed", "takes    share such as 20%, or whole number, 0 or more"),
        ("profiles.env", "takes    map of names to text, or {secret}"),
        ("profiles.select", "change   re-place: "),
        ("model.owner", "change   none: "),
        ("memory_share", "takes    number"),
        ("memory_gib", "takes    number above 0"),
        ("profiles.source", "hf:ORG/NAME@REVISION"),
        ("protect", "takes    true or false"),
    ],
)
def test_types_defaults_and_effects_are_in_words(name: str, told: str) -> None:
    assert told in (explain(name) or "")


@pytest.mark.parametrize(
    "name", ["", ".", "gpu", "profiles", "profiles.nope", "inventory/", "heads/never", "us", "GPUS"]
)
def test_what_does_not_exist_is_none(name: str) -> None:
    assert (explain(name) is None) == (name != "profiles")


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("gpu", "gpus"),
        ("gpu-class", "gpu_class"),
        ("node-to-small", "node-too-small"),
        ("inventory/node-to-small", "inventory/node-too-small"),
        ("rollout.maxsurge", "rollout.max_surge"),
    ],
)
def test_a_misspelt_name_leads_to_the_right_one(name: str, right: str) -> None:
    near = nearest(name)

    assert right in near
    assert len(near) <= 3
    assert all(explain(each) for each in near)


def test_a_name_like_nothing_leads_nowhere() -> None:
    assert nearest("zzzzzzzz") == ()
