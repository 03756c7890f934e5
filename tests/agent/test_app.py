"""The agent's HTTP surface, asked over ASGI: what it takes, and how it says no."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import httpx
import pytest

from reconciler.agent.app import MAX_BODY_BYTES, Desk, create_app
from reconciler.domain.assignment import Refusal
from reconciler.domain.model_spec import SecretRef
from reconciler.domain.observed import ReachableNode, ReplicaState
from tests.agent.bench import Bench
from tests.agent.disk import full_disk
from tests.agent.entries import assignment, claim_request, run_entry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.anyio

ENTRY = run_entry()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
async def client(bench: Bench) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(Desk(bench.config, bench.logs, bench.supervisor))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://agent") as opened:
        yield opened


async def claim(client: httpx.AsyncClient, name: str = "apply-1") -> httpx.Response:
    return await client.post("/v1/claim", json=claim_request(name).model_dump(mode="json"))


async def assign(client: httpx.AsyncClient, **fields: Any) -> httpx.Response:
    return await client.put("/v1/assignment", json=assignment(ENTRY, **fields).model_dump(mode="json"))


async def test_claim_then_assign_then_observe(client: httpx.AsyncClient) -> None:
    granted = await claim(client)
    assert granted.json() == {"epoch": 1, "ttl_seconds": 30}
    taken = await assign(client)
    assert taken.status_code == 200
    node = ReachableNode.model_validate_json((await client.get("/v1/observation")).content)
    assert taken.json() == {"revision": node.revision}
    assert (node.replicas[0].entry, node.replicas[0].state) == (ENTRY, ReplicaState.PENDING)


async def test_refusals_are_409_with_a_reason(client: httpx.AsyncClient) -> None:
    await claim(client)
    other = await claim(client, "apply-2")
    assert other.status_code == 409
    assert Refusal.model_validate_json(other.content).reason == "held"
    stale = await assign(client, epoch=7)
    assert stale.status_code == 409
    assert Refusal.model_validate_json(stale.content).reason == "stale"


async def test_a_released_claim_can_be_taken_by_another(client: httpx.AsyncClient) -> None:
    await claim(client)
    for _ in range(2):
        assert (await client.post("/v1/release", json={"holder": "apply-1", "epoch": 1})).status_code == 200
    assert (await claim(client, "apply-2")).json()["epoch"] == 2


@pytest.mark.parametrize(
    ("body", "words"),
    [(b"{", "JSON"), (b"{}", "body.node"), (b'{"fleet": "test", "surprise": 1}', "body.surprise"), (b"[]", "body")],
)
async def test_a_body_that_cannot_be_read_is_422_and_says_where(
    client: httpx.AsyncClient, body: bytes, words: str
) -> None:
    answer = await client.put("/v1/assignment", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert words in answer.text
    assert answer.json()["message"]


async def test_what_was_sent_wrongly_is_not_repeated(client: httpx.AsyncClient) -> None:
    """A secret in the wrong place must not come back in an answer that is logged."""
    body = claim_request().model_dump(mode="json") | {"ttl_seconds": "s3cr3t-value"}
    answer = await client.post("/v1/claim", json=body)
    assert answer.status_code == 422
    assert "s3cr3t-value" not in answer.text
    assert "ttl_seconds" in answer.text


async def test_a_body_beyond_the_bound_is_413(client: httpx.AsyncClient) -> None:
    answer = await client.put("/v1/assignment", content=b" " * (MAX_BODY_BYTES + 1))
    assert answer.status_code == 413


async def test_before_adoption_everything_is_503(bench: Bench) -> None:
    app = create_app(Desk(bench.config, bench.logs))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://agent") as client:
        answers = [await claim(client), await client.get("/v1/health"), await client.get("/v1/observation")]
    assert [answer.status_code for answer in answers] == [503, 503, 503]


async def test_a_full_disk_is_507_and_nothing_half_done(bench: Bench, client: httpx.AsyncClient) -> None:
    await claim(client)
    with full_disk():
        answer = await assign(client)
    assert answer.status_code == 507
    assert "cannot be written" in answer.json()["message"]
    assert bench.node().replicas == ()
    assert (await assign(client)).status_code == 200


async def test_a_mistake_of_ours_ends_one_request_only(
    bench: Bench, client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    bench.logs.path(ENTRY.id).mkdir(parents=True)  # a log that cannot be read
    answer = await client.get("/v1/logs", params={"replica": ENTRY.id})
    assert answer.status_code == 500
    assert "GET /v1/logs failed" in caplog.text
    assert (await client.get("/v1/health")).status_code == 200


# Observation


async def test_a_long_poll_waits_for_a_transition(bench: Bench, client: httpx.AsyncClient) -> None:
    answers: list[httpx.Response] = []

    async def poll() -> None:
        since = bench.supervisor.revision
        answers.append(await client.get("/v1/observation", params={"since": since, "wait": "30s"}))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(poll)
        await anyio.wait_all_tasks_blocked()
        assert answers == []
        await bench.send(ENTRY)
    assert ReachableNode.model_validate_json(answers[0].content).replicas != ()


@pytest.mark.parametrize("wait", ["0s", "0", "0.01s", "0.01"])
async def test_a_long_poll_ends_with_its_wait(bench: Bench, client: httpx.AsyncClient, wait: str) -> None:
    answer = await client.get("/v1/observation", params={"since": bench.supervisor.revision, "wait": wait})
    assert answer.json()["revision"] == bench.supervisor.revision


@pytest.mark.parametrize("since", [0, 10**15, -4])
async def test_an_unknown_since_is_answered_at_once(client: httpx.AsyncClient, since: int) -> None:
    with anyio.fail_after(5):
        assert (await client.get("/v1/observation", params={"since": since, "wait": "60s"})).status_code == 200


@pytest.mark.parametrize(("name", "value"), [("wait", "soon"), ("wait", "-1s"), ("wait", "1m"), ("since", "x")])
async def test_a_wrong_wait_or_since_is_422(client: httpx.AsyncClient, name: str, value: str) -> None:
    answer = await client.get("/v1/observation", params={name: value})
    assert answer.status_code == 422
    assert name in answer.json()["message"]


# Logs


async def test_logs_are_the_tail_of_the_engines_log(bench: Bench, client: httpx.AsyncClient) -> None:
    await bench.send(ENTRY)
    bench.write_log(ENTRY.id, "one\ntwo\nthree\n")
    answer = await client.get("/v1/logs", params={"replica": ENTRY.id, "lines": 2})
    assert answer.text == "two\nthree\n"
    assert answer.headers["content-type"].startswith("text/plain")


async def test_secrets_in_logs_are_hidden(bench: Bench, client: httpx.AsyncClient) -> None:
    bench.config.secrets.mkdir(parents=True)
    (bench.config.secrets / "hub-token").write_text("s3cr3t-value")
    entry = run_entry(env={"HF_TOKEN": SecretRef(secret="hub-token")})
    await bench.send(entry)
    bench.write_log(entry.id, "got s3cr3t-value\n")
    assert (await client.get("/v1/logs", params={"replica": entry.id})).text == "got [secret hub-token]\n"


async def test_a_key_that_an_engine_keeps_although_its_file_says_another_is_hidden(
    bench: Bench, client: httpx.AsyncClient
) -> None:
    bench.config.secrets.mkdir(parents=True)
    (bench.config.secrets / "key").write_text("k-of-before")
    entry = run_entry(env={"SCRIPTED_KEY": SecretRef(secret="key")})
    await bench.send(entry)
    (bench.config.secrets / "key").write_text("k-of-now")
    bench.write_log(entry.id, "k-of-before, k-of-now\n")
    told = (await client.get("/v1/logs", params={"replica": entry.id})).text
    assert told == "[secret key], [secret key]\n"


async def test_secrets_in_the_log_of_a_replica_that_is_gone_are_hidden(bench: Bench, client: httpx.AsyncClient) -> None:
    """SGLang's first line shows the settings it was started with, its key among them, as Python writes them."""
    key = "k\\4711'\"0815"
    bench.config.secrets.mkdir(parents=True)
    (bench.config.secrets / "key").write_text(key)
    bench.logs.rotate(ENTRY.id)
    bench.write_log(ENTRY.id, f"server_args={ {'api_key': key} }\nand {key}\n")
    told = (await client.get("/v1/logs", params={"replica": ENTRY.id})).text
    assert told == "server_args={'api_key': '[secret key]'}\nand [secret key]\n"


async def test_a_replica_without_a_log_is_404(client: httpx.AsyncClient) -> None:
    answer = await client.get("/v1/logs", params={"replica": ENTRY.id})
    assert answer.status_code == 404
    assert ENTRY.id in answer.json()["message"]


@pytest.mark.parametrize("replica", ["../../etc/passwd", "tiny", "tiny/0@../../x", ""])
async def test_a_log_is_asked_for_by_replica_id_only(client: httpx.AsyncClient, replica: str) -> None:
    assert (await client.get("/v1/logs", params={"replica": replica})).status_code == 422


@pytest.mark.parametrize("lines", [0, -1, 100_001])
async def test_lines_are_bounded(client: httpx.AsyncClient, lines: int) -> None:
    assert (await client.get("/v1/logs", params={"replica": ENTRY.id, "lines": lines})).status_code == 422


@pytest.mark.parametrize("path", ["/docs", "/openapi.json", "/"])
async def test_there_is_nothing_else(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.get(path)).status_code == 404
