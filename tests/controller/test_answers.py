"""The gate's answer with and without what it remembers: the same, and nothing secret on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.controller.answers import answer
from reconciler.controller.cache import Cache
from reconciler.controller.memory import Memory, read_memory
from tests.sources.trees import FLEET, MODEL, POOL, a_tree

if TYPE_CHECKING:
    from pathlib import Path

    from reconciler.controller.answers import Answer
    from reconciler.sources.tree import Tree

GPUS = ("", "    gpus: 4\n", "    gpus: 6\n", "    gpus: 99\n", "    gpuz: 4\n", "    gpus: no\n")
ENVS = ("", "    env: {TOKEN: hunter2}\n", "    args: [--api-key, hunter2]\n", "    args: [--no-such-flag]\n")


def a_model(name: str, gpus: str, env: str, count: int) -> str:
    named = MODEL.replace("llama\n", f"{name}\n", 1).replace("org/llama", f"org/{name}")
    return f"{named}{gpus}{env}scaling: {{min: {count}}}\nunverified: true\n"


def files(models: dict[str, tuple[str, str, int]], pool: str, fleet: str) -> dict[str, str | bytes]:
    written: dict[str, str | bytes] = {"cluster.yaml": fleet, "nodes/gpu.yaml": pool}
    return written | {f"models/{name}.yaml": a_model(name, *rest) for name, rest in models.items()}


trees = st.builds(
    files,
    st.dictionaries(
        st.sampled_from("abc"), st.tuples(st.sampled_from(GPUS), st.sampled_from(ENVS), st.sampled_from([0, 1, 40]))
    ),
    st.sampled_from([POOL, POOL.replace("count: 8", "count: 4"), POOL + "nodez: []\n"]),
    st.sampled_from([FLEET, 'name: prod\ndefaults: {engine_versions: {vllm: "0.32.0"}}\n', "nam: x\n"]),
).map(a_tree)


def told(found: Answer) -> object:
    """All of an answer but the time it took."""
    report = found.report.model_dump()
    return [{**report, "summary": {**report["summary"], "seconds": 0}}, found.texts, found.files]


def asked(tree: Tree, base: Tree | None, cache: Cache | None) -> object:
    return told(answer(tree, base, cache, "here"))


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(trees, min_size=2, max_size=3), st.booleans())
def test_the_answer_is_the_same_whatever_was_asked_before(
    tmp_path_factory: pytest.TempPathFactory, asked_for: list[Tree], compared: bool
) -> None:
    cache = Cache(tmp_path_factory.mktemp("c") / "cache")
    for tree in asked_for:
        base = asked_for[0] if compared else None
        fresh = asked(tree, base, None)

        assert asked(tree, base, cache) == fresh, "with what is remembered of single files"
        assert asked(tree, base, cache) == fresh, "with the whole answer remembered"


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(trees, min_size=2, max_size=4))
def test_a_process_that_goes_on_finds_the_same(asked_for: list[Tree]) -> None:
    from reconciler.controller.aim import check_tree  # noqa: PLC0415  # as the tool imports it

    memory = Memory()
    for tree in [*asked_for, asked_for[0]]:
        seen, fresh = check_tree(tree, memory=memory), check_tree(tree)
        assert seen.report.findings == fresh.report.findings
        assert (seen.loaded.desired, seen.loaded.texts) == (fresh.loaded.desired, fresh.loaded.texts)


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(trees)
def test_nothing_secret_is_on_disk(tmp_path_factory: pytest.TempPathFactory, tree: Tree) -> None:
    cache = Cache(tmp_path_factory.mktemp("c") / "cache")
    asked(tree, None, cache)
    kept = [path.read_bytes() for path in cache.directory.iterdir()]

    assert len(kept) == 2
    assert [content for content in kept if b"TOKEN: hunter2" in content or b'"TOKEN"' in content] == []


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def test_an_answer_is_given_from_disk(cache: Cache) -> None:
    tree = a_tree(files({"a": (GPUS[3], ENVS[0], 1)}, POOL, FLEET))
    asked(tree, None, cache)
    (entry,) = cache.directory.glob("answer-*.entry")
    name = entry.name.removesuffix(".entry")
    content = cache.read(name) or b""
    assert b"gpus is 99" in content
    cache.write(name, content.replace(b"gpus is 99", b"read from disk"))

    assert "read from disk" in repr(asked(tree, None, cache))


def test_entries_of_another_form_are_passed_over(cache: Cache) -> None:
    tree = a_tree(files({"a": (GPUS[1], ENVS[0], 1)}, POOL, FLEET))
    fresh = asked(tree, None, cache)
    for entry in cache.directory.glob("*.entry"):
        for content in (b"[]", b"{}", b"not JSON", b'{"report": {}, "texts": {}, "files": []}', b'{"judged": 1}'):
            cache.write(entry.name.removesuffix(".entry"), content)
            assert asked(tree, None, cache) == fresh


def test_a_memory_of_another_form_is_an_empty_one() -> None:
    for content in (None, b"", b"[]", b"1", b'{"values": 1, "judged": []}', b'{"values": {"x": {}}}'):
        tree = a_tree({"models/llama.yaml": MODEL, "nodes/gpu.yaml": POOL})
        memory = read_memory(content)
        assert memory.ruled(tree, memory.loaded(tree)) == Memory().ruled(tree, Memory().loaded(tree))


def test_another_file_is_another_answer(cache: Cache) -> None:
    one = a_tree(files({"a": (GPUS[1], ENVS[0], 1)}, POOL, FLEET))
    other = a_tree(files({"a": (GPUS[3], ENVS[0], 1)}, POOL, FLEET))

    assert asked(one, None, cache) != asked(other, None, cache)
    assert asked(one, other, cache) != asked(one, None, cache) != asked(one, one, cache)


def test_only_the_lines_that_are_shown_are_kept_and_files_are_named(cache: Cache) -> None:
    tree = a_tree(files({"a": (GPUS[3], ENVS[1], 1)}, POOL, FLEET))
    found = answer(tree, None, cache, "here")
    text = found.texts["cluster/models/a.yaml"].split("\n")
    (line,) = {each.line for each in found.report.findings if each.rule == "inventory/gpus-range"}

    assert line is not None
    assert text[line - 1] == "    gpus: 99"
    assert "context: 32768" not in text
    assert found.files == ("cluster/cluster.yaml", "cluster/models/a.yaml", "cluster/nodes/gpu.yaml")
