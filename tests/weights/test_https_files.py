"""Files behind URLs: what they are called, what lies beside them, and what servers refuse."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.errors import WeightsError
from reconciler.weights.https_files import HttpsFiles, shown_source
from reconciler.weights.lock_source import Access, Role, lock_source
from tests.weights.hub_server import send, send_range, serving
from tests.weights.tensor_files import Content, safetensors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from http.server import BaseHTTPRequestHandler

    from reconciler.domain.lock import LockedSource
    from reconciler.weights.web import Web

WEIGHTS = safetensors({"model.layers.0.mlp.up_proj.weight": ("BF16", (64, 64))})
CONFIG = Content.of({"num_hidden_layers": 1})


@contextmanager
def served(files: dict[str, Content], *, etag: str | None = '"v1"', missing: int = 404) -> Iterator[str]:
    """Files by path with one ETag; the address of the server."""

    def respond(handler: BaseHTTPRequestHandler) -> None:
        content = files.get(handler.path.partition("?")[0])
        if content is None:
            send(handler, missing, {})
        else:
            send_range(handler, content, {} if etag is None else {"ETag": etag})

    with serving(respond, tls=True) as address:
        yield address


def lock(web: Web, source: str, role: Role = Role.MODEL) -> LockedSource:
    return lock_source(source, role, Access(web))


def refusal(web: Web, source: str) -> tuple[str, str | None]:
    with pytest.raises(WeightsError) as refused:
        lock(web, source)
    assert "s3cret" not in refused.value.message
    return refused.value.message, refused.value.hint


@pytest.mark.parametrize("missing", [404, 403])
def test_weights_with_a_config_beside_them_are_a_checkpoint(web: Web, missing: int) -> None:
    quant = Content.of({"bits": 4})
    files = {"/a/my model.safetensors": WEIGHTS, "/a/config.json": CONFIG, "/a/quantize_config.json": quant}
    files = {path.replace(" ", "%20"): content for path, content in files.items()}
    with served(files, missing=missing) as address:
        found = lock(web, f"{address}/a/my%20model.safetensors?key=s3cret")
    assert (found.format, found.revision.partition(":")[0]) == ("safetensors", "etags")
    assert (found.config, found.quant_config) == ({"num_hidden_layers": 1}, {"bits": 4})
    assert [each.path for each in found.files or ()] == ["config.json", "my model.safetensors", "quantize_config.json"]
    assert found.weight_bytes == 64 * 64 * 2


def test_weights_alone_are_some_other_format(web: Web) -> None:
    with served({"/sdxl.safetensors": WEIGHTS}) as address:
        found = lock(web, f"{address}/sdxl.safetensors")
    assert web.meter.requests == 3, "the file, an adapter's config and a model's"
    assert (found.format, found.revision, found.config) == ("other", "etag:v1", None)
    assert found.tensors is not None
    with served({"/weights.bin": Content(b"", 77)}) as address:
        found = lock(web, f"{address}/weights.bin")
    assert (found.format, found.weight_bytes, found.tensors) == ("other", 77, None)


def test_an_adapter_lies_beside_its_config(web: Web) -> None:
    files = {"/x/adapter_model.safetensors": WEIGHTS, "/x/adapter_config.json": Content.of({"r": 8})}
    with served(files) as address:
        found = lock(web, f"{address}/x/adapter_model.safetensors", Role.ADAPTER)
    assert (found.format, found.adapter_config, found.weight_bytes) == ("peft", {"r": 8}, 64 * 64 * 2)


@pytest.mark.parametrize(("etag", "revision"), [('"abc"', "etag:abc"), ('W/"abc"', "etag:W/abc")])
def test_the_revision_is_the_etag(web: Web, etag: str, revision: str) -> None:
    with served({"/a.safetensors": WEIGHTS}, etag=etag) as address:
        assert lock(web, f"{address}/a.safetensors").revision == revision


def test_without_an_etag_a_change_could_not_be_seen(web: Web) -> None:
    with served({"/a.safetensors": WEIGHTS}, etag=None) as address:
        message, hint = refusal(web, f"{address}/a.safetensors?key=s3cret")
    assert message.endswith(" sends no ETag for a.safetensors, so a change could not be seen")
    assert hint == "put the file on a hub, or on the node with source: file:/PATH"


def test_a_file_that_changes_while_it_is_read_is_seen(web: Web) -> None:
    long = safetensors({f"model.layers.{at}.mlp.up_proj.weight": ("U8", (1,)) for at in range(5000)})
    etags = iter(['"v1"', '"v2"'])

    with serving(lambda handler: send_range(handler, long, {"ETag": next(etags)})) as address:
        files = HttpsFiles(f"{address}/a.safetensors", web)
        assert files.size("a.safetensors") == long.size
        with pytest.raises(WeightsError) as refused:
            files.read("a.safetensors", 2**17, long.size - 2**17)
    assert refused.value.message.endswith("/a.safetensors changed while it was read")


@pytest.mark.parametrize(
    ("status", "told", "hint"),
    [
        (404, "has no a.gguf (404)", "check the URL"),
        (410, "has no a.gguf (410)", "check the URL"),
        (401, "refuses with status 401 at a.gguf", "https: sources are read without credentials"),
        (403, "refuses with status 403 at a.gguf", "https: sources are read without credentials"),
        (429, "takes no more requests for now (429)", "run it again in some minutes"),
        (502, "fails with status 502", "run it again later"),
    ],
)
def test_a_refusal_is_told(web: Web, status: int, told: str, hint: str) -> None:
    with served({}, missing=status) as address:
        message, found = refusal(web, f"{address}/a.gguf?key=s3cret")
    assert message == f"{address.partition('//')[2]} {told}"
    assert str(found).startswith(hint)


@pytest.mark.parametrize(
    "url", ["https://127.0.0.1:1/models/", "https://[::/a.gguf", "https://a b/c", "https://\udcff/a"]
)
def test_a_url_that_names_no_file_is_an_error_of_ours(web: Web, url: str) -> None:
    with pytest.raises(WeightsError):
        HttpsFiles(url, web).size("a.gguf")


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("https://me:p@ss@a.example:8443/x/y.gguf?key=1#frag", "https://a.example:8443/x/y.gguf"),
        ("https://a.example/x", "https://a.example/x"),
        ("https://a.example/x@y", "https://a.example/x@y"),
        ("hf:org/name@main#a.gguf", "hf:org/name@main#a.gguf"),
        ("file:/a?b", "file:/a?b"),
    ],
)
def test_what_may_be_secret_in_a_url_is_not_shown(source: str, shown: str) -> None:
    assert shown_source(source) == shown


def test_other_formats_are_refused_by_what_they_are(web: Web) -> None:
    junk: dict[str, Any] = {"/a.safetensors": Content.of(b"<html>not found</html>")}
    with served(junk) as address:
        message, _ = refusal(web, f"{address}/a.safetensors")
    assert message == "the safetensors header of a.safetensors is damaged: it ends behind the end of the file"
