"""What became of asking an external model whether it is there, under its name, for our key."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ExternalVerdict(StrEnum):
    """One word for the answer of an external model."""

    REACHABLE = "reachable"
    """It lists the model under the name of `external.model`, else under its name or one of its aliases."""
    UNREACHABLE = "unreachable"
    """No answer in time, or none that is a list of models."""
    WRONG_NAME = "wrong-name"
    """It lists models, and none of them under a name of this one."""
    KEY_REFUSED = "key-refused"
    """It answers 401 or 403."""
    KEY_MISSING = "key-missing"
    """The variable of `external.api_key_env` holds no key; nothing was sent."""


@dataclass(frozen=True, slots=True)
class ExternalAnswer:
    """The verdict, and one sentence for people: with the host's name, never with a key, a path or a query."""

    verdict: ExternalVerdict
    message: str

    @property
    def is_ready(self) -> bool:
        """Whether requests for the model would be answered, as far as a list of models can tell."""
        return self.verdict is ExternalVerdict.REACHABLE
