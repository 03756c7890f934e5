"""How near counted weights come to what engines hold: `weights.py [FOLDER]`, by default ../shared/cases.

`oracle.jsonl`: bytes of the parameters that vLLM 0.32 builds, one rank, counted from the config alone.
`memory.jsonl`: what vLLM, SGLang and TensorRT-LLM logged after loading, counted from the size of the files.
Prints shares, medians and every large miss, and never fails.
"""  # noqa: INP001  # a script, not part of a package

from __future__ import annotations

import json
import runpy
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reconciler.domain.model_spec import Engine, Task
from reconciler.domain.shape import Shape
from reconciler.sizing.config_shape import read_config
from reconciler.sizing.counting import CountingRules, Division, Windows
from reconciler.sizing.memory_ask import MemoryAsk, Stored
from reconciler.sizing.weights import gpu_weights

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

HERE = Path(__file__).resolve().parent
DEFAULT_FOLDER = HERE.parent.parent / "shared" / "cases"
GIB = 2**30
write = sys.stdout.write
ENGINES = {"vllm": Engine.VLLM, "sglang": Engine.SGLANG, "tensorrt-llm": Engine.TRTLLM}
DOUBTFUL = {
    "m097",
    "m109",
    "m128",
    "m129",
    "m135",
    "m142",
    "m143",
    "m149",
    "m157",
    "m158",
    "m190",
    "m195",
    "m199",
    "m231",
    "m232",
    "m235",
}
"""Rows that the cases themselves call doubtful: engine faults, composed adapters, models told by arithmetic alone."""


@dataclass(frozen=True, slots=True)
class Score:
    """One row: how far off, in shares of what was held."""

    row: str
    what: str
    kind: str
    error: float


def rules_of(engine: Engine, version: str) -> CountingRules:
    """Weights depend on the engine alone."""
    return CountingRules(engine, version, Division.SHARE_OF_TOTAL, 0.9, Windows.BLOCKS, 16)


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSON-lines file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]


def config_of(model: Mapping[str, Any]) -> dict[str, Any]:
    """A row of models.jsonl as the config.json that its folder's tool writes; only what the row states."""
    tool = DEFAULT_FOLDER.parent / "tools" / "shape_to_config.py"
    return dict(runpy.run_path(str(tool))["config"](dict(model)))


def oracle_scores(folder: Path) -> Iterator[Score]:
    """Every accepted row without a doubt."""
    configs = {row["config_id"]: row for row in rows_of(folder / "oracle-configs.jsonl")}
    shapes = {each: read_config(row["config"], row.get("hf_quant_config.json")) for each, row in configs.items()}
    rules = rules_of(Engine.VLLM, "0.32.0")
    for row in rows_of(folder / "oracle.jsonl"):
        shape = shapes[row["config_id"]]
        if row["outcome"] != "accepted" or row.get("doubt") or not isinstance(shape, Shape):
            continue
        task = Task.EMBED if configs[row["config_id"]].get("runner") == "pooling" else Task.GENERATE
        ask = MemoryAsk(tensor=row["tp"], context=None, gpus=row["tp"], expert_parallel=row["ep"], task=task)
        weights = gpu_weights(shape, Stored(), ask, rules)
        found = weights.fullest.likely - weights.added  # the oracle built the parameters and loaded nothing
        what = f"{shape.architecture} {row['model']} {row['variant']} tp {row['tp']}{' ep' if row['ep'] else ''}"
        kind = "16 bit" if shape.quantization is None else "quantized"
        yield Score(row["id"], what, kind, found / row["weight_bytes_per_rank"] - 1)


def logged_scores(folder: Path) -> Iterator[Score]:
    """Starts whose log says what the weights took, where the model's shape and the size of its files are known."""
    models = {row["id"]: row for row in rows_of(folder / "models.jsonl")}
    for row in rows_of(folder / "memory.jsonl"):
        engine = ENGINES.get(row["engine"])
        held = row["observed"].get("weights_gib")
        known = models.get(row["model"])
        if engine is None or held is None or known is None or row["id"] in DOUBTFUL or not row["tp"]:
            continue
        shape = read_config(config_of(known))
        if not isinstance(shape, Shape):
            continue
        stored = Stored(weight_bytes=known["weight_bytes_16bit_derived"])
        yield _logged(row, shape, stored, engine)


def _logged(row: Mapping[str, Any], shape: Shape, stored: Stored, engine: Engine) -> Score:
    gpus = row["tp"] * (row["pp"] or 1) * (row["dp"] or 1)
    asked = row.get("quantization") if shape.quantization is None else None
    ask = MemoryAsk(
        tensor=row["tp"],
        context=row.get("max_model_len"),
        gpus=gpus,
        pipeline=row["pp"] or 1,
        dtype=row.get("dtype"),
        quantization=asked,
    )
    weights = gpu_weights(shape, stored, ask, rules_of(engine, str(row["engine_version"])))
    kind = "logged, quantized" if shape.quantization is not None or asked else "logged, 16 bit"
    what = f"{shape.architecture} {row['model']} tp {row['tp']} pp {row['pp']}"
    return Score(row["id"], what, kind, weights.fullest.likely / (row["observed"]["weights_gib"] * GIB) - 1)


def summary(found: list[Score], limits: tuple[float, ...]) -> str:
    """Shares within each limit, the median, the ninth tenth and the worst."""
    errors = sorted(abs(each.error) for each in found)
    shares = ", ".join(f"{sum(each <= limit for each in errors) / len(errors):.1%} in {limit:.1%}" for limit in limits)
    ninth, middle = errors[int(len(errors) * 0.9)], errors[len(errors) // 2]
    return f"{len(found)} rows, {shares}; median {middle:.3%}, 90 % {ninth:.2%}, worst {errors[-1]:.1%}"


def misses(found: list[Score], limit: float) -> list[Score]:
    """The worst row of each model and variant beyond a limit."""
    worst: dict[str, Score] = {}
    for score in found:
        key = score.what.split(" tp ")[0]
        if abs(score.error) > max(limit, abs(worst[key].error) if key in worst else 0):
            worst[key] = score
    return sorted(worst.values(), key=lambda each: -abs(each.error))


def told(scores: Iterable[Score], limits: tuple[float, ...]) -> None:
    """One line for each kind of row, and what is beyond the first limit."""
    by_kind: dict[str, list[Score]] = defaultdict(list)
    for score in scores:
        by_kind[score.kind].append(score)
    for kind, found in by_kind.items():
        write(f"{kind}: {summary(found, limits)}\n")
        for score in misses(found, limits[0]):
            write(f"  {score.error:+.2%} {score.row} {score.what}\n")


def main() -> None:
    """Score everything in one folder."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_FOLDER
    began = time.perf_counter()
    scores = list(oracle_scores(folder))
    write(f"oracle.jsonl, {len(scores)} rows, {time.perf_counter() - began:.1f} s\n")
    told(scores, (0.01, 0.02, 0.001))
    told(logged_scores(folder), (0.01, 0.015, 0.05))


if __name__ == "__main__":
    main()
