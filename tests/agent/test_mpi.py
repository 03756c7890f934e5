"""The two programs that bring TensorRT-LLM's ranks to their nodes: what is offered, what is taken, who is refused.

Real processes on loopback, and a shell script in the place of Open MPI's daemon; with the real Open MPI:
`tests/e2e/test_mpi_nodes.py`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from reconciler.agent.mpi_protocol import Broken, Offer, offer, receive, send
from tests.e2e.site import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

pytestmark = pytest.mark.timeout(60)

IN_4 = "  PATH=/usr/bin:$PATH ; export PATH ; LD_LIBRARY_PATH=/usr/lib:${LD_LIBRARY_PATH:-} ;   /usr/bin/orted"
OF_4 = (
    IN_4,
    *("-mca", "ess", '"env"', "-mca", "ess_base_vpid", "1"),
    *("-mca", "orte_hnp_uri", '"2418.0;tcp://192.0.2.2:41443;tcp6://[fd00::2]:43995"'),
)
IN_5 = "PRTE_PREFIX=/opt/mpi;export PRTE_PREFIX;LD_LIBRARY_PATH=/opt/mpi/lib:$LD_LIBRARY_PATH;/opt/mpi/bin/prted"
OF_5 = (
    IN_5,
    *("--leave-session-attached", "--prtemca", "prte_hnp_uri", '"prterun-a-1@0.0;tcp://192.0.2.2:40363:64,24"'),
)
"""Words after the host in what `mpirun` has ssh run, as 4.1.4 and 5.0.11 pass them (shortened)."""

DAEMON = """#!/bin/sh
printf '%s\\n' "$@" > "$HERE/words"
trap 'echo ended > "$HERE/ended"; exit 3' TERM
while [ ! -e "$HERE/done" ]; do sleep 0.05; done
exit 7
"""
ANSWER_SECONDS = 20
NODE = (sys.executable, "-m", "reconciler.agent.mpi_node")


def soon() -> float:
    """By when an answer is there."""
    return time.monotonic() + ANSWER_SECONDS


class Waiting:
    """A part that waits on loopback, as the agent of a further node starts it."""

    def __init__(self, root: Path, leader: str = "127.0.0.1", **env: str) -> None:
        self.root = root
        programs = root / "bin"
        programs.mkdir(exist_ok=True)
        (programs / "orted").write_text(DAEMON, encoding="utf-8")
        (programs / "orted").chmod(0o755)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.env = {"PATH": f"{programs}:/usr/bin:/bin", "HERE": str(root), "PYTHONPATH": os.pathsep.join(sys.path)}
        self.env |= env
        self.log = root / "log"
        self.leader = leader

    def begin(self) -> None:
        where = ["--listen", "127.0.0.1", "--door", str(self.port), "--leader", self.leader]
        words = [*where, "--weights", "/weights/m", "--", "trtllm-serve", "serve", "/weights/m"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([*NODE, *words], env=self.env, stderr=log)
        self.says("waiting for")

    def says(self, text: str) -> None:
        wait_until(lambda: text in self.log.read_text("utf-8"), ANSWER_SECONDS, f"the log says {text!r}")

    @contextmanager
    def asked(self) -> Iterator[tuple[socket.socket, str]]:
        """A connection to it and the number that it begins with."""
        with socket.create_connection(("127.0.0.1", self.port), ANSWER_SECONDS) as connection:
            yield connection, str(receive(connection, soon())["nonce"])

    def answer(self, said: Mapping[str, object]) -> object:
        """Why it refuses this offer; None where it takes it."""
        with self.asked() as (connection, _):
            send(connection, said)
            return receive(connection, soon())["refused"]

    def connect(self, *words: str, part: str = "part-1", **env: str) -> subprocess.Popen[str]:
        """`mpirun`'s side, as the first node has it."""
        told = {"leader": "127.0.0.1", "weights": "/weights/m", "parts": {part: ["127.0.0.1", self.port]}}
        return subprocess.Popen(
            [sys.executable, "-m", "reconciler.agent.mpi_connect", part, *(words or OF_4)],
            env=self.env | {"RECONCILER_MPI": json.dumps(told)} | env,
            stderr=subprocess.PIPE,
            text=True,
        )

    def clear(self) -> None:
        (self.root / "done").touch()
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(ANSWER_SECONDS)


