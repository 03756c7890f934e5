"""What a plan means: capacity, seconds, GPUs at the peak and the way back; and that it decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given

from reconciler.domain.observed import LoadTime
from reconciler.domain.outlook import GpuMemory
from reconciler.domain.plan import Reason
from reconciler.planning.outlook import Expected, NoFigures, foresee
from reconciler.planning.planner import plan
from tests.builders import NOON, a_desired, a_model, a_node, a_replica, heard, lost, observation
from tests.strategies import Fleet, fleets

if TYPE_CHECKING:
    from reconciler.domain.declaration import Declaration
    from reconciler.domain.observed import Observation
    from reconciler.domain.outlook import ModelOutlook
    from reconciler.domain.plan import Plan


class Figures:
    """20 GiB of weights over the GPUs, loaded in a minute."""

    def memory(self, _model: str, declaration: Declaration) -> GpuMemory:
        return GpuMemory(needs_gib=20 / max(1, declaration.gpus), usable_gib=72.8)

    def loading(self, _model: str, _declaration: Declaration) -> Expected:
        return Expected(60.0, "weights 20 GiB")


def seen(models: list[Any], observed: Observation, nodes: list[Any], **figures: bool) -> Plan:
    desired = a_desired(models, nodes)
    made = plan(desired, observed, (), NOON).plan
    return foresee(desired, observed, (), NOON, made, Figures() if figures else NoFigures())


def one(found: Plan) -> ModelOutlook:
    (outlook,) = found.models
    return outlook


def test_a_surge_loses_no_capacity_and_takes_gpus_beside() -> None:
    node = a_node("n1", gpus=8)
    held = [a_replica(a_model(gpus=1), ordinal, "n1", [ordinal]) for ordinal in (0, 1)]
    found = seen([a_model(replicas=2, gpus=2)], observation(heard(node, *held)), [node], figures=True)
    outlook = one(found)
    assert (outlook.wanted, outlook.ready, outlook.lowest) == (2, 2, 2)
    assert (outlook.width_before, outlook.width_after) == (1, 2)
    assert outlook.memory_before == GpuMemory(needs_gib=20.0, usable_gib=72.8)
    assert outlook.memory_after == GpuMemory(needs_gib=10.0, usable_gib=72.8)
    # Two turns of one load each, with min_ready and withdraw_delay.
    assert (outlook.seconds, found.impact.seconds) == (150.0, 150.0)
    (peak,) = found.gpus
    # Two run, the first successor takes two more; then 3 stay and the second takes two more.
    assert (peak.gpu_class, peak.used, peak.peak, peak.total) == ("h100-80gb", 2, 5, 8)


def test_in_place_loses_one_and_says_for_how_long() -> None:
    node = a_node("n1", gpus=2)
    before, after = a_model(gpus=2, context=1024), a_model(gpus=2, rollout={"strategy": "in_place"})
    observed = observation(
        heard(node, a_replica(before, 0, "n1", [0, 1]), load_times=(LoadTime(model="m", seconds=30),))
    )
    outlook = one(seen([after], observed, [node], figures=True))
    assert (outlook.ready, outlook.lowest, outlook.outage_seconds) == (1, 0, 30.0)
    assert outlook.last_start_seconds == 30.0
    assert outlook.why_strategy == "as its rollout.strategy says"
    assert outlook.way_back == "revert; what has stopped by then loads again"


def test_why_in_place_where_surge_was_possible_in_principle() -> None:
    node = a_node("n1", gpus=2)
    before = a_model(gpus=2, context=1024)
    after = a_model(gpus=2, rollout={"strategy": "surge_or_in_place"})
    outlook = one(seen([after], observation(heard(node, a_replica(before, 0, "n1", [0, 1]))), [node]))
    assert outlook.why_strategy == "no room beside: no node has 2 h100-80gb free (0 at most, n1)"
    assert outlook.seconds is None


def test_a_removed_model_names_who_counts_on_it() -> None:
    node = a_node("n1", gpus=4)
    gone, heir = a_model("gone"), a_model("heir", fallbacks=["gone"])
    held = [a_replica(gone, 0, "n1", [0]), a_replica(heir, 0, "n1", [1])]
    outlook = one(seen([heir], observation(heard(node, *held)), [node]))
    assert (outlook.fallback_of, outlook.drain_seconds) == (("heir",), 120.0)
    assert outlook.way_back == "put the file back; it loads again"


def test_the_peak_counts_what_others_hold_and_never_exceeds_what_there_is() -> None:
    node, silent = a_node("n1", gpus=4), a_node("n2", gpus=2)
    before = a_model(gpus=2, context=1024)
    observed = observation(
        heard(node, a_replica(before, 0, "n1", [0, 1])), lost(silent, a_replica(a_model("s"), 0, "n2", [0]))
    )
    (peak,) = seen([a_model(gpus=2), a_model("s")], observed, [node, silent]).gpus
    assert (peak.used, peak.peak, peak.total) == (3, 5, 6)


@given(fleets())
def test_an_outlook_decides_nothing(fleet: Fleet) -> None:
    made = plan(fleet.desired, fleet.observed, fleet.intents, NOON).plan
    found = foresee(fleet.desired, fleet.observed, fleet.intents, NOON, made, Figures())
    shown = {"models", "gpus", "impact", "held_back"}
    assert found.model_dump(exclude=shown) == made.model_dump(exclude=shown)
    assert {each.model for each in found.models} == {change.model for change in made.acts}
    suspended = {change.model for change in made.changes if change.reason is Reason.SUSPENDED}
    assert {each.model for each in found.held_back} <= suspended
    assert all(each.changes for each in found.held_back)
    assert all(0 <= each.lowest <= each.ready for each in found.models)
    assert all(each.used <= each.peak for each in found.gpus)
