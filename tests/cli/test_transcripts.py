"""Golden transcripts: a file of commands and what a person sees, one file a story.

`$ reconciler …` runs the real command, `$ edit FILE: before -> after` changes a file, `$ remove FILE` removes one,
`$ commit MESSAGE` commits, `$ kill engines` kills every engine, `$ export NAME=VALUE` sets a variable.
`$ write FILE: text` writes a file, in which <elsewhere> is somebody else's API; `$ provide NAME…` says what that serves
for KEY. What varies from run to run is written as <words>.
`pytest --rewrite` writes what is seen now; read the difference before committing it.
"""

from __future__ import annotations

import re
import shlex
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import compare
from tests.e2e.site import Site, wait_until
from tests.provider import Provider, provider

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent / "transcripts"
STORIES = sorted(HERE.glob("*.txt"))

KEY = "sk-0123456789"

VARYING = (
    (r"\b[0-9a-f]{40}\b", "<commit>"),
    (r"(commit|HEAD is|plan|with|and) [0-9a-f]{7,8}\b", r"\1 <id>"),
    (r"on \d{4}-\d\d-\d\d at \d\d:\d\d", "<when>"),
    (r"@[0-9a-f]{8}", "@<id>"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d", "<time>"),
    (r"(?<= )\d+:\d\d\b", "<m:ss>"),
    (r"\b(\d+ min )?\d+(\.\d+)? s\b", "<s>"),
    (r"\(tester, [^)]*\)", "(tester, <age>)"),
    (r"\bpid \d+", "pid <n>"),
    (r"\b(suspended|said) by \S+", r"\1 by <user>"),
    (r"127\.0\.0\.1:\d+", "<address>"),
)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path / "m")
    site.model()
    site.commit("first")
    yield site
    assert site.clear() == []


@pytest.fixture
def elsewhere() -> Iterator[Provider]:
    with provider() as running:
        yield running


@pytest.mark.timeout(300)
@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.stem)
def test_transcript(story: Path, machine: Site, elsewhere: Provider, *, rewrite: bool) -> None:
    seen = "\n".join(perform(machine, elsewhere, line) for line in commands(story.read_text("utf-8"))) + "\n"
    compare(story, seen, rewrite=rewrite)


def test_there_are_transcripts() -> None:
    assert len(STORIES) >= 5


def commands(text: str) -> list[str]:
    """The comments and commands of a transcript, without the output between them."""
    return [line for line in text.splitlines() if line.startswith(("$ ", "# "))]


def perform(site: Site, elsewhere: Provider, line: str) -> str:
    """Do one line; the line and what a person sees."""
    if line.startswith("# "):
        return line
    verb, _, rest = line.removeprefix("$ ").partition(" ")
    match verb:
        case "reconciler":
            done = site.run(*shlex.split(rest), code=None)
            shown = settle(done.stderr + done.stdout, site)
            return line + "\n" + shown + (f"[exit {done.returncode}]\n" if done.returncode else "")
        case "edit":
            name, _, change = rest.partition(": ")
            before, after = change.split(" -> ")
            assert before in site.read(name), f"{name} does not say {before}"
            site.write(name, site.read(name).replace(before, after.replace("\\n", "\n")))
        case "write" | "provide" | "export":
            arrange(site, elsewhere, verb, rest)
        case "remove":
            (site.root / rest).unlink()
        case "commit":
            site.commit(rest)
        case "kill":
            for engine in site.engines():
                engine.kill()
            wait_until(lambda: not site.engines(), 5, "the engines are gone")
        case _:
            raise AssertionError(f"no such verb: {verb}")
    return line


def arrange(site: Site, elsewhere: Provider, verb: str, rest: str) -> None:
    """What a story needs besides files that are there."""
    match verb:
        case "write":
            name, _, text = rest.partition(": ")
            site.write(name, text.replace("\\n", "\n").replace("<elsewhere>", elsewhere.url) + "\n")
        case "provide":
            elsewhere.serves(*rest.split(), key=KEY)
        case _:
            name, _, site.env[name] = rest.partition("=")


def settle(text: str, site: Site) -> str:
    """Replace what varies from run to run; progress that depends on timing is left out.

    Replicas that stop side by side are gone in any order: what stands together is told in that of their names.
    """
    text = text.replace(str(site.root), "<machine>")
    for pattern, word in VARYING:
        text = re.sub(pattern, word, text)
    kept = [each.rstrip() for each in text.splitlines() if not re.match(r"^tiny/\d+@<id> +this-machine", each)]
    told: list[str] = []
    for stopped, lines in groupby(kept, key=lambda each: each.endswith("stopped and gone")):
        told += sorted(lines, key=lambda each: each if stopped else "")
    return "".join(f"{each}\n" for each in told)
