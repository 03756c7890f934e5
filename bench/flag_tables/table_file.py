"""How a flag table is written: JSON with one flag a line, so that two versions can be compared line by line."""  # noqa: INP001  # a script's module, not part of a package

from __future__ import annotations

import json
import sys
from typing import Any

FORMAT_VERSION = "1.0"


def write(head: dict[str, Any], environment: list[str], flags: list[dict[str, Any]]) -> None:
    """Print the table on stdout; `head` says engine, version, source and grammar."""
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    names = ",\n".join(f"    {json.dumps(name)}" for name in sorted(environment))
    rows = ",\n".join(f"    {json.dumps(row)}" for row in flags)
    text = "\n".join(
        [
            "{",
            f'  "format_version": "{FORMAT_VERSION}",',
            *lines,
            f'  "environment": [\n{names}\n  ],' if names else '  "environment": [],',
            f'  "flags": [\n{rows}\n  ]',
            "}",
            "",
        ]
    )
    sys.stdout.write(text)
