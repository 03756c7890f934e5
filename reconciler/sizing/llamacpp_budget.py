"""What llama.cpp would hold: it allocates weights, the cache of all slots and its compute buffers, and nothing else.

The fullest card decides, for an allocation that fails there ends the start (the launch pins `--fit off`). On CPUs the
same lies in host RAM. A slot gets the declared context: the launch asks for context x slots.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from reconciler.domain.shape import Shape, Unreadable
from reconciler.sizing.estimate import NOTHING, Estimate
from reconciler.sizing.fit_remarks import gib
from reconciler.sizing.llamacpp_cache import PADDING
from reconciler.sizing.llamacpp_compute import model_of
from reconciler.sizing.llamacpp_host import host_remark
from reconciler.sizing.llamacpp_layout import Layout
from reconciler.sizing.llamacpp_weights import weights_of
from reconciler.sizing.sized import Breakdown, FitVerdict, MemoryReason, Remark, Sized
from reconciler.sizing.unknown_budget import size_unknown

if TYPE_CHECKING:
    from reconciler.sizing.counting import CountingRules
    from reconciler.sizing.llamacpp_layout import Holding
    from reconciler.sizing.memory_ask import Card, MemoryAsk, Stored


def size_layers(
    shape: Shape | Unreadable | None, stored: Stored, ask: MemoryAsk, card: Card | None, rules: CountingRules
) -> Sized:
    """What the fullest GPU would hold, or on CPUs (`card` None) the host RAM, and the verdict.

    Refused where even the least it may be is more than there is, tight where the most is.
    """
    if not isinstance(shape, Shape):
        return size_unknown(shape, stored, ask, card, rules)
    context = ask.context or (shape.trained.longest if shape.trained else None)
    if (missing := _missing(context, ask, card)) is not None or context is None:
        return size_unknown(missing, stored, ask, card, rules)
    total = card.engine_bytes if card is not None and ask.gpus else ask.host_bytes or 0
    usable = int(total * (ask.share or rules.share))
    layout = Layout(model_of(shape), stored, ask, rules, weights_of(shape, stored))
    holding = layout.fullest(context)
    remarks = _remarks(layout, holding, context, usable)
    cells = layout.cells(context)
    return Sized(
        verdict=_verdict(remarks),
        remarks=remarks,
        per_gpu=_breakdown(holding, total, usable),
        kv_bytes_per_token=holding.per_token or None,
        kv_tokens=cells.context * cells.streams if holding.per_token else None,
        longest_request=None if shape.encoder else _longest(layout, usable),
        concurrency=float(layout.slots),
        basis=_basis(rules, ask),
        doubts=_doubts(layout),
    )


def _missing(context: int | None, ask: MemoryAsk, card: Card | None) -> Unreadable | None:
    """What nothing can be said without."""
    if ask.gpus and card is None:
        return Unreadable("the memory of its GPU class is not known")
    if not ask.gpus and not ask.host_bytes:
        return Unreadable("memory_gib is not written, so there is no host RAM to divide")
    return None if context is not None else Unreadable("neither a context nor a trained length is known")


def _breakdown(holding: Holding, total: int, usable: int) -> Breakdown:
    return Breakdown(
        total=total,
        usable=usable,
        reserves=holding.allocated.likely,
        weights=holding.weights,
        activations=holding.compute,
        graphs=NOTHING,
        runtime=holding.runtime,
        kv_one_request=holding.request,
        kv_cache=Estimate.exactly(holding.cache),
        needs=holding.needs,
    )


def _remarks(layout: Layout, holding: Holding, context: int, usable: int) -> tuple[Remark, ...]:
    ask = layout.ask
    found = [_room(layout, holding, context, usable)]
    if ask.gpus and ask.host_bytes:
        found.append(host_remark(layout.model, layout.weights, layout.cells(context), ask))
    return tuple(each for each in found if each is not None)


def _room(layout: Layout, holding: Holding, context: int, usable: int) -> Remark | None:
    """Whether weights, then one request with overheads, then all slots fit."""
    gpus, slots, needs, takes = layout.ask.gpus, layout.slots, holding.needs, holding.allocated
    where = "GiB a GPU" if gpus else "GiB of host RAM"
    alone = MemoryReason.WEIGHTS if gpus else MemoryReason.HOST_RAM
    weights = gib(holding.weights.likely)
    if holding.weights.low > usable:
        return Remark(alone, f"the weights alone take {weights} of {gib(usable)} {where}", certain=True)
    overhead = gib((holding.compute + holding.runtime).likely)
    if needs.low > usable:
        parts = f"{weights} weights, {gib(holding.request)} for one request of {context:,} tokens, {overhead} overhead"
        said = f"needs {gib(needs.likely)} of {gib(usable)} {where}: {parts}"
        return Remark(MemoryReason.REQUEST if gpus else alone, said, certain=True)
    cache = f"{gib(holding.cache)} for {slots} {'slots' if slots > 1 else 'slot'} of {context:,} tokens"
    said = f"takes {gib(takes.likely)} of {gib(usable)} {where}: {weights} weights, {cache}, {overhead} overhead"
    if takes.low > usable:
        fitting = _slots_that_fit(layout, context, usable)
        said = f"{said}; {fitting} {'slots fit' if fitting != 1 else 'fits'}"
        return Remark(MemoryReason.SLOTS, said, certain=True, held=float(fitting))
    if takes.high > usable:
        band = f"it may be {gib(takes.low)} to {gib(takes.high)}"
        return Remark(MemoryReason.TIGHT, f"{said} ({band})", certain=False)
    return None


def _slots_that_fit(layout: Layout, context: int, usable: int) -> int:
    """The most slots whose likely need fits, fewer than asked; 0 where none do."""
    low, high = 0, layout.slots - 1
    while low < high:
        middle = (low + high + 1) // 2
        asked = replace(layout, ask=replace(layout.ask, concurrency=middle))
        low, high = (middle, high) if asked.fullest(context).allocated.likely <= usable else (low, middle - 1)
    return low


def _longest(layout: Layout, usable: int) -> int:
    """The longest context whose likely need fits with the same slots; tokens, in steps of 256 and as trained.

    The need grows nearly straight with the context: where the line through the ends meets the limit is close.
    """
    most = layout.shape.trained.longest if layout.shape.trained else layout.ask.context or 0

    def left(tokens: int) -> int:
        return usable - layout.fullest(tokens).allocated.likely

    if not most or (above := left(most)) >= 0:
        return most
    if (below := left(PADDING)) < 0:
        return 0
    low, high = 1, -(-most // PADDING)
    while high - low > 1:
        guess = low + (high - low) * below // (below - above)
        middle = min(max(guess, low + 1), high - 1)
        found = left(middle * PADDING)
        low, below, high, above = (middle, found, high, above) if found >= 0 else (low, below, middle, found)
        if found >= 0 and high - low > 1 and left((low + 1) * PADDING) < 0:
            break  # the line mostly ends one step short, or right here
    return low * PADDING


def _verdict(remarks: tuple[Remark, ...]) -> FitVerdict:
    if any(each.certain for each in remarks):
        return FitVerdict.REFUSED
    return FitVerdict.TIGHT if remarks else FitVerdict.FITS


def _basis(rules: CountingRules, ask: MemoryAsk) -> str:
    where = "CUDA context estimated" if ask.gpus else "5 starts on CPUs"
    return f"llama.cpp {rules.version}: buffers as b11434 lays them out, {where}"


def _doubts(layout: Layout) -> tuple[str, ...]:
    found = [f"{flag} moves memory in a way that is not counted" for flag in layout.ask.unsized]
    if not layout.rules.known:
        found.append(f"{layout.rules.engine} {layout.rules.version} was not read: counted as the nearest version")
    if not layout.weights.known:
        found.append("the bytes of the weights are not known: counted in 16 bit")
    if layout.ask.projector is not None and layout.ask.projector.weight_bytes is None:
        found.append("the bytes of the mmproj file are not known: not counted")
    if any(each.attention and (each.attention.index_dim or each.attention.compression) for each in layout.shape.layers):
        found.append("the cache of its sparse attention's index is not counted")
    return tuple(dict.fromkeys((*found, *layout.shape.unknown)))
