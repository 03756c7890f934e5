"""What a plan means for people: memory before and after, who still serves, how long, how back; and GPUs at the peak.

For display only: nothing that is decided may depend on it.
"""

from __future__ import annotations

from reconciler.domain.base import Count, Frozen, Name, Number, Text
from reconciler.domain.placement import Placement, SlotName


class GpuMemory(Frozen):
    """What the fullest GPU of a replica holds, GiB; the host RAM that is reserved where it runs on CPUs."""

    needs_gib: Number
    """Weights, one full-length request and overheads, as likely."""
    usable_gib: Number
    """What weights, cache and overheads may use together."""


class ModelOutlook(Frozen):
    """What a plan means for one model that changes."""

    model: Name
    """Its name."""
    why_strategy: str | None = None
    """Why its replicas are replaced beside themselves or in place, as one clause; None where none is replaced."""
    width_before: Count | None = None
    """GPUs that one layer is split over; None where the engine splits none, or where it is not known."""
    width_after: Count | None = None
    """The same of what will run."""
    memory_before: GpuMemory | None = None
    """Of what runs; None where nothing runs or where it is not known."""
    memory_after: GpuMemory | None = None
    """Of what will run; None where nothing will or where it is not known."""
    wanted: Count
    """Replicas."""
    ready: Count
    """Replicas that serve now."""
    lowest: Count
    """The fewest that serve while the plan is carried out, unless something breaks on its own."""
    seconds: float | None = None
    """Until it is as desired, estimated; None where that is not known."""
    outage_seconds: float | None = None
    """How long nothing serves it, estimated; 0 for not at all, None where that is not known."""
    last_start_seconds: float | None = None
    """What the last start took, as agents report it; None where it never loaded."""
    expected: str | None = None
    """What a start takes by the size of the weights, in words; None where no lock tells."""
    drain_seconds: Number = 0.0
    """The longest that requests in flight get to end before a replica is signalled."""
    fallback_of: tuple[Name, ...] = ()
    """Models that name it as a fallback, where it stops for good."""
    way_back: str | None = None
    """How to undo it, and what that takes, as one clause."""


class ClassPeak(Frozen):
    """GPUs of one class that a plan moves."""

    gpu_class: Text
    """The class."""
    used: Count
    """In use now, by whomever."""
    peak: Count
    """The most in use at once, if all models change side by side; never more than there are."""
    total: Count
    """In the inventory, drained ones left out."""


class TimetableRow(Frozen):
    """One thing that happens while a plan is carried out, in a simulation of the fleet."""

    seconds: Number
    """From the start."""
    replica: SlotName
    """Whose; a slot has two replicas while one takes over from the other."""
    placement: Placement
    """Which of them, and where."""
    event: Text
    """starts, ready, withdrawn, gone, fails."""
    serving: Count
    """Replicas of the model that serve from then on."""
