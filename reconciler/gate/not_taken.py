"""What an engine version does not take of a profile beyond its shape, and what had to be assumed to judge it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from reconciler.domain.declaration import declare
from reconciler.domain.finding import Problem, Severity
from reconciler.domain.flag_tables import flag_table, known_versions
from reconciler.domain.model_spec import Engine, Task
from reconciler.domain.shape import Shape, Unreadable
from reconciler.domain.tables import table
from reconciler.engines.devices import vendor_of
from reconciler.engines.fields import VENDOR_NAMES, VENDORS, not_taken, runs_on
from reconciler.engines.versions import is_launched, missing
from reconciler.gate.knowledge import is_certain
from reconciler.gate.nearest import nearest
from reconciler.gate.phrases import listed
from reconciler.sizing.held_types import WHILE_LOADING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reconciler.gate.subject import Context, Use


TASKS: Mapping[Engine, frozenset[Task]] = {
    Engine.VLLM: frozenset({Task.GENERATE, Task.EMBED, Task.RERANK, Task.TRANSCRIBE}),
    Engine.SGLANG: frozenset({Task.GENERATE, Task.EMBED, Task.RERANK, Task.TRANSCRIBE}),
    Engine.TRTLLM: frozenset({Task.GENERATE}),
    Engine.LLAMACPP: frozenset({Task.GENERATE, Task.EMBED, Task.RERANK}),
    Engine.COMFYUI: frozenset({Task.GENERATE, Task.IMAGE}),
}
"""What each program answers requests of, as we launch it (facts/engines.md sections 1 and 4). ComfyUI's workflows may
write text as well; trtllm-serve's and SGLang's pictures come from programs of their own."""


_WORDS = ("dtype", "kv_cache_dtype", "quantization")
"""Fields in the engine's own words."""

_SINGLE = ("memory_share", "max_concurrency", "kv_cache_dtype", "dtype", "quantization", "mmproj")
"""Fields of which an engine may have no use, beside those that cut a replica (heads/parallel-product)."""


def versions_nobody_names(context: Context) -> Iterator[Problem]:
    """Design section 3: which version was taken, told at the first profile it was taken for."""
    uses_by_engine: dict[Engine, list[Use]] = {}
    for use in context.uses:
        if context.knowledge.judged_version(use) is not None:
            uses_by_engine.setdefault(use.profile.engine, []).append(use)
    for engine, uses in uses_by_engine.items():
        version = context.knowledge.judged_version(uses[0])
        judged = "1 profile is" if len(uses) == 1 else f"{len(uses)} profiles are"
        message = f"no version of {engine} is named: {judged} judged for {version}, the newest in our tables"
        hint = f'cluster.yaml: defaults: {{engine_versions: {{{engine}: "{version}"}}}}'
        yield uses[0].problem("engine", message, hint, severity=Severity.NOTE)


def task_not_taken(use: Use) -> Iterator[Problem]:
    """A model is there for something that the engine of this profile does not answer."""
    task, able = use.model.task, TASKS[use.profile.engine]
    if task not in able:
        others = [engine.value for engine, tasks in TASKS.items() if task in tasks]
        message = f"task is {task}; {use.profile.engine} serves {', '.join(sorted(able))}"
        yield use.problem("engine", message, f"engine: {' or '.join(others)}")


def vendor_not_taken(use: Use) -> Iterator[Problem]:
    """GPUs of a maker for whom the engine has no kernels."""
    engine, gpu_class = use.profile.engine, use.profile.gpu_class
    if gpu_class is None or runs_on(engine, gpu_class):
        return
    vendor = vendor_of(gpu_class)
    runs = " and ".join(VENDOR_NAMES[each] for each in VENDOR_NAMES if each in VENDORS[engine])
    message = f"{engine} runs on GPUs of {runs}, and {gpu_class} is one of {VENDOR_NAMES[vendor]}"
    others = [each.value for each in Engine if vendor in VENDORS[each] and _answers_alike(each, use.model.task)]
    yield use.problem("gpu_class", message, f"engine: {' or '.join(others)}" if others else None)


def _answers_alike(engine: Engine, task: Task) -> bool:
    """Whether an engine is one to move a model of this task to; ComfyUI's own API is for pictures."""
    return task in TASKS[engine] and (engine is not Engine.COMFYUI or task is Task.IMAGE)


