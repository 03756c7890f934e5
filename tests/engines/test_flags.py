"""The reader of engine flags against what the real programs did, and against the parser libraries they are built on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from reconciler.domain.flags import FlagKind
from reconciler.domain.model_spec import Engine
from reconciler.engines.flags import ProblemKind, ReadArgs, flag_table, managed_uses, read_args

CASES = YAML(typ="safe").load((Path(__file__).parent / "flag_cases.yaml").read_text("utf-8"))
ROWS: list[tuple[str, str, dict[str, Any]]] = [(*table.split(), row) for table, rows in CASES.items() for row in rows]

LLAMACPP_STORES = {
    "--ctx-size": "n_ctx",
    "--batch-size": "n_batch",
    "--ubatch-size": "n_ubatch",
    "--parallel": "n_parallel",
    "--predict": "n_predict",
    "--port": "port",
    "--gpu-layers": "n_gpu_layers",
    "--main-gpu": "main_gpu",
}
"""Where llama.cpp keeps a value, of those that its Python binding shows."""

PLAIN_KINDS = {FlagKind.VALUE, FlagKind.VALUES, FlagKind.SWITCH, FlagKind.PAIR}


def name_of(part: str | dict[str, Any]) -> str:
    if isinstance(part, str):
        return part
    words = [*(f"{name}={value}" for name, value in part.get("env", {}).items()), *part["args"]]
    return " ".join(word.replace(" ", "_") or "''" for word in words)


def read(engine: str, version: str, args: list[str], env: dict[str, str] | None = None) -> ReadArgs:
    return read_args(flag_table(Engine(engine), version), args, env)


def plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


@pytest.mark.parametrize(("engine", "version", "row"), ROWS, ids=name_of)
def test_a_command_line_is_read_as_written_down(engine: str, version: str, row: dict[str, Any]) -> None:
    found = read(engine, version, row["args"], row.get("env"))
    uses = managed_uses(flag_table(Engine(engine), version), row["args"], row.get("env", ()))

    assert [problem.kind.value for problem in found.problems] == row.get("problems", [])
    assert [use.canonical for use in uses] == row.get("managed", [])
    for name, value in row.get("reads", {}).items():
        last = found.last(name)
        assert last is not None, f"{name} was not read"
        assert plain(last.value) == value


@pytest.mark.parametrize(("engine", "version", "row"), [each for each in ROWS if "real" in each[2]], ids=name_of)
def test_the_reader_takes_what_the_program_took(engine: str, version: str, row: dict[str, Any]) -> None:
    kinds = {problem.kind for problem in read(engine, version, row["args"], row.get("env")).problems} - {
        ProblemKind.MISREAD
    }
    expected = "exits" if kinds == {ProblemKind.EXITS} else "refused" if kinds else "accepted"

    assert expected == row["real"]


@pytest.mark.parametrize(
    ("engine", "version", "row"),
    [each for each in ROWS if "values" in each[2] and "stored" not in each[2]],
    ids=name_of,
)
def test_the_reader_reads_the_values_that_the_program_stored(engine: str, version: str, row: dict[str, Any]) -> None:
    found = read(engine, version, row["args"], row.get("env"))
    for each in found.flags:
        name = each.flag.name
        stored_as = LLAMACPP_STORES.get(name, "") if engine == "llamacpp" else name[2:].replace("-", "_")
        if each.key is None and each.flag.kind in PLAIN_KINDS and stored_as in row["values"]:
            last = found.last(name)
            assert last is not None
            assert plain(last.value) == row["values"][stored_as]


def test_the_cases_that_a_program_answered_are_many() -> None:
    answered = [engine for engine, _, row in ROWS if "real" in row]

    assert len(ROWS) >= 300
    assert len(answered) >= 280
    assert set(answered) == {"vllm", "sglang", "llamacpp"}


def test_a_problem_says_where_what_and_what_instead() -> None:
    found = read("sglang", "0.5.23", ["--enable-metrics", "--tp_size", "4"])

    (problem,) = found.problems
    assert (problem.index, problem.word) == (1, "--tp_size")
    assert problem.message == "--tp-size is spelled with dashes: write --tp-size"
    assert problem.nearest == ("--tp-size",)


@pytest.mark.parametrize(
    ("table", "args", "message"),
    [
        (
            "vllm 0.32.0",
            ["--swap-space", "4"],
            "vLLM 0.32.0 has no --swap-space any more (0.16.0 had it); instead: --kv-offloading-size",
        ),
        (
            "vllm 0.32.0",
            ["--enable-prefix-cacheing"],
            "vLLM 0.32.0 has no flag --enable-prefix-cacheing; nearest: --enable-prefix-caching",
        ),
        (
            "vllm 0.32.0",
            ["-tp4"],
            "-tp takes its value as a word of its own: write -tp and 4 as two entries",
        ),
        (
            "vllm 0.32.0",
            ["--enforce-eager=true"],
            "--enforce-eager takes no value: write it alone, or --no-enforce-eager for the opposite",
        ),
        (
            "sglang 0.5.23",
            ["--pp", "2"],
            "--pp could be --pp-async-batch-depth, --pp-max-micro-batch-size or --pp-size: write it in full",
        ),
        (
            "sglang 0.5.23",
            ["--context-length", "8K"],
            '--context-length is "8K"; it takes a whole number, or one such as 8k (8000) or 8Ki (8192)',
        ),
        ("llamacpp 11549", ["-c", "8k"], '-c is "8k", which llama-server reads as 8'),
        (
            "llamacpp 11549",
            ["--ctx-size=4096"],
            "--ctx-size takes no =: write --ctx-size and 4096 as two entries",
        ),
        (
            "llamacpp 11549",
            ["--mlock"],
            "llama-server 11549 has no --mlock any more (10298 had it); instead: --load-mode mlock",
        ),
        ("trtllm 1.2", ["--tp-size", "4"], "--tp_size is spelled with underscores: write --tp_size"),
        ("trtllm 1.2", ["word"], '"word" belongs to no flag; trtllm-serve 1.2 takes no further words'),
    ],
)
def test_messages(table: str, args: list[str], message: str) -> None:
    engine, version = table.split()

    assert [problem.message for problem in read(engine, version, args).problems] == [message]


def test_every_spelling_of_every_managed_flag_is_found_behind_other_flags() -> None:
    for engine in (Engine.VLLM, Engine.SGLANG, Engine.TRTLLM, Engine.LLAMACPP):
        table = flag_table(engine)
        for flag in table.flags:
            if flag.managed is None:
                continue
            for spelling in flag.spellings:
                args = ["--seed" if engine is Engine.VLLM else table.flags[0].name, "1", spelling, "1"]
                assert spelling in [use.spelling for use in managed_uses(table, args, ())], (engine, spelling)


def test_variables_that_set_the_same_are_managed_too() -> None:
    table = flag_table(Engine.LLAMACPP, "b11549")
    uses = managed_uses(table, (), ("LLAMA_ARG_CTX_SIZE", "LLAMA_ARG_NO_KV_UNIFIED", "LLAMA_ARG_TOP_K", "HOME"))

    assert [(use.at, use.canonical, use.field) for use in uses] == [
        ("LLAMA_ARG_CTX_SIZE", "--ctx-size", "context"),
        ("LLAMA_ARG_NO_KV_UNIFIED", "--kv-unified", "max_concurrency"),
    ]


@pytest.mark.parametrize("engine", list(Engine))
def test_no_engine_may_be_given_other_gpus_through_the_environment(engine: Engine) -> None:
    (use,) = managed_uses(flag_table(engine), (), ("CUDA_VISIBLE_DEVICES",))

    assert use.field == "gpus"


def test_sizing_gets_its_flags_by_its_own_words() -> None:
    args = ["--max-num-batched-tokens", "8k", "--max-num-batched-tokens", "16K", "--enforce-eager"]
    sizing = read("vllm", "0.32.0", args).sizing()

    assert {word: each.value for word, each in sizing.items()} == {
        "max-num-batched-tokens": 16384,
        "enforce-eager": True,
    }


def test_flags_that_move_memory_unseen_by_sizing_are_named() -> None:
    found = read("vllm", "0.32.0", ["-sc", '{"method": "ngram"}', "--seed", "1", "--kv-offloading-size", "8"])

    assert [(each.flag.name, each.flag.memory) for each in found.unsized()] == [
        ("--speculative-config", "a draft model or draft heads and their KV cache"),
        ("--kv-offloading-size", "host memory for KV cache"),
    ]


def test_of_an_engine_without_a_table_nothing_is_said() -> None:
    table = replace(flag_table(Engine.COMFYUI), flags=(), by_spelling={})

    assert not table.known
    assert read_args(table, ["--whatever", "1"]) == ReadArgs((), ())


def test_dotted_keys_keep_their_path_and_their_word() -> None:
    (flag,) = read("vllm", "0.32.0", ["--compilation_config.pass_config.fuse_norm_quant", "true"]).flags

    assert (flag.flag.name, flag.key, flag.value) == ("--compilation-config", "pass_config.fuse_norm_quant", "true")
