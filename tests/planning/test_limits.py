"""How much may disappear from the tree at once, and what a person approves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.domain.fleet_spec import Limits
from reconciler.domain.roster import Roster, RosterRow, roster_of
from reconciler.planning.limits import Removal, allowed, approval, exceeded, next_roster, removal, removed
from tests.builders import a_desired, a_model


@pytest.mark.parametrize(
    ("limit", "total", "may"),
    [("20%", 10, 2), ("20%", 14, 2), ("20%", 4, 1), ("0%", 50, 1), ("100%", 7, 7), (3, 10, 3), (0, 10, 1)],
)
def test_a_share_is_rounded_down_and_one_may_always_go(limit: str | int, total: int, may: int) -> None:
    assert allowed(limit, total) == may


def test_only_what_is_gone_from_the_tree_counts() -> None:
    before = a_desired([a_model("a", replicas=2), a_model("b"), a_model("c"), a_model("d", replicas=0)])
    after = a_desired([a_model("a", replicas=1), a_model("c", replicas=0), a_model("e", moved="b")])
    assert removal(before, after) == Removal({"d": 0}, 4, 4)


def test_the_limit_that_is_hit_is_named() -> None:
    gone = Removal({"a": 1, "b": 4}, 20, 20)
    assert exceeded(Limits(), gone) == "limits.replicas_removed lets 4 (20% of 20) go at once"
    assert exceeded(Limits(models_removed=1), gone) == "limits.models_removed lets 1 go at once"
    assert exceeded(Limits(replicas_removed=5), gone) is None
    assert gone.words == "2 models with 5 replicas"


def test_a_digest_is_of_the_set_alone() -> None:
    digest = approval({"a": 1, "b": 2})
    assert digest == approval({"b": 2, "a": 1})
    assert len(digest) == 8
    assert digest != approval({"a": 1, "b": 1})
    assert digest != approval({"a": 1})


def test_a_removal_is_measured_against_the_roster_and_what_runs_beside_it() -> None:
    tree = a_desired([a_model("a"), a_model("e", moved="c")])
    desired = replace(tree, roster=Roster(models={name: RosterRow(replicas=2) for name in ("a", "b", "c")}))
    assert removed(desired, {"a": 1}) == Removal({"b": 2}, 3, 6)
    assert removed(desired, {"stray": 4}) == Removal({"b": 2, "stray": 4}, 4, 10)
    assert removed(tree, {"b": 3}) == Removal({"b": 3}, 3, 5), "without a roster what runs stands for it"


def test_what_is_gone_stays_one_set_until_the_last_of_it_has_left() -> None:
    before = roster_of(a_desired([a_model("a"), a_model("b", replicas=2, protect=True), a_model("c")]))
    less = replace(a_desired([a_model("c")]), roster=before)
    between = next_roster(less, {"b": 1, "c": 1})
    assert between == before
    assert removed(replace(less, roster=between), {"b": 1}).gone == {"a": 1, "b": 2}
    assert next_roster(replace(less, roster=between), {"c": 1}) == roster_of(less)
