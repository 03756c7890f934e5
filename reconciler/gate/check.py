"""The gate: every rule over everything, and the report on what they found.

A module beside this one that holds rules is all that a new group needs: rules are found, not listed.
"""

from __future__ import annotations

import pkgutil
from collections import Counter
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

from reconciler import gate
from reconciler.domain.desired import Where
from reconciler.domain.finding import Finding, GateReport, Severity, Summary, sort_key
from reconciler.gate.among_others import AmongOthers
from reconciler.gate.phrases import one_line
from reconciler.gate.places import place
from reconciler.gate.remedies import Remedies
from reconciler.gate.room import ROOM_RULES
from reconciler.gate.rule import Rule
from reconciler.gate.subject import context_of
from reconciler.gate.valid import Passing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from reconciler.domain.desired import Desired
    from reconciler.domain.finding import Problem
    from reconciler.gate.places import Locate
    from reconciler.gate.room import Room
    from reconciler.gate.rule import Check
    from reconciler.gate.subject import Context
    from reconciler.planning.limits import Removal

_COUNT_FIELDS = frozenset({"gpus", "nodes"})
"""Fields of a profile that say how many GPUs: a finding at one of them says which counts would pass."""

_LOCAL_GROUPS = frozenset({"args", "context", "heads", "memory", "security"})
_LOCAL = frozenset(
    {
        "inventory/cpu-profile",
        "inventory/gpus-range",
        "inventory/mig",
        "inventory/mixed-cards",
        "inventory/node-too-small",
        "inventory/single-gpu-engine",
        "inventory/unsupported",
        "lock/licence",
        "lock/missing",
        "lock/revision-unpinned",
        "lock/stale",
        "refs/adapter-architecture",
    }
)
"""Rules that judge models one by one: see `is_local`. One that is not named here is asked of every model every time."""

_ABOVE = frozenset({__name__.rpartition(".")[2], "would_merge"})
"""Modules beside the rules that ask all of them, and hold none."""

_NOTHING: Mapping[str, tuple[Finding, ...]] = MappingProxyType({})


def _found() -> Iterator[Rule]:
    for module in pkgutil.iter_modules(gate.__path__):
        if module.name not in _ABOVE:
            for value in vars(import_module(f"{gate.__name__}.{module.name}")).values():
                if isinstance(value, Rule):
                    yield value


RULES: Mapping[str, Rule] = {rule.slug: rule for rule in sorted(_found(), key=lambda rule: rule.slug)}
"""Every rule by slug, those whose findings come from `sources` included."""


@dataclass(frozen=True, slots=True)
class Against:
    """What a tree is compared with, and what that tells of the change."""

    base: Desired
    replaced: frozenset[str]
    """Models that the change must replace."""
    removal: Removal
    """What it removes from the tree."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the rules say of one tree."""

    findings: tuple[Finding, ...]
    """All of it, sorted."""
    each_alone: Mapping[str, tuple[Finding, ...]]
    """What the local rules say, by model; models of which they say nothing included."""
    room: Room | None = field(default=None, compare=False)
    """The packings, for `judge` of a later tree; None where the inventory could not be read."""


def check(
    desired: Desired, broken: frozenset[str], locate: Locate, loaded: Iterable[Finding] = ()
) -> tuple[Finding, ...]:
    """Run every rule and say where; sorted. `loaded` are the loader's findings, which are not repeated.

    `desired` is what could be read, `broken` the models whose file yielded no object, and `locate` gives line and
    column. Where `loaded` says that cluster.yaml or a file in nodes/ is broken, rules that need the whole inventory
    stay silent: half of it would refuse what the other half runs.
    """
    return judge(desired, broken, locate, loaded).findings


