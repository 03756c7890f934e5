"""Values that are in use, by key; what is not asked for any more is forgotten, so that `run` can go on for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

Key = TypeVar("Key")
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """What was asked for since the last turn, and in the turn before it: bounded by what is in use."""

    def __init__(self) -> None:
        self._before: dict[Key, Value] = {}
        self._now: dict[Key, Value] = {}

    def find(self, key: Key) -> Value | None:
        """The value of a key, which is in use from now on; None where it is not known."""
        found = self._now.get(key)
        if found is None:
            found = self._before.get(key)
            if found is not None:
                self._now[key] = found
        return found

    def keep(self, key: Key, value: Value) -> Value:
        """Take a value."""
        self._now[key] = value
        return value

    def in_use(self) -> Mapping[Key, Value]:
        """Everything since the last turn."""
        return self._now

    def turn(self) -> None:
        """Forget what was not asked for since the last one."""
        self._before, self._now = self._now, {}
