"""`reconciler fit`: the real command over a real directory; exit codes, streams, and JSON as published."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from reconciler.cli import fit
from reconciler.domain import base
from reconciler.views.schemas import schema
from tests.e2e.site import Site
from tests.gate.locks import lock_text
from tests.tiny_gguf import write_tiny_gguf
from tests.weights.hub_server import running_hub
from tests.weights.tensor_files import Content, llama, safetensors

if TYPE_CHECKING:
    from pathlib import Path

GPUS = """pool: {name}
gpus: {{class: {name}, count: {count}}}
memory_gib: 1024
cpu_cores: 96
address: https://{{node}}.internal:7443
nodes: ['{name}-[01-02]']
"""
MODEL = """name: {name}
source: hf:org/{name}@v1
context: {context}
profiles:
  - {{name: cards, engine: vllm, gpu_class: {gpu_class}, gpus: {gpus}}}
"""
WEIGHTS = {"llama-70b": 141_107_412_992, "llama-8b": 16_060_522_496}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A catalog with one model of each kind; no test changes it."""
    made = Site(tmp_path_factory.mktemp("m"))
    made.write("cluster/cluster.yaml", "name: prod\ndefaults: {engine_versions: {vllm: 0.32.0}}\n")
    for name, count in (("h100-80gb", 8), ("l40s", 4)):
        made.write(f"cluster/nodes/{name}.yaml", GPUS.format(name=name, count=count))
    declare(made, "fitting", "llama-8b")
    declare(made, "too-large", "llama-70b", gpus=2, gpu_class="l40s")
    declare(made, "not-split", "llama-8b", gpus=6)
    made.write("cluster/models/no-lock.yaml", MODEL.format(name="no-lock", context=1, gpu_class="l40s", gpus=1))
    made.write("cluster/models/rented.yaml", "name: rented\nexternal: {url: 'https://api.example/v1'}\n")
    return made


def declare(site: Site, name: str, shape: str, *, gpus: int = 1, gpu_class: str = "h100-80gb") -> None:
    text = MODEL.format(name=name, context=8192, gpus=gpus, gpu_class=gpu_class)
    site.write(f"cluster/models/{name}.yaml", text)
    lock = json.loads(lock_text({"shape": shape}, text))
    for each in lock["sources"]:
        each["weight_bytes"] = WEIGHTS[shape]
    site.write(f"cluster/locks/{name}.json", json.dumps(lock))


def asked(site: Site, *arguments: str, code: int) -> list[dict[str, Any]]:
    """The models of the JSON answer, which is what its schema says."""
    done = site.run("fit", *arguments, "--format", "json", code=code)
    answer = json.loads(done.stdout)
    Draft202012Validator(schema("fit")).validate(answer)
    models: list[dict[str, Any]] = answer["models"]
    return models


def checkpoint(directory: Path) -> Path:
    """A small llama on disk: config.json and one file of weights."""
    directory.mkdir()
    config: dict[str, Any] = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 512,
        "intermediate_size": 1024,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "vocab_size": 1024,
        "max_position_embeddings": 4096,
        "torch_dtype": "bfloat16",
    }
    weights = safetensors(llama(2, hidden=512, kv=256, width=1024, vocabulary=1024))
    for name, content in (("config.json", Content.of(config)), ("model.safetensors", weights)):
        (directory / name).write_bytes(content.part(0, content.size))
    return directory


@pytest.mark.parametrize(
    ("arguments", "code", "verdict"),
    [
        (("fitting",), 0, "fits"),
        (("too-large",), 1, "refused"),
        (("too-large", "--declared"), 1, "refused"),
        (("not-split",), 1, "refused"),
        (("no-lock",), 1, "unknown"),
        (("fitting", "--context", "100000000"), 1, "refused"),
    ],
)
def test_the_declared_option_decides(site: Site, arguments: tuple[str, ...], code: int, verdict: str) -> None:
    (model,) = asked(site, *arguments, code=code)

    assert model["model"] == arguments[0]
    assert [each["verdict"] for each in model["options"] if each["declared"]] == [verdict]
    assert "--declared" not in arguments or all(each["declared"] for each in model["options"])


def test_counts_and_classes_can_be_asked_for(site: Site) -> None:
    assert asked(site, "too-large", "--gpu-class", "h200", "--gpus", "4", code=0)[0]["options"][0]["gpus"] == 4
    (model,) = asked(site, "not-split", "--gpus", "4", code=0)
    assert [(each["gpu_class"], each["gpus"]) for each in model["options"]] == [("h100-80gb", 4), ("l40s", 4)]


def test_a_value_of_the_profile_can_be_asked_otherwise_and_nothing_is_written(site: Site) -> None:
    before = site.read("cluster/models/fitting.yaml")
    (plain,) = asked(site, "fitting", "--declared", code=0)
    (fp8,) = asked(site, "fitting", "--declared", "--kv-cache-dtype", "fp8", "--memory-share", "0.5", code=0)

    assert fp8["options"][0]["kv_bytes_per_token"] * 2 == plain["options"][0]["kv_bytes_per_token"]
    assert fp8["options"][0]["per_gpu_gib"]["reserves"] < plain["options"][0]["per_gpu_gib"]["reserves"]
    assert site.read("cluster/models/fitting.yaml") == before


