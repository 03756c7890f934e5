"""Sources on this machine: directories of checkpoints, packages, and what cannot be read."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.domain.lock import Lock
from reconciler.errors import WeightsError
from reconciler.weights.lock_source import Access, Role, lock_source
from reconciler.weights.lock_writer import lock_text
from tests.tiny_gguf import write_tiny_gguf
from tests.weights.tensor_files import Content, llama, safetensors, sharded, tensor_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from reconciler.domain.lock import LockedSource
    from reconciler.weights.web import Web

SHAPES = llama(2, hidden=32, kv=8, width=64, vocabulary=64)
CARD = "---\nlanguage: en\nlicense: other\nlicense_name: my-licence\nlicense_link: LICENSE\n---\n# About\nlicense: no\n"


def put(directory: Path, files: dict[str, Any]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        content = Content.of(value)
        (directory / name).write_bytes(content.part(0, content.size))
    return directory


def checkpoint(directory: Path, **more: Any) -> Path:
    files = {"config.json": {"num_hidden_layers": 2}, "tokenizer.json": "{}", "README.md": CARD, **sharded(SHAPES, 2)}
    return put(directory, files | more)


def lock(web: Web, source: str, role: Role = Role.MODEL) -> LockedSource:
    return lock_source(source, role, Access(web))


def refusal(web: Web, source: str, role: Role = Role.MODEL) -> str:
    with pytest.raises(WeightsError) as refused:
        lock(web, source, role)
    return refused.value.message


def test_a_directory_is_a_checkpoint(web: Web, tmp_path: Path) -> None:
    found = lock(web, f"file:{checkpoint(tmp_path / 'm')}")
    assert (found.format, found.licence) == ("safetensors", "my-licence")
    assert found.weight_bytes == sum(tensor_bytes(shape) for shape in SHAPES.values())
    assert found.files is not None
    assert [each.path for each in found.files] == [
        "config.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
        "tokenizer.json",
    ]
    for file in found.files:
        assert file.sha256 == hashlib.sha256((tmp_path / "m" / file.path).read_bytes()).hexdigest()


def test_the_revision_of_a_directory_follows_its_files_and_not_its_place(web: Web, tmp_path: Path) -> None:
    revisions = {name: lock(web, f"file:{checkpoint(tmp_path / name)}").revision for name in ("here", "there")}
    assert revisions["here"] == revisions["there"]
    assert revisions["here"].startswith("sha256:")
    weights = tmp_path / "here" / "model-00001-of-00002.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    assert lock(web, f"file:{tmp_path}/here").revision != revisions["there"]


def test_nothing_but_the_source_says_where_it_lies(web: Web, tmp_path: Path) -> None:
    found = lock(web, f"file:{checkpoint(tmp_path / 'm')}")
    assert lock_text(Lock(sources=(found,))).count(str(tmp_path)) == 1


def test_links_of_a_cache_are_followed(web: Web, tmp_path: Path) -> None:
    checkpoint(tmp_path / "blobs")
    (tmp_path / "snapshot").mkdir()
    for file in (tmp_path / "blobs").iterdir():
        (tmp_path / "snapshot" / file.name).symlink_to(file)
    assert lock(web, f"file:{tmp_path}/snapshot").weight_bytes is not None


@pytest.mark.parametrize(
    ("card", "licence"),
    [
        ("---\nlicense: apache-2.0\n---\n", "apache-2.0"),
        ('---\r\nlicense: "mit"\r\n---\r\n', "mit"),
        ("---\nlicense: other\n---\n", "other"),
        ("license: mit\n", None),
        ("---\ntitle: x\n---\nlicense: mit", None),
        ("", None),
    ],
)
def test_the_licence_is_that_of_the_card(web: Web, tmp_path: Path, card: str, licence: str | None) -> None:
    assert lock(web, f"file:{checkpoint(tmp_path / 'm', **{'README.md': card})}").licence == licence


def test_an_adapter_is_a_directory_with_its_config(web: Web, tmp_path: Path) -> None:
    shapes = {"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight": ("F32", (8, 32))}
    files = {"adapter_config.json": {"r": 8, "base_model_name_or_path": "org/base"}}
    put(tmp_path / "a", files | {"adapter_model.safetensors": safetensors(shapes)})
    found = lock(web, f"file:{tmp_path}/a", Role.ADAPTER)
    assert (found.format, found.weight_bytes) == ("peft", 8 * 32 * 4)
    assert found.adapter_config == files["adapter_config.json"]
    assert refusal(web, f"file:{tmp_path}/a") == (
        f"file:{tmp_path}/a is an adapter, not a model: it has adapter_config.json and no config.json"
    )
    (tmp_path / "a" / "adapter_model.safetensors").rename(tmp_path / "a" / "adapter_model.bin")
    assert lock(web, f"file:{tmp_path}/a", Role.ADAPTER).tensors is None
    (tmp_path / "a" / "adapter_model.bin").unlink()
    assert "has neither adapter_model.safetensors nor" in refusal(web, f"file:{tmp_path}/a", Role.ADAPTER)


def test_a_model_is_no_adapter(web: Web, tmp_path: Path) -> None:
    source = f"file:{checkpoint(tmp_path / 'm')}"
    assert refusal(web, source, Role.ADAPTER) == f"{source} is no adapter: it has no adapter_config.json"


def test_what_cannot_be_read_is_named(web: Web, tmp_path: Path) -> None:
    assert refusal(web, f"file:{tmp_path}/none") == f"file:{tmp_path}/none does not exist on this machine"
    assert refusal(web, f"file:{put(tmp_path / 'empty', {})}") == f"file:{tmp_path}/empty has no config.json"
    broken = checkpoint(tmp_path / "m")
    (broken / "config.json").unlink()
    (broken / "config.json").symlink_to(tmp_path / "nowhere")
    assert refusal(web, f"file:{broken}") == f"file:{broken} has no config.json"
    os.mkfifo(tmp_path / "pipe.gguf")
    assert refusal(web, f"file:{tmp_path}/pipe.gguf") == f"file:{tmp_path}/pipe.gguf has no file pipe.gguf"


def test_parts_do_not_lead_out_of_a_package(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = put(tmp_path / "site" / "some_pack", {"__init__.py": ""})
    (package / "tiny-00001-of-00002.gguf").write_bytes(write_tiny_gguf(tmp_path / "t.gguf", parts=2).read_bytes())
    (package / "tiny-00002-of-00002.gguf").symlink_to(tmp_path / "t.gguf")
    told = put(tmp_path / "site" / "some_pack-1.0.dist-info", {})
    (told / "METADATA").write_text("Metadata-Version: 2.4\nName: some-pack\nVersion: 1.0\n")
    (told / "RECORD").write_text("some_pack/__init__.py,,\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    source = "package:some_pack/tiny-00001-of-00002.gguf"
    assert refusal(web, source) == f"tiny-00002-of-00002.gguf of {source} leaves the package"


def test_the_bytes_that_were_hashed_are_counted(web: Web, tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf")
    lock(web, f"file:{path}")
    assert web.meter.bytes >= path.stat().st_size
    assert web.meter.requests == 0
