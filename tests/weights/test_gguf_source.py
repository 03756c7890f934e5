"""Sources that name GGUF files, one or several parts, from a hub, a URL and the disk: the same is found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gguf
import numpy as np
import pytest

from reconciler.errors import WeightsError
from reconciler.weights.lock_source import Access, Role, lock_source
from tests.tiny_gguf import write_tiny_gguf, write_tiny_lora
from tests.weights.hub_server import digest, send_range, serving
from tests.weights.tensor_files import Content

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler
    from pathlib import Path

    from reconciler.domain.lock import LockedSource
    from tests.weights.hub_server import HubServer

FIRST, SECOND, THIRD = (f"q4/tiny-0000{number}-of-00003.gguf" for number in (1, 2, 3))


def part(directory: Path, number: int, tensors: int, *, count: int = 3, told: int | None = None) -> bytes:
    """One part as llama-gguf-split writes it: the first holds the metadata of all."""
    path = directory / f"{number}.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint16(gguf.Keys.Split.LLM_KV_SPLIT_NO, number - 1)
    writer.add_uint16(gguf.Keys.Split.LLM_KV_SPLIT_COUNT, count)
    if told is not None:
        writer.add_int32(gguf.Keys.Split.LLM_KV_SPLIT_TENSORS_COUNT, told)
    if number == 1:
        writer.add_block_count(4)
    for at in range(tensors):
        writer.add_tensor(f"blk.{at}.ffn_part{number}.weight", np.zeros((8, 32), np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


def parts(directory: Path, told: int = 6) -> dict[str, Any]:
    """Three parts; the first has no tensors, as with --no-tensor-first-split."""
    made = {1: part(directory, 1, 0, told=told), 2: part(directory, 2, 4), 3: part(directory, 3, 2)}
    return {name: made[number] for number, name in enumerate((FIRST, SECOND, THIRD), 1)}


def refusal(access: Access, source: str) -> tuple[str, str | None]:
    with pytest.raises(WeightsError) as refused:
        lock_source(source, Role.MODEL, access)
    return refused.value.message, refused.value.hint


def found(locked: LockedSource) -> tuple[Any, ...]:
    """Everything but where it was."""
    return locked.format, locked.weight_bytes, locked.config, locked.tensors, locked.chat_template_sha256


def test_one_file_is_the_same_from_everywhere(hub: HubServer, access: Access, tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf", licence="mit")
    content = Content.of(path.read_bytes())
    sha = hub.repo("org/tiny", {"tiny.gguf": content, "README.md": ""}, card={"license": "apache-2.0"})

    def serve(handler: BaseHTTPRequestHandler) -> None:
        send_range(handler, content, {"ETag": '"v1"'})

    with serving(serve, tls=True) as address:
        at_url = lock_source(f"{address}/a/tiny.gguf?key=s3cret", Role.MODEL, access)
    on_hub = lock_source("hf:org/tiny#tiny.gguf", Role.MODEL, access)
    on_disk = lock_source(f"file:{path}", Role.MODEL, access)
    assert found(at_url) == found(on_hub) == found(on_disk)
    assert (on_hub.revision, at_url.revision, on_disk.revision[:7]) == (sha, "etag:v1", "sha256:")
    assert on_hub.files is not None
    assert [(each.path, each.sha256) for each in on_hub.files] == [("tiny.gguf", digest(content))]
    assert at_url.files is not None
    assert [(each.path, each.bytes, each.sha256) for each in at_url.files] == [("tiny.gguf", content.size, None)]
    assert {each.licence for each in (on_hub, at_url, on_disk)} == {"mit"}, "the file's own word counts first"


def test_of_a_file_on_a_hub_only_the_header_is_read(hub: HubServer, access: Access) -> None:
    header = write_header(tensors=1, elements=2**32)
    hub.repo("org/large", {"large.gguf": Content(header, len(header) + 2**35)})
    assert lock_source("hf:org/large#large.gguf", Role.MODEL, access).weight_bytes == 2**34
    assert hub.sent_bytes < 3 * 2**20


def write_header(*, tensors: int, elements: int) -> bytes:
    """A header of f32 tensors without their data, filled up to the alignment."""
    told = b"".join(
        len(name).to_bytes(8, "little") + name + (1).to_bytes(4, "little") + elements.to_bytes(8, "little") + bytes(12)
        for name in (f"blk.{at}.ffn_up.weight".encode() for at in range(tensors))
    )
    head = b"GGUF" + (3).to_bytes(4, "little") + tensors.to_bytes(8, "little") + bytes(8) + told
    return head + bytes(-len(head) % 32)


def test_all_parts_of_a_model_are_one_source(hub: HubServer, access: Access, tmp_path: Path) -> None:
    hub.repo("org/split", parts(tmp_path))
    locked = lock_source(f"hf:org/split#{FIRST}", Role.MODEL, access)
    assert locked.weight_bytes == 6 * 8 * 32 * 2
    assert locked.config is not None
    assert locked.config["llama.block_count"] == 4
    assert [each.path for each in locked.files or ()] == [FIRST, SECOND, THIRD]


def test_parts_on_disk_and_behind_a_url_are_found_too(access: Access, tmp_path: Path) -> None:
    made = parts(tmp_path)
    for name, data in made.items():
        (tmp_path / name.partition("/")[2]).write_bytes(data)
    on_disk = lock_source(f"file:{tmp_path}/tiny-00001-of-00003.gguf", Role.MODEL, access)

    def serve(handler: BaseHTTPRequestHandler) -> None:
        name = handler.path.removeprefix("/")
        send_range(handler, Content.of(made[name]), {"ETag": f'"{name[-10:-5]}"'})

    with serving(serve, tls=True) as address:
        at_url = lock_source(f"{address}/{FIRST}", Role.MODEL, access)
    assert found(on_disk) == found(at_url)
    assert on_disk.weight_bytes == 6 * 8 * 32 * 2
    assert at_url.revision.startswith("etags:")
    assert on_disk.revision.startswith("sha256:")


def test_a_missing_part_is_named(hub: HubServer, access: Access, tmp_path: Path) -> None:
    made = parts(tmp_path)
    del made[SECOND]
    hub.repo("org/split", made)
    assert refusal(access, f"hf:org/split#{FIRST}")[0] == f"hf:org/split#{FIRST} has no file {SECOND}"


def test_a_part_that_is_not_the_first_is_named(hub: HubServer, access: Access, tmp_path: Path) -> None:
    hub.repo("org/split", parts(tmp_path))
    assert refusal(access, f"hf:org/split#{SECOND}") == (f"{SECOND} is part 2 of 3", f"name the first: {FIRST}")


def test_a_part_under_another_name_is_no_model(access: Access, tmp_path: Path) -> None:
    path = tmp_path / "renamed.gguf"
    path.write_bytes(part(tmp_path, 1, 2))
    assert refusal(access, f"file:{path}") == (
        "renamed.gguf says that it is one of 3 parts, which its name does not",
        "llama.cpp finds the others by name: NAME-00001-of-00003.gguf",
    )


def test_parts_have_to_have_all_tensors(hub: HubServer, access: Access, tmp_path: Path) -> None:
    hub.repo("org/split", parts(tmp_path, told=7))
    assert refusal(access, f"hf:org/split#{FIRST}")[0] == (
        f"{FIRST} says that all parts have 7 tensors together; they have 6"
    )


def test_parts_without_number_are_refused(access: Access, tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "tiny-00001-of-99999.gguf")
    assert refusal(access, f"file:{path}")[0].endswith("would be one of 99,999 parts; at most 1,000 are read")


def test_an_adapter_for_llamacpp_is_a_gguf_file(access: Access, tmp_path: Path) -> None:
    path = write_tiny_lora(tmp_path / "lora.gguf")
    locked = lock_source(f"file:{path}", Role.ADAPTER, access)
    assert locked.config is not None
    assert (locked.format, locked.config["general.type"]) == ("gguf", "adapter")


def test_a_file_that_the_hub_has_not_is_named(hub: HubServer, access: Access) -> None:
    hub.repo("org/tiny", {"README.md": ""})
    assert refusal(access, "hf:org/tiny#none.gguf")[0] == "hf:org/tiny#none.gguf has no file none.gguf"
