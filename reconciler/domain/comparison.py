"""What a change to `cluster/` does, told from its files alone: GPUs of each class, and each model that changes.

Nothing here knows what runs. It compares what two trees ask for, and `reconciler plan` says what the fleet does of it.
"""

from __future__ import annotations

from reconciler.domain.base import Count, Frozen, Name, Text
from reconciler.domain.model_spec import Strategy
from reconciler.domain.plan import Action, FieldChange


class LedgerRow(Frozen):
    """GPUs of one class, by the minimum of every model; each model counts with the first profile that a node takes."""

    gpu_class: Text
    """Kind of GPU."""
    total: Count
    """In service: neither they nor their nodes are drained."""
    before: Count
    """That the models of the base ask for."""
    after: Count
    """That the models ask for now."""
    peak: Count
    """The most in use at once while all that changes is rolled out; never more than there are."""
    short: Count
    """How many more all rollouts together would take at their peak: some wait for others."""
    free: Count
    """What is left of `total` in the end; 0 where more is asked for than there is."""


class Way(Frozen):
    """How one side of a change runs a model."""

    profile: Name
    """Name of the profile it is counted with."""
    gpu_class: Text | None
    """None runs on CPUs."""
    gpus: Count
    """Of one replica, all its nodes together; 0 on CPUs."""
    replicas: Count
    """The minimum."""
    gib_per_gpu: float | None = None
    """What the fullest GPU needs, GiB: weights, one full-length request and overheads, as likely; host RAM on CPUs."""
    kv_tokens: Count | None = None
    """Tokens that the cache of one replica holds over all its requests."""


class ModelChange(Frozen):
    """One model that differs between the two trees."""

    model: Name
    """Its name after the change, else the one it had."""
    action: Action
    """replace: what runs of the base must be replaced, whichever of its profiles it runs. update: nothing restarts."""
    fields: tuple[FieldChange, ...] = ()
    """Of what reaches the engine's process, of the profiles of both sides below."""
    before: Way | None = None
    """None where the base does not serve it."""
    after: Way | None = None
    """None where it is gone, or external."""
    strategy: Strategy | None = None
    """Of its replacement; None for every other action."""
    outage_seconds: float | None = None
    """How long nothing serves it, about; 0.0 where something always does, None where that is not known."""
