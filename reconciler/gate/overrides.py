"""What `args` change in a model's config before the engine reads it: the lock holds the config as it was published.

vLLM's --hf-overrides sets keys, inside nested configs too (config/model.py::_apply_dict_overrides); SGLang's
--json-model-override-args does the same. A longer context by RoPE scaling is what they are mostly used for.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from reconciler.domain.model_spec import Engine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.engines.flags import ReadArgs

_FLAGS = {Engine.VLLM: "--hf-overrides", Engine.SGLANG: "--json-model-override-args"}

_PLAIN = frozenset({"quantization_config", "compression_config", "generation_config"})
"""Keys that end like nested configs and are plain values: they are replaced as a whole."""


def overrides(engine: Engine, args: ReadArgs) -> Mapping[str, Any]:
    """Keys that `args` set in the config; of several whole values the last one counts, as for any flag."""
    whole: dict[str, Any] = {}
    dotted: dict[str, Any] = {}
    for each in args.flags:
        if each.flag.name != _FLAGS.get(engine) or not each.words:
            continue
        value = _parsed(each.words[0])
        if each.key is not None:
            _set(dotted, each.key.split("."), value)
        elif isinstance(value, dict):
            whole = value
    return _merged(whole, dotted)


def overridden(config: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The config with these keys set; a nested config keeps what is not named."""
    changed = dict(config)
    for key, value in changes.items():
        nested = key.endswith("_config") and key not in _PLAIN
        before = changed.get(key)
        both = nested and isinstance(before, dict) and isinstance(value, dict)
        changed[key] = overridden(before, value) if both and before is not None else value
    return changed


def _parsed(word: str) -> Any:
    """JSON where it is some, else the word itself."""
    try:
        return json.loads(word)
    except (ValueError, RecursionError):
        return word


def _set(values: dict[str, Any], path: list[str], value: Any) -> None:
    for key in path[:-1]:
        inner = values.setdefault(key, {})
        if not isinstance(inner, dict):
            return  # the word before sets the same key to a plain value: the program refuses both
        values = inner
    values[path[-1]] = value


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(first)
    for key, value in second.items():
        before = merged.get(key)
        merged[key] = _merged(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return merged
