"""A program that takes vLLM's command line and behaves as it does over several nodes, without computing anything.

Rank 0 waits at `--master-addr` and `--master-port` for the other ranks, then answers on its own port. Another rank
(`--headless`) answers nothing. As measured with vLLM 0.32: a leader that has lost a rank goes on saying that it is well
until the first request, which gets 500, and then it ends; and a rank does not end with its leader. Adapters are loaded
and taken out as in vLLM, which refuses to load one that is there.

With STAND_IN_HANGS in its environment such a leader answers requests all the same, and nobody can tell.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from typing_extensions import override

METRICS = b"vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n"


def options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("model")
    parser.add_argument("--served-model-name", nargs="+", required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--nnodes", type=int, default=1)
    parser.add_argument("--node-rank", type=int, default=0)
    parser.add_argument("--master-addr")
    parser.add_argument("--master-port", type=int)
    parser.add_argument("--lora-modules", nargs="*", default=[], type=json.loads)
    parser.add_argument("--headless", action="store_true")
    return parser.parse_known_args(words)[0]


def meet(asked: argparse.Namespace) -> list[socket.socket]:
    """Rank 0: a connection of each other rank."""
    if asked.nnodes == 1:
        return []
    with socket.create_server((asked.master_addr, asked.master_port)) as door:
        return [door.accept()[0] for _ in range(asked.nnodes - 1)]


def join(asked: argparse.Namespace) -> socket.socket:
    """Another rank: the connection to rank 0, for which it waits."""
    again = threading.Event()
    while True:
        try:
            return socket.create_connection((asked.master_addr, asked.master_port))
        except ConnectionRefusedError:
            again.wait(0.05)


LOST = threading.Event()


def watch(rank: socket.socket) -> None:
    rank.recv(1)
    if "STAND_IN_HANGS" not in os.environ:
        LOST.set()


def end() -> None:
    sys.stderr.write("RuntimeError: a rank of another node is gone\n")
    sys.stderr.flush()
    os._exit(1)


def serve(asked: argparse.Namespace) -> None:
    adapters = {each["name"]: each["path"] for each in asked.lora_modules}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            names = [{"id": name} for name in asked.served_model_name]
            names += [{"id": name, "parent": asked.served_model_name[0]} for name in adapters]
            self.answer(METRICS if self.path == "/metrics" else json.dumps({"data": names}).encode())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)))
            if self.path == "/v1/load_lora_adapter":
                known = body["lora_name"] in adapters
                adapters[body["lora_name"]] = body["lora_path"]
                self.answer(b"{}", 400 if known else 200)
                return
            if self.path == "/v1/unload_lora_adapter":
                del adapters[body["lora_name"]]
            if LOST.is_set():
                self.answer(b"{}", 500)
                end()
            self.answer(json.dumps({"choices": [{"text": "a"}], "usage": {"completion_tokens": 1}}).encode())

        def answer(self, body: bytes, status: int = 200) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    ThreadingHTTPServer((asked.host, asked.port), Handler).serve_forever()


def main() -> None:
    asked = options(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    if asked.headless:
        kept = join(asked)
        threading.Event().wait()
        kept.close()
    for rank in meet(asked):
        threading.Thread(target=watch, args=(rank,), daemon=True).start()
    serve(asked)


if __name__ == "__main__":
    main()
