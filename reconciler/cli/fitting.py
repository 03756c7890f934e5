"""What `fit` looks at: the work tree, or one source wherever it is; apart from the command, to keep --help lean."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from reconciler.cli.console import note
from reconciler.cli.locking import LockProgress
from reconciler.domain.desired import Desired
from reconciler.domain.finding import Severity
from reconciler.domain.fit import FitReport, ModelFit
from reconciler.domain.fleet_spec import FleetSpec
from reconciler.domain.model_spec import Engine
from reconciler.domain.source import parse_source
from reconciler.errors import SourceError, UsageError, WeightsError
from reconciler.gate.card import card
from reconciler.gate.fit.options import USUAL_CLASSES, Narrowing, model_fit
from reconciler.gate.fit.source import engines_for, with_source
from reconciler.gate.nearest import nearest
from reconciler.gate.phrases import listed
from reconciler.gate.subject import context_of
from reconciler.sources.loader import load
from reconciler.sources.worktree import read_worktree
from reconciler.weights.https_files import shown_source
from reconciler.weights.lock_source import Access, Role, lock_source
from reconciler.weights.meter import Meter
from reconciler.weights.web import Web

if TYPE_CHECKING:
    from pathlib import Path

    from reconciler.domain.lock import LockedSource
    from reconciler.domain.model_spec import ModelSpec
    from reconciler.gate.subject import Context
    from reconciler.sources.loaded import Loaded

_SOURCELIKE = ("hf:", "http:", "https:", "file:", "package:")


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What is to be asked with other values than the files have; nothing is written."""

    context: int | None = None
    profile: dict[str, Any] = field(default_factory=dict)
    """Fields of every profile."""

    def over(self, model: ModelSpec) -> ModelSpec:
        """The model as if its file said so."""
        changed: dict[str, Any] = {} if self.context is None else {"context": self.context}
        if self.profile:
            changed["profiles"] = tuple(each.model_copy(update=self.profile) for each in model.profiles)
        return model.model_copy(update=changed) if changed else model


def narrowing(*, declared: bool, engine: str | None, gpu_class: str | None, gpus: int | None) -> Narrowing:
    """Which options are wanted; UsageError for an engine that is none, and for what excludes each other."""
    if engine is not None and engine not in set(Engine):
        close = nearest(engine, Engine)
        raise UsageError(f"there is no engine {engine}", hint=f"--engine {close}" if close else ", ".join(Engine))
    if declared and (gpu_class is not None or gpus is not None):
        raise UsageError(
            "--declared shows what profiles say, so it takes no --gpu-class and no --gpus", hint="leave out one of them"
        )
    return Narrowing(declared, None if engine is None else Engine(engine), gpu_class, gpus)


