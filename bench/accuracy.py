"""How often the gate's arithmetic agrees with engines: `accuracy.py [--gate] [FOLDER]`, by default ../shared/cases.

With --gate every row goes through loader and gate as files would, and the counts that are said to pass are held against
the other rows of their config; without it the arithmetic alone is asked, which is quicker.
Two tables. `oracle.jsonl` holds vLLM 0.32's own answers (config, width, options): a row counts when an accepted one
brings no error of ours and a refused one brings the rule of its kind. `heads.jsonl` holds public reports of widths.
Every disagreement is listed. Prints figures and never fails.
"""  # noqa: INP001  # a script, not part of a package

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from through_gate import Case, errors, judged, passing

from reconciler.domain.finding import Severity
from reconciler.domain.model_spec import Engine, Task
from reconciler.domain.shape import Shape
from reconciler.sizing.config_shape import read_config
from reconciler.sizing.heads import refusals
from reconciler.sizing.refusal import ParallelAsk, Refusal

HERE = Path(__file__).resolve().parent
DEFAULT_FOLDER = HERE.parent.parent / "shared" / "cases"
HOPPER = (9, 0)
"""The card the oracle pretended: h100-80gb."""
RULES = {
    "attention_heads": "heads/attention-split",
    "kv_heads": "heads/kv-split",
    "vocab": "heads/vocab-split",
    "mlp": "heads/mlp-split",
    "experts": "heads/experts-split",
    "quant_group": "heads/quant-group",
    "fp8_block": "heads/quant-group",
    "vision": "heads/vision-split",
    "recurrent": "heads/recurrent-split",
    "context": "context/beyond-trained",
    "other": "inventory/unsupported",
    "head_dim": "inventory/unsupported",
}
ENGINES = {
    "vllm": Engine.VLLM,
    "sglang": Engine.SGLANG,
    "tensorrt-llm": Engine.TRTLLM,
    "llama.cpp": Engine.LLAMACPP,
}
BEFORE_OURS = "0.31"
"""Stands for a vLLM known by a date of 2026 only: all of them are older than the 0.32 that was read."""
DIVIDES_ALL = 720_720
"""Divides by 1 to 16: figures a report does not state are multiples of it, so that they decide nothing."""

write = sys.stdout.write
Row = dict[str, Any]


def rows(folder: Path, name: str) -> list[Row]:
    """The objects of one file, one a line."""
    return [json.loads(line) for line in (folder / name).read_text("utf-8").splitlines() if line.strip()]


def agrees(found: tuple[Refusal, ...], outcome: str, kind: str | None) -> bool:
    """Accepted rows bring no error; refused ones bring the rule of their kind as an error."""
    errors = {each.reason.value for each in found if each.severity is Severity.ERROR}
    return not errors if outcome in ("accepted", "ok") else RULES.get(kind or "") in errors


def ask_oracle(folder: Path) -> tuple[Counter[tuple[str, bool]], list[str], float]:
    """Agreement by kind, the disagreements, and the seconds it took."""
    configs = {row["config_id"]: row for row in rows(folder, "oracle-configs.jsonl")}
    asked = rows(folder, "oracle.jsonl")
    started = time.perf_counter()
    shapes = {name: read_config(row["config"], row.get("hf_quant_config.json")) for name, row in configs.items()}
    counts: Counter[tuple[str, bool]] = Counter()
    wrong: list[str] = []
    for row in asked:
        if row["outcome"] not in ("accepted", "refused") or row.get("doubt"):
            continue
        shape = shapes[row["config_id"]]
        kind = row.get("kind") or "accepted"
        if not isinstance(shape, Shape):
            counts[kind, False] += 1
            wrong.append(f"{row['id']} {row['model']}: {shape.because}")
            continue
        pooling = configs[row["config_id"]].get("runner") == "pooling"
        ask = ParallelAsk(
            Engine.VLLM,
            "0.32.0",
            gpus=row["tp"],
            expert_parallel=row["ep"],
            task=Task.EMBED if pooling else Task.GENERATE,
            context=row.get("max_model_len"),
            capability=HOPPER,
        )
        found = refusals(shape, ask)
        right = agrees(found, row["outcome"], row.get("kind"))
        counts[kind, right] += 1
        if not right:
            wrong.append(f"{row['id']} {row['model']} {row['variant']} tp {row['tp']} {kind}: {said(found)}")
    return counts, wrong, time.perf_counter() - started


