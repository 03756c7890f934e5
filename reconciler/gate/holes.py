"""Which published advisories the engine versions of a fleet have, and where to say it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.advisories import advisories, without
from reconciler.domain.desired import Where
from reconciler.domain.finding import Problem
from reconciler.gate.doors import flags_given, is_on
from reconciler.gate.phrases import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reconciler.domain.advisories import Advisory, Only
    from reconciler.domain.model_spec import Engine
    from reconciler.gate.doors import Path
    from reconciler.gate.subject import Context, Use

FLEET = "cluster.yaml"


def holes_of(context: Context, use: Use) -> Iterator[Problem]:
    """Those of the version that a profile names itself, and those that matter only for this profile."""
    profile = use.profile
    version = context.desired.version(profile) or context.knowledge.table(use).version
    found = advisories(profile.engine, version)
    always = [each for each in found if each.only is None]
    inherited = profile.version is None and context.desired.version(profile) is not None
    if always and not inherited:
        path: Path = ("version",) if profile.version is not None else ("engine",)
        yield use.problem(path, _message(profile.engine, version, always), _hint(profile.engine, always))
    for each in found:
        at = None if each.only is None else _applies(context, use, each.only)
        if at is not None:
            message = f"{profile.engine} {version} has {_named(each)}"
            yield use.problem(at, message, _hint(profile.engine, [each]))


def holes_of_fleet(context: Context) -> Iterator[Problem]:
    """Those of the versions that cluster.yaml names for all, once, however many profiles inherit them."""
    for engine, version in (context.desired.fleet.defaults.engine_versions or {}).items():
        found = [each for each in advisories(engine, version) if each.only is None]
        if found:
            where = Where(_fleet_file(context), ("defaults", "engine_versions", engine.value))
            yield Problem(where, _message(engine, version, found), _hint(engine, found))


def _applies(context: Context, use: Use, only: Only) -> Path | None:
    """Where the reason stands that an advisory matters for this profile; None where it does not."""
    at: Path = ("version",) if use.profile.version is not None else ("engine",)
    if only.task is not None and use.model.task is not only.task:
        return None
    if only.nodes and use.profile.nodes == 1:
        return None
    if only.config is not None:
        found = context.knowledge.locked(use.model, use.profile)
        if found is not None and found.config is not None and only.config not in found.config:
            return None
    if only.env is not None:
        value = (use.profile.env or {}).get(only.env)
        if value is None or (isinstance(value, str) and not is_on(value, None)):
            return None
        at = ("env", only.env)
    if only.flag is not None:
        given = next((path for path, name, value in flags_given(context, use) if _is(only.flag, name, value)), None)
        if given is None:
            return None
        at = given
    return at


def _is(flag: str, name: str, value: object) -> bool:
    return name == flag and is_on(value, None)


def _message(engine: Engine, version: str, found: Sequence[Advisory]) -> str:
    """`vllm 0.13.0 has 24 published advisories: CVE-… (critical: …), CVE-… and 22 more`."""
    first, rest = found[0], [each.id for each in found[1:]]
    if not rest:
        return f"{engine} {version} has {_named(first)}"
    return f"{engine} {version} has {len(found)} published advisories: {_named(first)}; {listed(rest)}"


def _named(advisory: Advisory) -> str:
    return f"{advisory.id} ({advisory.gravity}: {advisory.says})"


def _hint(engine: Engine, found: Sequence[Advisory]) -> str:
    fixed, where = without(tuple(found)), found[0].source
    if fixed is not None:
        return f"write {fixed} or newer, which has none of these; {where}"
    last = [each.last for each in found if each.fixed is None and each.last is not None]
    if last:
        return f"take a version of {engine} after {last[0]}, if it says that it is mended; {where}"
    return f"no version without it is published; keep the engine from being reached; {where}"


def _fleet_file(context: Context) -> str:
    """Its name as files of this tree are named."""
    for where in context.desired.where_by_model.values():
        return f"{where.file.rpartition('models/')[0]}{FLEET}"
    for node in context.desired.nodes:
        return f"{node.where.file.rpartition('nodes/')[0]}{FLEET}"
    return FLEET
