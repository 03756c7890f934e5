"""Put random command lines to an installed program's parser and to our reader, and show where they disagree.

    python compare.py vllm 0.32.0 /path/to/venv/bin/python 2000 [SEED]

Lines are made of the table's own spellings, whole, cut short, respelled, with values of all kinds behind or glued on.
Values that only the program can judge (type `own`, keys of a JSON object) are left out. Exits 1 if any line disagrees.
"""  # noqa: INP001  # a script, not part of a package

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from record import expected

from reconciler.domain.flag_tables import flag_table
from reconciler.domain.flags import ValueType
from reconciler.domain.model_spec import Engine

if TYPE_CHECKING:
    from reconciler.domain.flags import Flag, FlagTable

HERE = Path(__file__).parent
WORDS = ("4", "-1", "0.5", "8k", "8K", "4Ki", "1.5K", "x", "", "-", "a b", "auto", "None", "on", "true", "1e3")
"""Without two accidents of argparse that nobody writes: `--flag=--`, and -0.5 among the words of a vLLM list."""
LONGEST_LINE = 4
"""Items; longer lines only repeat what shorter ones show."""
SHORTEST_CUT = 3
SHOWN = 40


def lines(table: FlagTable, count: int, seed: int) -> list[list[str]]:
    """Random command lines; the same for the same seed."""
    chance = random.Random(seed)  # noqa: S311  # test data
    spellings = sorted(
        spelling for spelling, flag in table.by_spelling.items() if _can_be_judged(flag) and not flag.exits
    )
    return [
        [word for _ in range(chance.randint(1, LONGEST_LINE)) for word in _item(table, chance, spellings)]
        for _ in range(count)
    ]


def _can_be_judged(flag: Flag) -> bool:
    return flag.type not in {ValueType.OWN, ValueType.JSON_OBJECT} and "--config" not in flag.spellings


def _item(table: FlagTable, chance: random.Random, spellings: list[str]) -> list[str]:
    spelling = chance.choice(spellings)
    flag = table.by_spelling[spelling]
    word = chance.choice((*WORDS, *flag.choices[:3], flag.default or "1"))
    cut = spelling[: chance.randint(SHORTEST_CUT, len(spelling))] if len(spelling) > SHORTEST_CUT else spelling
    respelled = "--" + spelling.lstrip("-").replace("-", "_")
    match chance.randrange(12):
        case 0:
            return [word]
        case 1:
            return [spelling]
        case 2:
            return [cut, word]
        case 3:
            return [f"{cut}={word}"]
        case 4:
            return [respelled, word]
        case 5:
            return [f"{respelled}={word}"]
        case 6:
            return [spelling + word]
        case 7:
            return [f"{spelling}={word}"]
        case 8:
            return [spelling, word, chance.choice(WORDS)]
        case _:
            return [spelling, *([word] if flag.words[0] else [])]


def main() -> int:
    """Ask both, compare."""
    engine, version, python, count, *seed = sys.argv[1:]
    table = flag_table(Engine(engine), version)
    asked = lines(table, int(count), int(seed[0]) if seed else 1)
    answered = subprocess.run(
        [python, str(HERE / f"{engine}_ask.py")],
        input=json.dumps([{"args": words, "env": {}} for words in asked]),
        capture_output=True,
        text=True,
        check=True,
    )
    wrong = [
        (words, answer)
        for words, answer in zip(asked, json.loads(answered.stdout), strict=True)
        if expected(Engine(engine), version, words, {}) != answer["real"]
    ]
    for words, answer in wrong[:SHOWN]:
        sys.stdout.write(f"{json.dumps(words)}: the program {answer['real']} ({answer.get('said', '')})\n")
    sys.stdout.write(f"{engine} {version}: {len(asked) - len(wrong)} of {len(asked)} random command lines agree\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
