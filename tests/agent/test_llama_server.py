"""llama.cpp's server out of the wheel: its command line, and what it does when it is told to stop."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import xllamacpp

from reconciler.agent.llama_arguments import Refused, parse
from reconciler.agent.llama_flags import FLAGS
from reconciler.engines.llamacpp_log import read_failure
from tests.agent.engine_process import LLAMA_SERVER, LONG, ROOT, WHEEL, Answering, free_port, serving, wait_until
from tests.tiny_gguf import write_tiny_gguf

if TYPE_CHECKING:
    from pathlib import Path

MODEL = ("-m", "model.gguf")


def read(params: Any, path: str) -> Any:
    for name in path.split("."):
        params = getattr(params, name)
    return params


@pytest.mark.parametrize(
    ("words", "path", "value"),
    [
        (("--ctx-size", "4096"), "n_ctx", 4096),
        (("-c", "512"), "n_ctx", 512),
        (("--ctx_size", "4096"), "n_ctx", 4096),  # _ counts as -
        (("-c", "512", "-c", "1024"), "n_ctx", 1024),  # the last wins
        (("-c", "512 tokens"), "n_ctx", 512),  # std::stoi
        (("--parallel", "3"), "n_parallel", 3),
        (("--parallel", "3"), "kv_unified", False),
        ((), "n_parallel", 4),  # llama-server's own choice
        ((), "kv_unified", True),
        ((), "port", 8080),
        (("--port", "1234"), "port", 1234),
        (("--host", "127.0.0.1, ::1"), "hostnames", ["127.0.0.1", "::1"]),
        (("--alias", "a, b"), "model_alias", {"a", "b"}),
        (("--alias", "a", "--alias", "b"), "model_alias", {"a", "b"}),
        (("--fit", "off"), "fit_params", False),
        (("--cache-ram", "0"), "cache_ram_mib", 0),
        (("--threads", "3"), "cpuparams.n_threads", 3),
        (("--threads", "3"), "cpuparams_batch.n_threads", 3),
        (("--threads", "3", "--threads-batch", "5"), "cpuparams_batch.n_threads", 5),
        (("--device", "none"), "n_gpu_layers", 0),
        (("--gpu-layers", "all"), "n_gpu_layers", -2),
        (("-ngl", "7"), "n_gpu_layers", 7),
        (("--split-mode", "layer"), "split_mode", xllamacpp.llama_split_mode.LLAMA_SPLIT_MODE_LAYER),
        (("--cache-type-k", "q8_0"), "cache_type_k", xllamacpp.ggml_type.GGML_TYPE_Q8_0),
        (("--cache-type-v", "iq4_nl"), "cache_type_v", xllamacpp.ggml_type.GGML_TYPE_IQ4_NL),
        (("-fa", "on"), "flash_attn_type", xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED),
        (("--embeddings",), "embedding", True),
        (("--embeddings",), "n_batch", 512),  # a whole input in one batch
        (("--embeddings", "-b", "1024", "-ub", "1024"), "n_batch", 1024),
        (("--reranking",), "pooling_type", xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_RANK),
        (("--pooling", "mean"), "pooling_type", xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN),
        (("--mmproj", "a.gguf"), "mmproj.path", "a.gguf"),
        (("--no-webui",), "ui", False),
        (("--no-slots",), "endpoint_slots", False),
        (("--offline",), "offline", True),
        (("--api-key", "a,b"), "api_keys", ["a", "b"]),
        (("--seed", "7"), "sampling.seed", 7),
        (("-to", "9"), "timeout_write", 9),
    ],
)
def test_flags_set_what_llama_server_sets(words: tuple[str, ...], path: str, value: object) -> None:
    assert read(parse((*MODEL, *words)), path) == value


def test_shares_of_gpus_are_padded_with_zeros() -> None:
    split = parse((*MODEL, "--tensor-split", "3,1")).tensor_split
    assert (split[:3], len(split)) == ([3.0, 1.0, 0.0], 128)


@pytest.mark.parametrize(
    ("words", "adapters"),
    [
        (("--lora", "a.gguf,b.gguf"), [("a.gguf", 1.0), ("b.gguf", 1.0)]),
        (("--lora", '"a,b.gguf"'), [("a,b.gguf", 1.0)]),
        (("--lora", '"a""b.gguf"'), [('a"b.gguf', 1.0)]),
        (("--lora-scaled", "a.gguf:0.5,b.gguf:2"), [("a.gguf", 0.5), ("b.gguf", 2.0)]),
        (("--lora", "a.gguf", "--lora-scaled", "b.gguf:2"), [("a.gguf", 1.0), ("b.gguf", 2.0)]),
    ],
)
def test_adapters_add_up(words: tuple[str, ...], adapters: list[tuple[str, float]]) -> None:
    assert [(each.path, each.scale) for each in parse((*MODEL, *words)).lora_adapters] == adapters


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--no-such-flag",), "error: invalid argument: --no-such-flag"),
        (("--ctx-size=512",), "error: invalid argument: --ctx-size=512"),
        (("--ctx",), "error: invalid argument: --ctx"),
        (("model.gguf",), "error: invalid argument: model.gguf"),
        (("--port",), 'error while handling argument "--port": expected value for argument'),
        (("--port", "http"), 'error while handling argument "--port": stoi'),
        (("--parallel", "0"), 'error while handling argument "--parallel": error: invalid value for n_parallel'),
        (("--device", "CUDA0"), 'error while handling argument "--device": invalid device: CUDA0'),
        (("--lora-scaled", "a.gguf"), 'error while handling argument "--lora-scaled": lora-scaled format: FNAME:SCALE'),
        (("--host", ","), 'error while handling argument "--host": --host requires at least one address'),
    ],
)
def test_refusals_are_worded_as_llama_server_words_them(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(Refused) as refused:
        parse((*MODEL, *words))
    assert str(refused.value).splitlines()[0] == said


def test_a_command_line_without_model_is_refused() -> None:
    with pytest.raises(Refused, match="--model is required"):
        parse(("--port", "1234"))


@pytest.mark.skipif(LLAMA_SERVER is None, reason="no llama-server on PATH to compare with")
def test_every_flag_is_one_of_llama_servers() -> None:
    assert LLAMA_SERVER is not None
    told = subprocess.run([LLAMA_SERVER, "--help"], capture_output=True, text=True, check=True)
    theirs = set(re.findall(r"(?<![\w-])-{1,2}[A-Za-z][\w-]*", told.stdout))
    assert {name for flag in FLAGS for name in flag.names} <= theirs


def run(*words: str) -> tuple[int, str]:
    """Run the server on a command line that it must refuse; exit status and output."""
    line = [*WHEEL, "--host", "127.0.0.1", "--port", str(free_port()), "--ctx-size", "256", "--parallel", "1", *words]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stderr


def test_missing_weights_end_it_with_the_reason(tmp_path: Path) -> None:
    status, log = run("--model", str(tmp_path / "none.gguf"))
    assert (status, read_failure(log)) == (
        1,
        f"the weights {tmp_path}/none.gguf cannot be opened: No such file or directory",
    )


def test_weights_that_are_no_gguf_end_it_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "junk.gguf").write_bytes(b"hello world" * 100)
    status, log = run("--model", str(tmp_path / "junk.gguf"))
    assert (status, read_failure(log)) == (1, "the weights are no GGUF file: they begin with 'hell'")


def test_a_taken_port_ends_it_with_the_reason(tmp_path: Path) -> None:
    model = write_tiny_gguf(tmp_path / "tiny.gguf")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        status, log = run("--model", str(model), "--port", str(port))
    assert (status, read_failure(log)) == (
        1,
        f"it cannot listen on 127.0.0.1 port {port}: the port is taken, or the address is not of this node",
    )


def test_neither_pydantic_nor_fastapi_is_loaded() -> None:
    code = "import sys; import reconciler.agent.llama_server, reconciler.agent.llama_arguments; print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {"pydantic", "fastapi", "httpx", "anyio"}.isdisjoint(told.stdout.split())


def test_it_listens_on_the_given_address_only(tmp_path: Path) -> None:
    with serving(tmp_path) as engine:
        listening = psutil.Process(engine.process.pid).net_connections("inet")
        assert {each.laddr for each in listening if each.status == psutil.CONN_LISTEN} == {("127.0.0.1", engine.port)}


def test_idle_it_ends_at_once_with_status_0(tmp_path: Path) -> None:
    with serving(tmp_path) as engine:
        engine.process.terminate()
        assert engine.process.wait(10) == 0
        assert engine.log().endswith("drained, bye\n")


def test_a_stream_in_flight_is_completed_before_it_ends(tmp_path: Path) -> None:
    with serving(tmp_path, context=2 * LONG) as engine:
        answer = Answering(engine, LONG)
        wait_until(lambda: engine.in_flight() == (1, 0), "the stream has begun")
        engine.process.terminate()
        wait_until(lambda: "draining" in engine.log(), "it drains")
        assert engine.process.poll() is None
        assert answer.finished() == (LONG + 1, "length")
        assert engine.process.wait(10) == 0


def test_a_request_that_waits_for_the_slot_is_completed_too(tmp_path: Path) -> None:
    with serving(tmp_path, context=LONG) as engine:
        first = Answering(engine, LONG // 2)
        wait_until(lambda: engine.in_flight() == (1, 0), "the first has begun")
        second = Answering(engine, 100)
        wait_until(lambda: engine.in_flight() == (1, 1), "the second waits")
        engine.process.terminate()
        assert (first.finished()[1], second.finished()[1]) == ("length", "length")
        assert engine.process.wait(10) == 0


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with serving(tmp_path, context=4 * LONG) as engine:
        answer = Answering(engine, 3 * LONG)
        wait_until(lambda: engine.in_flight() == (1, 0), "the stream has begun")
        engine.process.terminate()
        wait_until(lambda: "draining" in engine.log(), "it drains")
        begun = time.monotonic()
        engine.process.send_signal(signal.SIGTERM)
        assert engine.process.wait(10) == 1
        assert time.monotonic() - begun < 2
        assert answer.broken()


def test_an_answer_that_a_slow_client_has_not_taken_is_waited_for(tmp_path: Path) -> None:
    tokens = 1500
    # With the odds of 60 tokens each, more bytes than the kernel keeps for a client that does not read.
    body = json.dumps({"prompt": "a", "n_predict": tokens, "n_probs": 60, "stream": True}).encode()
    head = f"POST /completion HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with serving(tmp_path, context=2 * tokens) as engine, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", engine.port))
        client.sendall(head.encode() + body)
        wait_until(lambda: engine.in_flight() == (1, 0), "the stream has begun")
        wait_until(lambda: engine.in_flight() == (0, 0), "its slot is free, its answer not yet taken", within=60)
        engine.process.terminate()
        wait_until(lambda: "draining" in engine.log(), "it drains")
        with pytest.raises(subprocess.TimeoutExpired):
            engine.process.wait(1)
        with client.makefile("rb") as taken:
            assert b'"stop":true' in taken.read()
        assert engine.process.wait(10) == 0
