"""`reconciler explain` has an answer for everything a person can meet: each rule of a finding, each field of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import pytest
from pydantic import BaseModel

from reconciler.domain.fleet_spec import FleetSpec, PoolSpec
from reconciler.domain.model_spec import ModelSpec
from reconciler.gate.check import RULES
from reconciler.views.explain import explain
from tests.gate.test_cases import cases

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOTS: dict[str, type[BaseModel]] = {"model": ModelSpec, "pool": PoolSpec, "cluster": FleetSpec}


def fields_of(spec: type[BaseModel]) -> Iterator[str]:
    """Every field that the type takes, with those inside it, as people write them."""
    for name, field in spec.model_fields.items():
        written = field.alias or name
        yield written
        for inner in set(specs_in(field.annotation)):
            yield from (f"{written}.{each}" for each in fields_of(inner))


def specs_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from specs_in(inner)


FIELDS = sorted(f"{root}.{path}" for root, spec in ROOTS.items() for path in fields_of(spec))


def test_there_are_as_many_fields_as_the_types_have() -> None:
    assert len(FIELDS) == len(set(FIELDS)) > 90
    assert {"model.profiles.env.secret", "pool.nodes.gpus.mig", "cluster.gpu_classes.engine_mib"} <= set(FIELDS)


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_is_explained_by_its_full_name_and_by_each_end_of_it(name: str) -> None:
    parts = name.split(".")
    for start in range(len(parts)):
        short = ".".join(parts[start:])
        told = explain(short)
        assert told is not None, short
        assert told.startswith(f"{short}\n") or short in {slug.partition("/")[2] for slug in RULES}


@pytest.mark.parametrize("slug", RULES)
def test_a_rule_is_explained_by_its_slug_and_by_its_name(slug: str) -> None:
    for name in (slug, slug.partition("/")[2]):
        told = explain(name) or ""
        assert RULES[slug].why in told
        assert RULES[slug].explanation in told


def test_every_rule_that_a_case_finds_is_one_that_is_explained() -> None:
    assert {finding["rule"] for case in cases() for finding in case.values[3]} <= set(RULES)
