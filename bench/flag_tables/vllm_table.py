"""Print the flag table of the vLLM that is installed here: `python vllm_table.py > vllm-0.32.0.json`.

Needs no GPU and no model: it builds the parser of `vllm serve` and reads it.
"""  # noqa: INP001  # a script, not part of a package

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import version

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

import argparse_rows
import table_file
from vllm import envs
from vllm.entrypoints.cli.serve import ServeSubcommand
from vllm.utils.argparse_utils import FlexibleArgumentParser

GRAMMAR = {
    "prefixes": True,
    "equals": True,
    "glued": True,
    "underscores": "read as dashes",
    "dotted": True,
    "any_value": False,
    "bare_dashes": False,
    "shorthand": {"-O": "--optimization-level"},
}


def serve_parser() -> tuple[FlexibleArgumentParser, FlexibleArgumentParser]:
    """The whole command's parser, and that of its `serve`."""
    whole = FlexibleArgumentParser(description="vllm")
    return whole, ServeSubcommand().subparser_init(whole.add_subparsers(required=False, dest="subparser"))


def main() -> None:
    """Print the table."""
    release = version("vllm").partition("+")[0]
    head = {
        "engine": "vllm",
        "version": release,
        "source": {
            "program": f"vllm serve {release}",
            "obtained": "parsed by the real program",
            "with": f"Python {platform.python_version()}",
        },
        "grammar": GRAMMAR,
    }
    table_file.write(head, list(envs.environment_variables), argparse_rows.rows(serve_parser()[1]))


if __name__ == "__main__":
    sys.exit(main())
