"""An engine process that is not there: when it answers, when it ends, and until when it holds its GPUs' memory."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from reconciler.engines.signals import KILLED_FROM_OUTSIDE

if TYPE_CHECKING:
    from reconciler.domain.declaration import DeclaredAdapter


@dataclass(frozen=True, slots=True)
class Course:
    """How one launch goes, in seconds. The defaults are a small model that comes up and ends as it should."""

    load_seconds: float = 60.0
    """From launch until it answers a token; infinite for one that never does."""
    failure: str | None = None
    """Its last words when it ends by itself instead of answering, after `load_seconds`."""
    silent: bool = False
    """It shows no progress while it loads, so that its ready_timeout runs from the launch on."""
    drain_seconds: float = 2.0
    """How long its requests in flight take to end once nobody sends it new ones."""
    exit_seconds: float = 3.0
    """From the signal until its process is gone."""
    frees_seconds: float = 0.0
    """From then until its GPUs' memory is measured free: drivers have taken minutes."""
    notices_seconds: float = 0.0
    """Until it ends after a part of it on another node has; infinite for one that serves on without its rank."""


LOST_GPU = Course(load_seconds=1.0, failure="CUDA error: the GPU does not answer", exit_seconds=0.0)
FULL_GPU = Course(load_seconds=1.0, failure="CUDA out of memory: something else holds the GPU", exit_seconds=0.0)


@dataclass(slots=True, eq=False)
class EngineProcess:
    """One launched process group."""

    pid: int
    course: Course
    launched_at: float
    ended_at: float = inf
    """When it was ended from outside, or will be; infinite while nothing has."""
    last_words: str = "exited with code 1"
    mute_since: float | None = None
    """Since when it runs and answers nothing."""
    busy_until: float = -inf
    """When the last of its requests ends."""
    adapters: tuple[DeclaredAdapter, ...] | None = None
    """What it lists; None where nobody has asked it, since none was ever wanted."""
    partners: tuple[EngineProcess, ...] = ()
    """On other nodes, those with which it became ready: it never takes another in the place of one of them."""

    @property
    def loaded_at(self) -> float:
        """When it answers for the first time; infinite where it never does."""
        return inf if self.course.failure is not None else self.launched_at + self.course.load_seconds

    @property
    def gone_at(self) -> float:
        """When its process is gone."""
        fails_at = self.launched_at + self.course.load_seconds if self.course.failure is not None else inf
        return min(self.ended_at, fails_at)

    @property
    def free_at(self) -> float:
        """When its GPUs' memory is measured free."""
        return self.gone_at + self.course.frees_seconds

    @property
    def why(self) -> str:
        """Its last words."""
        is_its_own = self.course.failure is not None and self.ended_at > self.launched_at + self.course.load_seconds
        return self.course.failure or self.last_words if is_its_own else self.last_words

    def answers(self, now: float) -> bool:
        """Whether a request gets a token."""
        return self.loaded_at <= now < self.gone_at and self.mute_since is None

    def meets(self, part: EngineProcess, now: float) -> bool:
        """Whether this part on another node is loaded and has not become ready with another one than this."""
        return part.answers(now) and (not part.partners or self in part.partners)

    def lost_a_partner(self, now: float) -> bool:
        """Whether a part with which it became ready has ended."""
        return any(now >= part.gone_at for part in self.partners)

    @property
    def all_mute_since(self) -> float | None:
        """Since when it or a partner answers nothing: a token needs every part."""
        mute = [part.mute_since for part in (self, *self.partners) if part.mute_since is not None]
        return min(mute, default=None)

    def in_flight(self, now: float) -> int:
        """Requests in flight: one, or none."""
        return int(now < self.busy_until)

    def end(self, at: float, last_words: str = KILLED_FROM_OUTSIDE) -> None:
        """It is gone from this instant on, unless it was gone before."""
        if at < self.gone_at:
            self.ended_at, self.last_words = at, last_words