def ask_reports(folder: Path) -> tuple[Counter[tuple[str, bool]], list[str]]:
    """Agreement of public reports by engine and outcome; rows that name no width are left out."""
    known = known_configs(folder)
    counts: Counter[tuple[str, bool]] = Counter()
    wrong: list[str] = []
    for row in rows(folder, "heads.jsonl"):
        engine = ENGINES.get(row["engine"])
        if engine is None or row["tp"] is None:
            continue
        shape = read_config(*reported(row, known))
        spread = row["kind"] == "experts"
        ask = ParallelAsk(engine, version_of(row), gpus=row["tp"], capability=HOPPER, expert_parallel=spread)
        found = refusals(shape, ask) if isinstance(shape, Shape) else ()
        right = agrees(found, row["outcome"], row["kind"])
        counts[f"{row['engine']} {row['outcome']} {row['kind']}", right] += 1
        if not right:
            wrong.append(f"{row['id']} {row['model']} tp {row['tp']} {row['kind']} ({row['gist']}): {said(found)}")
    return counts, wrong


Table = tuple[Counter[tuple[str, bool]], list[str]]
"""Agreement by kind, and the disagreements."""


def send_oracle(folder: Path) -> tuple[Table, Table, float]:
    """The same as `ask_oracle`, through loader and gate; whether counts said to pass are those that did; seconds."""
    configs = {row["config_id"]: row for row in rows(folder, "oracle-configs.jsonl")}
    asked = {
        f"m{number}": row
        for number, row in enumerate(rows(folder, "oracle.jsonl"))
        if row["outcome"] in ("accepted", "refused") and not row.get("doubt")
    }
    started = time.perf_counter()
    cases = [oracle_case(name, row, configs[row["config_id"]]) for name, row in asked.items()]
    took = {(same_ask(row), row["tp"]): row["outcome"] == "accepted" for row in asked.values()}
    counts: Counter[tuple[str, bool]] = Counter()
    wrong: list[str] = []
    passed: Table = (Counter(), [])
    for case, findings in judged(cases):
        row, refused = asked[case.name], errors(findings)
        kind = row.get("kind") or "accepted"
        right = not refused if kind == "accepted" else RULES.get(kind) in refused
        counts[kind, right] += 1
        if not right:
            wrong.append(f"{row['id']} {row['model']} {row['variant']} tp {row['tp']} {kind}: {sorted(refused)}")
        listed = passing(findings)
        for count in range(1, 65):
            known = took.get((same_ask(row), count))
            if known is not None and listed is not None:
                passed[0]["accepted" if known else "refused", known == (count in listed)] += 1
                if known != (count in listed):
                    passed[1].append(f"{row['id']} {row['model']} {row['variant']} tp {row['tp']}: {count}")
    return (counts, wrong), passed, time.perf_counter() - started


def oracle_case(name: str, row: Row, config: Row) -> Case:
    """One row of the oracle as a model's file and lock."""
    fields = {"expert_parallel": row["ep"]}
    if row["kv_cache_dtype"] != "auto":
        fields["kv_cache_dtype"] = row["kv_cache_dtype"]
    return Case(
        name,
        "vllm",
        "0.32.0",
        row["tp"],
        config["config"],
        config.get("hf_quant_config.json"),
        fields,
        row.get("max_model_len") or row.get("resolved_max_model_len") or 16,
        "embed" if config.get("runner") == "pooling" else "generate",
    )


def same_ask(row: Row) -> tuple[Any, ...]:
    """What two rows share that differ in their width only; a length that was given is refused at every width."""
    return row["config_id"], row["ep"], row["kv_cache_dtype"], row.get("max_model_len")


def send_reports(folder: Path) -> tuple[Counter[tuple[str, bool]], list[str]]:
    """The same as `ask_reports`, through loader and gate."""
    known = known_configs(folder)
    asked = {row["id"]: row for row in rows(folder, "heads.jsonl") if row["tp"] and row["engine"] in ENGINES}
    cases = [
        Case(
            name,
            ENGINES[row["engine"]].value,
            version_of(row),
            row["tp"],
            reported(row, known)[0],
            fields={"expert_parallel": row["kind"] == "experts"},
        )
        for name, row in asked.items()
    ]
    counts: Counter[tuple[str, bool]] = Counter()
    wrong: list[str] = []
    for case, findings in judged(cases):
        row, refused = asked[case.name], errors(findings)
        right = not refused if row["outcome"] == "ok" else RULES.get(row["kind"]) in refused
        counts[f"{row['engine']} {row['outcome']} {row['kind']}", right] += 1
        if not right:
            wrong.append(f"{row['id']} {row['model']} tp {row['tp']} {row['kind']} ({row['gist']}): {sorted(refused)}")
    return counts, wrong


def version_of(row: Row) -> str:
    """The version of a report: its own, or one that stands for the date it was written."""
    engine, version = ENGINES[row["engine"]], row["engine_version"] or ""
    version = BEFORE_OURS if version.startswith("202") and engine is Engine.VLLM else version
    return version or ("0.32.0" if engine is Engine.VLLM else "0.5.23")


def known_configs(folder: Path) -> dict[str, dict[str, Any]]:
    """Configs by model name, without quantization."""
    out: dict[str, dict[str, Any]] = {}
    for row in rows(folder, "oracle-configs.jsonl"):
        plain = {key: value for key, value in row["config"].items() if key != "quantization_config"}
        for name in (row["label"], *(row.get("aliases") or ())):
            out.setdefault(name, plain)
            out.setdefault(name.split("/")[-1].lower(), plain)
    return out


