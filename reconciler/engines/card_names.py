"""Which card of which node a sentence about an engine's end means: engines count the GPUs that they see from 0.

What an engine sees are the placed GPUs in the order placed (`devices`), also where they are given by number, as to vLLM
before 0.24, and under llama.cpp's names (CUDA0, ROCm0): its number is a place in that order.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Engine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reconciler.domain.declaration import Declaration
    from reconciler.domain.placement import PlacedGpu, Shard

_COUNTED = re.compile(r"\bGPU (?P<gpu>\d+) \(as (?:the engine|rank (?P<rank>\d+)) counts them\)")
"""As `failures.counted` and TensorRT-LLM's own rows write it."""

_RANKS_GPU = re.compile(r"\bthe GPU of rank (\d+)\b")
_RANK = re.compile(r"(?<!as )\brank (\d+)\b")
_PART = re.compile(r"\bpart-(\d+)\b")
"""What `mpi.part` calls a further node."""

_PART_AT = re.compile(r"\bits part on (\S+) \(port (\d+)\)")
"""The same by the address under which the first node looks for it (`mpi_log`)."""

_SHOWN = 12
"""Characters of a UUID: `GPU-` and the first eight digits, by which `nvidia-smi -L` finds it."""


def name_cards(
    sentence: str, declaration: Declaration, shards: Sequence[Shard], here: int, addresses: Sequence[str] = ()
) -> str:
    """The sentence with the node's own cards and nodes in it: `GPU 5 (GPU-1a2b3c4d…) has too little free memory: …`.

    `here` is the shard whose agent reads the log, `addresses` those of all shards, where there are several. Where it
    cannot be known which card is meant the engine's own number stays: it is out of the range of the placed GPUs, or the
    log is of several nodes and no rank stands beside it.
    """
    spread = declaration.engine is Engine.TRTLLM and len(shards) > 1
    places = _Places(tuple(shards), here, spread, certain=not spread and not _counts_in_part(declaration))
    sentence = _RANKS_GPU.sub(places.of_rank, _COUNTED.sub(places.counted, sentence))
    if not spread:
        return sentence
    nodes = dict(zip(addresses, (shard.node for shard in shards), strict=False))
    sentence = _PART.sub(places.part, _RANK.sub(places.rank, sentence))
    return _PART_AT.sub(lambda found: _part_at(found, nodes), sentence)


@dataclass(frozen=True, slots=True)
class _Places:
    """What the numbers in a sentence stand for; each method takes what was found, and leaves what it cannot tell."""

    shards: tuple[Shard, ...]
    here: int
    spread: bool
    """Whether the log is of all shards: under MPI the first node's mpirun passes on what every rank writes."""
    certain: bool
    """Whether a bare number counts this shard's GPUs."""

    def counted(self, found: re.Match[str]) -> str:
        if found["rank"] is not None:
            return self._card(self._shard_of(int(found["rank"])), int(found["gpu"]), found)
        return self._card(self.here, int(found["gpu"]), found) if self.certain else found[0]

    def of_rank(self, found: re.Match[str]) -> str:
        rank = int(found[1])
        return self._card(self._shard_of(rank), rank % self._each, found)

    def rank(self, found: re.Match[str]) -> str:
        shard = self._shard_of(int(found[1]))
        return f"{found[0]} ({self.shards[shard].node})" if shard < len(self.shards) else found[0]

    def part(self, found: re.Match[str]) -> str:
        shard = int(found[1])
        return self.shards[shard].node if shard < len(self.shards) else found[0]

    @property
    def _each(self) -> int:
        """Ranks of a node, one a GPU."""
        return max(1, len(self.shards[self.here].gpus))

    def _shard_of(self, rank: int) -> int:
        return rank // self._each if self.spread else self.here

    def _card(self, shard: int, place: int, found: re.Match[str]) -> str:
        if shard >= len(self.shards) or place >= len(self.shards[shard].gpus):
            return found[0]
        card = _card(self.shards[shard].gpus[place])
        return f"{card} of {self.shards[shard].node}" if len(self.shards) > 1 else card


def _counts_in_part(declaration: Declaration) -> bool:
    """Data-parallel ranks of vLLM see all GPUs of the node (read in 0.32), those of older versions only their own."""
    return declaration.engine is Engine.VLLM and declaration.data_parallel > 1


def _part_at(found: re.Match[str], nodes: Mapping[str, str]) -> str:
    node = nodes.get(found[1])
    return found[0] if node is None else f"its part on {node} ({found[1]} port {found[2]})"


def _card(gpu: PlacedGpu) -> str:
    short = gpu.uuid if len(gpu.uuid) <= _SHOWN else f"{gpu.uuid[:_SHOWN]}…"
    return f"GPU {gpu.index} ({short})"
