"""Ask SGLang's own parser about command lines: JSON list of {args, env} on stdin, of answers on stdout.

`prepare_server_args` does what is done here before it builds the engine's settings: it merges the file behind
`--config`, then parses. Only that is asked: nothing is loaded.
"""  # noqa: INP001  # a script, not part of a package

from __future__ import annotations

from typing import TYPE_CHECKING

import argparse_ask
import sglang_table
from sglang.srt.utils.server_args_config_parser import ConfigArgumentMerger

if TYPE_CHECKING:
    import argparse


def parse(words: list[str]) -> argparse.Namespace:
    """Parse as `sglang serve` does."""
    parser = sglang_table.serve_parser()
    if "--config" in words:
        words = ConfigArgumentMerger(parser).merge_config_with_args(words)
    return parser.parse_args(words)


def main() -> None:
    """Answer."""
    argparse_ask.answer(parse, ["--model-path", "some/model"])


if __name__ == "__main__":
    main()
