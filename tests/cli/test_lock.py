"""`reconciler lock`: the real command against a hub on loopback."""

from __future__ import annotations

import json
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.site import Site
from tests.weights.hub_server import HubServer, running_hub, send, serving
from tests.weights.tensor_files import llama, safetensors, sharded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from http.server import BaseHTTPRequestHandler
    from pathlib import Path

REPO = "org/tiny"
FILES: dict[str, Any] = {
    "config.json": {"num_hidden_layers": 2},
    "tokenizer_config.json": {"chat_template": "first"},
    **sharded(llama(2, hidden=32, kv=8, width=64, vocabulary=64), 2),
}
MODEL = "name: {name}\nsource: {source}\ncontext: 128\nprofiles:\n  - {{name: cards, engine: vllm, gpu_class: l40s}}\n"


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with running_hub() as server:
        yield server


@pytest.fixture
def site(tmp_path: Path, hub: HubServer) -> Site:
    """A checkout whose hub is the one on loopback, without a token."""
    made = Site(tmp_path / "m")
    made.env = {name: value for name, value in made.env.items() if not name.startswith(("HF_", "HUGGING"))}
    made.env |= {"HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path / "hub-home"), "NO_PROXY": "127.0.0.1"}
    return made


def declare(site: Site, name: str, source: str, more: str = "") -> None:
    site.write(f"cluster/models/{name}.yaml", MODEL.format(name=name, source=source) + more)


def entry(site: Site, name: str) -> dict[str, Any]:
    """The first source of a lock."""
    found: dict[str, Any] = json.loads(site.read(f"cluster/locks/{name}.json"))["sources"][0]
    return found


def locks(site: Site) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (site.root / "cluster" / "locks").glob("*")}


def test_a_model_is_locked_and_stays_so(site: Site, hub: HubServer) -> None:
    sha = hub.repo(REPO, FILES, card={"license": "mit"})
    declare(site, "tiny", f"hf:{REPO}@{sha}")
    done = site.run("lock")
    assert done.stdout == "tiny: wrote cluster/locks/tiny.json\n"
    assert done.stderr.splitlines()[0] == f"tiny: hf:{REPO}@{sha}"
    assert done.stderr.splitlines()[1].endswith("read in 8 requests")
    assert (entry(site, "tiny")["revision"], entry(site, "tiny")["licence"]) == (sha, "mit")
    before = locks(site)
    hub.asked.clear()
    again = site.run("lock")
    assert (again.stdout, again.stderr) == ("tiny: unchanged cluster/locks/tiny.json\n", "")
    assert (hub.asked, locks(site)) == ([], before)
    assert site.run("lock", "--check").stdout == "tiny: as locked\n"


def test_the_gate_reads_what_was_written(site: Site, hub: HubServer) -> None:
    hub.repo(REPO, FILES)
    declare(site, "tiny", f"hf:{REPO}")
    site.run("lock")
    told = json.loads(site.run("validate", "--format", "json", code=None).stdout)
    assert [each for each in told["findings"] if each["file"] == "cluster/locks/tiny.json"] == []


def test_a_branch_that_moved_is_named_and_taken_when_asked_for(site: Site, hub: HubServer) -> None:
    first = hub.repo(REPO, FILES, card={"license": "mit"})
    declare(site, "tiny", f"hf:{REPO}@main")
    pin = f"tiny: hf:{REPO}@main is not pinned; write hf:{REPO}@{first}"
    assert pin in site.run("lock").stderr.splitlines()
    before = locks(site)
    hub.repos[REPO].card = {"license": "gpl-3.0"}
    larger = sharded(llama(3, hidden=32, kv=8, width=64, vocabulary=64), 2)
    second = hub.repos[REPO].commit(FILES | larger | {"tokenizer_config.json": {"chat_template": "second"}})
    assert site.run("lock").stdout == "tiny: unchanged cluster/locks/tiny.json\n"
    check = site.run("lock", "--check", code=1)
    lines = [line.removeprefix(f"tiny: hf:{REPO}@main: ") for line in check.stdout.splitlines()]
    assert lines[0] == f"moved from {first[:8]} to {second[:8]}"
    assert [line.partition(":")[0] for line in lines[1:]] == [
        "weights changed",
        "licence changed",
        "chat template changed",
    ]
    assert locks(site) == before
    upgraded = site.run("lock", "--upgrade")
    assert upgraded.stdout.splitlines() == [
        "tiny: wrote cluster/locks/tiny.json",
        *(f"  hf:{REPO}@main: {line}" for line in lines),
    ]
    assert entry(site, "tiny")["revision"] == second
    assert site.read("cluster/models/tiny.yaml") == MODEL.format(name="tiny", source=f"hf:{REPO}@main")
    assert site.run("lock", "--check").stdout == "tiny: as locked\n"


