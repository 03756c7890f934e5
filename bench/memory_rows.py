"""Makes `data/memory.json` out of a folder of public cases: the rows that `memory.py` and a test score.

`memory_rows.py FOLDER`: FOLDER holds memory.jsonl and models.jsonl, and beside it tools/shape_to_config.py. Only what
arithmetic needs is kept: a config's figures, what was asked, what was printed, and where.
"""  # noqa: INP001  # a script, not part of a package

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FILE = HERE / "data" / "memory.json"
Row = dict[str, Any]
ENGINES = {"vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "trtllm"}
CARDS = {
    "H100-80GB": "h100-80gb",
    "H100-NVL-94GB": "h100-nvl-94gb",
    "H20-96GB": "h20-96gb",
    "H20": "h20-96gb",
    "H200-141GB": "h200",
    "A100-80GB": "a100-80gb",
    "A100-80GB class": "a100-80gb",
    "A100-40GB": "a100-40gb",
    "A10": "a10",
    "A10G": "a10g",
    "A40-48GB": "a40",
    "B200": "b200",
    "L20": "l20",
    "L20/L40S class (44.53 GiB)": "l40s",
    "L4-24GB": "l4",
    "MI300X-192GB": "mi300x",
    "RTX 3090": "rtx-3090",
    "RTX 4090": "rtx-4090",
    "RTX 5090": "rtx-5090",
    "V100-32GB": "v100-32gb",
    "V100-16GB": "v100-16gb",
}
_LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16"}
_GRANITE = {
    "architectures": ["GraniteForCausalLM"], "model_type": "granite", "torch_dtype": "bfloat16",
    "num_hidden_layers": 40, "hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 8,
    "intermediate_size": 8192, "vocab_size": 49155, "tie_word_embeddings": True, "max_position_embeddings": 131072,
}  # fmt: skip
_QWEN15_7B = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "torch_dtype": "bfloat16",
    "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 32,
    "intermediate_size": 11008, "vocab_size": 151936, "max_position_embeddings": 32768,
}  # fmt: skip
MORE: dict[str, tuple[Row, int | None]] = {
    "ibm-granite/granite-3.1-2b-instruct": (_GRANITE, 5_067_079_680),
    "ibm-granite/granite-vision-3.3-2b": (
        {
            "architectures": ["LlavaNextForConditionalGeneration"],
            "model_type": "llava_next",
            "text_config": _GRANITE | {"vocab_size": 49156},
            "vision_config": {
                "model_type": "siglip_vision_model", "hidden_size": 1152, "intermediate_size": 4304,
                "num_attention_heads": 16, "num_hidden_layers": 27, "patch_size": 14, "image_size": 384,
            },
        },
        None,
    ),
    "microsoft/phi-2": (
        {
            "architectures": ["PhiForCausalLM"], "model_type": "phi", "torch_dtype": "float16",
            "num_hidden_layers": 32, "hidden_size": 2560, "num_attention_heads": 32, "num_key_value_heads": 32,
            "intermediate_size": 10240, "vocab_size": 51200, "tie_word_embeddings": False,
            "max_position_embeddings": 2048,
        },
        5_559_367_680,
    ),
    "Qwen/Qwen1.5-7B-Chat": (_QWEN15_7B, None),
}  # fmt: skip
"""Well-known models that the list of shapes lacks: config, and bytes where known."""
SAME = {
    "RedHatAI/Qwen2.5-7B-Instruct-fp8-dynamic": "Qwen/Qwen2.5-7B-Instruct",
    "redhatai/Llama-3.3-70B-Instruct-quantized.w8a8": "meta-llama/Llama-3.3-70B-Instruct",
    "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16": "meta-llama/Llama-3.1-8B-Instruct",
    "RedHatAI/Mistral-Small-3.1-24B-Instruct-2503-quantized.w8a8": "mistralai/Mistral-Small-3.1-24B-Instruct-2503",
    "BatsResearch/bonito-v1": "mistralai/Mistral-7B-Instruct-v0.1",
    "meta-llama/Llama-2-7b-hf": "meta-llama/Llama-2-7b-chat-hf",
    "meta-llama/Llama-2-7b": "meta-llama/Llama-2-7b-chat-hf",
    "llama-7b": "meta-llama/Llama-2-7b-chat-hf",
    "meta-llama/Llama-2-70b-hf": "meta-llama/Llama-2-70b-chat-hf",
    "meta-llama/Meta-Llama-3-8B": "meta-llama/Meta-Llama-3-8B-Instruct",
    "meta-llama/Meta-Llama-3.1-405B-Instruct-FP8": "meta-llama/Llama-3.1-405B-Instruct",
    "Qwen/Qwen1.5-7B-Chat-GPTQ-Int4": "Qwen/Qwen1.5-7B-Chat",
    "Qwen/Qwen3.6-35B-A3B": "Qwen/Qwen3.5-35B-A3B",
    "Qwen/Qwen3.6-27B": "Qwen/Qwen3.5-27B",
    "deepseek-ai/DeepSeek-V4-Flash-0731": "deepseek-ai/DeepSeek-V4-Flash",
    "DeepSeek-V4-Flash-FP8": "deepseek-ai/DeepSeek-V4-Flash",
    "deepseek-ai/DeepSeek-V2 family": "deepseek-ai/DeepSeek-V2",
    "Qwen/Qwen3-VL-32B-Thinking-FP8": "Qwen/Qwen3-VL-32B-Instruct",
}
"""Models of one shape with a listed one."""
SKIPPED: dict[str, Row] = {
    "RedHatAI/Mistral-Small-3.1-24B-Instruct-2503-quantized.w8a8": {
        "ignore": ["re:.*lm_head", "re:.*vision_tower.*", "re:.*multi_modal_projector.*"],
    },
    "meta-llama/Meta-Llama-3.1-405B-Instruct-FP8": {
        "modules_to_not_convert": [
            "lm_head",
            *(f"model.layers.{layer}.self_attn.{name}_proj" for layer in range(126) for name in "qkvo"),
            *(f"model.layers.{layer}.mlp.{name}_proj" for layer in (0, 125) for name in ("gate", "up", "down")),
        ],
    },
}
"""What these uploads leave in 16 bit."""
STATED: dict[str, Row] = {"Qwen/Qwen3.5-27B": {"mamba_ssm_dtype": "float32"}}
"""What published configs say of the text model and the list of shapes leaves out (Qwen3.5, Qwen3.6: config.json)."""
UNTOLD = "unknown"
"""Packed files whose parts nobody states."""
VERSIONS = {"m082": "0.6.4", "m083": "0.6.4", "m084": "0.6.4", "m088": "0.3.3"}
"""Versions that a row's notes or the date of its thread give (m088: March 2024)."""
SHARES = {"m169": 0.95}
"""Shares that a row's own figures add up to, and not to the one it states."""
LEFT_OUT = {
    "m181": "the card was not free", "m182": "the card was not free", "m183": "the card was not free",
    "m186": "length beyond the trained one", "m195": "engine fault", "m135": "adapter composed at load",
    "m142": "attention data parallel", "m143": "attention data parallel", "m151": "second copy of the weights",
    "m137": "context parallel", "m116": "latent cache off", "m149": "no clean width", "m109": "tokens may be blocks",
    "m124": "a draft model is loaded too",
}  # fmt: skip
"""Rows that nothing which sees model, card and arguments can tell, or that their collector doubts."""


