"""Reads figures out of a parsed config the way transformers does: other spellings, then the family's defaults.

No value is trusted: a figure of the wrong type counts as missing and is named.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reconciler.domain.tables import table

if TYPE_CHECKING:
    from collections.abc import Mapping

LARGEST_FIGURE = 2**40
"""No width, count or length of a model comes near; larger ones are typing errors and would only cost time."""
LONGEST_SHOWN = 40
"""Letters of a wrong value in a remark: enough to recognise it."""


@dataclass(slots=True)
class Remarks:
    """Collects what a reader assumed and what it could not tell, each once and in order."""

    assumed: dict[str, None] = field(default_factory=dict)
    unknown: dict[str, None] = field(default_factory=dict)

    def assume(self, sentence: str) -> None:
        """Note a figure that the config leaves to its family's defaults."""
        self.assumed[sentence] = None

    def wonder(self, sentence: str) -> None:
        """Note something that could not be told."""
        self.unknown[sentence] = None


class Fields:
    """One object of a config with its model type; names are those that vLLM and transformers ask for."""

    __slots__ = ("_defaults", "_names", "_sections", "model_type", "path", "raw", "remarks")

    def __init__(self, raw: Mapping[str, Any], remarks: Remarks, model_type: str = "", path: str = "") -> None:
        self.raw = raw
        self.remarks = remarks
        self.path = path
        written = raw.get("model_type")
        self.model_type = written if isinstance(written, str) and written else model_type
        family = table("config_defaults")["model_types"].get(self.model_type, {})
        self._names: Mapping[str, str] = family.get("names", {})
        self._defaults: Mapping[str, Any] = family.get("defaults", {})
        self._sections: Mapping[str, str] = family.get("sections", {})

    def written(self, *names: str) -> Any:
        """The first of these names that the config sets to something, under any spelling of its family."""
        for name in names:
            real = self._names.get(name, name)
            if (value := self.raw.get(real)) is not None or (value := self.raw.get(name)) is not None:
                return value
            for other, target in self._names.items():
                if target == real and (value := self.raw.get(other)) is not None:
                    return value
        return None

    def emptied(self, name: str) -> bool:
        """Whether the config writes null here, which switches the family's default off."""
        return name in self.raw or self._names.get(name, name) in self.raw

    def whole(self, *names: str) -> int | None:
        """A count or width, not negative; what the config leaves out comes from its family's defaults."""
        for name in names:
            if (value := self.written(name)) is None:
                continue
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            if type(value) is int and 0 <= value <= LARGEST_FIGURE:
                return value
            self.remarks.wonder(f"{self.path}{name} is {_shown(value)}, expected a whole number")
        for name in names:
            default = None if self.emptied(name) else self._defaults.get(self._names.get(name, name))
            if type(default) is int:
                self.remarks.assume(f"{self.path}{name} is not written: {default}, as {self.model_type} has it")
                return default
        return None

    def number(self, name: str) -> float | None:
        """A plain finite number."""
        value = self.written(name)
        if type(value) in (int, float) and abs(value) < LARGEST_FIGURE:
            return float(value)
        return self._defaults.get(self._names.get(name, name)) if value is None else None

    def flag(self, name: str, *, default: bool = False) -> bool:
        """A yes or no; anything else counts as not written."""
        value = self.written(name)
        if isinstance(value, bool):
            return value
        known = self._defaults.get(self._names.get(name, name))
        return known if isinstance(known, bool) else default

    def text(self, name: str) -> str | None:
        """A string that is not empty."""
        value = self.written(name)
        return value if isinstance(value, str) and value else None

    def items(self, *names: str) -> list[Any] | None:
        """A list under the first of these names that holds one."""
        for name in names:
            value = self.written(name)
            if isinstance(value, list):
                return value
        return None

    def section(self, *names: str) -> Fields | None:
        """A nested config, with the model type that this family gives it where it names none."""
        for name in names:
            value = self.written(name)
            if isinstance(value, dict):
                kind = self._sections.get(name, "")
                return Fields(value, self.remarks, kind, f"{self.path}{name}.")
        for name in names:
            if known := self._sections.get(name):
                self.remarks.assume(f"{self.path}{name} is not written: as {known} has it")
                return Fields({}, self.remarks, known, f"{self.path}{name}.")
        return None


def _shown(value: Any) -> str:
    """A value short enough for one line; numbers beyond reason are not spelled out."""
    if isinstance(value, int) and abs(value) > LARGEST_FIGURE:
        return "a number beyond 2^40"
    text = repr(value)[: LONGEST_SHOWN + 1]
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."