def reported(row: Row, known: dict[str, dict[str, Any]]) -> tuple[dict[str, Any], None]:
    """A config for one report: the model's own where it is known, else only what the report states."""
    name = row["model"].split(" ")[0]
    found = known.get(name) or known.get(name.split("/")[-1].lower().removesuffix("-awq").removesuffix("-gptq-int4"))
    config = dict(found) if found else stated(row)
    quantization = stored(str(row["quantization"] or ""))
    return (config | {"quantization_config": quantization} if quantization else config), None


def stated(row: Row) -> dict[str, Any]:
    """A plain decoder with the figures of a report; the rest divides by every width."""
    detail = row["detail"] if isinstance(row["detail"], dict) else {}
    heads = row["num_attention_heads"] or DIVIDES_ALL
    architecture = "LlamaForCausalLM"
    if "vision_heads" in detail:
        intern = "InternVL" in row["model"]
        architecture = "InternVLChatModel" if intern else "Qwen3VLForConditionalGeneration"
    if "moe_intermediate_size" in detail or "num_experts" in detail:
        architecture = "DeepseekV4ForCausalLM" if "V4" in row["model"] else "Qwen3MoeForCausalLM"
    text = {
        "hidden_size": DIVIDES_ALL * 128,
        "head_dim": None if "hidden_size" in detail else 128,
        "num_hidden_layers": 2,
        "num_attention_heads": heads,
        "num_key_value_heads": row["num_key_value_heads"] or heads,
        "intermediate_size": DIVIDES_ALL * 128,
        "vocab_size": DIVIDES_ALL * 64,
        **{key: value for key, value in detail.items() if key not in ("per_partition", "vision_heads")},
    }
    if "num_experts" in detail:
        text |= {"moe_intermediate_size": DIVIDES_ALL * 128}
    if "moe_intermediate_size" in detail:
        text |= {"num_experts": DIVIDES_ALL}
    if "chatglm" in row["model"].lower():
        architecture = "ChatGLMModel"
    if "vision_heads" not in detail:
        return {"architectures": [architecture], **text}
    vision = {"hidden_size": DIVIDES_ALL * 128, "num_attention_heads": detail["vision_heads"]}
    vision["num_heads"] = detail["vision_heads"]
    return {"architectures": [architecture], "text_config": text, "vision_config": vision}


def stored(quantization: str) -> dict[str, Any] | None:
    """A quantization config as checkpoints of that kind carry it."""
    if "fp8" in quantization:
        return {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
    if "awq" in quantization:
        return {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}
    if "gptq" in quantization:
        eight = "w8" in quantization
        group = -1 if eight else 128
        return {"quant_method": "gptq", "bits": 8 if eight else 4, "group_size": group, "desc_act": False, "sym": True}
    return None


def said(found: tuple[Refusal, ...]) -> str:
    """Our answer in one line."""
    errors = [f"{each.reason.value}: {each.message}" for each in found if each.severity is Severity.ERROR]
    return "; ".join(errors[:3]) or "nothing refused"


def show(title: str, counts: Counter[tuple[str, bool]], wrong: list[str]) -> None:
    """One table and its disagreements."""
    kinds = sorted({kind for kind, _ in counts})
    total = sum(counts.values())
    write(f"{title}\n\n{'kind':<36}{'agree':>7}{'of':>7}\n")
    for kind in kinds:
        right, rest = counts[kind, True], counts[kind, False]
        write(f"{kind:<36}{right:>7}{right + rest:>7}\n")
    write(f"{'all':<36}{total - len(wrong):>7}{total:>7}\n")
    for line in wrong:
        write(f"  {line}\n")
    write("\n")


def main() -> None:
    """Print both tables for the folder given, or say what is missing."""
    given = [word for word in sys.argv[1:] if word != "--gate"]
    folder = Path(given[0]) if given else DEFAULT_FOLDER
    missing = [
        name for name in ("oracle.jsonl", "oracle-configs.jsonl", "heads.jsonl") if not (folder / name).is_file()
    ]
    if missing:
        write(f"no {' and no '.join(missing)} in {folder}; give the folder that holds them: accuracy.py FOLDER\n")
        return
    whole = "--gate" in sys.argv
    if whole:
        answers, passed, seconds = send_oracle(folder)
        show(f"oracle.jsonl: vLLM 0.32.0's own answers, files through the gate ({seconds:.1f} s)", *answers)
        show("oracle.jsonl: widths in `valid`, against the rows of the same config at those widths", *passed)
    else:
        counts, wrong, seconds = ask_oracle(folder)
        show(f"oracle.jsonl: vLLM 0.32.0's own answers ({seconds:.1f} s)", counts, wrong)
    show("heads.jsonl: public reports", *(send_reports(folder) if whole else ask_reports(folder)))


if __name__ == "__main__":
    main()