@pytest.fixture
def part(tmp_path: Path) -> Iterator[Waiting]:
    made = Waiting(tmp_path)
    made.begin()
    yield made
    made.clear()


@pytest.mark.parametrize(("words", "daemon", "told"), [(OF_4, "orted", OF_4[3]), (OF_5, "prted", OF_5[2])])
def test_the_daemon_is_found_in_what_mpirun_would_have_a_shell_run(
    words: tuple[str, ...], daemon: str, told: str
) -> None:
    found = offer("/weights/m", words)
    assert found.daemon == daemon
    assert not any("PATH" in word or '"' in word for word in found.arguments), "no variable, no quotes for a shell"
    assert [word for word in found.arguments if "tcp://" in word] == [words[-1].strip('"')]
    assert told.strip('"') in found.arguments


@pytest.mark.parametrize("words", [(), ("sh", "-c", "true"), ("orted-like", "x"), ('"never closed',)])
def test_anything_else_is_no_daemon(words: tuple[str, ...]) -> None:
    with pytest.raises(Broken):
        offer("/weights/m", words)


def test_the_daemon_runs_as_a_child_and_its_end_is_the_end_of_both_sides(part: Waiting) -> None:
    first = part.connect()
    part.says("runs orted")
    wait_until((part.root / "words").exists, ANSWER_SECONDS, "the daemon runs")
    assert (part.root / "words").read_text("utf-8").split() == list(offer("", OF_4).arguments)
    assert first.poll() is None, "mpirun takes an early end for a failure"
    (part.root / "done").touch()
    assert part.process.wait(ANSWER_SECONDS) == 7
    assert first.wait(ANSWER_SECONDS) == 0
    first.communicate()


def test_a_signal_reaches_the_daemon_first(part: Waiting) -> None:
    first = part.connect()
    wait_until((part.root / "words").exists, ANSWER_SECONDS, "the daemon runs")
    part.process.send_signal(signal.SIGTERM)
    assert part.process.wait(ANSWER_SECONDS) == 3
    assert (part.root / "ended").exists()
    first.communicate(timeout=ANSWER_SECONDS)


def test_without_the_first_node_the_daemon_is_ended(part: Waiting) -> None:
    """It ends by itself as a rule; this one would not."""
    first = part.connect()
    wait_until((part.root / "words").exists, ANSWER_SECONDS, "the daemon runs")
    first.kill()
    first.communicate()
    part.says("the first node has hung up")
    assert part.process.wait(ANSWER_SECONDS) == 3, "after ten seconds it was told to"


REFUSED = {
    "other weights": ({"weights": "/other", "daemon": "orted", "arguments": []}, "one path on all nodes is needed"),
    "another program": (
        {"weights": "/weights/m", "daemon": "/bin/sh", "arguments": ["-c", "x"]},
        "only orted or prted",
    ),
    "another MPI": ({"weights": "/weights/m", "daemon": "prted", "arguments": []}, "different versions of Open MPI"),
    "signed": (
        {"weights": "/weights/m", "daemon": "orted", "arguments": [], "signature": "ab"},
        "this node has no TRTLLM_MPI_KEY",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_told_to_both_sides_and_the_wait_goes_on(part: Waiting, case: str) -> None:
    said, reason = REFUSED[case]
    assert reason in str(part.answer(said))
    part.says(reason)
    assert part.answer({"weights": "/weights/m", "daemon": "orted", "arguments": []}) is None


@pytest.mark.parametrize("line", [b"", b"\n", b"[]\n", b'{"weights": 1}\n', b"\xff\n", b"[" * 100_000 + b"\n"])
def test_nonsense_is_one_line_in_the_log_and_the_wait_goes_on(part: Waiting, line: bytes) -> None:
    with part.asked() as (connection, _):
        connection.sendall(line)
        connection.shutdown(socket.SHUT_WR)
    part.says("connected and offered nothing")
    assert part.answer({"weights": "/weights/m", "daemon": "orted", "arguments": []}) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("arguments", ["a\0b"]),
        ("arguments", ["\ud800"]),
        ("arguments", ["x" * 200_000]),
        ("weights", "/x\nreconciler: error: GPU 0 is on fire"),
        ("weights", "/x\x1b[2J"),
    ],
)
def test_words_that_are_none_are_nonsense_too(part: Waiting, key: str, value: object) -> None:
    plain = {"weights": "/weights/m", "daemon": "orted", "arguments": []}
    with part.asked() as (connection, _):
        send(connection, plain | {key: value})
        with pytest.raises(Broken):
            receive(connection, soon())
    part.says("offered nothing: its daemon's words are no words")
    assert "on fire" not in part.log.read_text("utf-8")
    assert part.answer(plain) is None


