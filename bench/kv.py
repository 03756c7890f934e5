"""How closely the cache arithmetic agrees with engines: `kv.py [FOLDER]`, by default ../shared/cases.

Two tables. `oracle.jsonl` holds vLLM 0.32's own answers for a config: bytes a token, bytes of states, of one
full-length request, blocks in 8 GiB, requests at once and the longest request. `memory.jsonl` holds what starts of
engines printed: tokens from a known cache size. Every miss is listed. Prints figures and never fails.
"""  # noqa: INP001  # a script, not part of a package

from __future__ import annotations

import importlib.util
import json
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from reconciler.domain.model_spec import Engine, Task
from reconciler.domain.shape import Shape
from reconciler.engines.counting import counting_rules
from reconciler.sizing.config_shape import read_config
from reconciler.sizing.kv import KvCache, kv_cache
from reconciler.sizing.memory_ask import MemoryAsk

HERE = Path(__file__).resolve().parent
DEFAULT_FOLDER = HERE.parent.parent / "shared" / "cases"
GIB = 2**30
POOL = 8 * GIB
"""The cache that the oracle was asked with."""
BATCH = 2048
"""The batch that it was asked with."""
PREFIX_BATCH = {"Gemma4ForConditionalGeneration": 2496}
"""Models that read a whole picture or film at once raise it to their largest item (arg_utils.py)."""
ENGINES = {"vllm": Engine.VLLM, "sglang": Engine.SGLANG, "tensorrt-llm": Engine.TRTLLM}
DOUBTFUL = frozenset({"m097", "m109", "m128", "m129", "m135", "m142", "m143", "m149", "m157", "m158", "m190", "m195",
                      "m199", "m231", "m232", "m235"})  # fmt: skip
"""Rows that their own description calls doubtful: the model inferred, or the figures not clean."""
EXPLAINED = {
    "m124": "a draft model of unknown shape is loaded too",
    **{
        f"o{number}": "its config class, which heeds use_sliding_window, was replaced by a plain one"
        for number in (5958, 5959, 5961, 5963, 5964, 5965)
    },
}
"""Misses with a known cause, by row."""

write = sys.stdout.write
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Score:
    """One figure of ours against one of an engine's."""

    figure: str
    kind: str
    row: str
    ours: float
    theirs: float

    @property
    def error(self) -> float:
        """|ours / theirs - 1|."""
        return abs(self.ours / self.theirs - 1) if self.theirs else float(self.ours != 0)


def rows(folder: Path, name: str) -> list[Row]:
    """The objects of one file, one a line."""
    return [json.loads(line) for line in (folder / name).read_text("utf-8").splitlines() if line.strip()]


def oracle_scores(folder: Path) -> tuple[list[Score], float]:
    """Every figure of every accepted row, and the seconds that our arithmetic took for each row."""
    configs = {row["config_id"]: row for row in rows(folder, "oracle-configs.jsonl")}
    shapes = {name: read_config(row["config"], row.get("hf_quant_config.json")) for name, row in configs.items()}
    rules = counting_rules(Engine.VLLM, "0.32.0")
    scores: list[Score] = []
    asked = [row for row in rows(folder, "oracle.jsonl") if row["outcome"] == "accepted"]
    spent = 0.0
    for row in asked:
        shape = shapes[row["config_id"]]
        if not isinstance(shape, Shape):
            continue
        ask = oracle_ask(row, shape, pooling=configs[row["config_id"]].get("runner") == "pooling")
        started = time.perf_counter()
        cache = kv_cache(shape, ask, rules)
        spent += time.perf_counter() - started
        scores.extend(_held_against(row, cache))
    return scores, spent / len(asked)