def test_all_models_are_told_and_one_that_does_not_fit_decides(site: Site) -> None:
    models = asked(site, "--all", "--declared", code=1)

    assert {each["model"]: [one["verdict"] for one in each["options"]] for each in models} == {
        "fitting": ["fits"],
        "no-lock": ["unknown"],
        "not-split": ["refused"],
        "rented": [],
        "too-large": ["refused"],
    }
    text = site.run("fit", "--all", "--declared", code=1).stdout
    assert text.splitlines()[-1] == "5 models: 1 fit, 2 refused, 1 unknown, 1 not sized"


def test_an_external_model_does_not_count(tmp_path: Path) -> None:
    site = Site(tmp_path / "m")
    site.write("cluster/models/rented.yaml", "name: rented\nexternal: {url: 'https://api.example/v1'}\n")

    assert "external" in site.run("fit", "--all").stdout
    assert "external" in site.run("fit", "rented").stdout


def test_a_file_that_is_not_valid_counts_as_not_fitting(tmp_path: Path) -> None:
    site = Site(tmp_path / "m")
    site.model(contxt="1")

    done = site.run("fit", "tiny", code=1)
    assert "the file of tiny is not valid" in done.stderr
    assert "reconciler validate" in done.stderr
    assert "its file is not valid" in site.run("fit", "--all", code=1).stdout


def test_a_checkpoint_on_disk_is_sized_for_every_engine_that_takes_it(site: Site, tmp_path: Path) -> None:
    directory = checkpoint(tmp_path / "small")
    (model,) = asked(site, f"file:{directory}", "--context", "2048", code=0)

    assert model["model"] == f"file:{directory}"
    assert {each["engine"] for each in model["options"]} == {"vllm", "sglang", "trtllm"}
    assert {each["gpu_class"] for each in model["options"]} == {"h100-80gb", "l40s"}
    assert not any(each["declared"] or each["profile"] for each in model["options"])
    assert not (site.root / "cluster" / "locks" / "source.json").exists()


def test_a_file_of_a_package_is_sized_without_a_cluster(tmp_path: Path) -> None:
    site = Site(tmp_path / "m")
    site.write("carried/__init__.py", "")
    site.write("carried-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: carried\nVersion: 1.0\n")
    site.write("carried-1.0.dist-info/top_level.txt", "carried\n")
    write_tiny_gguf(site.root / "carried" / "tiny.gguf")
    done = site.run("-C", "nowhere", "fit", "package:carried/tiny.gguf", "--context", "512", "--gpus", "1", code=None)

    assert "no node here has GPUs: shown on l4, " in done.stderr
    assert done.stdout.startswith("package:carried/tiny.gguf  2 layers · 2/")
    assert done.returncode == 0


def test_a_hub_is_asked_and_what_it_refuses_is_one_message(tmp_path: Path) -> None:
    site = Site(tmp_path / "m")
    with running_hub() as hub:
        site.env |= {"HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path / "home"), "NO_PROXY": "127.0.0.1"}
        done = site.run("fit", "hf:org/absent", "--context", "512", code=1)

    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("fittin",), "nearest: fitting"),
        (("org/name",), "hf:org/name"),
        ((), "reconciler fit MODEL, or --all"),
        (("--all", "fitting"), "--all and fitting exclude each other"),
        (("fitting", "--engine", "vlm"), "--engine vllm"),
        (("fitting", "--engine", "sglang"), "no profile runs sglang; profiles: cards (vllm, h100-80gb)"),
        (("fitting", "--gpu-class", "h100"), "--gpu-class h100-80gb"),
        (("fitting", "--declared", "--gpus", "4"), "--declared"),
        (("fitting", "--gpus", "0"), "--gpus"),
        (("fitting", "--memory-share", "2"), "--memory-share"),
        (("hf:org/name",), "--context N"),
        (("hf:org", "--context", "1"), "expected hf:ORG/NAME@REVISION"),
        (("http://a/b.gguf", "--context", "1"), "use https"),
        (("file:/a", "--context", "1", "--declared"), "a source declares nothing"),
        (("-C", "nowhere", "fitting"), "there is no directory nowhere"),
    ],
    ids=" ".join,
)
def test_wrong_usage_says_what_would_be_right(site: Site, arguments: tuple[str, ...], words: str) -> None:
    given = (*arguments[:2], "fit", *arguments[2:]) if arguments[:1] == ("-C",) else ("fit", *arguments)
    done = site.run(*given, code=2)

    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("option", "value", "range_"),
    [
        ("--memory-share", "1.5", "0 to 1"),
        ("--memory-share", "nan", "0 to 1"),
        ("--memory-gib", "inf", "0.001 to 1,000,000"),
        ("--context", "1" + "0" * 30, "1 to 100,000,000"),
        ("--context", "0", "1 to 100,000,000"),
        ("--gpus", "1000000000", "1 to 64"),
        ("--max-concurrency", "0", "1 to 1,000,000"),
    ],
)
def test_a_number_out_of_range_is_told_in_our_words(site: Site, option: str, value: str, range_: str) -> None:
    told = site.run("fit", "fitting", option, value, code=2).stderr
    assert told.splitlines()[-1].startswith(f"Error: Invalid value for '{option}': ")
    assert told.splitlines()[-1].endswith(f"is not a number from {range_}")


def test_options_take_what_the_fields_take() -> None:
    assert (fit.MOST_TOKENS, fit.MOST_PARTS) == (base.MOST_TOKENS, base.MOST_PARTS)
