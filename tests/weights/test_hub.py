"""Sources on a hub: what is asked of it, what is found, and what it says no to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from huggingface_hub import HfApi

from reconciler.errors import WeightsError
from reconciler.weights.hub import Hub
from reconciler.weights.lock_source import Access, Role, lock_source
from tests.weights.hub_server import digest
from tests.weights.tensor_files import Content, llama, safetensors, sharded, tensor_bytes

if TYPE_CHECKING:
    from reconciler.domain.lock import LockedSource
    from reconciler.weights.web import Web
    from tests.weights.hub_server import HubServer

CONFIG = {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 4, "rope_scaling": None}
TOKENIZER = {"model_max_length": 10**30, "chat_template": "{{ messages }}"}
SMALL = llama(4, hidden=64, kv=16, width=128, vocabulary=512)
SHARDS = sharded(SMALL, 4)
FILES: dict[str, Any] = {
    "README.md": "about it",
    "config.json": CONFIG,
    "tokenizer_config.json": TOKENIZER,
    "tokenizer.json": "{}",
    **SHARDS,
}
REPO = "org/tiny"


def lock(access: Access, source: str = f"hf:{REPO}", role: Role = Role.MODEL, **options: Any) -> LockedSource:
    return lock_source(source, role, access, **options)


def refusal(access: Access, source: str = f"hf:{REPO}", role: Role = Role.MODEL) -> tuple[str, str | None]:
    with pytest.raises(WeightsError) as refused:
        lock(access, source, role)
    return refused.value.message, refused.value.hint


def netloc(hub: HubServer) -> str:
    return hub.address.removeprefix("http://")


def test_the_server_of_these_tests_is_a_hub_to_huggingface_hub_too(hub: HubServer, access: Access) -> None:
    sha = hub.repo(REPO, FILES, card={"license": "mit"})
    theirs = HfApi(endpoint=hub.address, token=False)
    told = theirs.model_info(REPO, files_metadata=True)
    assert told.sha == sha
    assert {each.rfilename: each.size for each in told.siblings or ()} == {
        path: Content.of(value).size for path, value in FILES.items()
    }
    names = [name for name in SHARDS if name.endswith(".safetensors")]
    parsed = [theirs.parse_safetensors_file_metadata(REPO, name) for name in names]
    spans = [tensor.data_offsets for each in parsed for tensor in each.tensors.values()]
    assert lock(access).weight_bytes == sum(end - begin for begin, end in spans)


def test_a_sharded_checkpoint_is_locked_from_its_headers(hub: HubServer, access: Access) -> None:
    sha = hub.repo(REPO, FILES, card={"license": "llama3.3"})
    found = lock(access)
    assert (found.source, found.revision, found.format) == (f"hf:{REPO}", sha, "safetensors")
    assert found.config == CONFIG
    assert found.weight_bytes == sum(tensor_bytes(shape) for shape in SMALL.values())
    assert (found.licence, found.model_max_length) == ("llama3.3", 1e30)
    assert found.chat_template_sha256 is not None
    assert found.tensors is not None
    assert {(run.group, run.layers): run.bytes for run in found.tensors} == {
        ("embedding", None): 512 * 64 * 2,
        ("output_head", None): 512 * 64 * 2,
        ("attention", (0, 3)): 4 * (2 * 64 * 64 + 2 * 16 * 64) * 2,
        ("mlp", (0, 3)): 4 * 3 * 64 * 128 * 2,
        ("norms", None): 64 * 2,
        ("norms", (0, 3)): 4 * 2 * 64 * 2,
    }


def test_the_files_are_those_that_an_engine_loads_with_the_digests_that_the_hub_lists(
    hub: HubServer, access: Access
) -> None:
    hub.repo(
        REPO, FILES | {"consolidated.safetensors": SHARDS["model-00001-of-00004.safetensors"], "onnx/a.json": "{}"}
    )
    found = lock(access)
    assert {each.path for each in found.files or ()} == set(FILES) - {"README.md"}
    digests = {each.path: each.sha256 for each in found.files or () if each.sha256}
    assert digests == {name: digest(each) for name, each in SHARDS.items() if name.endswith(".safetensors")}


def test_no_weight_is_downloaded(hub: HubServer, access: Access, web: Web) -> None:
    """Four shards of 16 GB: two requests a shard, being redirected to storage, and 128 KiB of each."""
    large = llama(32, hidden=4096, kv=1024, width=14336, vocabulary=128256)
    hub.repo(REPO, FILES | sharded(large, 4))
    found = lock(access)
    assert found.weight_bytes == 16_060_522_496
    assert web.meter.requests == len(hub.asked) == 4 + 2 * 4
    assert hub.sent_bytes < 4 * 2**17 + 80_000
    assert web.meter.bytes == hub.sent_bytes
    assert [each.range for each in hub.asked if each.path.startswith("storage:")] == ["bytes=0-131071"] * 4


def test_a_single_file_is_locked(hub: HubServer, access: Access) -> None:
    hub.repo(REPO, {"config.json": CONFIG, "model.safetensors": safetensors(SMALL)})
    found = lock(access)
    assert found.weight_bytes == sum(tensor_bytes(shape) for shape in SMALL.values())
    assert (found.model_max_length, found.chat_template_sha256, found.licence) == (None, None, None)


def test_shards_without_an_index_are_found_by_their_names(hub: HubServer, access: Access) -> None:
    without = {path: value for path, value in FILES.items() if not path.endswith("index.json")}
    hub.repo(REPO, without | {"extra.safetensors": safetensors({"a": ("F32", (1,))})})
    assert lock(access).weight_bytes == sum(tensor_bytes(shape) for shape in SMALL.values())


def test_a_long_header_costs_a_second_request(hub: HubServer, access: Access) -> None:
    many = {f"model.layers.{at % 40}.mlp.experts.{at}.up_proj.weight": ("BF16", (8, 8)) for at in range(3_000)}
    hub.repo(REPO, {"config.json": CONFIG, "model.safetensors": safetensors(many)})
    assert lock(access).weight_bytes == 3_000 * 128
    asked = [each for each in hub.asked if each.path.startswith("storage:")]
    assert len(asked) == 2


def test_older_weights_have_a_size_and_no_tensors(hub: HubServer, access: Access) -> None:
    hub.repo(REPO, {"config.json": CONFIG, "pytorch_model.bin": Content(b"", 5_000), "model.txt": "x"})
    found = lock(access)
    assert (found.format, found.weight_bytes, found.tensors) == ("other", 5_000, None)


@pytest.mark.parametrize("name", ["hf_quant_config.json", "quantize_config.json"])
def test_a_quantization_config_of_its_own_is_kept_as_it_is(hub: HubServer, access: Access, name: str) -> None:
    quant = {"quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head"]}}
    hub.repo(REPO, FILES | {name: quant})
    assert lock(access).quant_config == quant


def test_a_branch_is_locked_to_its_commit_and_moves_with_it(hub: HubServer, access: Access) -> None:
    first = hub.repo(REPO, FILES)
    second = hub.repos[REPO].commit(FILES | {"config.json": CONFIG | {"num_hidden_layers": 5}})
    assert lock(access).revision == second
    assert lock(access, f"hf:{REPO}@main").revision == second
    assert lock(access, f"hf:{REPO}@{first[:8]}").revision == first
    kept = lock(access, revision=first)
    assert (kept.revision, kept.config) == (first, CONFIG)


def test_a_revision_is_asked_for_as_it_is_written(hub: HubServer, access: Access) -> None:
    hub.repo(REPO, FILES)
    sha = hub.repos[REPO].commit(FILES, branch="refs/pr/7")
    assert lock(access, f"hf:{REPO}@refs/pr/7").revision == sha
    assert hub.asked[0].path == f"hub:/api/models/{REPO}/revision/refs%2Fpr%2F7?blobs=true"


@pytest.mark.parametrize(
    ("fields", "licence"),
    [
        ({"card": {"license": "apache-2.0"}}, "apache-2.0"),
        ({"card": {"license": "other", "license_name": "llama4"}}, "llama4"),
        ({"card": {"license": ["mit", "gpl"]}}, "mit"),
        ({"card": {"license": 7}, "tags": ("text", "license:mit")}, "mit"),
        ({"card": "junk", "tags": ("license:mit",)}, "mit"),
        ({"card": {"license": "other"}}, "other"),
        ({}, None),
    ],
)
def test_the_licence_is_that_of_the_card(
    hub: HubServer, access: Access, fields: dict[str, Any], licence: str | None
) -> None:
    hub.repo(REPO, FILES, **fields)
    assert lock(access).licence == licence


def test_the_token_goes_to_the_hub_and_not_to_its_storage(hub: HubServer, signed_in: Access) -> None:
    hub.repo(REPO, FILES, gated=True)
    lock(signed_in)
    tokens = {(each.path.partition(":")[0], each.token) for each in hub.asked}
    assert tokens == {("hub", hub.token), ("storage", None)}


def test_a_gated_repository_says_where_to_ask(hub: HubServer, access: Access) -> None:
    hub.repo(REPO, FILES, gated=True)
    message, hint = refusal(access)
    assert message.startswith(f"{REPO} is gated: {netloc(hub)} gives ")
    assert message.endswith(" only to those it was granted to")
    assert hint == f"ask for access at {netloc(hub)}/{REPO}, then set HF_TOKEN to a token of yours"


def test_a_missing_and_a_private_repository_look_the_same(hub: HubServer, access: Access, signed_in: Access) -> None:
    hub.repo("org/secret", FILES, private=True)
    for name in ("org/none", "org/secret"):
        assert refusal(access, f"hf:{name}") == (
            f"{netloc(hub)} knows no model repository {name}, or it is private",
            "check the spelling; for a private one set HF_TOKEN",
        )
    assert refusal(signed_in, "hf:org/none") == (
        f"{netloc(hub)} knows no model repository org/none, or it is private",
        "check the spelling; for a private one use a token that may read it",
    )
    assert lock(signed_in, "hf:org/secret").revision in hub.repos["org/secret"].commits


def test_a_wrong_token_is_named_without_being_shown(hub: HubServer, web: Web) -> None:
    hub.repo(REPO, FILES)
    message, hint = refusal(Access(web, Hub(hub.address, {"Authorization": "Bearer hf_wrong"})))
    assert message == f"{netloc(hub)} does not let us read {REPO} (401)"
    assert hint == "check what your token may read, and whether it has expired"


def test_a_revision_that_is_not_there_is_named(hub: HubServer, access: Access) -> None:
    hub.repo(REPO, FILES)
    assert refusal(access, f"hf:{REPO}@v2") == (
        f"{REPO} has no revision v2 on {netloc(hub)}",
        "check what follows the @",
    )


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"Retry-After": "42"}, "in 42 s"),
        ({"RateLimit": '"api";r=0;t=55'}, "in 55 s"),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, "in some minutes"),
        ({}, "in some minutes"),
    ],
)
def test_a_rate_limit_says_when_to_come_back(
    hub: HubServer, access: Access, signed_in: Access, headers: dict[str, str], wait: str
) -> None:
    hub.refusal = 429, headers, b""
    message = f"{netloc(hub)} takes no more requests for now (429)"
    assert refusal(access) == (message, f"run it again {wait}; with HF_TOKEN set more are allowed")
    assert refusal(signed_in) == (message, f"run it again {wait}")


def test_a_failing_hub_is_named(hub: HubServer, access: Access) -> None:
    hub.refusal = 503, {}, b"<html>down</html>"
    assert refusal(access)[0] == f"{netloc(hub)} fails with status 503"


@pytest.mark.parametrize(
    "body",
    [b"<html>hello</html>", b"[]", b"{}", b'{"sha": "x", "siblings": []}', b'{"sha": null}', b"\xff", b"[" * 9999],
)
def test_what_is_no_hub_is_told(hub: HubServer, access: Access, body: bytes) -> None:
    hub.refusal = 200, {}, body
    message, _ = refusal(access)
    assert netloc(hub) in message


def test_a_mirror_that_lists_no_sizes_is_asked_for_them(hub: HubServer, access: Access) -> None:
    hub.repo(REPO, FILES, lists_sizes=False)
    found = lock(access)
    assert found.weight_bytes == sum(tensor_bytes(shape) for shape in SMALL.values())
    assert {each.path: each.bytes for each in found.files or ()}["tokenizer.json"] == 2


def test_a_mirror_with_pointers_for_weights_is_seen(hub: HubServer, access: Access) -> None:
    name = "model-00002-of-00004.safetensors"
    hub.repo(REPO, FILES, override={name: Content.of("version https://git-lfs.github.com/spec/v1\n")})
    message, hint = refusal(access)
    assert message == f"{netloc(hub)} lists {name} of {REPO} with {SHARDS[name].size:,} bytes and sends 43"
    assert hint == "a mirror that copied only pointers of large files answers so; ask another one"


def test_what_the_index_names_has_to_be_there(hub: HubServer, access: Access) -> None:
    hub.repo(REPO, {path: value for path, value in FILES.items() if "00003" not in path})
    assert refusal(access)[0] == (
        f"model.safetensors.index.json of hf:{REPO} names model-00003-of-00004.safetensors, which is not there"
    )


@pytest.mark.parametrize("index", [{}, {"weight_map": {}}, {"weight_map": {"a": 1}}, {"weight_map": []}])
def test_an_index_of_nothing_is_named(hub: HubServer, access: Access, index: dict[str, Any]) -> None:
    hub.repo(REPO, FILES | {"model.safetensors.index.json": index})
    assert refusal(access)[0] == f"model.safetensors.index.json of hf:{REPO} names no shards"


def test_a_repository_without_config_shows_which_file_was_meant(hub: HubServer, access: Access) -> None:
    hub.repo(REPO, {"README.md": "", "q/tiny-Q4.gguf": b"GGUF", "a.safetensors": b""})
    assert refusal(access) == (f"hf:{REPO} has no config.json", "name one of its files: #q/tiny-Q4.gguf")
    hub.repo(REPO, {"README.md": ""})
    assert refusal(access)[1] == "say unverified: true to serve it anyway"


def test_one_shard_is_not_the_model(hub: HubServer, access: Access) -> None:
    hub.repo(REPO, FILES)
    assert refusal(access, f"hf:{REPO}#model-00001-of-00004.safetensors") == (
        "model-00001-of-00004.safetensors is one shard of several",
        "name the whole repository or directory, without the file",
    )


def test_a_config_without_weights_is_named(hub: HubServer, access: Access) -> None:
    hub.repo(REPO, {"config.json": CONFIG})
    assert refusal(access)[0] == f"hf:{REPO} has no weights: neither safetensors nor pytorch_model.bin"


@pytest.mark.parametrize("config", ["{", "[1]", "\x00", '{"a": "\\ud800"}', '{"a":' * 99 + "1" + "}" * 99])
def test_a_damaged_config_is_named(hub: HubServer, access: Access, config: str) -> None:
    hub.repo(REPO, FILES | {"config.json": config})
    assert refusal(access)[0].startswith(f"config.json of hf:{REPO} ")
