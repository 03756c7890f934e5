"""The gate: every rule over everything, and the report on what they found.

A module beside this one that holds rules is all that a new group needs: rules are found, not listed.
"""

from __future__ import annotations

import pkgutil
from collections import Counter
from importlib import import_module
from typing import TYPE_CHECKING

from reconciler import gate
from reconciler.domain.desired import Where
from reconciler.domain.finding import Finding, GateReport, Severity, Summary, sort_key
from reconciler.gate.phrases import one_line
from reconciler.gate.places import place
from reconciler.gate.rule import Rule
from reconciler.gate.subject import context_of
from reconciler.gate.valid import Passing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from reconciler.domain.desired import Desired
    from reconciler.domain.finding import Problem
    from reconciler.gate.places import Locate

_COUNT_FIELDS = frozenset({"gpus", "nodes"})
"""Fields of a profile that say how many GPUs: a finding at one of them says which counts would pass."""


def _found() -> Iterator[Rule]:
    for module in pkgutil.iter_modules(gate.__path__):
        if module.name != __name__.rpartition(".")[2]:
            for value in vars(import_module(f"{gate.__name__}.{module.name}")).values():
                if isinstance(value, Rule):
                    yield value


RULES: Mapping[str, Rule] = {rule.slug: rule for rule in sorted(_found(), key=lambda rule: rule.slug)}
"""Every rule by slug, those whose findings come from `sources` included."""


def check(
    desired: Desired, broken: frozenset[str], locate: Locate, loaded: Iterable[Finding] = ()
) -> tuple[Finding, ...]:
    """Run every rule and say where; sorted. `loaded` are the loader's findings, which are not repeated.

    `desired` is what could be read, `broken` the models whose file yielded no object, and `locate` gives line and
    column. Where `loaded` says that cluster.yaml or a file in nodes/ is broken, rules that need the whole inventory
    stay silent: half of it would refuse what the other half runs.
    """
    refused = [each for each in loaded if each.severity is Severity.ERROR]
    context = context_of(
        desired,
        broken,
        inventory_read=not any(_of_inventory(each) for each in refused),
        unreadable_locks=frozenset(each.model for each in refused if each.model and _folder(each) == "locks"),
    )
    passing = Passing(RULES.values(), context)
    found = {
        _finding(rule, problem, passing, locate)
        for rule in RULES.values()
        if rule.check is not None
        for problem in rule.check(context)
    }
    return tuple(sorted(found, key=sort_key))


def report(
    findings: Iterable[Finding], desired: Desired, seconds: float, *, broken: Collection[str] = ()
) -> GateReport:
    """Sum up all findings of one run, the loader's included. `seconds` is how long it took.

    `broken` are the models whose file yielded no object, so that they are counted as models too.
    """
    ordered = tuple(sorted(findings, key=sort_key))
    count = Counter(each.severity for each in ordered)
    summary = Summary(
        errors=count[Severity.ERROR],
        warnings=count[Severity.WARNING],
        notes=count[Severity.NOTE],
        models=len(desired.models) + len(broken),
        nodes=len(desired.nodes),
        seconds=round(seconds, 3),
    )
    return GateReport(ok=summary.errors == 0, findings=ordered, summary=summary)


def _of_inventory(finding: Finding) -> bool:
    return _folder(finding) == "nodes" or (finding.file or "").rpartition("/")[2] == "cluster.yaml"


def _folder(finding: Finding) -> str:
    return "".join((finding.file or "").split("/")[-2:-1])


def _finding(rule: Rule, problem: Problem, passing: Passing, locate: Locate) -> Finding:
    line, column = place(problem.where, locate) if problem.where else (None, None)
    return Finding(
        rule=rule.slug,
        severity=problem.severity or rule.severity,
        message=one_line(problem.message),
        hint=None if problem.hint is None else one_line(problem.hint),
        file=problem.where.file if problem.where else None,
        line=line,
        column=column,
        model=problem.model,
        profile=problem.profile,
        valid=_valid(problem, passing),
    )


def _valid(problem: Problem, passing: Passing) -> tuple[int, ...] | None:
    where = problem.where
    if problem.valid is not None or where is None or not where.path or where.path[-1] not in _COUNT_FIELDS:
        return problem.valid
    return passing.counts(Where(where.file, where.path[:-1]))
