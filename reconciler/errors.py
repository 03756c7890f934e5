"""What can go wrong in the shell, as exceptions; the core returns values instead.

ReconcilerError               anything a person should read as one message, without a traceback
├── UsageError                the command line asks for something that cannot be done (exit 2 or 1)
├── SourceError               git, a directory or a file could not be read
│   ├── NotInCommit           the commit was read, and has no cluster directory
│   └── InvalidCluster        it was read, and the gate has errors (carries the findings)
├── NodeError                 one node did not do what it was asked
│   ├── NodeUnreachable       it did not answer
│   ├── ClaimRefused          another reconciler holds it (carries the holder)
│   └── AssignmentRefused     it answered 409: the epoch or generation is old, or replicas were left out
├── StateError                the state directory could not be read or written
├── StalePlan                 a plan file no longer holds, or was carried out before (exit 4; carries the actions)
├── WeightsError              a source of weights could not be found or read
└── AgentError                the agent on this machine could not be started or stopped

Programming mistakes are plain `AssertionError` or `ValueError` and crash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reconciler.domain.finding import Finding


class ReconcilerError(Exception):
    """Base of all errors meant for a person; `hint` says what to do about it."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(ReconcilerError):
    """The command line asks for something that does not exist or does not go together."""


class SourceError(ReconcilerError):
    """Desired state could not be read; nothing may be stopped or removed because of it."""


class NotInCommit(SourceError):
    """The commit can be read and holds no cluster directory: a base may be from before it was added."""


class InvalidCluster(SourceError):
    """Desired state was read and is wrong; `findings` holds every reason."""

    def __init__(self, message: str, findings: Sequence[Finding]) -> None:
        super().__init__(message)
        self.findings = tuple(findings)


class NodeError(ReconcilerError):
    """One node did not do what it was asked; `node` is its name."""

    def __init__(self, node: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.node = node


class NodeUnreachable(NodeError):
    """The node did not answer; what runs there is unknown, not gone.

    `refused`: no connection came about, and that was told at once, which may be an agent that is just restarting.
    """

    def __init__(self, node: str, message: str, *, hint: str | None = None, refused: bool = False) -> None:
        super().__init__(node, message, hint=hint)
        self.refused = refused


class ClaimRefused(NodeError):
    """Another live reconciler holds the node; the message names the holder."""


class AssignmentRefused(NodeError):
    """The agent did not take the assignment; the message says which rule it broke."""


class StateError(ReconcilerError):
    """What the state directory keeps could not be read or written."""


class StalePlan(ReconcilerError):
    """A plan file no longer holds; `actions` says which actions do not and what changed, one line each."""

    def __init__(self, message: str, *, hint: str | None = None, actions: Sequence[str] = ()) -> None:
        super().__init__(message, hint=hint)
        self.actions = tuple(actions)


class WeightsError(ReconcilerError):
    """A source of weights could not be found, read or understood."""


class AgentError(ReconcilerError):
    """The agent on this machine could not be started, reached or stopped."""


def flattened(error: BaseException) -> Iterator[BaseException]:
    """The errors inside (nested) exception groups, in order; a plain error is itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from flattened(inner)
    else:
        yield error
