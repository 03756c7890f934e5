"""Rules on the locks: what the gate knows of a model, it knows from there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, assert_never

from reconciler.domain.finding import Problem, Severity
from reconciler.domain.model_spec import Engine
from reconciler.domain.source import FileSource, HttpsSource, HubSource, PackageSource, parse_source
from reconciler.gate.licences import restricted
from reconciler.gate.rule import rule
from reconciler.gate.written import shown, sources, without_revision

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reconciler.domain.desired import Desired, Where
    from reconciler.domain.lock import Lock, LockedSource
    from reconciler.domain.model_spec import ModelSpec
    from reconciler.gate.subject import Context
    from reconciler.gate.written import Written

COMMIT = re.compile(r"[0-9a-f]{40}")
"""A full commit: anything shorter, a tag or a branch can come to mean something else."""
_SHORT = 8


@rule(Severity.ERROR)
def missing(context: Context) -> Iterator[Problem]:
    """Without its lock nothing is known of a model, and a change that cannot work would pass.

    `reconciler lock MODEL` looks at each source once and writes cluster/locks/MODEL.json, to be committed with the
    model: revision, bytes and config, so that the gate needs no network. A source that the lock does not hold yet, or
    holds without a config, is told at its own place.

        source: hf:org/llama@v2  refused where the lock holds hf:org/llama@v1: run reconciler lock

    A model that shall be served unchecked says so with unverified: true; then this is one warning.
    """
    for model in context.models:
        if model.name in context.unreadable_locks:
            continue
        lacking = dict(_lacking(context, model))
        if model.unverified and lacking:
            where = context.desired.where_by_model[model.name].at("unverified")
            message = f"{model.name} is served unverified: heads, memory and context are not checked"
            yield Problem(where, message, None, model.name, severity=Severity.WARNING)
            continue
        hint = f"run reconciler lock {model.name} and commit locks/{model.name}.json, or write unverified: true"
        for where, message in lacking.items():
            yield Problem(where, message, hint, model.name)


@rule(Severity.ERROR)
def stale(context: Context) -> Iterator[Problem]:
    """A lock that is not of these sources would check one model and let another be served.

    Every source of the model, its profiles, projectors and adapters has an entry, every entry has a source, and a
    source that names a commit is locked to that commit. What is missing of the weights themselves is told by
    lock/missing.

        adapters: [{name: sql, source: …}]     refused until the lock holds it: run reconciler lock
        source: hf:org/llama@0e9e39f2…         refused where the lock says that it was found at 4f1aa7c2…

    `reconciler lock MODEL` keeps what is still right, looks at what is not and drops what is left over.
    """
    for model in context.models:
        lock = context.desired.locks.get(model.name)
        if lock is None or model.external is not None or model.name in context.unreadable_locks:
            continue
        written = sources(model, context.desired.where_by_model[model.name])
        for where, message in _differing(model, written, lock):
            hint = f"run reconciler lock {model.name} and commit locks/{model.name}.json"
            yield Problem(where, message, hint, model.name)


@rule(Severity.ERROR)
def revision_unpinned(context: Context) -> Iterator[Problem]:
    """A branch or a tag is something else tomorrow, and a replica that starts then serves what nobody has reviewed.

    Of a hub that is every revision but a full commit of 40 hex digits. A file behind https is held by what the lock
    found, its digest or the name that the server gives this content (ETag); without either nothing holds it. Files on
    a node and in a package are held by the digests in the lock.

        source: hf:org/llama           refused: whatever its branch main holds when a replica starts
        source: hf:org/llama@v1.0      refused: tags can be moved

    `reconciler lock MODEL` finds the commit and says how to write it. A model that says unverified: true and has no
    lock is not asked.
    """
    for model in context.models:
        lock = context.desired.locks.get(model.name)
        if (lock is None and model.unverified) or model.external is not None or model.name in context.unreadable_locks:
            continue
        for each in sources(model, context.desired.where_by_model[model.name]):
            found = None if lock is None else lock.find(each.source)
            problem = _unpinned(each, found)
            if problem is not None:
                message, hint = problem
                hint = hint or f"run reconciler lock {model.name}, which says how to write it"
                yield Problem(each.where, message, hint, model.name)


@rule(Severity.WARNING)
def template_changed(context: Context) -> Iterator[Problem]:
    """A chat template is a program that turns every request into a prompt, and a new one may answer otherwise.

    Told with --base, where a source that the base had already brings another template: a changed one can drop the
    system prompt, switch tools off, or (CVE-2026-5760) run code. The weights may be the same.

        hf:org/llama@4f1aa7c2…    a warning where its template is not that of the base's hf:org/llama@0e9e39f2…

    Read the difference between the two revisions' chat_template before merging. Adding the first template, or taking
    it away, counts as a change.
    """
    for model, written, before, after in _both(context):
        was, found = before.chat_template_sha256, after.chat_template_sha256
        if was != found and (was is not None or before.revision != after.revision):
            message = f"the chat template of {model.name} changes: {_short(was)} → {_short(found)}"
            hint = "read the difference of chat_template between the two revisions"
            yield Problem(written.where, message, hint, model.name)


def _licence_changes(context: Context) -> Iterator[Problem]:
    """Sources that state another licence than the base's."""
    for model, written, before, after in _both(context):
        was, now = before.licence, after.licence
        if was != now and (was is not None or before.revision != after.revision):
            said = f"{was or 'not stated'} → {now or 'not stated'}"
            yield Problem(written.where, f"the licence of {written.what} changes: {said}", None, model.name)