def test_every_source_of_a_model_is_locked(site: Site, hub: HubServer) -> None:
    hub.repo(REPO, FILES)
    hub.repo("org/fp8", FILES)
    lora = {"base.model.layers.0.self_attn.q_proj.lora_A.weight": ("F32", (8, 32))}
    hub.repo("org/lora", {"adapter_config.json": {"r": 8}, "adapter_model.safetensors": safetensors(lora)})
    more = "  - {name: fp8, engine: vllm, gpu_class: l40s, source: hf:org/fp8}\n"
    more += "adapters:\n  - {name: sql, source: hf:org/lora}\n"
    declare(site, "tiny", f"hf:{REPO}", more)
    site.run("lock", "tiny")
    found = json.loads(site.read("cluster/locks/tiny.json"))["sources"]
    assert [(each["source"], each["format"]) for each in found] == [
        (f"hf:{REPO}", "safetensors"),
        ("hf:org/fp8", "safetensors"),
        ("hf:org/lora", "peft"),
    ]


def test_one_model_that_fails_keeps_no_other_from_its_lock(site: Site, hub: HubServer) -> None:
    hub.repo(REPO, FILES)
    hub.repo("org/gated", FILES, gated=True)
    declare(site, "a-none", "hf:org/none")
    declare(site, "b-gated", f"hf:{REPO}", "adapters:\n  - {name: x, source: hf:org/gated}\n")
    declare(site, "c-tiny", f"hf:{REPO}")
    site.write("cluster/models/d-broken.yaml", "name: [\n")
    site.write("cluster/models/e-far.yaml", "name: e-far\nexternal: {url: https://far.example}\n")
    done = site.run("lock", code=1)
    assert done.stdout == "c-tiny: wrote cluster/locks/c-tiny.json\n"
    errors = [line.partition(" on ")[0] for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert [line.split(": ")[1] for line in errors] == ["a-none", "b-gated", "d-broken"]
    assert done.stderr.splitlines()[-1] == "3 of 5 models could not be locked; nothing was written for them"
    assert list(locks(site)) == ["c-tiny.json"]


def test_a_lock_stays_when_its_source_cannot_be_read(site: Site, hub: HubServer) -> None:
    hub.repo(REPO, FILES)
    declare(site, "tiny", f"hf:{REPO}")
    site.run("lock")
    before = locks(site)
    index = {"model.safetensors.index.json": "not json"}
    hub.repos[REPO].commit(FILES | index)
    for options in (["--upgrade"], ["--check"]):
        assert "is not JSON" in site.run("lock", *options, code=1).stderr
        assert locks(site) == before


def test_offline_is_said_with_the_place_that_was_asked_and_nothing_is_written(site: Site, hub: HubServer) -> None:
    declare(site, "tiny", f"hf:{REPO}")
    declare(site, "other", f"hf:{REPO}")
    with serving(lambda handler: send(handler, 200, {})) as gone:
        pass
    site.env["HF_ENDPOINT"] = gone
    done = site.run("lock", code=1)
    assert done.stderr.count(f"{gone.partition('//')[2]} cannot be reached: [Errno 111] Connection refused") == 2
    site.env |= {"HF_ENDPOINT": hub.address, "HF_HUB_OFFLINE": "1"}
    done = site.run("lock", "tiny", code=1)
    assert f"{hub.address.partition('//')[2]} is not asked: HF_HUB_OFFLINE is set" in done.stderr
    assert (locks(site), hub.asked) == ({}, [])


def test_the_token_of_the_environment_is_used_and_never_shown(site: Site, hub: HubServer, tmp_path: Path) -> None:
    hub.repo("org/gated", FILES, gated=True)
    declare(site, "gated", "hf:org/gated")
    outputs = [site.run("lock", code=1)]
    site.env["HF_TOKEN"] = "hf_wrong"
    outputs.append(site.run("lock", code=1))
    site.env["HF_TOKEN"] = "hf_wr\x01ong"
    outputs.append(site.run("lock", code=1))
    assert "the hub token holds characters that no token has" in outputs[-1].stderr
    del site.env["HF_TOKEN"]
    (tmp_path / "hub-home").mkdir(exist_ok=True)
    (tmp_path / "hub-home" / "token").write_text(hub.token)
    outputs.append(site.run("lock"))
    assert {each.token for each in hub.asked if each.path.startswith("storage:")} == {None}
    assert {each.token for each in hub.asked if each.path.startswith("hub:")} == {None, "hf_wrong", hub.token}
    assert all("hf_" not in done.stdout + done.stderr for done in outputs)
    assert all(b"hf_" not in data for data in locks(site).values())


@pytest.mark.parametrize(
    ("name", "source", "told"),
    [
        ("huggingface_hub", "hf:org/tiny", "hf: sources need the huggingface_hub package"),
        ("gguf", "file:{weights}", "reading GGUF files needs the gguf package"),
    ],
)
def test_without_the_extra_one_error_names_the_command(site: Site, name: str, source: str, told: str) -> None:
    declare(site, "tiny", source.format(weights=site.weights))
    site.write(f"{name}/__init__.py", "raise ImportError('not installed')\n")  # before all others with `python -m`
    done = site.run("lock", code=1)
    assert f"error: tiny: {told}\n  fix: pip install 'reconciler[hub]'\n" in done.stderr


def test_an_unverified_model_is_left_alone_until_it_is_named_or_has_a_lock(site: Site, hub: HubServer) -> None:
    declare(site, "tiny", f"hf:{REPO}", "unverified: true\n")
    done = site.run("lock")
    assert (done.stdout, done.stderr) == ("", "tiny: unverified, left alone; reconciler lock tiny tries\n")
    site.run("lock", "tiny", code=1)
    hub.repo(REPO, FILES)
    site.run("lock", "tiny")
    assert site.run("lock", "--check").stdout == "tiny: as locked\n"


def test_what_a_repository_says_cannot_reach_the_terminal(site: Site, hub: HubServer) -> None:
    hub.repo(REPO, FILES, card={"license": "mit"})
    declare(site, "tiny", f"hf:{REPO}")
    site.run("lock")
    hub.repos[REPO].card = {"license": "\x1b[31mred\n"}
    hub.repos[REPO].commit(FILES)
    done = site.run("lock", "--check", code=1)
    assert r"licence changed: mit → \x1b[31mred\n" in done.stdout
    hub.repos[REPO].commit(FILES | {"model.safetensors.index.json": {"weight_map": {"a": "\x1b[2J"}}})
    done = site.run("lock", "--check", code=1)
    assert r"names \x1b[2J, which is not there" in done.stderr


def test_an_incomplete_lock_and_one_that_is_not_valid_are_written_again(site: Site, hub: HubServer) -> None:
    hub.repo(REPO, FILES)
    declare(site, "tiny", f"hf:{REPO}")
    site.run("lock")
    whole = locks(site)
    told = json.loads(whole["tiny.json"])
    del told["sources"][0]["tensors"]
    for text in (json.dumps(told), "{", ""):
        site.write("cluster/locks/tiny.json", text)
        assert site.run("lock").stdout.startswith("tiny: wrote ")
        assert locks(site) == whole


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(("--check", "--upgrade"), "exclude each other"), (("nobody",), "no such model: nobody"), (("--both",), "--both")],
)
def test_wrong_usage_does_nothing(site: Site, hub: HubServer, arguments: tuple[str, ...], told: str) -> None:
    declare(site, "tiny", f"hf:{REPO}")
    assert told in site.run("lock", *arguments, code=2).stderr
    assert (locks(site), hub.asked) == ({}, [])


def test_a_slow_hub_is_no_silence(site: Site, hub: HubServer) -> None:
    """While it drips, a line now and then says what is read; Ctrl-C ends it and leaves nothing behind."""
    hub.repo(REPO, FILES)
    declare(site, "tiny", f"hf:{REPO}")
    over = threading.Event()

    def drip(handler: BaseHTTPRequestHandler) -> None:
        send(handler, 200, {"Content-Length": "100000"})
        while not over.wait(0.05):
            handler.wfile.write(b" ")

    with serving(drip) as address:
        site.env["HF_ENDPOINT"] = address
        process = site.start("lock")
        try:
            assert process.stderr is not None
            assert process.stderr.readline() == f"tiny: hf:{REPO}\n"
            assert process.stderr.readline().startswith(f"tiny: {REPO}   0.0 KiB read in 1 request")
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
        finally:
            over.set()
            process.kill()
            process.communicate()
    assert locks(site) == {}