def oracle_ask(row: Row, shape: Shape, *, pooling: bool) -> MemoryAsk:
    """What the oracle was asked."""
    return MemoryAsk(
        tensor=row["tp"],
        context=row["resolved_max_model_len"],
        gpus=row["tp"],
        expert_parallel=row["ep"],
        task=Task.EMBED if pooling else Task.GENERATE,
        kv_cache_dtype=row["kv_cache_dtype"],
        batch_tokens=PREFIX_BATCH.get(shape.architecture, BATCH),
        block_tokens=row.get("block_size_option"),
    )


def _held_against(row: Row, cache: KvCache | None) -> list[Score]:
    layers = row.get("kv_layers") or {}
    kind = "+".join(sorted(name.removesuffix("Spec") for name in layers)) or "nothing cached"
    name = f"{row['id']} {row['model']} {row['variant']} tp {row['tp']} {row['kv_cache_dtype']}"
    length = row["resolved_max_model_len"]
    if cache is None or not layers:
        return [Score("cached at all", kind, name, float(cache is not None), float(bool(layers)))]
    ours: dict[str, float] = {
        "kv_bytes_per_token_per_rank_unbounded": cache.bytes_per_token,  # whole bytes, rounded up
        "state_bytes_per_sequence_per_rank": cache.state_bytes,
        "max_len_bytes_per_rank": cache.unpadded_bytes(length),
        "block_size": cache.block_tokens,
    }
    if "CrossAttentionSpec" in layers:  # the oracle counts it by token, the engine by what the encoder may read
        del ours["kv_bytes_per_token_per_rank_unbounded"]
    rate = row["kv_bytes_per_token_per_rank_unbounded"]
    row = row | {"kv_bytes_per_token_per_rank_unbounded": ceil(rate)}
    if row.get("pool_note"):
        del ours["block_size"]
    if row.get("num_blocks_for_8gib"):
        ours["num_blocks_for_8gib"] = POOL // cache.reserved_bytes
        ours["max_concurrency_8gib"] = cache.concurrency(POOL, length)
    if row.get("needed_gib_for_max_len"):
        ours["needed_gib_for_max_len"] = cache.request_bytes(length) / GIB
        ours["est_max_len_8gib"] = cache.longest(POOL)
    return [Score(figure, kind, name, ours[figure], row[figure]) for figure in ours if row.get(figure) is not None]


def log_scores(folder: Path) -> tuple[list[Score], list[str]]:
    """Tokens from the printed cache size, and the rows whose model's shape is not known."""
    known = known_configs(folder)
    scores: list[Score] = []
    without: list[str] = []
    for row in rows(folder, "memory.jsonl"):
        seen = row["observed"]
        if row["engine"] not in ENGINES or not seen.get("kv_cache_gib") or not seen.get("kv_cache_tokens"):
            continue
        config = known.get(spelled(row["model"]))
        shape = read_config(config) if config is not None else None
        if not isinstance(shape, Shape) or row["tp"] is None:
            without.append(f"{row['id']} {row['model']}")
            continue
        cache = log_cache(row, shape)
        if cache is None:
            continue
        name = f"{row['id']} {row['engine']} {row['engine_version']} {row['model']} tp {row['tp']} pp {row['pp']}"
        kind = "doubtful" if row["id"] in DOUBTFUL else "scored"
        pool = round(seen["kv_cache_gib"] * GIB)
        tokens = cache.tokens_in(pool) * (row.get("dcp") or 1 if ENGINES[row["engine"]] is not Engine.VLLM else 1)
        scores.append(Score("tokens", kind, name, tokens, seen["kv_cache_tokens"]))
        if seen.get("max_concurrency") and row.get("max_model_len"):
            requests = cache.concurrency(pool, row["max_model_len"])
            scores.append(Score("concurrency", kind, name, requests, seen["max_concurrency"]))
    return scores, without


