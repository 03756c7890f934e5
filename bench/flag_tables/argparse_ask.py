"""Puts command lines to a parser in this process and notes what it did."""  # noqa: INP001  # a script's module

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

CONFIG_FILE = "flags.yaml"
"""Exists and is empty, for command lines that name it."""


def answer(parse: Callable[[list[str]], argparse.Namespace], before: list[str]) -> None:
    """Read command lines ({args, env}; only args matter) from stdin, put each behind `before`, print the answers."""
    lines = json.load(sys.stdin)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path(CONFIG_FILE).write_text("{}\n")
        plain = vars(parse(list(before)))
        answers = [_ask(parse, [*before, *line["args"]], plain) for line in lines]
    sys.stdout.write(json.dumps(answers))


def _ask(parse: Callable[[list[str]], argparse.Namespace], words: list[str], plain: dict[str, Any]) -> dict[str, Any]:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            space = vars(parse(words))
    except SystemExit as end:
        if end.code in {0, None}:
            return {"real": "exits"}
        return {"real": "refused", "said": _word(said.getvalue().strip().splitlines()[-1].partition("error: ")[2])}
    except Exception as crash:  # noqa: BLE001  # a traceback of the program is a refusal: it does not start
        return {"real": "refused", "said": type(crash).__name__}
    values = {key: value for key, value in space.items() if _differs(value, plain.get(key)) and _is_plain(value)}
    return {"real": "accepted"} | ({"values": values} if values else {})


def _differs(value: Any, plain: Any) -> bool:
    return bool(value != plain)


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(_is_plain(each) for each in value)
    return value is None or isinstance(value, str | int | float)


def _word(message: str) -> str:
    """What kind of refusal it was: the rest of the message repeats the words."""
    return message.partition(":")[0]
