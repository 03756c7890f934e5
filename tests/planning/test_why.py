"""One test for every file in why/: a fleet as in cases/, the model that is asked about, and the answer.

`refuses` says of which models the gate would refuse an edit, and why. `pytest --rewrite` writes what is seen now.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from ruamel.yaml import YAML

from reconciler.domain.external import ExternalAnswer, ExternalVerdict
from reconciler.domain.model_spec import External, ModelSpec
from reconciler.domain.plan import Reason
from reconciler.placement.demand import demands
from reconciler.planning.kept import Kept
from reconciler.planning.planner import plan
from reconciler.planning.unblocking import Case, candidates
from reconciler.planning.ways_out import SHOWN, NoGate, is_placeless
from reconciler.planning.why import why
from reconciler.views.why import why_text
from tests.builders import NOON, a_desired, observation
from tests.planning.casefile import case_of
from tests.strategies import Fleet, fleets

if TYPE_CHECKING:
    from reconciler.domain.desired import Desired

CASES = sorted((Path(__file__).parent / "why").glob("*.yaml"))


@dataclass(frozen=True)
class Refusing:
    """A gate that refuses every edit of some models."""

    why_by_model: dict[str, str] = field(default_factory=dict)

    def refusal(self, _desired: Desired, model: str) -> str | None:
        return self.why_by_model.get(model)


def read(path: Path) -> tuple[Case, str, Refusing, str]:
    raw = YAML(typ="safe").load(path.read_text("utf-8"))
    model, refuses, expect = raw.pop("model"), raw.pop("refuses", {}), raw.pop("expect", "")
    case = case_of(raw)
    return Case(case.desired, case.observed, case.intents, NOON), model, Refusing(refuses), expect


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path: Path, rewrite: bool) -> None:
    case, model, gate, _ = read(path)
    seen = why_text(why(case, model, gate))
    if rewrite:
        given, _, _ = path.read_text("utf-8").partition("\nexpect:")
        lines = "".join(f"  {line}".rstrip() + "\n" for line in seen.split("\n"))
        path.write_text(f"{given.rstrip()}\n\nexpect: |-\n{lines}", "utf-8")
    assert read(path)[3] == seen


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_what_is_said_to_work_does_when_it_is_done(path: Path) -> None:
    case, model, gate, _ = read(path)
    before = plan(case.desired, case.observed, case.intents, NOON).plan
    blocked = [each for each in before.blocked if each.model in {None, model}]
    spec = case.desired.model_by_name.get(model)
    ways = () if spec is None else demands(case.desired, spec)
    case_by_words = {each.words: each.case for each in candidates(case, model, ways, blocked)}
    working = [way for way in why(case, model, gate).unblock if way.works]
    for way in working:
        then = case_by_words[way.change]
        after = plan(then.desired, then.observed, then.intents, NOON).plan
        assert {each.model for each in after.blocked} <= {each.model for each in before.blocked} - {model}
    assert len(working) <= SHOWN


@settings(max_examples=25)
@given(fleets())
def test_what_is_said_of_a_trial_holds_when_everything_is_planned(fleet: Fleet) -> None:
    """A trial leaves out models at rest; with every model planned its answer is the same."""
    case, kept = Case(fleet.desired, fleet.observed, fleet.intents, NOON), Kept()
    before = plan(case.desired, case.observed, case.intents, NOON, kept=kept).plan
    for spec in fleet.desired.models:
        blocked = [each for each in before.blocked if each.model in {None, spec.name}]
        tried = {each.words: each.case for each in candidates(case, spec.name, demands(fleet.desired, spec), blocked)}
        for way in why(case, spec.name, NoGate()).unblock:
            then = tried[way.change]
            after = plan(then.desired, then.observed, then.intents, NOON).plan
            assert plan(then.desired, then.observed, then.intents, NOON, kept=kept).plan == after
            placeless = [each for each in after.changes if each.model == spec.name and is_placeless(each)]
            worse = {(each.model, each.rule) for each in after.blocked} - {
                (each.model, each.rule) for each in before.blocked
            }
            assert not way.works or (not placeless and not worse), way


@settings(max_examples=25)
@given(fleets())
def test_every_model_of_every_fleet_is_explained(fleet: Fleet) -> None:
    """What is not as desired has a message; and nothing is proposed for what is, or for what goes on by itself."""
    case = Case(fleet.desired, fleet.observed, fleet.intents, NOON)
    changes = plan(fleet.desired, fleet.observed, fleet.intents, NOON).plan.changes
    for model in sorted({change.model for change in changes}):
        answer = why(case, model, NoGate())
        own = [change for change in changes if change.model == model]
        assert answer.message
        assert {each.replica for each in answer.slots} <= {change.replica for change in own}
        if answer.as_desired:
            assert all(change.reason is Reason.MATCHES for change in own)
            assert answer.unblock == ()


def test_there_are_cases() -> None:
    assert len(CASES) >= 12


def test_a_gate_that_takes_everything_refuses_nothing() -> None:
    case, model, _, _ = read(CASES[0])
    assert all("refused" not in way.outcome for way in why(case, model, NoGate()).unblock)


@pytest.mark.parametrize(
    ("verdict", "key", "hint"),
    [
        (ExternalVerdict.REACHABLE, "KEY", None),
        (ExternalVerdict.UNREACHABLE, "KEY", "external.url is where it answers"),
        (ExternalVerdict.WRONG_NAME, "KEY", "external.model"),
        (ExternalVerdict.KEY_REFUSED, "KEY", "put a key that it takes into KEY"),
        (ExternalVerdict.KEY_REFUSED, None, "external.api_key_env"),
        (ExternalVerdict.KEY_MISSING, "KEY", "set KEY"),
    ],
)
def test_of_an_external_model_it_tells_what_the_model_answered(
    verdict: ExternalVerdict, key: str | None, hint: str | None
) -> None:
    external = External(url="https://llm.example/v1", api_key_env=key)
    model = ModelSpec(name="m", external=external)
    answer = ExternalAnswer(verdict, "llm.example says so")
    told = why(Case(a_desired([model]), observation(), (), NOON), "m", NoGate(), external=answer)
    assert told.as_desired == (hint is None)
    assert told.message.endswith(f"It {'is ready' if hint is None else 'waits'}: llm.example says so")
    assert (told.hint is None) if hint is None else (hint in (told.hint or ""))
