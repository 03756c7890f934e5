"""`plan --simulate`: the timetable of a rollout on a simulated copy of the fleet, and that it leaves no trace."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from jsonschema import Draft202012Validator

from reconciler.controller.aim import Aim
from reconciler.controller.timetable import timetable
from reconciler.domain.assignment import Holder
from reconciler.domain.observed import LoadTime, ReplicaState
from reconciler.planning.planner import plan
from reconciler.views.plan import plan_json
from reconciler.views.schemas import schema
from reconciler.views.timetable import timetable_lines
from tests.builders import NOON, a_desired, a_model, a_node, a_replica, heard, lost, observation
from tests.conftest import compare

if TYPE_CHECKING:
    from reconciler.domain.model_spec import ModelSpec
    from reconciler.domain.observed import Observation
    from reconciler.domain.outlook import TimetableRow

HOLDER = Holder(id="h", command="plan", user="u", machine="m", boot_id="b", pid=1, started_at=1.0)
N1 = a_node("n1", gpus=3)
BEFORE = a_model(replicas=2, context=1024)


def simulated(model: ModelSpec, observed: Observation, state: Path, *nodes: object) -> tuple[TimetableRow, ...]:
    desired = a_desired([model], [N1, *nodes])  # type: ignore[list-item]  # nodes
    return timetable(Aim(desired, None, None), observed, HOLDER, state, None)


def two_serve(**fields: object) -> Observation:
    held = [a_replica(BEFORE, ordinal, "n1", [ordinal]) for ordinal in (0, 1)]
    return observation(heard(N1, *held, load_times=(LoadTime(model="m", seconds=90.0),), **fields))


def test_one_surge_after_the_other(tmp_path: Path, rewrite: bool) -> None:
    rows = simulated(a_model(replicas=2), two_serve(), tmp_path)
    golden = Path(__file__).parent / "plans" / "timetable.txt"
    compare(golden, "\n".join(timetable_lines(rows)) + "\n", rewrite=rewrite)
    assert min(row.serving for row in rows) == 2, "a surge never serves with fewer"
    assert [row.event for row in rows if row.event == "ready"] == ["ready", "ready"]
    assert list(tmp_path.iterdir()) == [], "a rehearsal remembers nothing"


def test_in_place_one_is_away_at_a_time(tmp_path: Path) -> None:
    rows = simulated(a_model(replicas=2, rollout={"strategy": "in_place"}), two_serve(), tmp_path)
    assert min(row.serving for row in rows) == 1
    assert rows[-1].serving == 2


def test_what_is_on_its_way_goes_on_from_where_it_is(tmp_path: Path) -> None:
    model = a_model(replicas=1)
    on_its_way = a_replica(model, 0, "n1", [0], ReplicaState.STARTING, state_for=timedelta(seconds=60))
    rows = simulated(
        model, observation(heard(N1, on_its_way, load_times=(LoadTime(model="m", seconds=90.0),))), tmp_path
    )
    assert [(row.seconds, row.event) for row in rows] == [(30.0, "ready")]


def test_a_silent_node_is_heard_out_first(tmp_path: Path) -> None:
    n2 = a_node("n2", gpus=1)
    rows = simulated(a_model(replicas=1), observation(heard(N1), lost(n2)), tmp_path, n2)
    starts = [row.seconds for row in rows if row.event == "starts"]
    assert len(starts) == 1
    assert starts[0] >= 60.0


def test_nothing_to_do_takes_no_time(tmp_path: Path) -> None:
    model = a_model(replicas=1)
    assert simulated(model, observation(heard(N1, a_replica(model, 0, "n1", [0]))), tmp_path) == ()


def test_the_timetable_in_json_is_as_published(tmp_path: Path) -> None:
    model, observed = a_model(replicas=2), two_serve()
    desired = a_desired([model], [N1])
    made = plan(desired, observed, (), NOON, commit="9c2f4e1", tree="t1").plan
    told = json.loads(plan_json(made.model_copy(update={"timetable": simulated(model, observed, tmp_path)})))
    Draft202012Validator(schema("plan")).validate(told)
    first = told["timetable"][0]
    assert (first["seconds"], first["replica"], first["event"], first["serving"]) == (0.0, "m/0", "starts", 2)
