"""Print a flag table of trtllm-serve from its public files, since the package does not install without its own GPUs.

    python trtllm_table.py 1.4 trtllm_serve_cli.yaml > trtllm-1.4.json
    python trtllm_table.py 1.2 serve.py > trtllm-1.2.json

The first reads TensorRT-LLM's own reference of its command line (tests/unittest/api_stability/references), the second
the click options in tensorrt_llm/commands/serve.py, without importing it. Neither was parsed by the program: what a
file computes at run time (choices of parsers, some defaults) is left out of the table, not guessed.
"""  # noqa: INP001  # a script, not part of a package

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import Any

import table_file

GRAMMAR = {
    "prefixes": False,
    "equals": True,
    "glued": False,
    "underscores": "as written",
    "dotted": False,
    "any_value": True,
    "bare_dashes": True,
    "shorthand": {},
}
"""click's habits."""

_TYPES = {"int": "whole", "float": "number", "str": "text", "Path": "own"}
"""By the type's name; `own` is checked by the program itself."""


def rows_of_reference(text: str) -> list[dict[str, Any]]:
    """The options of `serve` in the stability reference."""
    import yaml  # noqa: PLC0415  # only this reader needs it

    options = yaml.safe_load(text)["commands"]["serve"]["options"]
    return [
        _row(list(option["flags"]), option["type"], option["default"])
        | ({"appends": True} if option["multiple"] else {})
        for option in options.values()
    ]


def rows_of_source(text: str) -> list[dict[str, Any]]:
    """The `click.option` decorators of the function `serve`."""
    serve = next(node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == "serve")
    calls = [node for node in serve.decorator_list if isinstance(node, ast.Call)]
    return [
        _row_of_call(call) | ({"appends": True} if "multiple=True" in ast.unparse(call) else {})
        for call in calls
        if ast.unparse(call.func) == "click.option"
    ]


def _row_of_call(call: ast.Call) -> dict[str, Any]:
    flags = [part.value for part in call.args if isinstance(part, ast.Constant) and str(part.value).startswith("-")]
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    default = keywords.get("default")
    value = default.value if isinstance(default, ast.Constant) else None
    if "is_flag" in keywords:
        return _row(flags, "bool", value)
    written = ast.unparse(keywords["type"])
    listed = re.search(r"\[.*?\]", written) if "Choice" in written and ".keys()" not in written else None
    aliases = re.search(r"\{.*?\}", written)
    words = [*ast.literal_eval(listed[0]), *(ast.literal_eval(aliases[0]) if aliases else ())] if listed else []
    if "Choice" in written:
        return _row(flags, f"Choice({words})" if words else "unknown", value)
    return _row(flags, "Path" if "Path" in written else written, value)


def _row(flags: list[str], kind: str, default: Any) -> dict[str, Any]:
    named = [flag for flag in flags if not flag.startswith("--no-")]
    row: dict[str, Any] = {"spellings": sorted(named, key=len, reverse=True) + [f for f in flags if f not in named]}
    if kind == "bool":
        off = [flag for flag in flags if flag not in named]
        return row | ({"kind": "pair", "off": off} if off else {"kind": "switch"})
    row["kind"] = "value"
    if kind.startswith("Choice("):
        row |= {"type": "text", "choices": ast.literal_eval(kind.removeprefix("Choice(").removesuffix(")"))}
    else:
        row["type"] = _TYPES.get(kind, "own")
    return row if default is None else row | {"default": str(default)}


def main() -> None:
    """Print the table of the version and file named on the command line."""
    release, name = sys.argv[1:]
    file = Path(name)
    rows = rows_of_reference(file.read_text()) if file.suffix == ".yaml" else rows_of_source(file.read_text())
    rows.append({"spellings": ["--help"], "kind": "switch", "exits": True})
    head = {
        "engine": "trtllm",
        "version": release,
        "source": {
            "program": f"trtllm-serve {release}",
            "obtained": "from public files, not parsed by the program",
            "with": file.name,
        },
        "grammar": GRAMMAR,
    }
    table_file.write(head, [], sorted(rows, key=lambda row: row["spellings"][0]))


if __name__ == "__main__":
    main()
