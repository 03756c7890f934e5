"""Scripts: a YAML file that tells one story, from a first commit to an end, and the transcript of what came of it.

Times are minutes:seconds. `nodes` and `models` are the first commit; an event is `at` and one verb of `VERBS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML

from reconciler.domain.intent import IntentKind
from reconciler.domain.model_spec import Engine
from reconciler.domain.observed import ForeignProcess, ReplicaState
from reconciler.fleet.simulated import Link
from reconciler.fleet.simulated_engine import Course, EngineProcess
from reconciler.fleet.simulated_replica import SimulatedReplica
from tests.builders import a_model, an_entry, uuid
from tests.scenarios.history import fleet_file, model_file, pool_file
from tests.scenarios.rehearsal import Rehearsal, opened
from tests.scenarios.transcript import ending, in_order
from tests.scenarios.words import rule, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

KEYS = frozenset(["story", "peers", "fleet", "nodes", "models", "engines", "events", "until", "restless"])


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
        self._tell(f"{slot}: its engine dies" + (f" on {event['on']}" if "on" in event else ""))
        words = event.get("words", "killed by signal 9")
        running = [each for each in self._running(slot) if self._is_on(each, event.get("on"))]
        for replica in running[: 1 if event.get("one_part") else None]:
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

    def ask(self, slot: str, event: Mapping[str, Any]) -> None:
        """Requests that end after `lasts`."""
        self._tell(f"somebody asks {slot} for {event['lasts']}")
        for replica in self._running(slot):
            assert replica.process is not None
            replica.process.busy_until = self.stage.nodes.now + seconds(event["lasts"])
        self._look()

    # People.

    def say(self, kind: str, event: Mapping[str, Any]) -> None:
        """What `reconciler retry m` and its like leave behind."""
        lasts, about = event.get("lasts"), event.get("model") or event.get("digest")
        self._tell(" ".join(["ada says:", kind, *([about] if about else []), *([f"for {lasts}"] if lasts else [])]))
        until = None if lasts is None else seconds(lasts)
        self.stage.say(IntentKind(kind), event.get("model"), digest=event.get("digest"), lasts=until)

    def take_back(self, kind: str, _event: Mapping[str, Any]) -> None:
        self._tell(f"ada takes back what she said: {kind}")
        self.stage.take_back(IntentKind(kind))

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

    def install(self, name: str, _event: Mapping[str, Any]) -> None:
        self._tell(f"every engine is installed on {name}")
        self.stage.nodes.by_name[name].install(tuple(Engine))
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

    def _is_on(self, replica: SimulatedReplica, node: str | None) -> bool:
        return node is None or self.stage.nodes.by_name[node].replicas.get(replica.id) is replica

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