def compact(folder: Path) -> Row:
    """All rows with a shape, those left out with their reason, and the configs they point to."""
    models = {row["id"]: row for row in _rows(folder, "models.jsonl")}
    spec = importlib.util.spec_from_file_location("shape_to_config", folder.parent / "tools" / "shape_to_config.py")
    if spec is None or spec.loader is None:
        raise SystemExit("no tools/shape_to_config.py beside the folder")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    towers = {
        row["label"]: row["config"]
        for row in _rows(folder, "oracle-configs.jsonl")
        if row["variant"] == "base" and "vision_config" in row["config"]
    }
    configs: dict[str, Row] = {}
    found, without = [], {}
    for row in _rows(folder, "memory.jsonl"):
        if row["engine"] not in ENGINES:
            without[row["id"]] = f"engine {row['engine']}"
            continue
        name = SAME.get(row["model"], row["model"])
        kind = _kind(row)
        if kind == UNTOLD:
            without[row["id"]] = "files of unknown make"
            continue
        if name in models:
            config, size = tool.config(models[name], kind), _bytes(models[name], kind)
            if name in towers and not models[name].get("vision"):  # the list of shapes has no tower there
                config = towers[name] | {key: config[key] for key in ("quantization_config",) if key in config}
            if name in STATED:
                config["text_config"] |= STATED[name]
            if (left := SKIPPED.get(row["model"])) is not None:
                config["quantization_config"] = tool.QUANT[kind] | left
        elif name in MORE:
            config, size = MORE[name]
            config = config if kind is None else config | {"quantization_config": tool.QUANT[kind]}
            size = size if kind is None else None
        else:
            without[row["id"]] = "no shape known"
            continue
        key = name if kind is None else f"{name} {kind}"
        configs[key] = {"config": config, "weight_bytes": size}
        found.append(_row(row, key, packed="quantization_config" in config))
    return {"rows": found, "configs": dict(sorted(configs.items())), "without": without}


