"""How long a replica takes from launch to its first answer, as far as files tell: what an outage in place lasts.

Agents report the real figure once a model has loaded, and plans use that. Before a merge there is only the lock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Engine
from reconciler.gate.phrases import about

if TYPE_CHECKING:
    from reconciler.gate.knowledge import Knowledge
    from reconciler.gate.subject import Use

READ_GIB = 1.0
"""GiB of weights read in a second, from a node's own disk: published logs have a checkpoint of about 27 GiB loaded in
20 s, and slower disks (facts/engines.md section 4.4). It can go when nodes state what they measured."""

START_SECONDS = {
    Engine.VLLM: 90,
    Engine.SGLANG: 60,
    Engine.TRTLLM: 180,
    Engine.LLAMACPP: 5,
    Engine.COMFYUI: 15,
}
"""From weights in place to the first answer. vLLM: 39 s for 8B, 71 s for a 27B class, 200 s for 70B over 8 cards, with
compiling and graphs (facts/engines.md section 4.4); SGLang has graphs and no compiling by default; TensorRT-LLM tunes
for minutes; llama.cpp maps its file. Known within a factor of two, and said as `about`."""

_GIB = 2**30


@dataclass(frozen=True, slots=True)
class Loading:
    """An estimate with its basis."""

    seconds: float
    basis: str

    @property
    def words(self) -> str:
        """`about 3 min (weights 131 GiB at 1 GiB/s, then about 90 s until vllm answers)`."""
        return f"{about(self.seconds)} ({self.basis})"


def loading(knowledge: Knowledge, use: Use) -> Loading | None:
    """The estimate for a profile; None without the size of its weights in a lock."""
    locked = knowledge.locked(use.model, use.profile)
    if locked is None or locked.weight_bytes is None:
        return None
    gib = locked.weight_bytes / _GIB
    engine = use.profile.engine
    start = START_SECONDS[engine]
    size = f"{gib:.0f}" if gib >= 10 else f"{gib:.1f}"  # noqa: PLR2004  # two digits say enough
    basis = f"weights {size} GiB at {READ_GIB:g} GiB/s, then {about(start)} until {engine} answers"
    return Loading(gib / READ_GIB + start, basis)
