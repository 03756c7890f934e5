"""The flag tables: which version is taken, that files and marks hold together, and where each comes from."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest

from reconciler.domain.flag_tables import flag_table, known_versions
from reconciler.domain.flags import FlagKind
from reconciler.domain.model_spec import Engine, ModelSpec, Profile
from reconciler.domain.tables import table

TABLED = [(engine, version) for engine in Engine for version in known_versions(engine)]
MARKS = table("flags/marks")
FIELDS = {
    *Profile.model_fields,
    *ModelSpec.model_fields,
    "name and aliases",
    "scaling.idle_timeout",
    "rollout.drain_timeout",
}


@pytest.mark.parametrize(
    ("engine", "asked", "version", "exact"),
    [
        (Engine.VLLM, None, "0.33.0", True),
        (Engine.VLLM, "0.32.0", "0.32.0", True),
        (Engine.VLLM, "0.32.0+cpu", "0.32.0", True),
        (Engine.VLLM, "v0.32", "0.32.0", True),
        (Engine.VLLM, "0.32.1", "0.32.0", False),
        (Engine.VLLM, "0.33.0rc1", "0.33.0", False),
        (Engine.VLLM, "0.40.0", "0.33.0", False),
        (Engine.VLLM, "0.9.2", "0.32.0", False),
        (Engine.VLLM, "latest", "0.33.0", False),
        (Engine.SGLANG, "0.5.22", "0.5.23", False),
        (Engine.TRTLLM, "1.2.1", "1.2", False),
        (Engine.LLAMACPP, "b11549", "11549", True),
        (Engine.LLAMACPP, "2026.10.11549", "11549", True),
        (Engine.LLAMACPP, "11434", "10229", False),
        (Engine.COMFYUI, "0.3", "0.38", False),
        (Engine.COMFYUI, "v0.38.1", "0.38", False),
    ],
)
def test_the_nearest_version_not_above_the_one_asked_for(
    engine: Engine, asked: str | None, version: str, exact: bool
) -> None:
    found = flag_table(engine, asked)

    assert (found.version, found.exact, found.asked) == (version, exact, asked)


@pytest.mark.parametrize(("engine", "version"), TABLED)
def test_a_table_says_how_it_was_obtained(engine: Engine, version: str) -> None:
    obtained = flag_table(engine, version).source.obtained

    by_public_files = engine in {Engine.TRTLLM, Engine.COMFYUI}
    assert obtained.startswith("from public files" if by_public_files else "parsed by the real program")


@pytest.mark.parametrize(("engine", "version"), TABLED)
def test_every_spelling_belongs_to_one_flag(engine: Engine, version: str) -> None:
    found = flag_table(engine, version)
    spellings = [spelling for flag in found.flags for spelling in flag.spellings]

    assert len(spellings) == len(set(spellings)) > 30
    assert all(spelling.startswith("-") and not set(spelling) & set("= .") - {"."} for spelling in spellings)


@pytest.mark.parametrize(("engine", "version"), TABLED)
def test_a_flag_is_in_itself_consistent(engine: Engine, version: str) -> None:
    for flag in flag_table(engine, version).flags:
        least, most = flag.words
        assert most is None or least <= most, flag.name
        assert (flag.words == (0, 0)) == (flag.kind in {FlagKind.SWITCH, FlagKind.PAIR}), flag.name
        assert set(flag.off) < set(flag.spellings), flag.name
        assert bool(flag.off) == (flag.kind is FlagKind.PAIR), flag.name


def test_every_mark_is_of_a_flag_that_some_version_has() -> None:
    for engine in Engine:
        marks, known = MARKS[engine], set[str]()
        for version in known_versions(engine):
            known |= set(flag_table(engine, version).by_spelling)
        marked = [flag for row in marks["managed"] for flag in row.get("flags", ())]
        marked += [*marks["sizing"], *marks["clashes"], *(flag for flags in marks["memory"].values() for flag in flags)]
        assert [flag for flag in marked if flag not in known] == []


def test_no_flag_is_decided_elsewhere_and_read_by_sizing_as_well() -> None:
    for engine, version in TABLED:
        for flag in flag_table(engine, version).flags:
            assert sum(mark is not None for mark in (flag.managed, flag.sizing, flag.memory)) <= 1, (engine, flag.name)


def test_every_managed_mark_names_a_field_of_the_yaml_and_a_reason() -> None:
    for section in MARKS.values():
        for row in section["managed"] if isinstance(section, dict) else ():
            assert row["field"] is None or row["field"] in FIELDS
            assert len(row["why"]) > 20
            assert row.get("flags") or row.get("env")


@pytest.mark.parametrize(
    ("engine", "fields"),
    [
        (Engine.VLLM, {"gpus", "context", "max_concurrency", "memory_share", "nodes", "data_parallel", "source", None}),
        (
            Engine.SGLANG,
            {"gpus", "context", "max_concurrency", "memory_share", "nodes", "data_parallel", "source", None},
        ),
        (Engine.TRTLLM, {"gpus", "context", "max_concurrency", "memory_share", "nodes", None}),
        (Engine.LLAMACPP, {"gpus", "context", "max_concurrency", "kv_cache_dtype", "source", "mmproj", None}),
    ],
)
def test_what_decides_gpus_memory_and_address_is_managed(engine: Engine, fields: set[str | None]) -> None:
    found = {flag.managed.field for flag in flag_table(engine).flags if flag.managed}

    assert fields <= found


def test_sizing_reads_the_flags_of_the_design_and_two_more() -> None:
    words = {flag.sizing for engine, version in TABLED for flag in flag_table(engine, version).flags if flag.sizing}

    assert words == {
        "max-num-batched-tokens",
        "enforce-eager",
        "block-size",
        "kv-cache-memory-bytes",
        "cpu-offload-gb",
        "max-lora-rank",
        "mm-encoder-tp-mode",
        "swa-full",
        "ubatch-size",
        "chunked-prefill-size",
        "decode-context-parallel-size",
        "flash-attn",
    }


def test_a_removed_flag_is_removed_only_where_the_table_does_not_know_it() -> None:
    assert "--mmap" in flag_table(Engine.LLAMACPP, "11549").removed
    assert "--mmap" in flag_table(Engine.LLAMACPP, "10229").by_spelling
    assert "--mmap" not in flag_table(Engine.LLAMACPP, "10229").removed


def test_of_a_version_older_than_its_table_no_flag_is_called_removed() -> None:
    assert flag_table(Engine.VLLM, "0.40.0").removed
    assert not flag_table(Engine.VLLM, "0.16.0").removed


@pytest.mark.parametrize(("engine", "version"), TABLED)
def test_a_table_file_holds_one_flag_a_line_and_no_path_of_the_machine_that_made_it(
    engine: Engine, version: str
) -> None:
    text = files("reconciler.domain.tables").joinpath("flags", f"{engine}-{version}.json").read_text("utf-8")
    rows: list[dict[str, Any]] = json.loads(text)["flags"]

    assert sum(line.startswith('    {"spellings"') for line in text.splitlines()) == len(rows)
    assert not [word for word in ("/home/", "/root/", "/tmp/", "/work/") if word in text]