def _row(row: Row, key: str, *, packed: bool) -> Row:
    seen = row["observed"]
    asked = {
        "tensor": row.get("tp") or 1,
        "pipeline": row.get("pp") or 1,
        "data": row.get("dp") or 1,
        "expert_parallel": bool(row.get("ep")),
        "eager": bool(row.get("enforce_eager")),
        "context": row.get("max_model_len"),
        "share": SHARES.get(row["id"], row.get("mem_fraction")),
        "concurrency": row.get("max_num_seqs"),
        "batch_tokens": row.get("max_num_batched_tokens"),
        "kv_cache_dtype": row.get("kv_cache_dtype"),
        "dtype": "float32" if row.get("dtype") == "float32" else None,
        "quantization": "fp8" if _online(row) else None,
    }
    kept = {name: value for name, value in asked.items() if value not in (None, False)}
    return {
        "id": row["id"],
        "engine": ENGINES[row["engine"]],
        "version": VERSIONS.get(row["id"]) or _version(row.get("engine_version")),
        "sweep": "llm-d-planner" in row["source"],
        "config": key,
        "gpu": CARDS.get(row["gpu"] or ""),
        "ask": kept,
        "outcome": row["outcome"],
        "observed": {name: value for name, value in seen.items() if isinstance(value, int | float)},
        "left_out": LEFT_OUT.get(row["id"]),
        "quantized": packed or bool(row.get("quantization")),
        "source": row["source"],
    }


def _kind(row: Row) -> str | None:
    """How the checkpoint is stored, where not as its model's own."""
    said, model = (row.get("quantization") or "").lower(), row["model"].lower()
    if "nvfp4" in said or "nvfp4" in model or "mixed" in said:
        return UNTOLD
    if _online(row) or "mxfp4" in said or "fp8-block" in said or "deepseek" in model:
        return None  # the model's own, or 16 bit made 8 while loading
    for word, kind in (("w8a8", "w8a8"), ("w4a16", "w4a16"), ("gptq", "gptq"), ("awq", "awq"), ("int4", "gptq")):
        if word in said or word in model:
            return kind
    return "fp8" if "fp8" in said or "fp8-dynamic" in model or model.endswith("-fp8") else None


def _online(row: Row) -> bool:
    """Whether a 16-bit checkpoint was made 8 bit while loading."""
    model = row["model"].lower()
    return row.get("quantization") == "fp8" and "fp8" not in model and "deepseek" not in model


def _bytes(model: Row, kind: str | None) -> int | None:
    if kind is None and model.get("weight_bytes_16bit_derived"):
        return int(model["weight_bytes_16bit_derived"])
    if kind is None and model.get("native_quantization"):
        exact = [each["bytes"] for each in model["disk_sizes"] if each["bytes"] and "safetensors" in each["format"]]
        return exact[0] if exact else None
    return None


def _version(said: str | None) -> str | None:
    found = re.match(r"\d+\.\d+(\.\d+)*", said or "")
    return found[0] if found and not re.match(r"20\d\d", said or "") else None


def _rows(folder: Path, name: str) -> list[Row]:
    return [json.loads(line) for line in (folder / name).read_text("utf-8").splitlines() if line.strip()]


def main(folder: Path) -> None:
    """Write the file; one row a line, so that differences can be read."""
    data = compact(folder)
    lines = [
        "{",
        '"about": "Start logs of engines as people published them: what was asked, what was printed, and where.",',
        f'"without": {json.dumps(data["without"])},',
        '"configs": {',
        ",\n".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in data["configs"].items()),
        "},",
        '"rows": [',
        ",\n".join(json.dumps(each) for each in data["rows"]),
        "]",
        "}",
    ]
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
