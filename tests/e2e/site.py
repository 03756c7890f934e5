"""A user's machine in a temporary directory: a git repository with `cluster/`, a state directory, the real command.

Nothing is faked: real git, the real `reconciler` process, its real agent, llama.cpp's own server with a tiny model.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psutil
from jsonschema import Draft202012Validator

from reconciler.views.schemas import schema
from tests.tiny_gguf import write_tiny_gguf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CLUSTER = "name: {fleet}\n"
POOL = """pool: here
memory_gib: 8
cpu_cores: 8
address: local
nodes: [this-machine]
"""
MODEL = """name: tiny
source: file:{weights}
context: {context}
unverified: true
scaling: {{min: {replicas}}}
profiles:
  - {{name: cpu, engine: llamacpp, memory_gib: 1, cpu_cores: 1}}
rollout: {{strategy: {strategy}, min_ready: 0s, withdraw_delay: {withdraw}, drain_timeout: 10s}}
"""

COMMAND_TIMEOUT = 90
_PAUSE = threading.Event()


def wait_until(fact: Callable[[], bool], within: float, what: str) -> None:
    """Poll until a fact about a real process holds; fail with its name after `within` seconds."""
    deadline = time.monotonic() + within
    while not fact():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within} s: {what}")
        _PAUSE.wait(0.05)


@dataclass
class Site:
    """One machine with one checkout."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)
    patience: float = COMMAND_TIMEOUT
    """Seconds that one command may take."""

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        keep = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "RECONCILER_"))}
        identity = {f"GIT_{who}_{what}": "tester" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        quiet = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
        places = {"RECONCILER_STATE_DIR": str(self.state), "RECONCILER_CACHE_DIR": str(self.root / "cache")}
        self.env = keep | identity | quiet | places
        self.git("init", "-q", "-b", "main")
        write_tiny_gguf(self.weights)
        self.write("cluster/cluster.yaml", CLUSTER.format(fleet="test"))
        self.write("cluster/nodes/here.yaml", POOL)

    @property
    def state(self) -> Path:
        return self.root / "state"

    @property
    def weights(self) -> Path:
        return self.root / "tiny.gguf"

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=self.root, env=self.env, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def read(self, name: str) -> str:
        return (self.root / name).read_text("utf-8")

    def model(
        self, *, context: int = 256, replicas: int = 1, strategy: str = "surge", withdraw: str = "0s", **fields: str
    ) -> None:
        """Write cluster/models/tiny.yaml; further fields are appended as YAML lines."""
        text = MODEL.format(
            weights=self.weights, context=context, replicas=replicas, strategy=strategy, withdraw=withdraw
        )
        self.write("cluster/models/tiny.yaml", text + "".join(f"{name}: {value}\n" for name, value in fields.items()))

    def commit(self, message: str = "change") -> str:
        self.git("add", "-A", "cluster")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "reconciler", *arguments],
            cwd=self.root,
            env=self.env | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )

    def run(self, *arguments: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments)
        try:
            out, err = process.communicate(timeout=self.patience)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"{arguments} hung\n{out}\n{err}") from None
        if code is not None and process.returncode != code:
            raise AssertionError(f"{arguments} gave {process.returncode}, not {code}\n{out}\n{err}")
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def apply(self, *, code: int = 0) -> str:
        return self.run("apply", "--auto-approve", code=code).stdout

    def plan(self) -> dict[str, Any]:
        return self.answer("plan")

    def status(self) -> dict[str, Any]:
        return self.answer("status")

    def answer(self, command: str, *words: str) -> dict[str, Any]:
        """What a command prints as JSON, which is as its published schema says."""
        answer: dict[str, Any] = json.loads(self.run(command, *words, "--format", "json").stdout)
        Draft202012Validator(schema(command)).validate(answer)
        return answer

    def replicas(self) -> list[dict[str, Any]]:
        """Every replica that `status` knows."""
        return [replica for model in self.status()["models"] for replica in model["replicas"]]

    def addresses(self) -> list[str]:
        return [each["address"] for each in self.replicas() if each["routable"]]

    def engines(self) -> list[psutil.Process]:
        """The engine processes of this machine, by their command line."""
        return [each for each in self.processes() if str(self.weights) in _words(each)]

    def processes(self) -> list[psutil.Process]:
        """Every process that this machine started: its path stands in their command line."""
        return [each for each in psutil.process_iter() if _lives(each) and str(self.root) in " ".join(_words(each))]

    def clear(self) -> list[str]:
        """Stop everything; what was left over although it should not have been."""
        self.run("agent", "stop", "--engines")
        left = self.processes()
        for each in left:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        return [" ".join(_words(each)) for each in left]


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return []


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def ask(address: str, timeout: float = 20) -> str:
    """One completion of a few tokens from an engine; its text."""
    body = json.dumps({"model": "tiny", "prompt": "hello", "max_tokens": 4}).encode()
    request = urllib.request.Request(f"{address}/v1/completions", body, {"content-type": "application/json"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=timeout) as answer:
        text: str = json.load(answer)["choices"][0]["text"]
        return text


@contextmanager
def interrupting(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """A process that is interrupted, and ended, when the block ends."""
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
