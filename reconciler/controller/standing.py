"""What outlives a command besides git and the agents: intents of people, one file each, and the roster.

Every intent is a file of its own, written whole or not at all, so that two commands at once never lose one. A file that
cannot be read stops the reader, not the fleet: a suspension that is not understood must not be taken for none.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pydantic import ValidationError

from reconciler.controller.heard import Heard
from reconciler.domain.intent import Intent
from reconciler.domain.roster import Roster
from reconciler.durable import make_private_directory, write_atomically
from reconciler.errors import StateError
from reconciler.planning.aim import slots_held
from reconciler.planning.limits import approval, next_roster, removed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime
    from pathlib import Path

    from reconciler.controller.aim import Aim
    from reconciler.domain.desired import Desired
    from reconciler.domain.intent import IntentKind
    from reconciler.domain.observed import Observation

_INTENTS = "intents"
_ROSTER = "roster.json"


@dataclass(frozen=True, slots=True)
class Standing:
    """All of it, as one pass reads it."""

    intents: tuple[Intent, ...] = ()
    """Sorted by id; expired ones too, which the planner ignores."""
    roster: Roster | None = None
    """None before anything was made real from here."""

    def over(self, aim: Aim) -> Aim:
        """The same aim, with what its removals are measured against."""
        if aim.desired.roster == self.roster:
            return aim
        return replace(aim, desired=replace(aim.desired, roster=self.roster))


@dataclass(slots=True)
class Ledger:
    """What stands, read before every pass of `apply` and `run`, and what a pass leaves to be remembered."""

    state: Path
    said: Callable[[str], None]
    _standing: Standing | None = None
    _trouble: str | None = None
    _heard: Heard = field(init=False)

    def __post_init__(self) -> None:
        self._heard = Heard(self.state)

    def read(self) -> Standing:
        """As the state directory says; what was read last while it cannot be read. StateError before it ever could."""
        try:
            self._standing, self._trouble = read_standing(self.state), None
        except StateError as error:
            if self._standing is None:
                raise
            if error.message != self._trouble:
                self._trouble = error.message
                self.said(f"{error.message}; going on with what was last read")
        return self._standing

    def passed(self, desired: Desired, observed: Observation, used: Iterable[Intent] = ()) -> None:
        """After a pass: remember what the tree holds, and forget what is `used`, as `planning.used_up` finds it.

        An approval whose every replica has left is used up too.
        """
        self._heard.note(observed)
        standing = self.read()
        with suppress(StateError):  # it asks for nothing: the next pass tries again
            remove_intents(self.state, [each for each in used if each in standing.intents])
        held = slots_held(desired, observed)
        desired = replace(desired, roster=standing.roster)
        roster = next_roster(desired, held)
        if roster == standing.roster:
            return
        trouble = write_roster(self.state, roster)
        if trouble is not None and trouble != self._trouble:
            self._trouble = trouble
            self.said(f"note: {trouble}")
        approved = approval(removed(desired, held).gone)
        if removed(replace(desired, roster=roster), held).gone == {}:
            done = [each for each in standing.intents if each.digest == approved]
            with suppress(StateError):  # it stands for a set that is gone: whoever removes the same again is asked less
                remove_intents(self.state, done)


def read_standing(state: Path) -> Standing:
    """Read the intents and the roster; StateError where a file is there and cannot be understood."""
    found = (_intent(path) for path in _files(state))
    intents = sorted((each for each in found if each is not None), key=lambda each: each.id)
    return Standing(tuple(intents), _roster(state))


def add_intent(state: Path, intent: Intent) -> None:
    """Keep an intent; it takes the place of earlier ones of its kind about the same. StateError when the disk fails."""
    folder = state / _INTENTS
    before = [each for each in read_standing(state).intents if _subject(each) == _subject(intent)]
    try:
        make_private_directory(folder)
        write_atomically(_path(state, intent.id), intent.model_dump_json(exclude_none=True).encode())
    except OSError as error:
        raise StateError(f"{folder} cannot be written: {error.strerror}", hint="nothing has changed") from error
    remove_intents(state, before)


def remove_intents(state: Path, intents: Iterable[Intent]) -> None:
    """Forget these; what is gone already is gone."""
    for intent in intents:
        try:
            _path(state, intent.id).unlink(missing_ok=True)
        except OSError as error:
            raise StateError(f"{_path(state, intent.id)} cannot be removed: {error.strerror}") from error


def prune_intents(state: Path, intents: Iterable[Intent], now: datetime) -> None:
    """Remove what has expired; a disk that does not let go of it is no reason to stop, for it asks for nothing."""
    with suppress(StateError):
        remove_intents(state, [each for each in intents if not each.is_live(now)])


def intent_id(kind: IntentKind, now: datetime) -> str:
    """A new id: sorts by time, and no two commands share one."""
    return f"{kind}-{now:%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"


def write_roster(state: Path, roster: Roster) -> str | None:
    """Remember the roster; one sentence where the disk does not take it."""
    try:
        make_private_directory(state)
        write_atomically(state / _ROSTER, roster.model_dump_json().encode())
    except OSError as error:
        return f"{state / _ROSTER} cannot be written ({error.strerror}); removals are measured against the one before"
    return None


def stamp(state: Path) -> tuple[str, ...]:
    """What differs when an intent was added or removed; for watching at little cost."""
    return tuple(path.name for path in _files(state))


def _files(state: Path) -> list[Path]:
    try:
        return sorted(each for each in (state / _INTENTS).iterdir() if each.suffix == ".json")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise StateError(f"{state / _INTENTS} cannot be read: {error.strerror}") from error


def _path(state: Path, id_: str) -> Path:
    return state / _INTENTS / f"{id_}.json"


def _intent(path: Path) -> Intent | None:
    try:
        return Intent.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None  # withdrawn since it was listed
    except (OSError, ValidationError) as error:
        raise StateError(f"the intent in {path} cannot be read", hint="remove the file, then say it again") from error


def _roster(state: Path) -> Roster | None:
    path = state / _ROSTER
    try:
        return Roster.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValidationError) as error:
        hint = "remove it: then removals are measured against what runs, and protect is forgotten"
        raise StateError(f"{path} cannot be read", hint=hint) from error


def _subject(intent: Intent) -> tuple[str, str | None, str | None]:
    return intent.kind, intent.model, intent.digest
