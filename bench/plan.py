"""Time and memory of one pass of the planner, and how they grow: `plan.py [NODES] [MODELS]`, by default 10000 2000.

The budgets of design section 11 are 500 ms for a fleet of 2,000 models on 10,000 nodes of eight GPUs with nothing to
do, and 700 ms with one model changed. Every model has one replica of four GPUs, ready. The rows that follow change
more, or grow from a hundredth of the fleet to all of it at one replica for five nodes. Each figure is the best of
three runs, and CPU time stands beside it because a busy machine stretches the other; memory is the peak of what Python
allocates during one pass, without the fleet itself. Prints a table and never fails: a figure depends on the machine.
"""  # noqa: INP001  # a script, not part of a package

from __future__ import annotations

import gc
import sys
import time
import tracemalloc
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ready_nodes import CLASS, GPUS, heard, running

from reconciler.domain.desired import Desired, Node, Where
from reconciler.domain.fleet_spec import FleetSpec, GpuGroup
from reconciler.domain.model_spec import ModelSpec
from reconciler.domain.observed import Observation
from reconciler.planning.outlook import NoFigures, foresee
from reconciler.planning.planner import plan
from reconciler.planning.premises import premises, stale
from reconciler.planning.unblocking import Case
from reconciler.planning.ways_out import NoGate
from reconciler.planning.why import why
from reconciler.views.plan import plan_text

if TYPE_CHECKING:
    from collections.abc import Callable

REPEATED = 3
NODES_A_MODEL = 5
"""As in the budget: 10,000 nodes for 2,000 models."""
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
write = sys.stdout.write


@dataclass(frozen=True)
class Fleet:
    """A desired side and what its nodes say."""

    desired: Desired
    observed: Observation

    def changed(self, count: int, **fields: object) -> Fleet:
        """The same fleet after a commit that changes its first models."""
        models = [each.model_copy(update=fields) for each in self.desired.models[:count]]
        after = (*models, *self.desired.models[count:])
        return Fleet(Desired(self.desired.fleet, self.desired.nodes, after), self.observed)

    def without(self, count: int) -> Fleet:
        """The same fleet before its first models were started, on nodes that hold the rest."""
        gone = {each.name for each in self.desired.models[:count]}
        nodes = tuple(
            node.model_copy(update={"replicas": tuple(each for each in node.replicas if each.entry.model not in gone)})
            for node in self.observed.reachable
        )
        return Fleet(self.desired, Observation(nodes=nodes))


def node(number: int) -> Node:
    """Eight cards, 1 TiB and 96 cores."""
    group = GpuGroup.model_validate({"class": CLASS, "count": GPUS})
    return Node(f"gpu-{number:05}", "pool", Where("nodes/pool.yaml", ("nodes", number)), (group,), 1024.0, 96)


def model(number: int) -> ModelSpec:
    """One vLLM model of four cards."""
    name = f"model-{number:05}"
    profile = {"name": "p", "engine": "vllm", "gpu_class": CLASS, "gpus": 4, "memory_gib": 64}
    return ModelSpec.model_validate(
        {"name": name, "source": f"hf:org/{name}@v1", "context": 8192, "profiles": [profile]}
    )


def fleet(nodes: int, models: int) -> Fleet:
    """Every model serves, each on a node of its own."""
    inventory = tuple(node(number) for number in range(nodes))
    specs = tuple(model(number) for number in range(models))
    desired = Desired(FleetSpec(name="bench"), inventory, specs)
    step = max(1, nodes // max(1, models))
    held = {number * step: running(desired, spec, inventory[number * step]) for number, spec in enumerate(specs)}
    seen = tuple(heard(each, *((held[at],) if at in held else ())) for at, each in enumerate(inventory))
    return Fleet(desired, Observation(nodes=seen))


def planning(of: Fleet) -> Callable[[], str]:
    """One pass."""

    def run() -> str:
        impact = plan(of.desired, of.observed, (), NOON).plan.impact
        return f"{impact.created:,} create, {impact.replaced:,} replace, {impact.unchanged:,} stay"

    return run


def telling(of: Fleet) -> Callable[[], str]:
    """What `plan` adds for people: what it means, and its text."""
    made = plan(of.desired, of.observed, (), NOON, commit="c").plan

    def run() -> str:
        shown = foresee(of.desired, of.observed, (), NOON, made, NoFigures())
        text = plan_text(shown, of.observed, commit_line="commit c", fleet="bench")
        return f"{len(text.splitlines()):,} lines"

    return run


def holding(of: Fleet) -> Callable[[], str]:
    """What `apply FILE` adds: whether every action still holds."""
    made = plan(of.desired, of.observed, (), NOON, commit="c").plan

    def run() -> str:
        found = stale(made, premises(made, of.observed), made, of.observed)
        return f"{len(made.acts):,} actions, {len(found)} stale"

    return run


def explaining(of: Fleet, name: str) -> Callable[[], str]:
    """`why` of a model that lacks room, the gate left out."""

    def run() -> str:
        answer = why(Case(of.desired, of.observed, (), NOON), name, NoGate())
        return f"{answer.rule or 'as desired'}; {len(answer.unblock)} ways out"

    return run


def measure(what: str, run: Callable[[], str], budget: str = "", *, repeated: int = REPEATED) -> None:
    """One row."""
    seconds, cpu, answer = [], [], ""
    for _ in range(repeated):
        gc.collect()
        started, started_cpu = time.perf_counter(), time.process_time()
        answer = run()
        seconds.append(time.perf_counter() - started)
        cpu.append(time.process_time() - started_cpu)
    tracemalloc.start()
    run()
    peak_mib = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    write(f"{what:<58}{min(seconds):>9.3f} s{min(cpu):>9.3f} s{budget:>8}{peak_mib:>9.1f} MiB   {answer}\n")


def main() -> None:
    """Print the table."""
    given = [int(word) for word in sys.argv[1:3]]
    nodes, models = (*given, *(10_000, 2_000)[len(given) :])
    write(f"{'':<58}{'best of 3':>11}{'CPU':>11}{'budget':>8}{'memory':>13}   answer\n")
    whole = fleet(nodes, models)
    measure(f"{models:,} models on {nodes:,} nodes, nothing to do", planning(whole), "0.5 s")
    measure("  one model changed", planning(whole.changed(1, context=4096)), "0.7 s")
    measure("  one model not yet started", planning(whole.without(1)))
    measure("  every twentieth model changed", planning(whole.changed(models // 20, context=4096)))
    measure("  every model changed", planning(whole.changed(models, context=4096)))
    measure("  from empty", planning(whole.without(models)))
    measure("  what plan tells people, one model changed", telling(whole.changed(1, context=4096)))
    measure("  what plan tells people, every model changed", telling(whole.changed(models, context=4096)))
    measure("  whether a saved plan still holds, every model changed", holding(whole.changed(models, context=4096)))
    too_large = tuple(each.model_copy(update={"gpus": GPUS + 1}) for each in whole.desired.models[0].profiles)
    measure("  why a model finds no room", explaining(whole.changed(1, profiles=too_large), "model-00000"), repeated=1)
    del whole
    size = max(nodes // 100, NODES_A_MODEL)
    while size <= nodes:
        grown = fleet(size, max(1, size // NODES_A_MODEL))
        told = f"growth: {size:,} nodes, {max(1, size // NODES_A_MODEL):,} models"
        measure(f"{told}, nothing to do", planning(grown))
        measure(f"{told}, one changed", planning(grown.changed(1, context=4096)))
        size *= 10


if __name__ == "__main__":
    main()
