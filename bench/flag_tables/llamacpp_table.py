"""Print the flag table of the llama-server in the installed xllamacpp.

    python llamacpp_table.py > llamacpp-11549.json

Spellings, hints and environment names are read from its own `--help`; what a flag takes is found by asking its parser:
whether it wants a word, a second one, and how it refuses a word that means nothing.
"""  # noqa: INP001  # a script, not part of a package

from __future__ import annotations

import platform
import re
import sys
from dataclasses import dataclass
from typing import Any

import table_file
from llamacpp_parser import Answer, Parser, build

GRAMMAR = {
    "prefixes": False,
    "equals": False,
    "glued": False,
    "underscores": "read as dashes",
    "dotted": False,
    "any_value": True,
    "bare_dashes": False,
    "shorthand": {},
}

NONSENSE = "\N{SECTION SIGN}"
"""A word that is no number, no name and no path of anything."""

SWITCH_WORDS = ("on", "off", "auto", "true", "false", "enabled", "disabled", "yes", "no", "1", "0")
"""What flags of the form [on|off] may take; each is asked."""

LOWEST, HIGHEST = -3, 1_000_000
"""Beyond these no bound is looked for: negative numbers below -2 have no meaning of their own in llama.cpp."""

_TEXT_COLUMN = 40
"""Where `--help` starts its descriptions; a longer left side goes on a line of its own."""


@dataclass(frozen=True)
class Entry:
    """One option of `--help`."""

    spellings: tuple[str, ...]
    hint: str
    text: str


def entries(help_text: str) -> list[Entry]:
    """The options that `--help` lists, in its order."""
    blocks: list[list[str]] = []
    for line in help_text.splitlines():
        if line.startswith("-") and not line.startswith("-----"):
            blocks.append([line])
        elif line.startswith(" ") and blocks:
            blocks[-1].append(line)
    return [_entry(block) for block in blocks]


def _entry(block: list[str]) -> Entry:
    first = block[0]
    cut = _TEXT_COLUMN if first[_TEXT_COLUMN - 1 : _TEXT_COLUMN] == " " else len(first)
    left, text = first[:cut], [first[cut:], *block[1:]]
    spellings: list[str] = []
    words = left.split()
    while words and words[0].startswith("-"):
        spellings.append(words.pop(0).rstrip(","))
    return Entry(tuple(spellings), " ".join(words), " ".join(part.strip() for part in text))


def row(parser: Parser, entry: Entry) -> dict[str, Any]:
    """One flag; asks the parser."""
    longs = [spelling for spelling in entry.spellings if spelling.startswith("--")]
    found: dict[str, Any] = {"spellings": [longs[0], *(each for each in entry.spellings if each != longs[0])]}
    flag = longs[0]
    answer, said = parser.ask([flag])
    if answer is Answer.EXITS:
        return found | {"kind": "switch", "exits": True}
    if "expected value" not in said:
        off = _off(entry.spellings)
        found |= {"kind": "pair", "off": off} if off else {"kind": "switch"}
    elif "expected value" in parser.ask([flag, "1"])[1]:
        found |= {"kind": "values", "words": [2, 2], "type": "own"}
    else:
        found |= {"kind": "value"} | _value(parser, flag, entry)
    return found | _default(entry) | _environment(entry, bool(found.get("off")))


def _off(spellings: tuple[str, ...]) -> list[str]:
    """The spellings that turn it off: llama.cpp lists them after those that turn it on, and one begins with --no-."""
    negative = [number for number, each in enumerate(spellings) if each.startswith("--no-")]
    positive = [number for number, each in enumerate(spellings) if each[:2] == "--" and each[:5] != "--no-"]
    return list(spellings[positive[-1] + 1 :]) if negative and positive else []


def _value(parser: Parser, flag: str, entry: Entry) -> dict[str, Any]:
    removed = parser.ask([flag, "1"])[1].partition("usage:")[0].partition("has been removed.")[2]
    if removed:
        return {"type": "text", "removed": removed.strip().removeprefix("use ")}
    answer, said = parser.ask([flag, NONSENSE])
    said = said.partition("usage:")[0]
    if answer is Answer.GOES_ON:
        return {"type": "text"}
    choices = [word for word in _words(entry) if parser.ask([flag, word])[0] is Answer.GOES_ON]
    if re.search(r"\bsto(i|l|ll|ul|ull)\b", said) and not re.search(r"[,:=]", entry.hint):
        return {"type": "leading whole"} | ({"also": choices} if choices else {}) | _bounds(parser, flag)
    if re.search(r"\bsto(f|d)\b", said) and not re.search(r"[,:=]", entry.hint):
        return {"type": "leading number"}
    return {"type": "text", "choices": choices} if choices else {"type": "own"}


def _bounds(parser: Parser, flag: str) -> dict[str, int]:
    """The least and the most it takes, where that is near 0 or below a million: found by asking."""

    def takes(number: int) -> bool:
        return parser.ask([flag, str(number)])[0] is Answer.GOES_ON

    least = next((number for number in range(LOWEST, 3) if takes(number)), LOWEST)
    bounds = {} if least == LOWEST else {"least": least}
    if takes(HIGHEST):
        return bounds
    low, high = max(least, 0), HIGHEST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if takes(middle) else (low, middle)
    return bounds | {"most": low}


def _words(entry: Entry) -> list[str]:
    """Words that the option's help gives as values; whether each is taken is asked afterwards."""
    if "on|off" in entry.hint:
        return list(SWITCH_WORDS)
    listed = entry.hint.strip("{}[]<>") if re.fullmatch(r"[{\[<].*[}\]>]", entry.hint) else ""
    allowed = re.search(r"allowed values: ([\w, ]+?) \(", entry.text)
    words = re.split(r"[,|]\s*", listed) if listed else []
    words += re.split(r",\s*", allowed[1]) if allowed else []
    words += re.findall(r"- ([\w+-]+)(?: \(default\))?:", entry.text) + re.findall(r"'(\w+)'", entry.text)
    return list(dict.fromkeys(word for word in words if word and " " not in word and not word.isdigit()))


def _default(entry: Entry) -> dict[str, str]:
    found = re.search(r"\(default: ([^,()]+)[,)]", entry.text)
    return {"default": found[1].strip().strip("'")} if found else {}


def _environment(entry: Entry, pair: bool) -> dict[str, list[str]]:
    """Names from `(env: …)`; of a pair llama.cpp also reads the name with NO_ in it, whatever its value, as off."""
    names = re.findall(r"\(env: (\w+)\)", entry.text)
    off = [name.replace("LLAMA_ARG_", "LLAMA_ARG_NO_") for name in names if pair and name.startswith("LLAMA_ARG_")]
    return ({"env": names} if names else {}) | ({"env_off": off} if off else {})


def main() -> None:
    """Print the table."""
    parser = Parser()
    rows = [row(parser, entry) for entry in entries(parser.ask(["--help"])[1])]
    # of two options with one spelling the later one wins in llama.cpp
    by_name = {each["spellings"][0]: each for each in rows}
    head = {
        "engine": "llamacpp",
        "version": build(),
        "source": {
            "program": f"llama-server b{build()} inside xllamacpp",
            "obtained": "parsed by the real program",
            "with": f"Python {platform.python_version()}",
        },
        "grammar": GRAMMAR,
    }
    environment = [name for each in by_name.values() for key in ("env", "env_off") for name in each.get(key, [])]
    table_file.write(head, environment, [by_name[name] for name in sorted(by_name)])


if __name__ == "__main__":
    sys.exit(main())
