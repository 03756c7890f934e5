"""A tree → everything it asks for, or every finding about it.

Each file of the tree ends as an object or as a finding, and a tree with an error gives no `Desired` at all (promise 1):
a file that could not be read must never look like a file that is gone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, TypeVar, assert_never

from pydantic import BaseModel

from reconciler.domain.consistency import (
    fleet_inconsistencies,
    model_inconsistencies,
    node_inconsistencies,
    pool_inconsistencies,
)
from reconciler.domain.desired import Desired, Where
from reconciler.domain.finding import Severity
from reconciler.domain.fleet_spec import FleetSpec, PoolSpec
from reconciler.domain.model_spec import ModelSpec
from reconciler.sources.fault import Fault, YamlRule
from reconciler.sources.layout import FLEET_FILE, FLEET_STEM, Role, role_of, stem_of
from reconciler.sources.loaded import Loaded, Texts
from reconciler.sources.pools import nodes_of
from reconciler.sources.readings import Readings
from reconciler.sources.report import Report
from reconciler.sources.tree import FILES_LIMIT, TOTAL_LIMIT_BYTES, printable

if TYPE_CHECKING:
    from reconciler.domain.desired import Node
    from reconciler.domain.lock import Lock
    from reconciler.sources.reading import Reading
    from reconciler.sources.tree import Tree, TreeFile

Spec = TypeVar("Spec", bound=BaseModel)

# Ten times the largest fleet that the design plans for: a bound on what ranges in a few files can make of memory.
NODES_LIMIT = 100_000

UNNAMED = "unnamed"
"""Stands in for the fleet's name where cluster.yaml is missing or broken; never in a complete desired side."""


def load(tree: Tree, readings: Readings | None = None) -> Loaded:
    """Read every file of a tree and put together what they say. Never raises on what is in the files.

    `readings` saves reading again what was read before.
    """
    cluster = _Cluster(tree, readings or Readings())
    if not _too_large(cluster):
        for file in tree.files:
            _take(cluster, file)
        _check_fleet(cluster)
        _check_models(cluster)
        _check_nodes(cluster)
    return _finish(cluster)


@dataclass(frozen=True, slots=True)
class _Declared(Generic[Spec]):
    """One object and the file it stands in."""

    spec: Spec
    file: str


@dataclass(slots=True)
class _Cluster:
    """What has been read so far."""

    tree: Tree
    readings: Readings
    report: Report = field(default_factory=Report)
    fleet: _Declared[FleetSpec] | None = None
    fleet_is_told: bool = False
    """A finding about the fleet's file exists, so that it is not also called missing."""
    models: dict[str, _Declared[ModelSpec]] = field(default_factory=dict)
    pools: dict[str, _Declared[PoolSpec]] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    locks: dict[str, Lock] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    remainders: dict[str, _Declared[ModelSpec]] = field(default_factory=dict)
    """What is left of broken models, for the rules only."""


def _too_large(cluster: _Cluster) -> bool:
    """Whether there is more than is read; then nothing of it is."""
    tree = cluster.tree
    total = sum(file.size for file in tree.files)
    if len(tree.files) > FILES_LIMIT:
        message = f"there are more than {FILES_LIMIT:,} files"
    elif total > TOTAL_LIMIT_BYTES:
        message = f"the files have {total / 2**20:,.0f} MiB; at most {TOTAL_LIMIT_BYTES // 2**20} MiB are read"
    else:
        return False
    hint = "keep only the fleet's files in the cluster directory"
    cluster.report.add(tree.shown("") or ".", Fault(YamlRule.TOO_LARGE, message, hint))
    cluster.broken |= {stem_of(file.path) for file in tree.files if role_of(file) is Role.MODEL}
    return True


def _take(cluster: _Cluster, file: TreeFile) -> None:
    """Read one file as what its place says it is."""
    shown = cluster.tree.shown(file.path)
    role = role_of(file)
    match role:
        case Fault():
            _refuse(cluster, file, shown, role)
        case Role.FLEET:
            cluster.fleet_is_told = True
            fleet = _read(cluster, FleetSpec, file, shown).spec
            cluster.fleet = None if fleet is None else _Declared(fleet, shown)
        case Role.POOL:
            _take_pool(cluster, file, shown)
        case Role.MODEL:
            _take_model(cluster, file, shown)
        case Role.LOCK:
            _take_lock(cluster, file, shown)
        case _ as never:
            assert_never(never)


def _refuse(cluster: _Cluster, file: TreeFile, shown: str, fault: Fault) -> None:
    """Say why a file is not read; an error where models stand may be about a model."""
    model = None
    if fault.severity is Severity.ERROR:
        cluster.fleet_is_told |= "/" not in file.path and stem_of(file.path).lower() == FLEET_STEM
        if file.path.startswith("models/"):
            model = printable(stem_of(file.path))
            cluster.broken.add(model)
    cluster.report.add(shown, fault, model)


def _read(
    cluster: _Cluster, spec: type[Spec], file: TreeFile, shown: str, name_field: str | None = None
) -> Reading[Spec]:
    """One YAML file; its faults are about the model that `name_field` names, where models stand."""
    reading = cluster.readings.yaml(spec, file.data)
    cluster.report.documents[shown] = reading.document
    model = None
    if name_field is not None and reading.faults:
        model = cluster.report.text_at(shown, (name_field,)) or stem_of(file.path)
    for fault in reading.faults:
        cluster.report.add(shown, fault, model)
    return reading


