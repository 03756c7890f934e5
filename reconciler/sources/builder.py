"""Parser events → values and places, with a stack; what design section 3 refuses becomes a fault on the way."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from reconciler.sources.document import REFUSED, Place
from reconciler.sources.fault import ENV, VARIABLE, Fault, YamlRule, display, shorten, shown_key
from reconciler.sources.masking import Span
from reconciler.sources.scalars import BOOLEAN_WORDS, Ambiguous, resolve
from reconciler.sources.text import unprintable

if TYPE_CHECKING:
    from reconciler.domain.desired import Path
    from reconciler.sources.document import Mark

# Of design section 3; what people write ends at six or seven.
DEPTH_LIMIT = 32

_PLAIN = ""
_DOUBLE_QUOTED = '"'


class TooDeep(Exception):
    """The document nests deeper than DEPTH_LIMIT; its fault is in the builder."""


class _Key(Enum):
    """What an open collection waits for, other than the value of a key."""

    AWAITED = "awaited"
    ITEM = "item"
    """Any value: it is a list."""
    DROPPED = "dropped"
    """The value of a refused key: it is read for faults and left out."""


_PASTED = frozenset({"api_key_env", "args"})
"""Where people paste a key instead of the name of its variable, and all arguments as one text with a key in it."""


class _Frame:
    """One collection that is still open."""

    __slots__ = ("is_key", "key", "key_mark", "path", "secret", "steps", "value")

    def __init__(
        self, value: dict[str, Any] | list[Any], path: Path, mark: Mark, *, secret: bool, is_key: bool
    ) -> None:
        self.value: Any = value
        self.path = path
        self.secret = secret
        self.is_key = is_key
        self.key: str | _Key = _Key.AWAITED if isinstance(value, dict) else _Key.ITEM
        self.key_mark = mark
        self.steps: dict[str | int, Place] = {}

    def next_path(self) -> Path:
        """Where the next value goes; the collection itself where that is dropped, or a key comes next."""
        if self.key is _Key.ITEM:
            return (*self.path, len(self.value))
        return (*self.path, self.key) if isinstance(self.key, str) else self.path


class Builder:
    """Takes events in order and holds what they amount to."""

    def __init__(self, stand_in: str | None = None) -> None:
        """A colon is put back where `stand_in` stands in a value."""
        self.faults: list[Fault] = []
        self.refused: set[Path] = set()
        self.incomplete: set[Path] = set()
        self.boolean_words: list[tuple[Path, str]] = []
        self.secret_spans: list[Span] = []
        self.value: Any = None
        self.root: Place | None = None
        self.too_deep = False
        self._stand_in: Final = stand_in
        self._stack: list[_Frame] = []

    @property
    def inside_env(self) -> bool:
        """Whether what comes next may be a secret."""
        return bool(self._stack) and (self._stack[-1].secret or self._stack[-1].key == ENV)

    def fault(self, rule: YamlRule, mark: Mark, message: str, hint: str | None) -> None:
        """Record what is wrong at a place."""
        self.faults.append(Fault(rule, message, hint, mark.line + 1, mark.column + 1, self._path()))

    def scalar(self, text: str, start: Mark, end: Mark, style: str, *, hole: bool) -> None:
        """A key or a value; a hole was refused already."""
        if self._stand_in is not None:
            text = text.replace(self._stand_in, ":")
        frame = self._stack[-1] if self._stack else None
        if frame is not None:
            is_key = frame.key is _Key.AWAITED
            is_pasted = frame.key in _PASTED and not VARIABLE.fullmatch(text)
            if frame.key == ENV or is_pasted or (frame.secret and not (is_key and VARIABLE.fullmatch(text))):
                self.secret_spans.append(Span(start.line, start.column, end.line, end.column))
            if is_key:
                self._take_key(frame, text, start, style, hole=hole)
                return
        self._attach(REFUSED if hole else self._resolve(text, start, style), start)

    def open(self, mark: Mark, *, is_mapping: bool, hole: bool) -> None:
        """A list or mapping begins, as a value or, refused, as a key."""
        if len(self._stack) >= DEPTH_LIMIT:
            self.fault(YamlRule.TOO_DEEP, mark, f"nested more than {DEPTH_LIMIT} deep", "flatten it")
            self.too_deep = True
            raise TooDeep
        value: dict[str, Any] | list[Any] = {} if is_mapping else []
        is_key = bool(self._stack) and self._stack[-1].key is _Key.AWAITED
        frame = _Frame(value, self._path(), mark, secret=self.inside_env, is_key=is_key)
        if is_key:
            kind = "mapping" if is_mapping else "list"
            self.fault(YamlRule.TYPE, mark, f"a {kind} cannot be a field name", "write the name as text")
            self.incomplete.add(frame.path)
        else:
            self._attach(REFUSED if hole else value, mark).steps = frame.steps
        self._stack.append(frame)

    def close(self) -> None:
        """The innermost list or mapping ends."""
        if self._stack.pop().is_key:
            self._stack[-1].key = _Key.DROPPED

    def alias(self, name: str, start: Mark, end: Mark) -> None:
        """A reference to another value, or a secret that begins with an asterisk."""
        named = "an alias"
        if self.inside_env:
            self.secret_spans.append(Span(start.line, start.column, end.line, end.column))
        else:
            named = f"alias *{shorten(name)}"
        hint = "write the value itself; text that begins with * goes in quotes"
        self.fault(YamlRule.ALIAS, start, f"{named} is refused", hint)
        self.hole(start)

    def hole(self, mark: Mark) -> None:
        """Something refused stands here instead of a key or a value."""
        if self._stack and self._stack[-1].key is _Key.AWAITED:
            self._drop_key(self._stack[-1])
        else:
            self._attach(REFUSED, mark)

    def _take_key(self, frame: _Frame, text: str, mark: Mark, style: str, *, hole: bool) -> None:
        if hole:
            self._drop_key(frame)
        elif style == _PLAIN and text == "<<":
            self.fault(YamlRule.ALIAS, mark, "merge keys are refused", "write the fields out")
            self._drop_key(frame)
        elif style == _PLAIN and not isinstance(resolve(text), str):
            shown = shown_key(text, frame.path)
            named = f"a field name must be text, found {shown}" if text else "a field name is missing"
            self.fault(YamlRule.TYPE, mark, named, f'put it in quotes: "{shown}"' if text else None)
            self._drop_key(frame)
        elif style == _DOUBLE_QUOTED and unprintable(text):
            self.fault(YamlRule.SYNTAX, mark, "a control character in a field name", "remove it")
            self._drop_key(frame)
        elif text in frame.value:
            first = frame.steps[text].key_line + 1
            name = display((*frame.path, text))
            self.fault(YamlRule.DUPLICATE_KEY, mark, f"{name} is written twice; first on line {first}", "remove one")
            frame.key = _Key.DROPPED
        else:
            frame.key, frame.key_mark = text, mark

    def _drop_key(self, frame: _Frame) -> None:
        frame.key = _Key.DROPPED
        self.incomplete.add(frame.path)

    def _resolve(self, text: str, mark: Mark, style: str) -> Any:
        if style == _DOUBLE_QUOTED and unprintable(text):
            self.fault(YamlRule.SYNTAX, mark, "a control character in a value", "remove the escape that makes it")
            return REFUSED
        if style != _PLAIN:
            return text
        if text in BOOLEAN_WORDS:
            self.boolean_words.append((self._path(), text))
            return text
        value = resolve(text)
        if isinstance(value, Ambiguous):
            self._refuse_numeral(text, value, mark)
            return REFUSED
        return value

    def _refuse_numeral(self, text: str, why: Ambiguous, mark: Mark) -> None:
        if self.inside_env:
            self.fault(YamlRule.TYPE, mark, f"this value {why.reason}", "put it in quotes")
            return
        quoted = f'"{shorten(text)}" for text'
        hint = f"write {why.instead or 'another number'}, or {quoted}"
        self.fault(YamlRule.TYPE, mark, f"{shorten(text)} {why.reason}", hint)

    def _attach(self, value: Any, mark: Mark) -> Place:
        """Put a value where it belongs; its place is returned, also where the value is dropped."""
        if value is REFUSED and not (self._stack and self._stack[-1].key is _Key.DROPPED):
            self.refused.add(self._path())
        if not self._stack:
            self.value, self.root = value, Place(mark, mark)
            return self.root
        frame = self._stack[-1]
        key = frame.key
        if key is _Key.ITEM:
            place = Place(mark, mark)
            frame.steps[len(frame.value)] = place
            frame.value.append(value)
            return place
        place = Place(mark, frame.key_mark)
        if isinstance(key, str):
            frame.value[key] = value
            frame.steps[key] = place
        frame.key = _Key.AWAITED
        return place

    def _path(self) -> Path:
        """Where the next value goes."""
        return self._stack[-1].next_path() if self._stack else ()
