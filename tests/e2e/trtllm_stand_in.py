"""A program that takes trtllm-serve's command line under `trtllm-llmapi-launch` and computes nothing.

Its ranks are real ones of a real MPI: the first serves, and every answer is put together from what each rank says of
itself. As with TensorRT-LLM, a rank that is gone is noticed by MPI, which ends the others.

`trtllm_stand_in.py PROGRAM serve MODEL …` is what the wrapper does on each rank; the program is not run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from mpi4py import MPI
from typing_extensions import override

WORLD = MPI.COMM_WORLD
QUESTION, ANSWER = 1, 2
NOTHING_YET = threading.Event()


def options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("program")
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("model")
    parser.add_argument("--served_model_name", required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--tensor_parallel_size", type=int, required=True)
    parser.add_argument("--pipeline_parallel_size", type=int, required=True)
    parser.add_argument("--gpus_per_node", type=int, required=True)
    return parser.parse_known_args(words)[0]


def itself(asked: argparse.Namespace) -> dict[str, Any]:
    """What a rank says of itself: on which GPU it computes, as TensorRT-LLM chooses it."""
    gpus = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
    node = os.environ.get("SOME_SECRET", "")
    return {"rank": WORLD.rank, "gpu": gpus[WORLD.rank % asked.gpus_per_node], "pid": os.getpid(), "secret": node}


def compute(asked: argparse.Namespace) -> None:
    """Another rank: answers the first one. It looks and rests, where MPI's own waiting takes a whole core."""
    while True:
        while not WORLD.iprobe(source=0, tag=QUESTION):
            NOTHING_YET.wait(0.02)
        WORLD.recv(source=0, tag=QUESTION)
        WORLD.send(itself(asked), dest=0, tag=ANSWER)


def serve(asked: argparse.Namespace) -> None:
    turn = threading.Lock()

    def ask_all() -> list[dict[str, Any]]:
        with turn:
            for rank in range(1, WORLD.size):
                WORLD.send(None, dest=rank, tag=QUESTION)
            return [itself(asked), *(WORLD.recv(source=rank, tag=ANSWER) for rank in range(1, WORLD.size))]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            rows = {"/metrics": [], "/v1/models": {"data": [{"id": asked.served_model_name}]}}
            self.answer(rows.get(self.path, {}))

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self.answer({"choices": [{"text": json.dumps(ask_all())}], "usage": {"completion_tokens": 1}})

        def answer(self, said: Any) -> None:
            body = json.dumps(said).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    ThreadingHTTPServer((asked.host, asked.port), Handler).serve_forever()


def main() -> None:
    asked = options(sys.argv[1:])
    if asked.tensor_parallel_size * asked.pipeline_parallel_size != WORLD.size:
        sys.exit(f"world_size must equal to tp_size * pp_size, and is {WORLD.size}")
    if WORLD.rank:
        compute(asked)
    serve(asked)


if __name__ == "__main__":
    main()
