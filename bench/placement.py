"""Time of placement and packing over whole fleets: `placement.py [NODES] [MODELS]`, by default 1000 1000.

The budget of design section 11 is 1 s for a full placement from empty: 1,000 nodes of eight cards and 2,000 replicas.
Packing runs inside `validate`, and the two planner rows stand beside it because they share the code. Prints a table
of the best of three runs and never fails: a figure depends on the machine.
"""  # noqa: INP001  # a script, not part of a package

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ready_nodes import CLASS, heard, running

from reconciler.domain.desired import Desired, Node, Where
from reconciler.domain.fleet_spec import FleetSpec, GpuGroup
from reconciler.domain.model_spec import ModelSpec
from reconciler.domain.observed import Observation
from reconciler.gate.inventory import overcommitted
from reconciler.gate.rollout import no_surge_room
from reconciler.gate.subject import context_of
from reconciler.placement.demand import demands
from reconciler.placement.fit import Preference, find_seat
from reconciler.placement.needs import bins_of, minimums
from reconciler.placement.packing import pack
from reconciler.placement.room import build_room
from reconciler.placement.spread import Want, packed
from reconciler.placement.stock import stock
from reconciler.planning.planner import plan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

REPEATED = 3
SIZES = (1, 2, 4, 8, 1, 2, 4, 2)
"""GPUs a replica, in turn: 3 on average, so that 2,000 replicas take three quarters of 8,000 cards."""
ODD = (5, 3, 5, 3, 7, 1, 6, 2)
"""Sizes that leave fragments on nodes of eight."""
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
write = sys.stdout.write


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    what: str
    run: Callable[[], str]
    budget: str = ""


def node(number: int, **fields: object) -> Node:
    """Eight cards, 1 TiB and 96 cores."""
    name = f"gpu-{number:05}"
    group = GpuGroup.model_validate({"class": CLASS, "count": 8})
    plain = {"memory_gib": 1024.0, "cpu_cores": 96, "labels": {"rack": f"r{number % 20}"}}
    return Node(name, "pool", Where("nodes/pool.yaml", ("nodes", number)), (group,), **(plain | fields))  # type: ignore[arg-type]  # mixed


def model(number: int, gpus: int, replicas: int, **profile: object) -> ModelSpec:
    """One vLLM model."""
    ways = [{"name": "p", "engine": "vllm", "gpu_class": CLASS, "gpus": gpus, "memory_gib": 64, **profile}]
    name = f"model-{number:04}"
    spec = {"name": name, "source": f"hf:org/{name}@v1", "context": 8192, "scaling": {"min": replicas}}
    return ModelSpec.model_validate({**spec, "profiles": ways})


def fleet(nodes: Sequence[Node], models: Sequence[ModelSpec]) -> Desired:
    """A whole desired side."""
    where = {each.name: Where(f"models/{each.name}.yaml") for each in models}
    return Desired(FleetSpec(name="bench"), tuple(nodes), tuple(models), {}, where)


def placing(desired: Desired) -> Callable[[], str]:
    """Room, demands, whether to spread, and a seat for every replica; nothing observed but the nodes."""
    seen = [heard(each) for each in desired.nodes]

    def run() -> str:
        room = build_room(desired.nodes, [stock(desired, each) for each in seen], "bench", lambda _: (0.0, 0))
        wants = [Want(spec.name, demands(desired, spec), spec.replicas) for spec in desired.models]
        tight = packed(room, wants)
        placed = 0
        for want in wants:
            preference = Preference.PACK if want.model in tight else Preference.SPREAD
            for ordinal in range(want.count):
                seat = find_seat(room, want.demands, want.model, preference)
                if seat is not None:
                    seat.take(room, f"{want.model}/{ordinal}@0", f"{want.model}/{ordinal}", want.model)
                    placed += 1
        return f"{placed:,} placed, {len(tight):,} models packed"

    return run


def packing(desired: Desired) -> Callable[[], str]:
    """All minimums together."""

    def run() -> str:
        return pack(bins_of(desired.nodes, drained=True), minimums(desired)).outcome.value

    return run


def judging(desired: Desired) -> Callable[[], str]:
    """The rules that ask for room, hints included."""

    def run() -> str:
        context = context_of(desired, frozenset())
        counts = [len(list(rule.check(context))) for rule in (overcommitted, no_surge_room) if rule.check is not None]
        return "{} overcommitted, {} without surge room".format(*counts)

    return run