@dataclass(frozen=True, slots=True)
class FitCommand:
    """One run of `fit`."""

    directory: Path
    wanted: Narrowing
    what_if: WhatIf

    def report(self, what: str | None, *, every: bool) -> FitReport:
        """The answer on a model, a source or all models; UsageError for a question that cannot be asked."""
        if every and what is not None:
            raise UsageError(f"--all and {what} exclude each other", hint="leave out one of them")
        if every:
            return self._all()
        if what is None:
            raise UsageError("name a model or a source", hint="reconciler fit MODEL, or --all")
        return FitReport(models=(self._source(what) if what.startswith(_SOURCELIKE) else self._model(what),))

    def _all(self) -> FitReport:
        loaded = self._loaded()
        context = self._context(loaded)
        found = {name: _broken(name) for name in _not_valid(loaded)}
        found |= {each.name: model_fit(context, each, self.wanted) for each in context.models if each.name not in found}
        return FitReport(models=tuple(found[name] for name in sorted(found)))

    def _model(self, name: str) -> ModelFit:
        loaded = self._loaded()
        if name in _not_valid(loaded):
            raise SourceError(f"the file of {name} is not valid", hint="reconciler validate says why")
        if name not in loaded.partial.model_by_name:
            raise _no_such_model(name, sorted({*loaded.partial.model_by_name, *loaded.broken}))
        context = self._context(loaded)
        fit = model_fit(context, context.desired.model_by_name[name], self.wanted)
        if fit.counts and not fit.options and not fit.left_out:
            raise UsageError(f"{name}: {fit.notes[0]}", hint="leave out what narrows it")
        return fit

    def _source(self, source: str) -> ModelFit:
        shown = shown_source(source)
        try:
            parse_source(source)
        except ValueError as error:
            raise UsageError(f"{shown}: {error}") from error
        if self.what_if.context is None:
            raise UsageError(f"how long a request of {shown} may be is not said", hint="--context N, such as 32768")
        if self.wanted.declared:
            raise UsageError("--declared is for models of the catalog; a source declares nothing")
        desired = self._loaded().partial if self.directory.is_dir() else Desired(FleetSpec(name="none"))
        self._check_class(desired)
        locked = _look_at(source)
        context = context_of(
            with_source(desired, locked, self._engines(locked, shown), self.what_if.context, self.what_if.profile),
            frozenset(),
        )
        if not (context.inventory and context.inventory.classes) and self.wanted.gpu_class is None:
            note(f"no node here has GPUs: shown on {', '.join(USUAL_CLASSES)}; --gpu-class names another")
        return model_fit(context, context.models[0], replace(self.wanted, source=shown))

    def _engines(self, locked: LockedSource, shown: str) -> tuple[Engine, ...]:
        able = engines_for(locked.format)
        if not able:
            raise WeightsError(f"{shown} is {locked.format}: that is no model that can be sized")
        if self.wanted.engine is not None and self.wanted.engine not in able:
            raise UsageError(
                f"{self.wanted.engine} is not sized for {locked.format}, which {shown} is",
                hint=f"--engine {' or '.join(able)}",
            )
        return able if self.wanted.engine is None else (self.wanted.engine,)

    def _loaded(self) -> Loaded:
        if not self.directory.is_dir():
            raise UsageError(f"there is no directory {self.directory}", hint="name the cluster directory with -C DIR")
        loaded = load(read_worktree(self.directory))
        errors = sum(each.severity is Severity.ERROR for each in loaded.findings)
        if errors:
            said = "1 error is" if errors == 1 else f"{errors} errors are"
            note(f"note: {said} in {self.directory}: what they stand in was not read; reconciler validate says which")
        return loaded

    def _context(self, loaded: Loaded) -> Context:
        desired = loaded.partial
        self._check_class(desired)
        return context_of(
            replace(desired, models=tuple(map(self.what_if.over, desired.models))),
            loaded.broken,
            unreadable_locks=_with_errors(loaded, "locks"),
        )

    def _check_class(self, desired: Desired) -> None:
        asked = self.wanted.gpu_class
        if asked is not None and card(desired.classes, asked) is None:
            close = nearest(asked, desired.classes)
            hint = f"--gpu-class {close}" if close else "define it in cluster.yaml under gpu_classes"
            raise UsageError(f"{asked} is not a GPU class", hint=hint)


def _not_valid(loaded: Loaded) -> frozenset[str]:
    """Models whose file is not what its author meant: sizing half of it would answer another question."""
    return loaded.broken | _with_errors(loaded, "models")


def _with_errors(loaded: Loaded, folder: str) -> frozenset[str]:
    """Models of which a file in this folder of the cluster directory has an error."""
    return frozenset(
        each.model
        for each in loaded.findings
        if each.severity is Severity.ERROR and each.model and (each.file or "").split("/")[-2:-1] == [folder]
    )


def _look_at(source: str) -> LockedSource:
    """What the source is now, by its headers; the lines that tell progress go to stderr."""
    progress = LockProgress()
    with Web(Meter(progress.read)) as web:
        progress.begin(shown_source(source), web.meter)
        return lock_source(source, Role.MODEL, Access(web))


def _no_such_model(name: str, known: list[str]) -> UsageError:
    if "/" in name:
        return UsageError(f"{name} is no name of a model", hint=f"a hub's repository is hf:{name}")
    close = nearest(name, known)
    return UsageError(
        f"no such model: {name}", hint=f"nearest: {close}" if close else f"models: {listed(known, most=8) or 'none'}"
    )


def _broken(name: str) -> ModelFit:
    return ModelFit(model=name, options=(), notes=("its file is not valid; reconciler validate says why",))
