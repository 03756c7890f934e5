"""Plan files on disk: written whole and private, read with suspicion, each carried out once."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from reconciler import __version__
from reconciler.controller.saved import check_version, parsed, read_json, write_json
from reconciler.domain.base import canonical_json
from reconciler.domain.plan_file import KIND, PlanFile, checksum
from reconciler.durable import make_private_directory
from reconciler.errors import StalePlan, StateError, UsageError
from reconciler.planning.premises import premises

if TYPE_CHECKING:
    from pathlib import Path

    from reconciler.controller.aim import Aim
    from reconciler.domain.observed import Observation
    from reconciler.domain.plan import Plan

_USED = "plans"
"""Folder of the state directory with one file for each plan that was carried out, by its checksum."""


def write_plan(path: Path, aim: Aim, plan: Plan, observed: Observation, only: str | None, now: datetime) -> None:
    """Write a plan that `apply FILE` takes; UsageError for the work tree, whose plan cannot be applied."""
    if aim.sha is None or aim.tree_id is None:
        raise UsageError("a plan of the work tree cannot be applied, so it is not written", hint="commit it first")
    file = PlanFile(
        tool=__version__,
        fleet=aim.desired.fleet.name,
        commit=aim.sha,
        tree=aim.tree_id,
        only=only,
        created_at=now,
        plan=plan,
        premises=premises(plan, observed),
    )
    content = file.model_dump(mode="json")
    write_json(path, content | {"checksum": checksum(content)})


def read_plan(path: Path) -> tuple[PlanFile, str]:
    """The plan and its checksum; UsageError for a file that is none, or that this version or fleet cannot take."""
    content = read_json(path, "plan file")
    if content.get("kind") != KIND:
        raise UsageError(f"{path} is not a plan file", hint="reconciler plan --out FILE writes one")
    check_version(path, content)
    if content.get("checksum") != checksum(content):
        raise UsageError(f"{path} was changed or cut after it was written", hint=f"reconciler plan --out {path}")
    told = content.pop("checksum")
    return parsed(PlanFile, path, content), str(told)


def claim_use(state: Path, mark: str, commit: str) -> None:
    """Note that a plan is being carried out, before anything is sent; StalePlan when it was before.

    Made by one exclusive create, so that of two commands at once one is refused. A plan that ends half-way is used too:
    what is left of it is another plan.
    """
    path = _record(state, mark)
    at = datetime.now(UTC)  # noqa: TID251  # the shell reads the clock
    try:
        make_private_directory(path.parent)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(canonical_json({"commit": commit, "used_at": at.isoformat()}))
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise StalePlan(f"this plan was carried out already, {used_at(state, mark)}", hint="make another") from None
    except OSError as error:
        raise StateError(f"{path} cannot be written: {error.strerror}", hint="nothing has changed") from error


def used_at(state: Path, mark: str) -> str | None:
    """`on 2026-11-30 at 14:02`, when a plan was carried out; None when it was not."""
    try:
        changed = _record(state, mark).stat().st_mtime
    except FileNotFoundError:
        return None
    return f"{datetime.fromtimestamp(changed, UTC).astimezone():on %Y-%m-%d at %H:%M}"


def _record(state: Path, mark: str) -> Path:
    return state / _USED / f"{mark}.json"
