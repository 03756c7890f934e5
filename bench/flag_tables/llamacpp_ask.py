"""Ask llama-server's own parser about command lines.

JSON list of {args, env} on stdin, JSON list of answers on stdout.
"""  # noqa: INP001  # a script, not part of a package

from __future__ import annotations

import json
import sys

from llamacpp_parser import Answer, Parser

WORD_BY_ANSWER = {Answer.GOES_ON: "accepted", Answer.REFUSES: "refused", Answer.EXITS: "exits"}


def main() -> None:
    """Answer."""
    parser = Parser()
    answers = []
    for line in json.load(sys.stdin):
        answer, said, values = parser.ask_for_values(["--model", "some.gguf", *line["args"]], line["env"])
        row: dict[str, object] = {"real": WORD_BY_ANSWER[answer]}
        first = said.strip().splitlines()[:1]
        answers.append(
            row
            | (
                {"said": first[0].removeprefix("error: ").partition(":")[0]}
                if answer is Answer.REFUSES and first
                else {}
            )
            | values
        )
    sys.stdout.write(json.dumps(answers))


if __name__ == "__main__":
    main()
