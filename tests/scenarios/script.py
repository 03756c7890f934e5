"""Scripts: a YAML file that tells one story, from a first commit to an end, and the transcript of what came of it.

Times are minutes:seconds. `nodes` and `models` are the first commit; an event is `at` and one verb of `VERBS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from math import inf
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML

from reconciler.domain.observed import ForeignProcess, ReplicaState
from reconciler.fleet.simulated import Link
from reconciler.fleet.simulated_engine import Course, EngineProcess
from reconciler.fleet.simulated_replica import SimulatedReplica
from reconciler.planning.status import status
from tests.builders import a_model, an_entry, uuid
from tests.scenarios.history import fleet_file, model_file, pool_file
from tests.scenarios.rehearsal import Rehearsal, Rule, opened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

KEYS = frozenset(["story", "peers", "fleet", "nodes", "models", "engines", "events", "until", "restless"])
COURSE = {
    "load": "load_seconds",
    "fails": "failure",
    "silent": "silent",
    "drain": "drain_seconds",
    "exit": "exit_seconds",
    "frees": "frees_seconds",
}


def seconds(text: str) -> float:
    """`1:40` is 100."""
    minutes, _, rest = str(text).rpartition(":")
    return int(minutes or 0) * 60 + int(rest)


@dataclass
class Script:
    """One story, being played."""

    told: dict[str, Any]
    stage: Rehearsal

    def begin(self) -> None:
        told, stage = self.told, self.stage
        self.fleet = dict(told.get("fleet") or {})
        self.nodes: dict[str, Any] = dict(told["nodes"])
        self.models: dict[str, dict[str, Any]] = {name: dict(each or {}) for name, each in told["models"].items()}
        for name, each in self.nodes.items():
            stage.add_node(name, each)
        stage.rules += [rule(each) for each in told.get("engines") or ()]
        self._commit("the first")

    def play(self, event: Mapping[str, Any]) -> None:
        verb = next(each for each in event if each != "at")
        VERBS[verb](self, event[verb], event)

    # Commits.

    def commit(self, subject: str, event: Mapping[str, Any]) -> None:
        for name, patch in (event.get("models") or {}).items():
            self.models[name] = self.models.get(name, {}) | (patch or {})
        for name in event.get("remove") or ():
            del self.models[name]
        for name, given in (event.get("nodes") or {}).items():
            if given is None and name in self.nodes:
                del self.nodes[name]
                continue
            if name not in self.stage.nodes.by_name:
                self.stage.add_node(name, given)
            self.nodes[name] = {**(self.nodes.get(name) or {}), **(given or {})}
        self.fleet |= event.get("fleet") or {}
        self._commit(subject, event.get("files"))

    def _commit(self, subject: str, files: Mapping[str, str] | None = None) -> None:
        history = self.stage.history
        history.files = {"cluster.yaml": fleet_file(**self.fleet), "nodes/pool.yaml": pool_file(self.nodes)}
        history.files |= {f"models/{name}.yaml": model_file(name, each) for name, each in self.models.items()}
        history.files |= files or {}
        self.stage.commit(subject)

    def push_over(self, number: int, _event: Mapping[str, Any]) -> None:
        self.stage.history.push_over(number)
        self.stage.write(f"HEAD is forced back to commit {number:07d}")
        self.stage.hint()

    def unreadable(self, why: str | None, _event: Mapping[str, Any]) -> None:
        self.stage.history.broken = why
        self.stage.write(f"git: {why or 'can be read again'}")
        self.stage.hint()

    # Engines.

    def engines(self, rules: Any, _event: Mapping[str, Any]) -> None:
        self.stage.rules += [rule(each) for each in rules]
        self.stage.write("from now on launches go otherwise")

    def kill(self, slot: str, event: Mapping[str, Any]) -> None:
        self._tell(f"{slot}: its engine dies")
        words = event.get("words", "killed by signal 9")
        for replica in self._running(slot)[: 1 if event.get("one_part") else None]:
            assert replica.process is not None
            replica.process.end(self.stage.nodes.now, words)
        self._look()

    def mute(self, slot: str, event: Mapping[str, Any]) -> None:
        self._tell(f"{slot} stops answering" if event["mute"] else "")
        for replica in self._running(slot):
            assert replica.process is not None
            replica.process.mute_since = self.stage.nodes.now
        self._look()

    def unmute(self, slot: str, _event: Mapping[str, Any]) -> None:
        self._tell(f"{slot} answers again")
        for replica in self._running(slot):
            assert replica.process is not None
            replica.process.mute_since = None
        self._look()

    # Nodes.

    def crash(self, name: str, _event: Mapping[str, Any]) -> None:
        self.stage.watch.lost(self.stage.nodes.now, name)
        self.stage.nodes.by_name[name].crash(self.stage.nodes.now)
        self._tell(f"{name} goes down{''.join(self.stage.watch.serving_text(model) for model in self.models)}")
        self._look()

    def boot(self, name: str, _event: Mapping[str, Any]) -> None:
        self._tell(f"{name} is back")
        self.stage.nodes.by_name[name].boot_again(self.stage.nodes.now)
        self._look()

    def kill_agent(self, name: str, _event: Mapping[str, Any]) -> None:
        self._tell(f"the agent of {name} is killed")
        self.stage.nodes.by_name[name].kill_agent()
        self._look()

    def start_agent(self, name: str, _event: Mapping[str, Any]) -> None:
        self._tell(f"the agent of {name} is started")
        self.stage.nodes.by_name[name].start_agent(self.stage.nodes.now)
        self._look()

    def lose_gpu(self, gpu: Any, _event: Mapping[str, Any]) -> None:
        self._tell(f"the driver of {gpu[0]} stops answering for GPU {gpu[1]}")
        self.stage.nodes.by_name[gpu[0]].lose_gpu(uuid(*gpu), self.stage.nodes.now)
        self._look()

    def find_gpu(self, gpu: Any, _event: Mapping[str, Any]) -> None:
        self._tell(f"the driver of {gpu[0]} answers for GPU {gpu[1]} again")
        self.stage.nodes.by_name[gpu[0]].find_gpu(uuid(*gpu))
        self._look()

    def foreign(self, gpu: Any, _event: Mapping[str, Any]) -> None:
        self._tell(f"somebody trains on GPU {gpu[1]} of {gpu[0]}")
        process = ForeignProcess(pid=4242, command="python train.py", gpus=(uuid(*gpu),))
        self.stage.nodes.by_name[gpu[0]].foreign.append(process)
        self._look()

    def theirs(self, name: str, event: Mapping[str, Any]) -> None:
        self._tell(f"another fleet serves from GPU {event['gpu']} of {name}")
        entry = an_entry(a_model("theirs"), 0, name, [event["gpu"]], fleet="another")
        now = self.stage.nodes.now
        replica = SimulatedReplica(
            entry, ReplicaState.READY, now, EngineProcess(999, Course(load_seconds=0.0), now), now
        )
        self.stage.nodes.by_name[name].replicas[entry.id] = replica
        self._look()

    def foreign_gone(self, name: str, _event: Mapping[str, Any]) -> None:
        self._tell(f"the training on {name} has ended")
        self.stage.nodes.by_name[name].foreign.clear()
        self._look()

    # The network.

    def cut(self, name: str, event: Mapping[str, Any]) -> None:
        self._link(name, Link.LOST, event, "no request reaches")

    def deaf(self, name: str, event: Mapping[str, Any]) -> None:
        self._link(name, Link.DEAF, event, "no answer comes from")

    def mend(self, name: str, event: Mapping[str, Any]) -> None:
        self._link(name, Link.UP, event, "the network is mended to")

    def late(self, name: str, event: Mapping[str, Any]) -> None:
        self._tell(f"the next request to change {name} will be {event['by']} s late")
        self.stage.reconcilers[event.get("of", "run")].fleet.late[name] = event["by"]

    def _link(self, name: str, link: Link, event: Mapping[str, Any], words: str) -> None:
        of = event.get("of", "run")
        self._tell(f"{words} {name}" + (f" (of {of})" if of != "run" else ""))
        self.stage.reconcilers[of].fleet.links[name] = link
        self.stage.nodes.wake()

    # Reconcilers.

    def kill_run(self, name: str, _event: Mapping[str, Any]) -> None:
        self._tell(f"{name} is killed")
        self.stage.crash(name)

    def end_run(self, name: str, _event: Mapping[str, Any]) -> None:
        self._tell(f"{name} is stopped")
        self.stage.reconcilers[name].scope.cancel()

    def start_run(self, name: str, _event: Mapping[str, Any]) -> None:
        self._tell(f"{name} is started")
        self.stage.start(name)

    def clock_jump(self, by: str, _event: Mapping[str, Any]) -> None:
        self._tell(f"the clock of run jumps by {by}")
        self.stage.clock_error += timedelta(seconds=seconds(by))

    # How it is done.

    def _tell(self, line: str) -> None:
        self.stage.write(f"* {line}")

    def _look(self) -> None:
        self.stage.nodes.advance(self.stage.nodes.now)
        self.stage.nodes.wake()

    def _running(self, slot: str) -> list[SimulatedReplica]:
        found = [
            replica
            for node in self.stage.nodes.by_name.values()
            for replica in node.replicas.values()
            if f"{replica.entry.model}/{replica.entry.ordinal}" == slot and replica.process is not None
        ]
        assert found, f"nothing runs as {slot}"
        return sorted(found, key=lambda each: each.state is not ReplicaState.READY)


VERBS: dict[str, Callable[[Script, Any, Mapping[str, Any]], None]] = {
    name: getattr(Script, name) for name in vars(Script) if not name.startswith("_") and name not in {"begin", "play"}
}


def rule(given: Mapping[str, Any]) -> Rule:
    """`{model: qwen, context: 8192, load: 90, fails: out of memory}`."""
    course = {field: given[word] for word, field in COURSE.items() if word in given}
    if course.get("load_seconds") == "never":
        course["load_seconds"] = inf
    which = {word: each for word, each in given.items() if word not in COURSE}
    return Rule(Course(**course), **which)


def read(path: Path) -> dict[str, Any]:
    """A script as written; every key is known, so that a typing mistake does not weaken it."""
    told: dict[str, Any] = YAML(typ="safe").load(path.read_text("utf-8"))
    assert told.keys() <= KEYS, f"no keys of a script: {told.keys() - KEYS}"
    return told


async def play(told: dict[str, Any], state: Path) -> list[str]:
    """The transcript of a script, after every promise has been held against it."""
    stage = Rehearsal(state)
    script = Script(told, stage)
    script.begin()
    async with opened(stage):
        stage.start()
        for event in told["events"]:
            await stage.until(seconds(event["at"]))
            script.play(event)
        await stage.until(seconds(told["until"]) - 60)
        sends = [(each.name, each.sends) for each in stage.reconcilers.values()]
        await stage.until(seconds(told["until"]))
        if not told.get("restless"):
            assert sends == [(each.name, each.sends) for each in stage.reconcilers.values()], "it is not silent"
        return [*in_order(stage.lines), *ending(stage)]


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
    for model in status(aim.desired, done.observed, done.decision, aim.sha).models:
        why = f"{model.state}: {model.reason}" if model.reason else model.state
        lines.append(f"  {model.name}: {stage.watch.serving(model.name)} of {model.desired} serve; {why}")
    return lines