def test_a_signature_that_is_no_text_is_a_wrong_one(tmp_path: Path) -> None:
    part = Waiting(tmp_path, TRTLLM_MPI_KEY="k")
    part.begin()
    said = {"weights": "/weights/m", "daemon": "orted", "arguments": []}
    assert "not signed" in str(part.answer(said | {"signature": "\ud800"}))
    assert "not signed" in str(part.answer(said | {"signature": 1}))
    part.clear()


def test_one_that_connects_and_says_nothing_holds_up_nobody(part: Waiting) -> None:
    with part.asked(), part.asked():
        first = part.connect()
        part.says("runs orted")
    (part.root / "done").touch()
    assert first.wait(ANSWER_SECONDS) == 0
    first.communicate()


def test_of_two_offers_one_is_taken(part: Waiting) -> None:
    plain = Offer("/weights/m", "orted", ())
    with part.asked() as (one, _), part.asked() as (other, _):
        send(one, plain.line("", None))
        assert receive(one, soon())["refused"] is None
        send(other, plain.line("", None))
        assert receive(other, soon())["refused"] == "another offer was taken meanwhile"
        part.says("runs orted")


def test_only_the_leader_is_heard(tmp_path: Path) -> None:
    part = Waiting(tmp_path, leader="127.0.0.9")
    part.begin()
    with socket.create_connection(("127.0.0.1", part.port), ANSWER_SECONDS) as stranger:
        assert stranger.recv(1) == b"", "not even a number"
    part.says("only 127.0.0.9 leads this replica")
    with socket.create_connection(
        ("127.0.0.1", part.port), ANSWER_SECONDS, source_address=("127.0.0.9", 0)
    ) as connection:
        assert "nonce" in receive(connection, soon())
    part.clear()


def test_with_a_key_only_a_signed_offer_is_taken(tmp_path: Path) -> None:
    part = Waiting(tmp_path, TRTLLM_MPI_KEY="k")
    part.begin()
    plain = Offer("/weights/m", "orted", ())
    assert "not signed" in str(part.answer(plain.line("", None)))
    assert "not signed" in str(part.answer(plain.line("of another day", "k"))), "what was heard once is worth nothing"
    wrong = part.connect(TRTLLM_MPI_KEY="other")
    _, said = wrong.communicate(timeout=ANSWER_SECONDS)
    assert wrong.returncode == 1
    assert f"the part on 127.0.0.1 port {part.port} cannot join: it is not signed with this node's" in said
    right = part.connect(TRTLLM_MPI_KEY="k")
    part.says("runs orted")
    part.clear()
    right.communicate(timeout=ANSWER_SECONDS)


def test_a_part_that_does_not_wait_yet_is_waited_for(tmp_path: Path) -> None:
    """Agents of two nodes launch their parts when they hear of them, in any order."""
    part = Waiting(tmp_path)
    early = part.connect()
    part.begin()
    part.says("runs orted")
    part.clear()
    assert early.wait(ANSWER_SECONDS) == 0
    early.communicate()


def test_a_node_without_open_mpi_says_so_at_once(tmp_path: Path) -> None:
    done = subprocess.run(
        [*NODE, "--listen", "127.0.0.1", "--door", "1", "--leader", "127.0.0.1", "--weights", "/w"],
        env={"PATH": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == (
        "reconciler: error: Open MPI is not on this node: no orted or prted on PATH; install it (openmpi-bin)\n"
    )