def version_not_launched(context: Context, use: Use) -> Iterator[Problem]:
    """A version that lacks a flag of the command line that it would get, and ends at start for it.

    A warning, for what was looked at are public releases: a site's own build of an older version may have the flag.
    """
    version = context.desired.version(use.profile)
    lacking = missing(use.profile.engine, version) if version is not None else ()
    declaration = declare(context.desired, use.model, use.profile) if lacking else None
    for lacks in lacking:
        if declaration is None or not is_launched(declaration, lacks.launched):
            continue
        message = f"{use.profile.engine} {version} has no {lacks.flag}, which {lacks.launched} is started with"
        newer = f"{lacks.first_with} has it" if lacks.first_with else f"it came after {lacks.last_without}"
        field, hint = "version" if use.profile.version else "engine", f"take a newer version; {newer}"
        yield use.problem(field, message, hint, severity=Severity.WARNING)


def words_not_taken(context: Context, use: Use) -> Iterator[Problem]:
    """Types that a profile names in the engine's own words and that its version does not have."""
    flags = context.knowledge.table(use)
    fields = [name for name in _WORDS if not_taken(use.profile.engine, name) is None]
    written = {name: getattr(use.profile, name) for name in fields}
    for flag in flags.flags:
        field = flag.managed.field if flag.managed else None
        value = written.pop(field, None) if field in written and flag.choices else None
        if value is not None and value not in flag.choices:
            close = nearest(value, flag.choices)
            message = f"{use.profile.engine} {flags.version} has no {field} {value}; it takes {', '.join(flag.choices)}"
            severity = None if is_certain(flags) else Severity.WARNING
            yield use.problem(str(field), message, f"{field}: {close}" if close else None, severity=severity)
    for field, value in written.items():
        if value is not None:
            yield from _unheard_of(use, field, value)


def _unheard_of(use: Use, field: str, value: str) -> Iterator[Problem]:
    """A word of which this version's table has no list, held against what is known otherwise: never certain."""
    engine = use.profile.engine
    known = _known_words(engine, field)
    if known is not None and value not in known.words:
        close = nearest(value, known.words)
        if field == "quantization" and close is None:
            return  # versions differ much in their methods: only what looks like a slip of the pen is told
        message = f"no {field} {value} is known of {engine}; {known.told} takes {', '.join(known.words)}"
        yield use.problem(field, message, f"{field}: {close}" if close else None, severity=Severity.WARNING)


@dataclass(frozen=True, slots=True)
class _Words:
    """Values that some version takes for a field, and which."""

    words: tuple[str, ...]
    told: str


@cache
def _known_words(engine: Engine, field: str) -> _Words | None:
    """What the newest table with a list says; of quantization methods, what the table of models says."""
    for version in reversed(known_versions(engine)):
        for flag in flag_table(engine, version).flags:
            if flag.managed and flag.managed.field == field and flag.choices:
                return _Words(flag.choices, f"{engine} {version}")
    row = table("engine_models")["engines"].get(engine.value, {}).get("quantization", {})
    if field == "quantization" and row.get("taken"):
        return _Words(tuple(dict.fromkeys((*row["taken"], *row["deprecated"], *WHILE_LOADING))), str(engine))
    return None


def fields_without_effect(use: Use) -> Iterator[Problem]:
    """Fields that would be read, counted and then reach nothing of this engine."""
    for field in _SINGLE:
        value, because = getattr(use.profile, field), not_taken(use.profile.engine, field)
        if value is None or because is None:
            continue
        written = "a projector" if field == "mmproj" else f"{field} {value}"
        by_files = field == "quantization" and use.profile.engine is not Engine.COMFYUI
        hint = f"remove it, and name a source that is {value} already" if by_files else "remove it"
        yield use.problem(field, f"{written} has no effect: {because}", hint)


def not_understood(context: Context) -> Iterator[Problem]:
    """What of a model's config the readers could not tell, once for each model: nothing is guessed silently."""
    told: set[tuple[str, str]] = set()
    for use in context.uses:
        shape, name = context.knowledge.shape(use), use.model.name
        if isinstance(shape, Unreadable):
            message = f"{shape.because} (in locks/{name}.json): heads, memory and context are not checked"
            hint, severity = f"run reconciler lock {name}", Severity.WARNING
        elif isinstance(shape, Shape) and shape.unknown:
            message = f"not all of {shape.file} is understood: {listed(shape.unknown, most=1)}"
            hint, severity = None, Severity.NOTE
        else:
            continue
        if (name, message) not in told:
            told.add((name, message))
            yield use.problem("engine", message, hint, severity=severity)
