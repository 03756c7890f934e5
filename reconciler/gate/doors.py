"""Which flags a profile gives, with their values, as its engine's own program reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.gate.subject import Context, Use

    Path = tuple[str | int, ...]

_OFF = frozenset({"", "0", "false", "no", "off", "none", "disabled"})
"""What programs take for no in variables and values, in any case."""


def flags_given(context: Context, use: Use) -> Iterator[tuple[Path, str, Any]]:
    """Place, canonical name and value of each flag; of one that is given twice the last, which counts.

    Variables that the program reads in a flag's place are among them. Of an engine without a table every word
    that begins with a dash is a flag that is on.
    """
    args = use.profile.args
    if not context.knowledge.table(use).known:
        for index, word in enumerate(args):
            if word.startswith("-"):
                name, _, value = word.partition("=")
                yield ("args", index), name, value or True
        return
    last = {each.flag.name: each for each in context.knowledge.args(use).flags if each.key is None}
    dotted = [each for each in context.knowledge.args(use).flags if each.key is not None]
    for each in (*last.values(), *dotted):
        path: Path = ("env", each.spelling) if each.index is None else ("args", each.index)
        yield path, each.flag.name, True if each.value is None and not each.words else each.value


def is_on(value: Any, word: str | None) -> bool:
    """Whether a value switches something on; with `word`, whether it holds that word."""
    if word is not None:
        values = value if isinstance(value, list | tuple) else str(value).split(",")
        return any(str(each).strip() == word for each in values)
    if isinstance(value, str):
        return value.strip().lower() not in _OFF
    return bool(value)
