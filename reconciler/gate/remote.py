"""Whether a profile runs Python code out of the model's repository, which code that is, and whether it is pinned."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from reconciler.domain.finding import Severity
from reconciler.domain.model_spec import Engine
from reconciler.domain.source import HttpsSource, HubSource, parse_source
from reconciler.gate.doors import flags_given
from reconciler.gate.phrases import listed
from reconciler.gate.written import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.domain.finding import Problem
    from reconciler.domain.lock import LockedSource
    from reconciler.gate.doors import Path
    from reconciler.gate.subject import Context, Use

_TRUST = {
    Engine.VLLM: "--trust-remote-code",
    Engine.SGLANG: "--trust-remote-code",
    Engine.TRTLLM: "--trust_remote_code",
}
_CODE_REVISION = "--code-revision"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHORT = 8


def remote_code_of(context: Context, use: Use) -> Iterator[Problem]:
    """At the flag: an error where the code may change, else a note that names it."""
    given = {name: (path, value) for path, name, value in flags_given(context, use)}
    trust = given.get(_TRUST.get(use.profile.engine, ""))
    written = use.profile.source or use.model.source
    if trust is None or trust[1] is not True or written is None:
        return
    source, path = parse_source(written), trust[0]
    if isinstance(source, HttpsSource):
        return  # one file of weights: no code comes with it
    code, found = given.get(_CODE_REVISION, (path, None))[1], context.knowledge.locked(use.model, use.profile)
    if isinstance(source, HubSource) and not _is_commit(source.revision):
        held = f"whatever {source.revision} is" if source.revision else "whatever its main branch is"
        message = f"{source.repo} is trusted to run code, {held} when a replica starts"
        yield use.problem(path, message, _pin(source, found))
        return
    own, others = _code(found)
    if others and not _is_commit(code):
        message = f"{shown(written)} runs code of {listed(others)}, which its own revision does not pin"
        yield use.problem(path, message, f"add {_CODE_REVISION} and the commit that was reviewed")
        return
    yield _note(use, path, written, (*own, *others))


def _note(use: Use, path: Path, written: str, code: tuple[str, ...]) -> Problem:
    what = f"runs code that comes with it: {listed(list(code))}" if code else "may run code that comes with it"
    return use.problem(path, f"{_short(written)} {what}", severity=Severity.NOTE)


def _code(found: LockedSource | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Modules of its own that the config names, and repositories whose modules it names."""
    named = (found.config or {}).get("auto_map") if found is not None else None
    values = named.values() if isinstance(named, dict) else ()
    flat = [each for value in values for each in (value if isinstance(value, list) else [value])]
    texts = [each for each in flat if isinstance(each, str)]
    own = dict.fromkeys(f"{text.partition('.')[0]}.py" for text in texts if "--" not in text)
    others = dict.fromkeys(text.partition("--")[0] for text in texts if "--" in text)
    return tuple(own), tuple(others)


def _pin(source: HubSource, found: LockedSource | None) -> str:
    if found is not None and _is_commit(found.revision):
        return f"review {source.repo}@{found.revision[:_SHORT]} and write hf:{source.repo}@{found.revision}"
    return f"review the code and write hf:{source.repo}@COMMIT, or take the flag out"


def _is_commit(revision: object) -> bool:
    return isinstance(revision, str) and _COMMIT.fullmatch(revision) is not None


def _short(source: str) -> str:
    return re.sub(r"@([0-9a-f]{8})[0-9a-f]{32}", r"@\1", shown(source))
