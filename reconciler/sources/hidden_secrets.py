"""Secrets in plain text in the parts of a file that no rule sees, because something beside them has a wrong type.

The rule is `security/plain-secret`, which looks at what could be understood; here is the same for the rest. Values are
never repeated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reconciler.gate.secrets import kind_in_address, kind_of, kind_under
from reconciler.sources.fault import ENV, Fault, display

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from reconciler.domain.desired import Path
    from reconciler.sources.document import Document

RULE = "security/plain-secret"
_REPLACE = "and replace it at its issuer: what was in git stays known"


def hidden_secrets(document: Document, cuts: Iterable[Path]) -> list[Fault]:
    """One fault for each text below one of these places that looks like a secret."""
    tops = sorted(set(cuts), key=lambda path: (len(path), [str(step) for step in path]))
    first = [path for at, path in enumerate(tops) if not any(path[: len(top)] == top for top in tops[:at])]
    return [fault for path in first for fault in _below(document, path, _value(document.value, path), before="")]


def _below(document: Document, path: Path, value: Any, before: str) -> Iterator[Fault]:
    """`before` is the word that stands before an item of a list."""
    match value:
        case dict():
            for key, each in value.items():
                yield from _below(document, (*path, key), each, "")
        case list():
            for index, each in enumerate(value):
                last = value[index - 1] if index else ""
                yield from _below(document, (*path, index), each, last if isinstance(last, str) else "")
        case str():
            kind = _kind(path, value, before)
            if kind is not None:
                name = path[path.index(ENV) + 1] if ENV in path[:-1] else None
                hint = f"write {name}: {{secret: NAME}}, {_REPLACE}" if name is not None else f"remove it, {_REPLACE}"
                told = f"{name or display(path)} holds {kind} in plain text"
                yield Fault(RULE, told, hint, *document.position(path), path)
        case _:
            return


def _kind(path: Path, text: str, before: str) -> str | None:
    """By its form, and by the name it stands under: a variable, a field, or the flag of an argument."""
    name, joined, value = text.partition("=")
    if before.startswith("-") and not text.startswith("-"):
        return kind_under(before.lstrip("-"), text)
    if joined and name.startswith("-"):
        return kind_under(name.lstrip("-"), value)
    if ENV in path[:-2] and path[-1] == "secret":
        return kind_of(text)  # `{secret: NAME}` names one; only its form can tell that it is one
    for field in (ENV, "select", "labels"):
        if field in path[:-1]:
            return kind_under(str(path[path.index(field) + 1]), text)
    return kind_in_address(text) if "://" in text else kind_of(text)


def _value(value: Any, path: Path) -> Any:
    """What stands at a place; None where nothing does."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value
