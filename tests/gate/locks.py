"""Locks of cases, written as the name of a shape: `locks/llama.json: {shape: llama-70b}`.

`storage` adds a quantization config, `config` changes single figures, `weight_gib` is the size of the weights,
`revision` is what every source was found at, `fields` are further fields of each, `without` names parts of the lock to
leave out. The lock then holds every source that the model's file names. `adapters` says by name what those entries hold
instead, where the adapter is written as `{name: sql, source: …}`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

_KNOWN: dict[str, Any] = json.loads(Path(__file__).with_name("shapes.json").read_text("utf-8"))
_SOURCE = re.compile(r"""\b(?:source|mmproj): ["']?([^\s,}"']+)""")
_ADAPTER = re.compile(r"""\bname: (?P<name>[\w-]+), source: ["']?(?P<source>[^\s,}"']+)""")


def lock_text(written: dict[str, Any], model: str) -> str:
    """The text of a lock for the sources of this model file."""
    config = dict(_KNOWN["shapes"][written["shape"]]) | written.get("config", {})
    if "storage" in written:
        config["quantization_config"] = _KNOWN["storages"][written["storage"]]
    changed = "storage" in written or "config" in written
    size = written["weight_gib"] * 2**30 if "weight_gib" in written else _KNOWN["weight_bytes"][written["shape"]]
    entry = {
        "revision": written.get("revision", "0123abc"),
        "format": "gguf" if "general.architecture" in config else "safetensors",
        "weight_bytes": None if changed and "weight_gib" not in written else int(size),
        "config": config,
        **written.get("fields", {}),
    }
    kept = {key: value for key, value in entry.items() if key not in written.get("without", ())}
    entries = dict.fromkeys(_SOURCE.findall(model), kept)
    for found in _ADAPTER.finditer(model):
        if found["name"] in written.get("adapters", {}):
            own = written["adapters"][found["name"]]
            entries[found["source"]] = {"revision": entry["revision"], "format": "peft", **own}
    return json.dumps({"sources": [{"source": source, **told} for source, told in entries.items()]})
