"""Print the flag table of the SGLang that is installed here: `python sglang_table.py > sglang-0.5.23.json`.

Needs no GPU and no model: it builds the parser of `sglang serve` and reads it.
"""  # noqa: INP001  # a script, not part of a package

from __future__ import annotations

import argparse
import platform
import sys
from importlib.metadata import version

import argparse_rows
import table_file
from sglang.srt.environ import envs
from sglang.srt.server_args import ServerArgs

GRAMMAR = {
    "prefixes": True,
    "equals": True,
    "glued": True,
    "underscores": "as written",
    "dotted": False,
    "any_value": False,
    "bare_dashes": False,
    "shorthand": {},
}


def serve_parser() -> argparse.ArgumentParser:
    """The parser of `sglang serve` and of `python -m sglang.launch_server`."""
    parser = argparse.ArgumentParser(prog="sglang serve")
    ServerArgs.add_cli_args(parser)
    return parser


def main() -> None:
    """Print the table."""
    release = version("sglang")
    head = {
        "engine": "sglang",
        "version": release,
        "source": {
            "program": f"sglang serve {release}",
            "obtained": "parsed by the real program",
            "with": f"Python {platform.python_version()}",
        },
        "grammar": GRAMMAR,
    }
    names = [name for name in dir(type(envs)) if name.startswith("SGLANG_")]
    table_file.write(head, names, argparse_rows.rows(serve_parser()))


if __name__ == "__main__":
    sys.exit(main())