def planning(desired: Desired, observed: Observation) -> Callable[[], str]:
    """One pass of the planner."""

    def run() -> str:
        impact = plan(desired, observed, (), NOON).plan.impact
        return f"{impact.created:,} create, {impact.replaced:,} replace, {impact.unchanged:,} stay"

    return run


def rows(nodes: int, models: int) -> list[Row]:
    """The table."""
    fleet_nodes = [node(number) for number in range(nodes)]
    two_each = [model(number, SIZES[number % 8], 2) for number in range(models)]
    usual = fleet(fleet_nodes, two_each)
    # Small ones are placed first by their names; spread they would leave no whole node for the last eighth.
    ordered = sorted(range(models), key=lambda number: SIZES[number % 8])
    scarce = fleet(fleet_nodes[: nodes * 3 // 4], [model(at, SIZES[n % 8], 2) for at, n in enumerate(ordered)])
    size = f"{nodes:,} nodes"
    table = [
        Row(f"placement from empty, {2 * models:,} replicas on {size}", placing(usual), "1 s"),
        Row("  every card needed", placing(scarce)),
        Row("  spreading would cost others their place", placing(_crowded(fleet_nodes))),
        Row(
            "  the planner's whole pass, room to spare",
            planning(usual, Observation(nodes=tuple(map(heard, fleet_nodes)))),
        ),
        Row(f"packing, {models:,} models on {size}, room to spare", packing(usual)),
        Row("  every card needed", packing(scarce)),
        Row("  odd sizes", packing(fleet(fleet_nodes, [model(n, ODD[n % 8], 1) for n in range(models)]))),
        Row("  too much by a tenth", packing(fleet(fleet_nodes[: nodes * 27 // 40], two_each))),
        Row("  each model kept in one of 20 racks", packing(fleet(fleet_nodes, _racked(models)))),
        Row("  each model pinned to a node", packing(fleet(fleet_nodes, _pinned(min(models, nodes))))),
        Row("  no two nodes alike", packing(fleet([node(n, memory_gib=1024.0 + n) for n in range(nodes)], two_each))),
        Row("rules overcommitted and no-surge-room, room to spare", judging(usual)),
        Row("  every card needed", judging(scarce)),
        Row("  too much by a tenth, with ways out", judging(fleet(fleet_nodes[: nodes * 27 // 40], two_each))),
    ]
    many = [node(number) for number in range(10 * nodes)]
    single = [model(number, 4, 1) for number in range(2 * models)]
    desired = fleet(many, single)
    held = [running(desired, spec, many[at]) for at, spec in enumerate(single)]
    seen = [heard(each, *held[at : at + 1]) for at, each in enumerate(many)]
    changed = fleet(many, [single[0].model_copy(update={"context": 4096}), *single[1:]])
    what = f"plan, {2 * models:,} models on {10 * nodes:,} nodes"
    observed = Observation(nodes=tuple(seen))
    table.append(Row(f"{what}, nothing to do", planning(desired, observed), "0.5 s"))
    table.append(Row("  one model changed", planning(changed, observed), "0.7 s"))
    return table


def _crowded(nodes: Sequence[Node]) -> Desired:
    """One model on half the nodes if it were spread, and whole nodes for as many others as fit beside it packed."""
    small = model(0, 1, len(nodes) // 2)
    whole = len(nodes) - len(nodes) // 16 - 1
    return fleet(nodes, [small, *(model(number + 1, 8, 1) for number in range(whole))])


def _racked(models: int) -> list[ModelSpec]:
    return [model(number, SIZES[number % 7], 2, select={"rack": f"r{number % 20}"}) for number in range(models)]


def _pinned(models: int) -> list[ModelSpec]:
    return [model(number, SIZES[number % 8], 1, select={"node": f"gpu-{number:05}"}) for number in range(models)]


def main() -> None:
    """Print the table."""
    given = [int(word) for word in sys.argv[1:3]]
    nodes, models = (*given, *(1000, 1000)[len(given) :])
    write(f"{'':<64}{'best of 3':>10}{'budget':>8}   answer\n")
    for row in rows(nodes, models):
        seconds, answer = [], ""
        for _ in range(REPEATED):
            started = time.perf_counter()
            answer = row.run()
            seconds.append(time.perf_counter() - started)
        write(f"{row.what:<64}{min(seconds):>8.3f} s{row.budget:>8}   {answer}\n")


if __name__ == "__main__":
    main()
