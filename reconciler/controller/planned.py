"""Whether a plan file may still be carried out: the same fleet, the same tree, unused, and every action as it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.controller.plan_file import claim_use, read_plan, used_at
from reconciler.errors import StalePlan, UsageError
from reconciler.planning.premises import described, stale

if TYPE_CHECKING:
    from pathlib import Path

    from reconciler.controller.aim import Aim
    from reconciler.domain.observed import Observation
    from reconciler.domain.plan import Plan
    from reconciler.domain.plan_file import PlanFile

AGAIN = "look at what would happen now: reconciler plan --out FILE"


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """One plan file that fits the tree and was not used."""

    file: PlanFile
    mark: str
    """Its checksum, by which its use is recorded."""

    @property
    def scope(self) -> frozenset[str]:
        """The models that were looked at and approved: nothing else is changed."""
        return frozenset(change.model for change in self.file.plan.acts)

    def check(self, anew: Plan, observed: Observation) -> None:
        """StalePlan that names every action which no longer holds, and what changed.

        `anew` is planned of this tree, and without secrets as the plan in the file is.
        """
        found = stale(self.file.plan, self.file.premises, anew, observed)
        if found:
            lines = [f"{each.change.replica} ({described(each.change)}): {each.why}" for each in found]
            holds = "no longer holds" if len(found) == 1 else "no longer hold"
            told = f"the plan is stale: {len(found)} of {len(self.file.plan.acts)} actions {holds}"
            raise StalePlan(told, hint=AGAIN, actions=lines)

    def claim(self, state: Path) -> None:
        """Note that it is being carried out; StalePlan when another command was first."""
        claim_use(state, self.mark, self.file.commit)


def saved_plan(path: Path, aim: Aim, state: Path) -> SavedPlan:
    """Read a plan file. UsageError for one of another fleet, StalePlan for one of another tree or one that was used."""
    file, mark = read_plan(path)
    fleet = aim.desired.fleet.name
    if file.fleet != fleet:
        raise UsageError(f"{path} is a plan of fleet {file.fleet}, and this is fleet {fleet}")
    before = used_at(state, mark)
    if before is not None:
        raise StalePlan(f"this plan was carried out already, {before}", hint=AGAIN)
    if file.tree != aim.tree_id:
        head = aim.sha[:7] if aim.sha else "the work tree"
        raise StalePlan(f"the plan is of commit {file.commit[:7]}, and {head} asks for something else", hint=AGAIN)
    return SavedPlan(file, mark)
