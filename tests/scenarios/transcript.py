"""How a transcript ends, and in which order it tells what happened at one instant."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from reconciler.controller.standing import read_standing
from reconciler.planning.status import status
from tests.scenarios.cast import intent_words

if TYPE_CHECKING:
    from tests.scenarios.rehearsal import Rehearsal


def in_order(lines: list[str]) -> list[str]:
    """What others than `run` say at an instant comes last there: which of two is woken first is nobody's promise."""
    told: list[str] = []
    for _, each in groupby(lines, key=lambda line: line.split()[0]):
        told += sorted(each, key=lambda line: line.split()[2] == "says:" and line.split()[1] != "run")
    return told


def ending(stage: Rehearsal) -> list[str]:
    """What a person would be told at the end."""
    working = [each for each in stage.reconcilers.values() if each.last is not None and not each.fleet.is_cut]
    if not working:
        return ["", "at the end no reconciler runs"]
    (run, *_) = working
    done, aim = run.last, run.commits.aim
    assert done is not None
    assert aim is not None
    due = any(each.changes_something for each in done.decision.orders.values())
    lines = ["", "at the end" + (", with something left to do:" if due else ", and planning again changes nothing:")]
    intents = read_standing(stage.state / run.name).intents
    seen = status(aim.desired, done.observed, done.decision, aim.sha, intents=intents, now=stage.wall_clock())
    for model in seen.models:
        why = f"{model.state}: {model.reason}" if model.reason else model.state
        lines.append(f"  {model.name}: {stage.watch.serving(model.name)} of {model.desired} serve; {why}")
    lines += [f"  what ada said still stands: {intent_words(each)}" for each in seen.intents]
    return lines
