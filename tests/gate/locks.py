"""Locks of cases, written as the name of a shape: `locks/llama.json: {shape: llama-70b}`.

`storage` adds a quantization config, `config` changes single figures, `without` names parts of the lock to leave out.
The lock then holds every source that the model's file names.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

_KNOWN: dict[str, Any] = json.loads(Path(__file__).with_name("shapes.json").read_text("utf-8"))
_SOURCE = re.compile(r"""\bsource: ["']?([^\s,}"']+)""")


def lock_text(written: dict[str, Any], model: str) -> str:
    """The text of a lock for the sources of this model file."""
    config = dict(_KNOWN["shapes"][written["shape"]]) | written.get("config", {})
    if "storage" in written:
        config["quantization_config"] = _KNOWN["storages"][written["storage"]]
    entry = {
        "revision": "0123abc",
        "format": "gguf" if "general.architecture" in config else "safetensors",
        "weight_bytes": 2**34,
        "config": config,
    }
    kept = {key: value for key, value in entry.items() if key not in written.get("without", ())}
    return json.dumps({"sources": [{"source": source, **kept} for source in dict.fromkeys(_SOURCE.findall(model))]})