def _take_model(cluster: _Cluster, file: TreeFile, shown: str) -> None:
    stem = stem_of(file.path)
    reading = _read(cluster, ModelSpec, file, shown, "name")
    model, rest = reading.spec, reading.remainder
    if model is None:
        cluster.broken.add(stem)
        if rest is not None and rest.name == stem and (rest.source or rest.external):
            cluster.remainders[stem] = _Declared(rest, shown)
        return
    if model.name != stem:
        _mismatch(cluster, shown, ("name",), model.name, stem, model.name)
    first = cluster.models.setdefault(model.name, _Declared(model, shown))
    if first.spec is not model:
        _namesake(cluster, shown, ("name",), f"model {model.name}", first.file, model.name)


def _take_pool(cluster: _Cluster, file: TreeFile, shown: str) -> None:
    pool = _read(cluster, PoolSpec, file, shown).spec
    if pool is None:
        return
    if pool.pool != stem_of(file.path):
        _mismatch(cluster, shown, ("pool",), pool.pool, stem_of(file.path))
    first = cluster.pools.setdefault(pool.pool, _Declared(pool, shown))
    if first.spec is not pool:
        _namesake(cluster, shown, ("pool",), f"pool {pool.pool}", first.file)
    cluster.report.add_problems(shown, pool_inconsistencies(pool))
    document, limit = cluster.report.documents[shown], NODES_LIMIT - len(cluster.nodes)
    nodes, faults = cluster.readings.follows(
        ("nodes", file.data, shown, limit), lambda: nodes_of(pool, shown, document, limit)
    )
    cluster.nodes += nodes
    for fault in faults:
        cluster.report.add(shown, fault)


def _take_lock(cluster: _Cluster, file: TreeFile, shown: str) -> None:
    """A lock without a model is no mistake: the model may come later, or have gone before."""
    model = stem_of(file.path)
    reading = cluster.readings.lock(file.data)
    for fault in reading.faults:
        cluster.report.add(shown, fault, model)
    if reading.spec is not None:
        cluster.locks[model] = reading.spec


def _mismatch(cluster: _Cluster, shown: str, path: tuple[str], name: str, stem: str, model: str | None = None) -> None:
    message = f"{path[0]} is {name}, but the file is called {stem}.yaml"
    fault = Fault(YamlRule.NAME_MISMATCH, message, f"rename the file to {name}.yaml, or write {path[0]}: {stem}")
    line, column = cluster.report.place(shown, path)
    cluster.report.add(shown, replace(fault, line=line, column=column, path=path), model)


def _namesake(cluster: _Cluster, shown: str, path: tuple[str], what: str, first: str, model: str | None = None) -> None:
    message = f"{what} is declared twice; first in {cluster.report.named(first, path)}"
    place = cluster.report.place(shown, path)
    cluster.report.add(shown, Fault(YamlRule.DUPLICATE_NAME, message, "remove or rename one", *place, path), model)


def _check_fleet(cluster: _Cluster) -> None:
    if cluster.fleet is not None:
        cluster.report.add_problems(cluster.fleet.file, fleet_inconsistencies(cluster.fleet.spec))
    elif not cluster.fleet_is_told:
        message = f"{FLEET_FILE} is missing: it names the fleet"
        fault = Fault(YamlRule.NOT_A_FILE, message, "write it with at least name: FLEET")
        cluster.report.add(cluster.tree.shown(FLEET_FILE), fault)


def _check_models(cluster: _Cluster) -> None:
    rollout = None if cluster.fleet is None else cluster.fleet.spec.defaults.rollout
    for name, declared in list(cluster.models.items()):
        model = declared.spec
        cluster.report.add_problems(declared.file, model_inconsistencies(model, rollout), name)
        if model.source is None and model.external is None:
            del cluster.models[name]
            cluster.broken.add(name)


def _check_nodes(cluster: _Cluster) -> None:
    for each in node_inconsistencies(cluster.nodes):
        file = each.node.where.file
        problem = each.problem
        if each.other is not None:
            other = each.other.where
            message = f"{problem.message}; first in {cluster.report.named(other.file, other.path)}"
            problem = replace(problem, message=message)
        # What a node has from its pool is written at the top of the pool's file.
        document = cluster.report.documents[file]
        of_pool = problem.path[-1:]
        if document.find(problem.path)[1] and not document.find(of_pool)[1]:
            problem = replace(problem, path=of_pool)
        cluster.report.add_problems(file, [problem])


def _finish(cluster: _Cluster) -> Loaded:
    report = cluster.report
    node_by_name = {node.name: node for node in reversed(cluster.nodes)}
    models = cluster.remainders | cluster.models
    names = sorted(models)
    partial = Desired(
        fleet=FleetSpec(name=UNNAMED) if cluster.fleet is None else cluster.fleet.spec,
        nodes=tuple(node_by_name[name] for name in sorted(node_by_name)),
        models=tuple(models[name].spec for name in names),
        locks=dict(sorted(cluster.locks.items())),
        where_by_model={name: Where(models[name].file) for name in names},
    )
    return Loaded(
        desired=None if report.has_error else partial,
        partial=partial,
        findings=report.findings,
        broken=frozenset(cluster.broken - set(models)),
        locate=report.locate,
        texts=Texts(report.documents),
    )
