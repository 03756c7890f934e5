"""Print ComfyUI's flag table from one public file, since the program is in no package registry.

    python comfyui_table.py 0.38 comfy/cli_args.py > comfyui-0.38.json

The file builds its parser with argparse and needs nothing of the program but a switch in `comfy.options`, which stands
here in its place. What the program does with the flags afterwards was not looked at, so the table says that it is from
a public file.
"""  # noqa: INP001  # a script, not part of a package

from __future__ import annotations

import runpy
import sys
from types import ModuleType, SimpleNamespace

import argparse_rows
import table_file

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
"""argparse's habits."""

_EXITS = ("--list-feature-flags", "--quick-test-for-ci")
"""End the program after they have said or tried something."""


def main() -> None:
    """Print the table."""
    version, path = sys.argv[1:]
    package = ModuleType("comfy")
    package.options = SimpleNamespace(args_parsing=False)  # type: ignore[attr-defined]  # made here
    sys.modules |= {"comfy": package, "comfy.options": package.options}  # type: ignore[dict-item]
    parser = runpy.run_path(path)["parser"]
    head = {
        "engine": "comfyui",
        "version": version,
        "source": {
            "program": f"ComfyUI {version}",
            "obtained": "from public files, not parsed by the program",
            "with": "comfy/cli_args.py",
        },
        "grammar": GRAMMAR,
    }
    rows = [row | ({"exits": True} if row["spellings"][0] in _EXITS else {}) for row in argparse_rows.rows(parser)]
    table_file.write(head, [], rows)


if __name__ == "__main__":
    main()
