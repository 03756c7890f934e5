"""Settings with secrets in them, for engines that take those from a file only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class SecretSettings:
    """A file of settings whose values are declared variables, by the names of both; YAML, one setting a line.

    The values, secrets mostly, are put in by the agent as it writes the file, so that no Launch ever holds one. A
    variable that goes into a file is kept out of the engine's environment.
    """

    variables: Mapping[str, str]
    """Setting → declared variable."""