@rule(Severity.WARNING, across=_licence_changes)
def licence(context: Context) -> Iterator[Problem]:
    """A licence that forbids the use is found at the worst time by somebody else, and it changes without a word.

    Told where the lock states a licence that excludes commercial use or allows research only, or states that it is
    unknown; and with --base where a source states another licence than it did. A lock that states none says nothing:
    files on a node have no licence to read.

        cc-by-nc-4.0, mistral-ai-research-licence     told
        apache-2.0, mit, llama3.1                     not told: whether their conditions fit is for people to say

    Ask whoever answers for licences, or take a model that may be used so.
    """
    for model in context.models:
        lock = context.desired.locks.get(model.name)
        for each in sources(model, context.desired.where_by_model[model.name]) if lock is not None else ():
            found = lock.find(each.source) if lock is not None else None
            why = restricted(found.licence) if found is not None and found.licence is not None else None
            if why is not None:
                yield Problem(each.where, f"{each.what} {why}", None, model.name)


def _differing(model: ModelSpec, written: Sequence[Written], lock: Lock) -> Iterator[tuple[Where, str]]:
    """Where the lock and the file name other sources, or another commit of one."""
    lacking = [each for each in written if lock.find(each.source) is None]
    for each in written:
        found = lock.find(each.source)
        if found is None:
            if not each.weights:  # those are lock/missing
                yield each.where, f"the lock of {model.name} does not hold {each.what}"
            continue
        asked = _revision(each.source)
        if asked is not None and COMMIT.fullmatch(asked) and found.revision != asked:
            short = found.revision[:_SHORT]
            yield each.where, f"the lock of {model.name} was made of {short}, and {each.what} names {asked[:_SHORT]}"
    named = {each.source for each in written}
    replaced = {without_revision(each.source) for each in lacking}
    for entry in lock.sources:
        # one that is written with another revision now is told there, once
        if written and entry.source not in named and without_revision(entry.source) not in replaced:
            message = f"the lock of {model.name} holds {shown(entry.source)}, which nothing names any more"
            yield written[0].where, message


def _unpinned(written: Written, found: LockedSource | None) -> tuple[str, str | None] | None:
    """What may move, and how to write it where the lock knows; None where nothing may."""
    parsed = parse_source(written.source)
    match parsed:
        case HubSource(repo=repo, revision=revision, path=path):
            if revision is not None and COMMIT.fullmatch(revision):
                return None
            held = f"names {revision}, which can be moved" if revision else "names no revision"
            locked = found.revision if found is not None and COMMIT.fullmatch(found.revision) else None
            hint = None if locked is None else f"write hf:{repo}@{locked}" + (f"#{path}" if path else "")
            return f"{written.what} {held}", hint
        case HttpsSource():
            if found is None or found.revision.startswith(("etag", "sha256:")) or _has_digest(found):
                return None
            return f"{written.what} may change: its lock holds neither a digest nor an ETag", None
        case FileSource() | PackageSource():
            return None
        case _ as never:
            assert_never(never)


def _has_digest(found: LockedSource) -> bool:
    return bool(found.files) and all(file.sha256 is not None for file in found.files or ())


def _revision(source: str) -> str | None:
    parsed = parse_source(source)
    return parsed.revision if isinstance(parsed, HubSource) else None


def _both(context: Context) -> Iterator[tuple[ModelSpec, Written, LockedSource, LockedSource]]:
    """Sources that the base had already, at this or another revision, with what both locks say; none without a base."""
    base = context.base
    for model in context.models if base is not None else ():
        before, after = _lock_before(model, base), context.desired.locks.get(model.name)
        if before is None or after is None:
            continue
        known = {without_revision(entry.source): entry for entry in before.sources}
        for each in sources(model, context.desired.where_by_model[model.name]):
            was, found = known.get(without_revision(each.source)), after.find(each.source)
            if was is not None and found is not None and was != found:
                yield model, each, was, found


def _lock_before(model: ModelSpec, base: Desired | None) -> Lock | None:
    """The base's lock of this model, under its former name where it moved."""
    if base is None:
        return None
    former = model.moved if model.moved is not None and model.name not in base.model_by_name else model.name
    return base.locks.get(former)


def _short(digest: str | None) -> str:
    return "none" if digest is None else digest[:_SHORT]


def _lacking(context: Context, model: ModelSpec) -> Iterator[tuple[Where, str]]:
    """Places of sources of weights, and what the model's lock lacks for each; none for an external model."""
    place = context.desired.where_by_model[model.name]
    lock = context.desired.locks.get(model.name)
    for position, profile in enumerate(model.profiles):
        source = profile.source or model.source
        if model.external is not None or source is None:
            continue
        where = place.at("source") if profile.source is None else place.at("profiles", position, "source")
        found = None if lock is None else lock.find(source)
        if lock is None:
            yield where, f"{model.name} has no lock"
        elif found is None:
            yield where, f"the lock of {model.name} does not hold {source}"
        elif found.config is None and profile.engine is not Engine.COMFYUI:  # its checkpoints have no config
            yield where, f"the lock of {model.name} holds no config of {source}"