def log_cache(row: Row, shape: Shape) -> KvCache | None:
    """The cache of one start."""
    engine = ENGINES[row["engine"]]
    version = (row["engine_version"] or "").removesuffix(".x")
    rules = counting_rules(engine, version or None)
    ask = MemoryAsk(
        tensor=row["tp"],
        context=row.get("max_model_len"),
        pipeline=row["pp"] or 1,
        dtype=row["dtype"] if row["dtype"] == "float32" else None,
        kv_cache_dtype=row.get("kv_cache_dtype") or "auto",
        batch_tokens=row.get("max_num_batched_tokens") or 8192,
        block_tokens=row["observed"].get("block_size"),
        decode_context=row.get("dcp") or 1,
    )
    return kv_cache(shape, ask, rules)


def known_configs(folder: Path) -> dict[str, Row]:
    """Configs by model: as rows of models.jsonl state them, then the oracle's, without quantization of ours."""
    out: dict[str, Row] = {}
    tool = folder.parent / "tools" / "shape_to_config.py"
    spec = importlib.util.spec_from_file_location("shape_to_config", tool) if tool.is_file() else None
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for row in rows(folder, "models.jsonl"):
            out[spelled(row["id"])] = module.config(row)
    for row in rows(folder, "oracle-configs.jsonl"):
        if row["label"].startswith("edge/"):
            continue
        plain = {key: value for key, value in row["config"].items() if key != "quantization_config"}
        for name in (row["label"], *(row.get("aliases") or ())):
            out.setdefault(spelled(name), plain)
    return out


_STORED = ("-fp8-dynamic", "-quantized.w8a8", "-quantized.w4a16", "-fp8", "-awq", "-nvfp4", "-instruct-2503")


def spelled(name: str) -> str:
    """A model's name without its owner, what it is stored as, and notes."""
    short = name.split(" ", maxsplit=1)[0].rsplit("/", maxsplit=1)[-1].lower().removeprefix("meta-")
    for ending in _STORED:
        short = short.removesuffix(ending)
    return short


def show(title: str, scores: list[Score], allowed: dict[str, float]) -> None:
    """Counts and worst errors by figure and kind, and what is beyond what is allowed."""
    write(f"{title}\n\n{'figure':<40}{'kind':<42}{'rows':>6}{'exact':>7}{'within':>8}{'worst':>9}\n")
    table: dict[tuple[str, str], list[Score]] = defaultdict(list)
    for score in scores:
        table[score.figure, score.kind].append(score)
    for (figure, kind), found in sorted(table.items()):
        limit = allowed.get(figure, 0.0)
        exact = sum(score.error < 1e-9 for score in found)  # noqa: PLR2004  # rounding of floats
        within = sum(score.error <= limit for score in found)
        worst = max(score.error for score in found)
        write(f"{figure:<40}{kind:<42}{len(found):>6}{exact:>7}{within:>8}{worst:>9.2%}\n")
    for score in scores:
        if score.error > allowed.get(score.figure, 0.0):
            because = EXPLAINED.get(score.row.split(" ", maxsplit=1)[0], "")
            write(f"  {score.figure} {score.row}: {score.ours:,.6g}, theirs {score.theirs:,.6g} ({score.error:.2%})")
            write(f": {because}\n" if because else "\n")
    write("\n")


def main() -> None:
    """Print both tables for the folder given, or say what is missing."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_FOLDER
    missing = [
        name for name in ("oracle.jsonl", "oracle-configs.jsonl", "memory.jsonl") if not (folder / name).is_file()
    ]
    if missing:
        write(f"no {' and no '.join(missing)} in {folder}; give the folder that holds them: kv.py FOLDER\n")
        return
    scores, seconds = oracle_scores(folder)
    allowed = {"max_len_bytes_per_rank": 0.02, "needed_gib_for_max_len": 0.001, "max_concurrency_8gib": 0.001}
    show(f"oracle.jsonl: vLLM 0.32.0's own answers ({seconds * 1e3:.3f} ms a row)", scores, allowed)
    logs, without = log_scores(folder)
    show("memory.jsonl: tokens from the printed cache size", logs, {"tokens": 0.015, "concurrency": 0.015})
    write(f"rows without a known shape or width: {'; '.join(without)}\n")


if __name__ == "__main__":
    main()
