"""How a replica of vLLM on CPUs divides the host RAM that is reserved for it: one place for the gate and the launch.

The launch gives the engine its cache in bytes, so that the cache is what this says. What a step computes with is not
taken out of it: its shape is not known where the command line is made. It counts towards the need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.tables import table
from reconciler.sizing.estimate import Estimate
from reconciler.sizing.overhead_rows import Place, chosen

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from reconciler.sizing.counting import CountingRules

_MIB = 2**20

LEAST_CACHE = 16 * _MIB
"""Asked for where nothing is left: the engine refuses it, and says in words how much one request would take (seen with
vLLM 0.32: "0.12 GiB KV cache is needed, which is larger than the available KV cache memory")."""


def processes_row(rules: CountingRules) -> Mapping[str, Any]:
    """The table's row for this engine version."""
    return chosen(table("overheads")["host_processes"], Place(rules.engine, rules.version, None, frozenset()))


def beside_weights(rules: CountingRules, ranks: int, vocabulary: int) -> Estimate:
    """Bytes on one node before the cache, weights apart: the processes of so many ranks, and what is kept twice.

    `vocabulary` are the bytes of embedding and output head on that node: vLLM keeps them as loaded and, prepared for
    its kernels, once more.
    """
    found = processes_row(rules)
    figures = zip(found["mib"], found["mib_per_rank"], found["vocabulary_copies"], strict=True)
    return Estimate(*(int(_MIB * (base + ranks * each)) + copies * vocabulary for base, each, copies in figures))


def cache_bytes(reserved: int, weights: int, beside: int) -> int:
    """What the caches of all ranks on one node get together of the RAM reserved there."""
    return max(LEAST_CACHE, reserved - weights - beside)
