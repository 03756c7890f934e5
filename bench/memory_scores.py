"""Asks our arithmetic about starts that people published, and measures how far off it is. Not run by itself."""  # noqa: INP001  # beside a script, not part of a package

from __future__ import annotations

import hashlib
import statistics
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from reconciler.domain.model_spec import Engine
from reconciler.domain.shape import Shape
from reconciler.domain.tables import gpu_classes
from reconciler.engines.counting import counting_rules
from reconciler.sizing.budget import size
from reconciler.sizing.config_shape import read_config
from reconciler.sizing.kv import kv_cache
from reconciler.sizing.memory_ask import Card, MemoryAsk, Stored
from reconciler.sizing.overheads import batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from reconciler.sizing.sized import Sized

GIB, MIB = 2**30, 2**20
ANY = "h100-80gb"
"""Weights do not depend on the card; rows without one are asked on this."""
NO_LENGTH = 16
"""Context of rows that do not state one: no demand."""
Row = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """One row with our answer."""

    row: Row
    shape: Shape
    sized: Sized
    tokens: int | None
    """In the cache that was printed, by our rules."""
    card: Card
    files: int | None
    """Bytes of the files, where known."""

    @property
    def observed(self) -> dict[str, float]:
        """Printed figures."""
        found: dict[str, float] = self.row["observed"]
        return found

    @property
    def width(self) -> int:
        """Ranks of the replica."""
        return int(self.row["ask"]["tensor"] * self.row["ask"]["pipeline"])

    @property
    def fitted(self) -> bool:
        """Whether constants of the table of overheads were fitted to rows like it: half of the sweep's models."""
        half = hashlib.sha256(self.row["config"].split(" ")[0].encode()).digest()[0] % 2 == 0
        return bool(self.row["sweep"] and self.row["version"] == "0.19.0" and half)

    @property
    def warned(self) -> bool:
        """Whether the gate would say anything about its memory."""
        return bool(self.sized.remarks)

    @property
    def weights_error(self) -> float | None:
        """Ours over the printed, less one."""
        seen = self.observed.get("weights_gib")
        if seen is None or self.sized.per_gpu is None:
            return None
        return self.sized.per_gpu.weights.likely / GIB / seen - 1

    @property
    def files_error(self) -> float | None:
        """The same for bytes of the files over the width, which is what most tools say."""
        seen = self.observed.get("weights_gib")
        return None if seen is None or self.files is None else self.files / self.width / GIB / seen - 1

    @property
    def tokens_error(self) -> float | None:
        """From the printed cache."""
        seen = self.observed.get("kv_cache_tokens")
        return None if not seen or self.tokens is None else self.tokens / seen - 1

    @property
    def budget_tokens_error(self) -> float | None:
        """From card, share and length alone."""
        seen = self.observed.get("kv_cache_tokens")
        return None if not seen or self.sized.kv_tokens is None else self.sized.kv_tokens / seen - 1

    @property
    def budget_gib(self) -> float | None:
        """Cache, ours less the printed, GiB a card."""
        seen = self.cache_gib
        if seen is None or self.sized.per_gpu is None:
            return None
        return self.sized.per_gpu.kv_cache.likely / GIB - seen

    @property
    def files_budget_gib(self) -> float | None:
        """The same for share x card less the files, without overheads."""
        seen, share = self.cache_gib, self.row["ask"].get("share")
        if seen is None or self.files is None or share is None:
            return None
        return (share * self.card.engine_bytes - self.files / self.width) / GIB - seen

    @property
    def cache_gib(self) -> float | None:
        """The printed cache, in GiB or as blocks of a plain cache."""
        if (seen := self.observed.get("kv_cache_gib")) is not None:
            return seen
        blocks, per_token = self.observed.get("gpu_blocks"), self.sized.kv_bytes_per_token
        if blocks is None or per_token is None:
            return None
        return blocks * self.observed.get("block_size", 16) * per_token / GIB


@dataclass
class Errors:
    """Errors of one kind, with the rows they are of."""

    found: list[tuple[float, Asked]] = field(default_factory=list)

    @classmethod
    def of(cls, asked: Iterable[Asked], measure: Callable[[Asked], float | None]) -> Errors:
        """Of the rows that have it."""
        return cls([(error, each) for each in asked if (error := measure(each)) is not None])

    @property
    def sizes(self) -> list[float]:
        """Without their signs, smallest first."""
        return sorted(abs(error) for error, _ in self.found)

    @property
    def median(self) -> float:
        """Half are below."""
        return statistics.median(self.sizes)

    @property
    def nine_in_ten(self) -> float:
        """The smallest that 90 % do not exceed."""
        return self.sizes[min(len(self.sizes) - 1, -(-len(self.sizes) * 9 // 10) - 1)]

    @property
    def worst(self) -> float:
        """The largest."""
        return self.sizes[-1]

    @property
    def lean(self) -> float:
        """The median with its sign."""
        return statistics.median(error for error, _ in self.found)


def answers(data: Row) -> list[Asked]:
    """Every row with a readable shape."""
    shapes = {name: read_config(each["config"]) for name, each in data["configs"].items()}
    return [
        _ask(row, shape, data["configs"][row["config"]]["weight_bytes"])
        for row in data["rows"]
        if isinstance(shape := shapes[row["config"]], Shape)
    ]


def _ask(row: Row, shape: Shape, weight_bytes: int | None) -> Asked:
    rules = counting_rules(Engine(row["engine"]), row["version"])
    said = dict(row["ask"])
    if "context" not in said:
        said["context"] = NO_LENGTH
    ask = MemoryAsk(gpus=said["tensor"] * said["pipeline"] * said.get("data", 1), **said)
    name = row["gpu"] or ANY
    known = gpu_classes()[name]
    total = row["observed"].get("gpu_total_gib")
    card = Card(name, known.memory_mib * MIB, int(total * GIB) if total else known.engine_mib * MIB)
    sized = size(shape, Stored(weight_bytes), ask, card, rules)
    printed = row["observed"].get("kv_cache_gib")
    resolved = replace(ask, batch_tokens=batch(ask, card, rules).tokens)
    cache = kv_cache(shape, resolved, rules) if printed else None
    tokens = cache.tokens_in(int(printed * GIB)) if cache is not None and printed else None
    return Asked(row, shape, sized, tokens, card, weight_bytes)
