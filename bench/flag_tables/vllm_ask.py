"""Ask vLLM's own parser about command lines: JSON list of {args, env} on stdin, of answers on stdout.

The model is given as the first word and a flag behind it, as the launch command does. Only the parser is asked:
nothing is loaded.
"""  # noqa: INP001  # a script, not part of a package

from __future__ import annotations

import argparse_ask
import vllm_table


def main() -> None:
    """Answer."""
    whole = vllm_table.serve_parser()[0]
    argparse_ask.answer(whole.parse_args, ["serve", "some/model", "--port", "8000"])


if __name__ == "__main__":
    main()
