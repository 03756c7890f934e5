"""llama.cpp's own argument parser, reached through the library inside the installed `xllamacpp` wheel.

The wheel binds llama.cpp's server but not its command line; the parser is in the library all the same, under its C++
name. It wants a `common_params`, which the wheel's `CommonParams` object holds directly after Python's object header:
that is checked before use, by writing a number through Python and reading it back from memory.
Each question is asked in a forked child, since the parser exits the process when it refuses.
"""  # noqa: INP001  # a script's module, not part of a package

from __future__ import annotations

import ctypes
import json
import os
import tempfile
from enum import IntEnum
from importlib.metadata import version
from pathlib import Path

import xllamacpp

_PARSE = "_Z19common_params_parseiPPcR13common_params13llama_examplePFviS0_E"
_HEADER_BYTES = 2 * ctypes.sizeof(ctypes.c_void_p)
"""Reference count and type."""
_SENTINEL = 123_456_789
_PORT = 8080
"""llama-server's own default; the wheel's object starts with port 0."""
_NUMBERS = ("n_ctx", "n_batch", "n_ubatch", "n_parallel", "n_predict", "port", "n_gpu_layers", "main_gpu")
"""Whole numbers that the wheel's object shows after parsing."""
_STORED = "stored.json"
_MOST_EXAMPLES = 64
"""More programs than llama.cpp has; the number of the server's among them is found by asking."""


def build() -> str:
    """The build of llama.cpp in the wheel: the last part of its version."""
    return version("xllamacpp").rpartition(".")[2]


class Answer(IntEnum):
    """What the parser did with a command line."""

    GOES_ON = 3
    REFUSES = 1
    EXITS = 0
    """It printed what was asked and ended the process: help, version, lists."""


class Parser:
    """Asks what llama-server's command line makes of some words."""

    def __init__(self) -> None:
        library = next(Path(xllamacpp.__file__).parent.glob("xllamacpp*.so"))
        self._parse = getattr(ctypes.CDLL(str(library)), _PARSE)
        self._parse.restype = ctypes.c_bool
        numbers = range(_MOST_EXAMPLES)
        self._server = next(number for number in numbers if self._ask(number, ["--slots"])[0] is Answer.GOES_ON)

    def ask(self, words: list[str]) -> tuple[Answer, str]:
        """The answer, and all it printed."""
        return self._ask(self._server, words)[:2]

    def ask_for_values(self, words: list[str], env: dict[str, str]) -> tuple[Answer, str, dict[str, dict[str, int]]]:
        """The same with variables set, and the numbers it stored that differ from those of an empty command line."""
        answer, said, stored = self._ask(self._server, words, env)
        plain = self._ask(self._server, [])[2]
        values = {name: number for name, number in stored.items() if number != plain[name]}
        return answer, said, {"values": values} if values else {}

    def _ask(
        self, program: int, words: list[str], env: dict[str, str] | None = None
    ) -> tuple[Answer, str, dict[str, int]]:
        with tempfile.TemporaryFile() as said, tempfile.TemporaryDirectory() as folder:
            child = os.fork()
            if child == 0:
                os.chdir(folder)  # some flags open files
                os.environ.update(env or {})
                os.dup2(said.fileno(), 1)
                os.dup2(said.fileno(), 2)
                os._exit(self._goes_on(program, words).value)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            said.seek(0)
            text = said.read().decode(errors="replace")
            stored = Path(folder, _STORED)
            numbers = json.loads(stored.read_text()) if stored.exists() else {}
        # a crash of the parser is a refusal too: the engine would not start
        return (Answer(status) if status in set(Answer) else Answer.REFUSES), text, numbers

    def _goes_on(self, program: int, words: list[str]) -> Answer:
        params = xllamacpp.CommonParams()
        params.n_predict = _SENTINEL
        address = id(params) + _HEADER_BYTES
        if ctypes.c_int32.from_address(address).value != _SENTINEL:
            raise SystemExit("this wheel lays CommonParams out in another way; read its source and adapt this module")
        params.n_predict = -1
        params.port = _PORT
        line = [b"llama-server", *(word.encode() for word in words)]
        argv = (ctypes.c_char_p * (len(line) + 1))(*line, None)
        if not self._parse(len(line), argv, ctypes.c_void_p(address), program, None):
            return Answer.REFUSES
        Path(_STORED).write_text(json.dumps({name: getattr(params, name) for name in _NUMBERS}))
        return Answer.GOES_ON