def judge(
    desired: Desired,
    broken: frozenset[str],
    locate: Locate,
    loaded: Iterable[Finding] = (),
    judged: Mapping[str, tuple[Finding, ...]] = _NOTHING,
    against: Against | None = None,
    room: Room | None = None,
) -> Judgement:
    """As `check`, without asking the local rules again of models that are in `judged`, an earlier `each_alone`.

    With `against` rules also say what only a change can do wrong. `room` is that of an earlier judgement of a tree with
    the same cluster.yaml and nodes/, as `Room.of_unchanged` gives it.
    """
    context = _context(desired, broken, loaded, against, room)
    passing = Passing(RULES.values(), context)
    remedies = Remedies(context, passing)

    def told(rule: Rule, check: Check | None, subject: Context) -> Iterator[Finding]:
        for problem in () if check is None else check(subject):
            yield _finding(rule, problem, passing, remedies, locate)

    # Against a base the room rules say other things.
    kept = _NOTHING if context.room is None or against is not None else context.room.told
    together: set[Finding] = set()
    alone = {model.name: set(judged.get(model.name, ())) for model in desired.models}
    beside = {model.name: set(kept.get(model.name, ())) for model in desired.models}
    rest, rest_beside = context.without(judged), context.without(kept)
    for rule in RULES.values():
        together.update(told(rule, rule.across, context))
        if is_local(rule.slug):
            _sort_in(told(rule, rule.check, rest), alone, together)
        elif rule.slug in ROOM_RULES:
            _sort_in(told(rule, rule.check, rest_beside), beside, together)
        else:
            together.update(told(rule, rule.check, context))
    findings = sorted(together.union(*alone.values(), *beside.values()), key=sort_key)
    each_alone = {model: tuple(sorted(found, key=sort_key)) for model, found in alone.items()}
    if context.room is None:
        return Judgement(tuple(findings), each_alone)
    context.room.told = {} if against is not None else {model: tuple(found) for model, found in beside.items()}
    return Judgement(tuple(AmongOthers(context.room).told(findings)), each_alone, context.room)


def _context(
    desired: Desired, broken: frozenset[str], loaded: Iterable[Finding], against: Against | None, room: Room | None
) -> Context:
    refused = [each for each in loaded if each.severity is Severity.ERROR]
    return context_of(
        desired,
        broken,
        inventory_read=not any(_of_inventory(each) for each in refused),
        unreadable_locks=frozenset(each.model for each in refused if each.model and _folder(each) == "locks"),
        base=None if against is None else against.base,
        replaced=None if against is None else against.replaced,
        removal=None if against is None else against.removal,
        room=room,
    )


def _sort_in(found: Iterable[Finding], by_model: Mapping[str, set[Finding]], together: set[Finding]) -> None:
    """What a rule says of a node or of the fleet is asked every time, of as many models as there may be."""
    for finding in found:
        (together if finding.model is None else by_model[finding.model]).add(finding)


def is_local(slug: str) -> bool:
    """Whether a rule says of a model only what its own file and lock, cluster.yaml and nodes/ decide.

    Then it need not be asked again when another model changes. What it says across models is in `Rule.across`.
    """
    return slug in _LOCAL or slug.partition("/")[0] in _LOCAL_GROUPS


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


def _finding(rule: Rule, problem: Problem, passing: Passing, remedies: Remedies, locate: Locate) -> Finding:
    line, column = place(problem.where, locate) if problem.where else (None, None)
    hint = _hint(rule, problem, passing, remedies)
    return Finding(
        rule=rule.slug,
        severity=problem.severity or rule.severity,
        message=one_line(problem.message),
        hint=None if hint is None else one_line(hint),
        file=problem.where.file if problem.where else None,
        line=line,
        column=column,
        model=problem.model,
        profile=problem.profile,
        valid=_valid(problem, passing),
    )


def _hint(rule: Rule, problem: Problem, passing: Passing, remedies: Remedies) -> str | None:
    """The rule's own hint, else the changes that were found to pass, else why a count that splits is not named."""
    # A note asks for no change, so none is looked for.
    hint = problem.hint or (None if problem.severity is Severity.NOTE else remedies.words(rule, problem))
    profile = _profile_of_count(problem) if rule.slug.startswith("heads/") else None
    return hint or (passing.too_large(profile) if profile else None)


def _valid(problem: Problem, passing: Passing) -> tuple[int, ...] | None:
    profile = _profile_of_count(problem) if problem.valid is None else None
    return passing.counts(profile) if profile else problem.valid


def _profile_of_count(problem: Problem) -> Where | None:
    """The profile whose GPU count it is about; None where no count is meant."""
    where = problem.where
    return Where(where.file, where.path[:-1]) if where and where.path and where.path[-1] in _COUNT_FIELDS else None
