"""What a person says beside git: each through the real command, read by the next apply or by a running `run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.site import MODEL, interrupting, wait_until

if TYPE_CHECKING:
    from tests.e2e.site import Site

pytestmark = pytest.mark.timeout(300)


def another(site: Site, name: str, *lines: str) -> None:
    """A model beside tiny, with further lines of YAML."""
    text = MODEL.format(weights=site.weights, context=256, replicas=1, strategy="surge", withdraw="0s")
    written = "".join(f"{line}\n" for line in lines)
    site.write(f"cluster/models/{name}.yaml", text.replace("name: tiny", f"name: {name}") + written)


def of(site: Site, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in site.status()["models"] if each["name"] == name)
    return found


def ids(site: Site) -> list[str]:
    return [each["id"] for each in site.replicas()]


def said(site: Site, model: str, kind: str, reason: str) -> None:
    """An intent stands in `status` and `why`, for people and programs, with who said it, why and until when."""
    for answer in (site.status(), site.answer("why", model)):
        (intent,) = (each for each in answer["intents"] if each["kind"] == kind and each["reason"] == reason)
        assert intent["author"]
        assert intent["created_at"]
        for text in (site.run("status").stdout, site.run("why", model).stdout):
            (line,) = (each for each in text.splitlines() if each.endswith(f": {reason}"))
            assert f"said by {intent['author']} " in line
            assert (" until " in line) == (intent["expires_at"] is not None)


def test_a_suspended_model_changes_nothing_until_it_is_resumed(site: Site) -> None:
    site.model(context=256)
    site.commit()
    site.apply()
    before = ids(site)
    site.model(context=512)
    site.commit("longer context")
    told = site.run("suspend", "tiny", "--for", "2h", "--reason", "the vendor looks at it").stdout
    assert "reconciler resume tiny" in told
    plan = site.plan()
    assert {(each["action"], each["reason"]) for each in plan["changes"]} == {("none", "suspended")}
    (held,) = plan["held_back"]
    assert (held["model"], held["reason"]) == ("tiny", "the vendor looks at it")
    assert held["author"]
    assert held["expires_at"]
    assert [each["fields"][0]["field"] for each in held["changes"]] == ["context"]
    site.apply()
    assert ids(site) == before
    assert of(site, "tiny")["state"] == "suspended"
    (intent,) = site.status()["intents"]
    assert (intent["kind"], intent["model"], intent["reason"]) == ("suspend", "tiny", "the vendor looks at it")
    assert intent["expires_at"] > intent["created_at"]
    said(site, "tiny", "suspend", "the vendor looks at it")
    site.run("resume", "tiny")
    assert site.status()["intents"] == []
    site.apply()
    assert ids(site) != before


def test_a_restart_replaces_once(site: Site) -> None:
    site.model()
    site.commit()
    site.apply()
    before = ids(site)
    site.run("restart", "--model", "tiny", "--reason", "it leaks")
    (change,) = site.plan()["changes"]
    assert (change["action"], change["reason"]) == ("replace", "restart")
    said(site, "tiny", "restart", "it leaks")
    site.apply()
    after = ids(site)
    assert after != before
    assert site.status()["intents"] == []
    assert not list((site.state / "intents").iterdir())
    site.apply()
    assert ids(site) == after


def test_run_launches_what_failed_again_when_a_person_says_retry(site: Site) -> None:
    away = site.weights.rename(site.root / "elsewhere.gguf")
    site.model()
    site.commit()
    with interrupting(site.start("run")):
        wait_until(lambda: of(site, "tiny")["state"] == "stalled", 60, "the launch without weights has failed")
    site.run("retry", "tiny", "--reason", "the weights are there")
    said(site, "tiny", "retry", "the weights are there")
    away.rename(site.weights)
    with interrupting(site.start("run")):
        wait_until(lambda: of(site, "tiny")["ready"] == 1, 60, "it is served after the retry")
        wait_until(lambda: not list((site.state / "intents").iterdir()), 60, "what was said is done")
    assert site.status()["intents"] == []


def test_a_retry_that_failed_again_is_no_work_under_way(site: Site) -> None:
    site.weights.rename(site.root / "elsewhere.gguf")
    site.model()
    site.commit()
    site.apply(code=1)
    assert of(site, "tiny")["state"] == "stalled"
    site.run("retry", "tiny")
    assert of(site, "tiny")["state"] == "reconciling"
    site.apply(code=1)
    assert of(site, "tiny")["state"] == "stalled"
    assert site.status()["intents"] == []
    assert ", not finished, and nothing goes on with it now" in site.run("status").stdout


def test_what_is_over_a_limit_waits_for_the_digest_it_prints(site: Site) -> None:
    site.model()
    another(site, "other")
    another(site, "third")
    site.commit()
    site.apply()
    for name in ("other", "third"):
        (site.root / f"cluster/models/{name}.yaml").unlink()
    site.commit("two of three go")
    (block,) = site.plan()["blocked"]
    assert block["rule"] == "rollout/limits"
    site.apply(code=6)
    assert len(site.engines()) == 3
    assert block["digest"] in site.run("status").stdout
    assert [each["digest"] for each in site.status()["blocked"]] == [block["digest"]]
    unknown = site.run("approve", "00000000", code=2).stderr
    assert f"what waits for approval: {block['digest']} ({block['message']}" in unknown
    site.apply(code=6)
    site.run("approve", block["digest"], "--reason", "they have moved")
    assert "is approved already" in site.run("approve", block["digest"]).stdout
    said(site, "other", "approve", "they have moved")
    site.apply()
    assert [each.partition("@")[0] for each in ids(site)] == ["tiny/0"]
    assert site.status()["intents"] == []


def test_a_protected_model_outlives_its_file(site: Site) -> None:
    site.model()
    another(site, "other")
    site.commit()
    site.apply()
    another(site, "other", "protect: true")
    site.commit("protect it")
    site.apply()
    (site.root / "cluster/models/other.yaml").unlink()
    site.commit("by mistake")
    site.apply(code=7)
    assert of(site, "other")["ready"] == 1
    assert of(site, "other")["state"] == "stalled"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["retry", "nobody"], "models: tiny"),
        (["suspend", "tiny", "--for", "soon"], "90s, 30m, 2h or 1d"),
        (["suspend", "tiny", "--for", "0s"], "lasts for some time"),
        (["approve", "abc"], "8 hex digits"),
        (["wake", "tiny"], "not on demand"),
    ],
)
def test_what_makes_no_sense_is_refused_and_says_what_would(site: Site, words: list[str], told: str) -> None:
    site.model()
    site.commit()
    assert told in site.run(*words, code=2).stderr
    assert not (site.state / "intents").exists()


def on_demand(site: Site, idle_timeout: str) -> None:
    site.model()
    text = site.read("cluster/models/tiny.yaml")
    scaling = f"{{min: 0, max: 1, idle_timeout: {idle_timeout}}}"
    site.write("cluster/models/tiny.yaml", text.replace("{min: 1}", scaling))
    site.commit(f"idle after {idle_timeout}")


def test_a_model_on_demand_is_loaded_when_woken_and_goes_when_idle(site: Site) -> None:
    on_demand(site, "30m")
    assert "no changes" in site.apply()
    assert of(site, "tiny")["state"] == "off"
    site.run("wake", "tiny")
    site.apply()
    assert of(site, "tiny")["ready"] == 1
    on_demand(site, "5s")
    site.run("wake", "tiny")  # the later word holds, and this one is over in 5 s
    with interrupting(site.start("run")):
        wait_until(lambda: of(site, "tiny")["replicas"] == [], 120, "it is gone after it was idle")
    assert of(site, "tiny")["state"] == "off"
