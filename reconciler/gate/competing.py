"""Models that do not fit together, in words: who asks for how much, what the nodes have, and what would help."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from reconciler.domain.finding import Problem, Severity
from reconciler.gate.phrases import listed, number
from reconciler.placement.bounds import CPU_CORES, HOST_RAM
from reconciler.placement.needs import MICRO

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from reconciler.gate.subject import Context
    from reconciler.gate.together import Together
    from reconciler.placement.bounds import Shortage
    from reconciler.placement.needs import Ask, Bin, Need
    from reconciler.placement.packing import Conflict

TRIED = 4
"""Models for which a lower minimum is tried: a person looks for one thing to change, not for all of them."""

_MORE_NODES = 3
"""Nodes beyond the number that the sums call for that are tried: fragments cost a node or two, seldom more."""


def overcommitments(context: Context) -> Iterator[Problem]:
    """What `inventory/overcommitted` says: what is proved, what waits only for a drain, and what is not known."""
    together = context.together
    if together is None or not together.is_understood:
        return
    lasting = together.lasting
    for conflict in lasting.conflicts:
        ways = ways_out(together, conflict, together.bins)
        yield _short(context, conflict.models, why(together, conflict, together.bins), ways)
    refused = {model for conflict in lasting.conflicts for model in conflict.models}
    for conflict in together.today.conflicts:
        if refused.isdisjoint(conflict.models):
            message = f"today something waits for room: {why(together, conflict, together.bins_in_service)}"
            hint = "return what is drained, or lower a scaling.min"
            yield _short(context, conflict.models, message, hint, Severity.WARNING)
    for models in lasting.undecided:
        message = f"whether {listed(models)} fit together is not known: best fit finds no way, and there are too many"
        hint = "leave more room: lower a scaling.min, or add a node"
        yield _short(context, models, message, hint, Severity.WARNING)


def _short(
    context: Context, models: Sequence[str], message: str, hint: str | None, severity: Severity | None = None
) -> Problem:
    """Told once for all that compete, at the one that gives way first."""
    assert context.together is not None  # noqa: S101  # it is what found them
    model = context.desired.model_by_name[context.together.least_important(models)[0]]
    here = context.desired.where_by_model[model.name]
    field = "gpu_class" if model.profiles[0].gpu_class else "engine"
    where = here.at("scaling", "min") if "scaling" in model.model_fields_set else here.at("profiles", 0, field)
    hint = hint or "add a node, lower a scaling.min, or ask for less"
    return Problem(where, message, hint, model.name, severity=severity)


def why(together: Together, conflict: Conflict, bins: Sequence[Bin]) -> str:
    """One sentence with the models, the nodes and the numbers."""
    asks = [together.ask_by_model[model] for model in conflict.models]
    by_name = {each.name: each for each in bins}
    nodes = [by_name[name] for name in conflict.nodes]
    short = conflict.shortage
    if short is None:
        of = next((need.gpu_class for ask in asks for need in ask.needs if need.gpu_class), HOST_RAM)
        have = _nodes(nodes, of)
        return f"{_models(asks, of)} do not fit on {have} in any arrangement: all were tried"
    needed, available = _amount(short.of, short.needed), _amount(short.of, short.available)
    models, have = _models(asks, short.of), listed(conflict.nodes)
    verb = "has" if len(conflict.nodes) == 1 else "have"
    if not short.at_least:
        asking = "needs" if len(asks) == 1 else "need"
        return f"{models} {asking} {needed}, and {have} {verb} {available}"
    least = _amount(short.of, short.at_least)
    asking = "needs" if len(asks) == 1 else "need"
    times = f"{short.needed} times, and {have} {verb} room for that {short.available} times"
    return f"{models} {asking} at least {least} on one node {times}"


def ways_out(together: Together, conflict: Conflict, bins: Sequence[Bin]) -> str | None:
    """What would make them fit, each checked by packing all that share their nodes; None where nothing small does."""
    asks = [together.ask_by_model[model] for model in conflict.group]
    found = [each for each in (_fewer(together, conflict, bins, asks), _more(together, conflict, bins, asks)) if each]
    return ", or ".join(found) or None


def _fewer(together: Together, conflict: Conflict, bins: Sequence[Bin], asks: Sequence[Ask]) -> str | None:
    for model in together.least_important(conflict.models)[:TRIED]:
        ask = together.ask_by_model[model]
        count = _largest(together, bins, asks, ask)
        if count is not None:
            return f"scaling.min: {count} in {model}" if count else f"scaling: {{min: 0, max: 0}} in {model}"
    return None


def _largest(together: Together, bins: Sequence[Bin], asks: Sequence[Ask], ask: Ask) -> int | None:
    """The largest smaller minimum with which everything fits; None where no smaller one does."""

    def fits(count: int) -> bool:
        fewer = [replace(each, count=count) if each.model == ask.model else each for each in asks]
        return together.fits(bins, fewer) is True

    if not fits(0):
        return None
    low, high = 0, ask.count
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _more(together: Together, conflict: Conflict, bins: Sequence[Bin], asks: Sequence[Ask]) -> str | None:
    """Nodes like the largest of those that are too few."""
    of = conflict.shortage.of if conflict.shortage is not None else None
    among = [each for each in bins if each.name in conflict.nodes]
    largest = max(among, key=lambda each: (_has(each, of), each.name), default=None)
    if largest is None:
        return None
    first = _missing(conflict.shortage, largest)
    for count in range(first, first + _MORE_NODES):
        # A name of its own, so that what is pinned to the one that is there is not taken to run on the others.
        labels = {key: value for key, value in largest.labels.items() if key != "node"}
        extra = [replace(largest, name=f"{largest.name}+{number}", labels=labels) for number in range(count)]
        if together.fits([*bins, *extra], asks) is True:
            return f"{count} more node{'' if count == 1 else 's'} like {largest.name}"
    return None


def _missing(short: Shortage | None, node: Bin) -> int:
    """How many more such nodes the sums call for, at least one."""
    if short is None:
        return 1
    each = _has(node, short.of) // (short.at_least or 1)
    return max(1, -(-(short.needed - short.available) // each)) if each else 1


def _has(node: Bin, of: str | None) -> int:
    if of == HOST_RAM:
        return node.memory or 0
    if of == CPU_CORES:
        return node.cpu_cores or 0
    return sum(node.gpus.values()) if of is None else node.gpus.get(of, 0)


def _models(asks: Sequence[Ask], of: str) -> str:
    """`llama-70b (2 x 4) and qwen-32b (3 x 4)`: replicas, and what each takes."""
    # The largest first: where only three are named, those matter most.
    ordered = sorted(asks, key=lambda ask: (-ask.count * _takes(ask.needs, of), ask.model))
    named = [f"{ask.model} ({_times(ask, of)})" for ask in ordered]
    return " and ".join(named) if len(named) == 2 else listed(named)  # noqa: PLR2004  # two are joined by a word


def _times(ask: Ask, of: str) -> str:
    need = min(ask.needs, key=lambda each: _amount_of(each, of) * each.nodes)
    nodes = f"{need.nodes} x " if need.nodes > 1 else ""
    amount = _amount_of(need, of)
    return f"{ask.count} x {nodes}{number(amount / MICRO) if of == HOST_RAM else amount}"


def _takes(needs: Iterable[Need], of: str) -> int:
    return min(_amount_of(need, of) * need.nodes for need in needs)


def _amount_of(need: Need, of: str) -> int:
    amounts: Mapping[str, int] = {HOST_RAM: need.memory, CPU_CORES: need.cpu_cores}
    return amounts.get(of, need.gpus)


def _amount(of: str, amount: int) -> str:
    if of == HOST_RAM:
        return f"{number(amount / MICRO)} GiB of host RAM"
    return f"{amount} CPU cores" if of == CPU_CORES else f"{amount} {of}"


def _nodes(nodes: Sequence[Bin], of: str) -> str:
    """`gpu-01 (8 h100-80gb), gpu-02 (4 h100-80gb)`: nodes, and what each has."""
    return listed([f"{each.name} ({_amount(of, _has(each, of))})" for each in nodes])
