"""Which way of storing weights covers a module: the skip lists and targets of a quantization config against its path.

Names are compared below `layers.N.`, so that `model.`, `language_model.` and `backbone.` in front do not matter.
"""

from __future__ import annotations

import re
from fnmatch import translate
from functools import lru_cache
from typing import TYPE_CHECKING

from reconciler.domain.shape import Matching
from reconciler.sizing.module import Part

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reconciler.domain.shape import Quantization, QuantPart
    from reconciler.sizing.module import Module

_BELOW_LAYER = re.compile(r"^(?:.*\.)?(?:layers|h|blocks)\.(\d+|\*)\.?(.*)$")
_NUMBER = re.compile(r"\d+")
_SAFE_PATTERN = re.compile(r"^[\w.*+?\\\[\]()|^$:/\-,{}]{1,400}$")
_NESTED_REPEAT = re.compile(r"\)[*+{]|[*+]\s*[*+{]")
MOST_REPEATS = 6
"""Open repeats in one pattern; more could take minutes to fail on a path (the text is at most 80 letters)."""
MOST_GENERAL = 200
"""Names without a layer's number that are looked at; checkpoints write a dozen, each meets every layer."""
MODELOPT_TOWERS = frozenset({"vision_tower", "vision_model", "vit_large_projector"})
"""vLLM's modelopt.py leaves these in 16 bit whatever the list says."""
ALL_LINEAR = frozenset({"Linear", "torch.nn.Linear", "linear"})


@lru_cache(maxsize=4096)
def covering(module: Module, quantization: Quantization) -> tuple[QuantPart, ...]:
    """The different ways in which layers of this module are stored; empty when all stay in 16 bit."""
    return tuple(part for part, _ in covered_layers(module, quantization))


@lru_cache(maxsize=4096)
def covered_layers(module: Module, quantization: Quantization) -> tuple[tuple[QuantPart, tuple[int | None, ...]], ...]:
    """Each way in which this module is stored, with its layers (None: outside the layers); the others are in 16 bit."""
    if not module.quantized or (module.where and _leaves_tower(module.where, quantization)):
        return ()
    found: dict[QuantPart, list[int | None]] = {}
    for layer in module.layers or (None,):
        names = _names(module, layer)
        if not module.where and _skipped(names, _concerning(quantization.skipped, layer), quantization.matching):
            continue
        part = next((part for part in quantization.parts if _targeted(names, module, part, layer, quantization)), None)
        if part is not None:
            found.setdefault(part, []).append(layer)
    return tuple((part, tuple(layers)) for part, layers in found.items())


def _names(module: Module, layer: int | None) -> tuple[str, ...]:
    """Full paths: the merged one first, then what it is merged of."""
    container = module.where or ("model" if layer is None else f"model.layers.{layer}")
    return tuple(f"{container}.{each}" for each in (module.path, *module.shards))


@lru_cache(maxsize=256)
def _by_number(listed: tuple[str, ...]) -> tuple[tuple[str, ...], dict[int, tuple[str, ...]]]:
    """Names that may concern any layer, and the others by the numbers in them."""
    general: list[str] = []
    numbered: dict[int, list[str]] = {}
    for each in listed:
        numbers = {int(found) for found in _NUMBER.findall(each) if len(found) < 6}  # noqa: PLR2004  # no layer has six digits
        if not numbers or "[" in each or "{" in each:
            general.append(each)
        for number in numbers:
            numbered.setdefault(number, []).append(each)
    return tuple(general[:MOST_GENERAL]), {number: tuple(names) for number, names in numbered.items()}


@lru_cache(maxsize=8192)
def _concerning(listed: tuple[str, ...], layer: int | None) -> tuple[str, ...]:
    """The names of a list that can meet modules of this layer."""
    general, numbered = _by_number(listed)
    return general if layer is None else general + numbered.get(layer, ())


def _skipped(names: tuple[str, ...], listed: tuple[str, ...], matching: Matching) -> bool:
    if not listed:
        return False
    merged, *shards = names
    return _matches(merged, listed, matching) or (
        bool(shards) and all(_matches(each, listed, matching) for each in shards)
    )


