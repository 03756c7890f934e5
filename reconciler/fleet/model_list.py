"""What the answer to `GET …/models` says: which names are served, and whether ours is one of them. No I/O."""

from __future__ import annotations

import json
from difflib import get_close_matches
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from reconciler.domain.external import ExternalAnswer, ExternalVerdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.domain.model_spec import ModelSpec

NAMES_TOLD = 5
"""Of the names that are served instead: what fits on a line or two."""

_NAMES_COMPARED = 1_000
"""Likeness costs some 30 µs a name, and the largest public lists hold a few hundred."""

_NAME_CHARACTERS = 60
"""Of one name are shown; longer ones are somebody's path."""

_KEY_PART = 8
"""Characters of a key that tell something of it; its first ones may only name the issuer."""

_REFUSING = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})


def served_names(body: bytes) -> tuple[str, ...] | None:
    """Names in a list of models as OpenAI sends it, or as a bare list; None when it is something else.

    llama.cpp has one entry with aliases. Adapters count: requests may ask for them.
    """
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return None
    entries = content.get("data") if isinstance(content, dict) else content
    if not isinstance(entries, list):
        return None
    names = (name for entry in entries if isinstance(entry, dict) for name in _names(entry))
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str)))


def _names(entry: dict[str, Any]) -> Iterator[Any]:
    yield entry.get("id")
    aliases = entry.get("aliases")
    yield from aliases if isinstance(aliases, list) else ()


def judge_names(model: ModelSpec, names: tuple[str, ...], host: str, key: str | None) -> ExternalAnswer:
    """Whether one of the model's names is served; when not, the names most like them that are.

    Its names are the one that `external.model` says it has there, else its own and its aliases. A name that repeats the
    key is not told: a server may send back whatever it was sent.
    """
    written = None if model.external is None else model.external.model
    wanted = (model.name, *model.aliases) if written is None else (written,)
    served = next((name for name in wanted if name in names), None)
    if served == model.name:
        return ExternalAnswer(ExternalVerdict.REACHABLE, f"served by {host}")
    if served is not None:
        return ExternalAnswer(ExternalVerdict.REACHABLE, f"served by {host} as {served}")
    ours = " or ".join(wanted)
    if not names:
        return ExternalAnswer(ExternalVerdict.WRONG_NAME, f"{host} lists no model, so not {ours}")
    nearest = get_close_matches(wanted[0], names[:_NAMES_COMPARED], n=NAMES_TOLD, cutoff=0.0)
    told = ", ".join(without_key(name, key)[:_NAME_CHARACTERS] for name in nearest)
    rest = f" and {len(names) - len(nearest)} more" if len(names) > len(nearest) else ""
    return ExternalAnswer(ExternalVerdict.WRONG_NAME, f"{host} does not list {ours}; it lists {told}{rest}")


def judge_status(status: int, host: str, key_variable: str | None) -> ExternalAnswer:
    """What an answer that is no list of models means."""
    if status in _REFUSING and key_variable is not None:
        return ExternalAnswer(ExternalVerdict.KEY_REFUSED, f"{host} refuses the key in {key_variable} ({status})")
    if status in _REFUSING:
        message = f"{host} wants a key ({status}); name its variable in external.api_key_env"
        return ExternalAnswer(ExternalVerdict.KEY_REFUSED, message)
    if status == HTTPStatus.OK:
        return unreachable(f"{host} answers with something that is no list of models")
    if status == HTTPStatus.NOT_FOUND:
        return unreachable(f"{host} has no list of models below external.url (404)")
    return unreachable(f"{host} answers {status} when asked for its models")


def unreachable(message: str) -> ExternalAnswer:
    """An answer that never came, or is of no use."""
    return ExternalAnswer(ExternalVerdict.UNREACHABLE, message)


def without_key(text: str, key: str | None) -> str:
    """What a server sent; a word for it where it repeats our key or a part of it, in whatever case."""
    folded = (key or "").lower()
    parts = {folded[at : at + _KEY_PART] for at in range(max(1, len(folded) - _KEY_PART + 1))} - {""}
    return "<hidden: it repeats the key>" if any(part in text.lower() for part in parts) else text
