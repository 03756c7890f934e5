"""A model that somebody else serves, through the real command: shown, never waited for, and its key nowhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.site import interrupting
from tests.provider import Provider, Reply, provider

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from tests.e2e.site import Site

pytestmark = pytest.mark.timeout(300)

KEY = "sk-Canary-41b7e6f0"


@pytest.fixture
def there() -> Iterator[Provider]:
    with provider() as running:
        running.serves("gpt", key=KEY)
        yield running


def catalog(site: Site, there: Provider) -> None:
    text = f"name: gpt\nexternal: {{url: {there.url}/v1, api_key_env: PROVIDER_KEY}}\n"
    site.write("cluster/models/gpt.yaml", text)
    site.commit("a model of somebody else")


def judged(site: Site) -> tuple[str, str]:
    (model,) = site.status()["models"]
    assert (model["desired"], model["ready"], model["updated"], model["replicas"]) == (0, 0, 0, [])
    return model["state"], model["reason"]


def test_status_follows_what_it_answers(site: Site, there: Provider) -> None:
    catalog(site, there)
    assert judged(site) == ("waiting", "external: PROVIDER_KEY is not set here")
    site.env["PROVIDER_KEY"] = KEY
    assert judged(site) == ("ready", f"external: served by {there.netloc}")
    there.serves("llama", key=KEY)
    assert judged(site) == ("waiting", f"external: {there.netloc} does not list gpt; it lists llama")
    there.serves("gpt", key="another")
    assert judged(site) == ("waiting", f"external: {there.netloc} refuses the key in PROVIDER_KEY (401)")


def test_apply_serves_ours_although_theirs_is_away(site: Site, there: Provider) -> None:
    site.model()
    catalog(site, there)
    there.answers(Reply(b"busy", 500))
    site.env["PROVIDER_KEY"] = KEY
    assert [change["model"] for change in site.plan()["changes"]] == ["tiny"]
    assert there.asked == [], "plan asked somebody"
    lines = site.apply().splitlines()
    assert "1 created" in lines[-3]
    assert lines[-2:] == [
        "0 of 1 external model ready",
        f"  gpt waits: {there.netloc} answers 500 when asked for its models",
    ]
    there.serves("gpt", key=KEY)
    assert site.apply().splitlines()[-1] == "1 of 1 external model ready"
    assert "external" not in site.run("apply", "--auto-approve", "--model", "tiny").stdout


def test_one_that_hangs_adds_its_time_out_and_no_more(site: Site, there: Provider) -> None:
    catalog(site, there)
    site.env["PROVIDER_KEY"] = KEY
    started = time.monotonic()
    site.status()
    usual = time.monotonic() - started
    there.answers(Reply(b"[", hangs=True))
    started = time.monotonic()
    assert judged(site) == ("waiting", f"external: {there.netloc} did not answer within 2 s")
    assert time.monotonic() - started < usual + 2 + 2, "two seconds, and two for a busy machine"


def test_run_tells_what_changes_and_no_output_holds_the_key(site: Site, there: Provider) -> None:
    catalog(site, there)
    site.env["PROVIDER_KEY"] = KEY
    there.answers(Reply(f"who is {KEY}?".encode(), 401))
    with interrupting(site.start("run")) as run:
        told = until(run, "waits")
        there.serves("gpt", f"echo-{KEY}", key=KEY)
        text = f"name: other\nexternal: {{url: {there.url}/v1, api_key_env: PROVIDER_KEY}}\n"
        site.write("cluster/models/other.yaml", text)
        site.commit("another one")  # other models are asked about at once, not after half a minute
        told += until(run, "external model other waits")
    assert f"gpt waits: {there.netloc} refuses the key in PROVIDER_KEY (401)" in told
    assert f"external model gpt ready: served by {there.netloc}" in told
    assert "other waits" in told
    assert KEY.lower() not in told.lower()
    kept = b"".join(path.read_bytes() for path in site.state.rglob("*") if path.is_file())
    assert KEY.encode() not in kept


def until(run: subprocess.Popen[str], word: str) -> str:
    """What is said up to the line with this word."""
    assert run.stderr is not None
    told = ""
    while word not in told:
        line = run.stderr.readline()
        assert line, f"run ended: {told}"
        told += line
    return told