@lru_cache(maxsize=256)
def _leaves_tower(where: str, quantization: Quantization) -> bool:
    """Whether a tower stays in 16 bit: checkpoints leave all of one or nothing of it, so any part named will do."""
    if quantization.algorithm is not None and where in MODELOPT_TOWERS:
        return True
    listed = quantization.skipped
    last = where.rsplit(".", 1)[-1]
    if any(last in each for each in listed):
        return True
    general, _ = _by_number(listed)
    inside = _spellings(f"{where}.blocks.0.attn.qkv")
    patterns = (*_patterns(general), *_globs(general))
    return any(pattern.match(text) is not None for pattern in patterns for text in inside)


def _targeted(
    names: tuple[str, ...], module: Module, part: QuantPart, layer: int | None, quantization: Quantization
) -> bool:
    if not part.targets:
        return True
    if part.targets == ("experts",):
        return module.part is Part.EXPERTS
    if ALL_LINEAR.intersection(part.targets):
        return True
    targets = _concerning(part.targets, layer)
    if module.part is Part.EXPERTS:
        prefix = _below(names[0].removesuffix(".experts")) + "."
        if any(_below(target).startswith(prefix) for target in targets):
            return True
    if quantization.method.startswith("gptq") and any(_below(target) in name for target in targets for name in names):
        return True
    return any(_matches(name, targets, quantization.matching) for name in names)


def _matches(name: str, listed: tuple[str, ...], matching: Matching) -> bool:
    match matching:
        case Matching.EXACT:
            return _below(name) in _below_all(listed)
        case Matching.SUBSTRING:
            return any(each in name for each in listed)
        case Matching.GLOB:
            return _matches_glob(name, listed)
        case Matching.TARGETS:
            return _below(name) in _below_all(listed) or _matches_pattern(name, _patterns(listed))


def _matches_glob(name: str, listed: tuple[str, ...]) -> bool:
    """ModelOpt: an exact path, a part of one, or a pattern with stars."""
    if _below(name) in _below_all(listed) or any(each in name for each in listed if "*" not in each):
        return True
    return _matches_pattern(name, _globs(listed))


def _matches_pattern(name: str, patterns: tuple[re.Pattern[str], ...]) -> bool:
    return any(pattern.match(text) is not None for pattern in patterns for text in _spellings(name))


def _spellings(name: str) -> tuple[str, ...]:
    """The ways in which checkpoints of composite models write one path."""
    rest = name.removeprefix("model.")
    return name, f"language_model.{name}", f"model.language_model.{rest}", f"model.{rest}", f"backbone.{rest}"


@lru_cache(maxsize=65536)
def _below(name: str) -> str:
    """`3.mlp.up_proj` of `model.layers.3.mlp.up_proj`; a path outside the layers without its `model.`."""
    found = _BELOW_LAYER.match(name)
    if found is not None and not any(tower in name for tower in ("vision", "visual", "audio")):
        return f"{found[1]}.{found[2]}"
    return name.removeprefix("model.").removeprefix("language_model.").removeprefix("model.")


@lru_cache(maxsize=4096)
def _below_all(listed: tuple[str, ...]) -> frozenset[str]:
    return frozenset(_below(each) for each in listed)


@lru_cache(maxsize=4096)
def _globs(listed: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    return tuple(_compiled(translate(each) for each in listed if "*" in each and each.count("*") <= MOST_REPEATS))


@lru_cache(maxsize=4096)
def _patterns(listed: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    """Patterns written as `re:…`; one that could run for long, or is no pattern, matches nothing."""
    written = (each[3:] for each in listed if each.startswith("re:"))
    return tuple(_compiled(each for each in written if _harmless(each)))


def _harmless(pattern: str) -> bool:
    repeats = pattern.count("*") + pattern.count("+")
    return bool(_SAFE_PATTERN.match(pattern)) and not _NESTED_REPEAT.search(pattern) and repeats <= MOST_REPEATS


def _compiled(patterns: Iterable[str]) -> list[re.Pattern[str]]:
    out: list[re.Pattern[str]] = []
    for each in patterns:
        try:
            out.append(re.compile(each))
        except (re.error, OverflowError, RecursionError):
            continue
    return out
