"""Which fields differ, as a person and a program read it."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.domain.model_spec import Profile
from reconciler.planning.difference import HIDDEN, compare
from tests.builders import a_model, an_entry


@pytest.mark.parametrize(
    ("before", "after", "seen"),
    [
        ({}, {}, []),
        ({"gpus": 2}, {"gpus": 4}, [("gpus", 2, 4)]),
        ({"dtype": "auto"}, {}, [("dtype", "auto", None)]),
        ({"args": ["-a"]}, {"args": ["-a", "-b"]}, [("args", ["-a"], ["-a", "-b"])]),
        (
            {"env": {"A": "1", "B": "2"}},
            {"env": {"A": "1", "C": "3"}},
            [("env.B", HIDDEN, None), ("env.C", None, HIDDEN)],
        ),
        (
            {"env": {"T": {"secret": "one"}}},
            {"env": {"T": {"secret": "two"}}},
            [("env.T", {"secret": "one"}, {"secret": "two"})],
        ),
        ({"env": {"T": "text"}}, {"env": {"T": "other"}}, [("env.T", HIDDEN, HIDDEN)]),
        ({"env": {"T": "text"}}, {"env": {"T": {"secret": "two"}}}, [("env.T", HIDDEN, {"secret": "two"})]),
    ],
)
def test_fields_that_differ(before: dict[str, Any], after: dict[str, Any], seen: list[tuple[str, Any, Any]]) -> None:
    declared = [an_entry(a_model(profile=fields), 0, "n1").declaration for fields in (before, after)]
    assert [(each.field, each.before, each.after) for each in compare(*declared)] == seen


def test_what_does_not_reach_the_engine_is_no_difference() -> None:
    named = a_model(profile={"name": "another", "select": {"zone": "a"}, "memory_gib": 3.0}, owner="search")
    assert Profile.model_validate(named.profiles[0].model_dump()).name == "another"
    assert compare(an_entry(a_model(), 0, "n1").declaration, an_entry(named, 0, "n1").declaration) == ()
