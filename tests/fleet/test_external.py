"""External models asked over real HTTP on loopback: what each answer means, and where the key goes."""

from __future__ import annotations

import json
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from reconciler.domain.external import ExternalAnswer, ExternalVerdict
from reconciler.domain.model_spec import ModelSpec
from reconciler.fleet.external import MOST_BYTES, TIMEOUT, ask_externals
from tests.provider import NOTHING, Asked, Provider, Reply, listing, provider

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

KEY = "sk-Canary.7f3c91e2/d0"
HELD = {"PROVIDER_KEY": KEY}


@pytest.fixture
def there() -> Iterator[Provider]:
    with provider() as running:
        yield running


def a_model(url: str, name: str = "gpt", *, key: bool = True, there_as: str | None = None, **fields: Any) -> ModelSpec:
    external = {"url": url} | ({"api_key_env": "PROVIDER_KEY"} if key else {})
    external |= {} if there_as is None else {"model": there_as}
    return ModelSpec.model_validate({"name": name, "external": external} | fields)


def ask(*models: ModelSpec, held: Mapping[str, str] = HELD) -> dict[str, ExternalAnswer]:
    answers = anyio.run(ask_externals, models, held)
    assert KEY.lower() not in repr(answers).lower()
    return answers


def answer(url: str, *, held: Mapping[str, str] = HELD, **fields: Any) -> tuple[ExternalVerdict, str]:
    (found,) = ask(a_model(url, **fields), held=held).values()
    return found.verdict, found.message


# --- where it is asked ---


@pytest.mark.parametrize(
    ("written", "below", "asked"),
    [
        ("/v1", "/v1", ["/v1/models"]),
        ("/v1/", "/v1", ["/v1/models"]),
        ("", "/v1", ["/models", "/v1/models"]),
        ("/", "/v1", ["/models", "/v1/models"]),
        ("", "", ["/models"]),
        ("/openai/v1", "/openai/v1", ["/openai/v1/models"]),
        ("/v1beta/openai", "/v1beta/openai", ["/v1beta/openai/models"]),
        ("/v1?api-version=2", "/v1", ["/v1/models?api-version=2"]),
        ("/v1#part", "/v1", ["/v1/models"]),
    ],
)
def test_the_list_is_below_the_url_as_written_or_below_its_v1(
    there: Provider, written: str, below: str, asked: list[str]
) -> None:
    there.serves("gpt", key=KEY, below=below)
    assert answer(there.url + written) == (ExternalVerdict.REACHABLE, f"served by {there.netloc}")
    assert there.asked == [Asked(path, f"Bearer {KEY}") for path in asked]


def test_a_page_for_people_in_the_place_of_the_list_is_looked_behind(there: Provider) -> None:
    there.reply = lambda asked: listing("gpt") if asked.path == "/v1/models" else Reply(b"<html>welcome</html>")
    assert answer(there.url)[0] is ExternalVerdict.REACHABLE


def test_an_ipv6_literal() -> None:
    with provider("::1") as there:
        there.serves("gpt", key=KEY)
        assert answer(f"{there.url}/v1") == (ExternalVerdict.REACHABLE, f"served by {there.netloc}")
        assert there.netloc.startswith("[::1]:")


def test_without_a_variable_no_key_is_sent(there: Provider) -> None:
    there.serves("gpt")
    assert answer(f"{there.url}/v1", key=False)[0] is ExternalVerdict.REACHABLE
    assert [each.authorization for each in there.asked] == [None]


def test_a_password_in_the_url_does_not_take_the_place_of_the_key(there: Provider) -> None:
    there.serves("gpt", key=KEY)
    url = there.url.replace("http://", "http://somebody:hunter2@")
    verdict, message = answer(f"{url}/v1")
    assert verdict is ExternalVerdict.REACHABLE
    assert "hunter2" not in message


def test_loopback_is_never_asked_through_a_proxy(there: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    there.serves("gpt")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert answer(f"{there.url}/v1")[0] is ExternalVerdict.REACHABLE


def test_models_behind_one_address_are_asked_about_once(there: Provider) -> None:
    there.serves("a", "b", key=KEY)
    names = ("a", "b", "c")
    answers = ask(*(a_model(f"{there.url}/v1", name) for name in names))
    assert [answers[name].is_ready for name in names] == [True, True, False]
    assert len(there.asked) == 1


def test_models_that_we_serve_are_not_asked_about() -> None:
    assert ask(ModelSpec.model_validate({"name": "own", "source": "file:/m.gguf", "context": 1})) == {}


# --- which names ---


@pytest.mark.parametrize(
    "body",
    [
        {"data": [{"id": "x"}, {"id": "gpt"}]},
        [{"id": "gpt"}],
        {"data": [{"id": "/models/gpt.gguf", "aliases": ["gpt"]}]},
        {"data": [{"id": 1}, "gpt", None, {"id": "gpt", "parent": "base"}]},
    ],
)
def test_lists_as_servers_send_them(there: Provider, body: Any) -> None:
    there.answers(Reply(json.dumps(body).encode()))
    assert answer(f"{there.url}/v1")[0] is ExternalVerdict.REACHABLE


def test_an_alias_is_a_name_and_is_told(there: Provider) -> None:
    there.serves("gpt-4o-2024-11-20", key=KEY)
    told = answer(f"{there.url}/v1", aliases=["gpt-4o", "gpt-4o-2024-11-20"])
    assert told == (ExternalVerdict.REACHABLE, f"served by {there.netloc} as gpt-4o-2024-11-20")


def test_a_wrong_name_tells_at_most_five_others_nearest_first(there: Provider) -> None:
    there.serves("whisper", "llama", "gpt-40", "tts", "dall-e", "babbage", "x" * 500, key=KEY)
    verdict, message = answer(f"{there.url}/v1", name="gpt-4o", aliases=["gpt4o"])
    assert verdict is ExternalVerdict.WRONG_NAME
    assert message.startswith(f"{there.netloc} does not list gpt-4o or gpt4o; it lists gpt-40, ")
    assert message.endswith(" and 2 more")
    assert len(message.partition("it lists ")[2].split(", ")) == 5


def test_a_few_names_are_told_whole_and_none_as_none(there: Provider) -> None:
    there.serves("llama", key=KEY)
    assert answer(f"{there.url}/v1")[1] == f"{there.netloc} does not list gpt; it lists llama"
    there.serves(key=KEY)
    assert answer(f"{there.url}/v1") == (ExternalVerdict.WRONG_NAME, f"{there.netloc} lists no model, so not gpt")


def test_a_model_that_has_another_name_there_is_looked_for_under_that_name_alone(there: Provider) -> None:
    there.serves("gpt", "meta-llama/Llama-3.3-70B-Instruct", key=KEY)
    name = "meta-llama/Llama-3.3-70B-Instruct"
    told = answer(f"{there.url}/v1", name="llama", there_as=name)
    assert told == (ExternalVerdict.REACHABLE, f"served by {there.netloc} as {name}")
    verdict, message = answer(f"{there.url}/v1", name="gpt", there_as="meta-llama/Llama-3.1-8B")
    assert verdict is ExternalVerdict.WRONG_NAME, "its own name is another model there"
    assert message == f"{there.netloc} does not list meta-llama/Llama-3.1-8B; it lists {name}, gpt"


def test_models_behind_one_address_are_asked_about_once_whatever_they_are_called_there(there: Provider) -> None:
    there.serves("org/a", "org/b:free", key=KEY)
    there_as = {"a": "org/a", "b": "org/b:free", "c": "org/c"}
    answers = ask(*(a_model(f"{there.url}/v1", name, there_as=remote) for name, remote in there_as.items()))
    assert [answers[name].is_ready for name in there_as] == [True, True, False]
    assert len(there.asked) == 1


# --- the key ---


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_is_refused(there: Provider, status: int) -> None:
    there.answers(Reply(f"wrong key {KEY}".encode(), status))
    assert answer(f"{there.url}/v1") == (
        ExternalVerdict.KEY_REFUSED,
        f"{there.netloc} refuses the key in PROVIDER_KEY ({status})",
    )
    verdict, message = answer(f"{there.url}/v1", key=False)
    assert verdict is ExternalVerdict.KEY_REFUSED
    assert message == f"{there.netloc} wants a key ({status}); name its variable in external.api_key_env"


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ({}, "PROVIDER_KEY is not set here"),
        ({"PROVIDER_KEY": " \n"}, "PROVIDER_KEY is empty here"),
        ({"PROVIDER_KEY": f"{KEY}\n{KEY}"}, "PROVIDER_KEY holds characters that no key has"),
        ({"PROVIDER_KEY": f"{KEY}€"}, "PROVIDER_KEY holds characters that no key has"),
        ({"PROVIDER_KEY": f"{KEY}\udcff"}, "PROVIDER_KEY holds characters that no key has"),
    ],
)
def test_without_a_key_that_can_be_sent_nothing_is_asked(
    there: Provider, held: Mapping[str, str], message: str
) -> None:
    there.serves("gpt")
    assert answer(f"{there.url}/v1", held=held) == (ExternalVerdict.KEY_MISSING, message)
    assert there.asked == []


def test_the_newline_at_the_end_of_a_file_is_no_part_of_a_key(there: Provider) -> None:
    there.serves("gpt", key=KEY)
    assert answer(f"{there.url}/v1", held={"PROVIDER_KEY": f"{KEY}\r\n"})[0] is ExternalVerdict.REACHABLE


@pytest.mark.parametrize(
    "reply",
    [
        listing(KEY, f"Bearer {KEY}", f"{KEY.upper()}-x", "y" * 50 + KEY),
        Reply(KEY.encode(), 500),
        Reply(KEY.encode()),
        Reply(b"", 302, f"http://{KEY.replace('/', '.')}.example/v1"),
        Reply(b"", 302, f"http://{KEY.replace('/', '@')}.example/v1"),
        Reply(b"", 302, f"/{KEY}"),
        Reply(b"", 302, f"http://[{KEY}"),
        Reply(b"", 302, f"http://{KEY[3:-2]}.example/v1"),
        listing(f"{KEY[:-3]}…"),
    ],
)
def test_a_server_that_repeats_the_key_does_not_make_us_tell_it(there: Provider, reply: Reply) -> None:
    there.answers(reply)
    verdict, message = answer(f"{there.url}/v1")
    assert verdict in {ExternalVerdict.UNREACHABLE, ExternalVerdict.WRONG_NAME}
    assert not [at for at in range(len(KEY) - 7) if KEY[at : at + 8].lower() in message.lower()]


# --- redirects ---


def test_redirects_on_the_same_host_are_followed_with_the_key(there: Provider) -> None:
    def reply(asked: Asked) -> Reply:
        return listing("gpt") if asked.path == "/v1/models/" else Reply(b"", 307, "/v1/models/")

    there.reply = reply
    assert answer(f"{there.url}/v1")[0] is ExternalVerdict.REACHABLE
    assert {each.authorization for each in there.asked} == {f"Bearer {KEY}"}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_another_host_is_told_and_never_followed(there: Provider, status: int) -> None:
    with provider() as thief:
        thief.serves("gpt")
        there.answers(Reply(b"", status, f"http://user:pw@{thief.netloc}/v1/models"))
        assert answer(f"{there.url}/v1") == (
            ExternalVerdict.UNREACHABLE,
            f"{there.netloc} redirects to http://{thief.netloc}; write that in external.url if it is right",
        )
        assert thief.asked == []


def test_redirects_in_a_circle_end(there: Provider) -> None:
    there.answers(Reply(b"", 302, "/v1/models"))
    assert answer(f"{there.url}/v1") == (ExternalVerdict.UNREACHABLE, f"{there.netloc} redirects more than 3 times")


# --- no list of models ---


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (Reply(b"busy", 500), "answers 500 when asked for its models"),
        (Reply(b"slow down", 429), "answers 429 when asked for its models"),
        (NOTHING, "has no list of models below external.url (404)"),
        (Reply(b"<html>welcome</html>"), "answers with something that is no list of models"),
        (Reply(b'{"data": 3}'), "answers with something that is no list of models"),
        (Reply(b"[" * 100_000), "answers with something that is no list of models"),
        (Reply(b"\xff\xfe\x00"), "answers with something that is no list of models"),
        (Reply(b" " * (MOST_BYTES + 1)), "answers with more than 4 MiB"),
    ],
)
def test_answers_that_are_no_list(there: Provider, reply: Reply, told: str) -> None:
    there.answers(reply)
    assert answer(f"{there.url}/v1") == (ExternalVerdict.UNREACHABLE, f"{there.netloc} {told}")


def test_no_time_is_added_by_those_that_hang(there: Provider) -> None:
    hangs = Reply(b'{"data": [', hangs=True)
    there.reply = lambda asked: hangs if "slow" in asked.path else listing("quick")
    with socket.create_server(("127.0.0.1", 0)) as mute:  # takes connections and says nothing
        silent = f"127.0.0.1:{mute.getsockname()[1]}"
        started = time.monotonic()
        answers = ask(
            a_model(f"{there.url}/v1", "quick"),
            a_model(f"{there.url}/slow/v1", "slow"),
            a_model(f"http://{silent}/v1", "silent"),
        )
        took = time.monotonic() - started
    assert took < TIMEOUT.total_seconds() + 1.5, "they are asked at the same time"
    assert answers["quick"].is_ready
    late = "did not answer within 2 s"
    assert answers["slow"] == ExternalAnswer(ExternalVerdict.UNREACHABLE, f"{there.netloc} {late}")
    assert answers["silent"] == ExternalAnswer(ExternalVerdict.UNREACHABLE, f"{silent} {late}")


def test_a_closed_port() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refused, and nobody else's meanwhile
        netloc = f"127.0.0.1:{taken.getsockname()[1]}"
        told = answer(f"http://{netloc}/v1")
    assert told == (ExternalVerdict.UNREACHABLE, f"{netloc} refused the connection: nothing listens there")


def test_https_to_a_server_that_speaks_http(there: Provider) -> None:
    told = answer(f"https://{there.netloc}/v1")
    assert told == (ExternalVerdict.UNREACHABLE, f"{there.netloc} does not speak TLS as it should")


def test_a_server_that_speaks_something_else() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def speak() -> None:
            link, _ = listener.accept()
            with link:
                link.recv(4096)
                link.sendall(b"220 mail.example ESMTP\r\n" + KEY.encode())

        speaker = threading.Thread(target=speak)
        speaker.start()
        netloc = f"127.0.0.1:{listener.getsockname()[1]}"
        told = answer(f"http://{netloc}/v1")
        speaker.join()
    assert told == (ExternalVerdict.UNREACHABLE, f"{netloc} gives no answer in HTTP")


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:99999/v1", "http://[::1", "http://xn--/", "http:///v1", "http://h:x/", "http://☃.invalid/"],
)
def test_an_address_that_cannot_be(url: str) -> None:
    assert answer(url) == (ExternalVerdict.UNREACHABLE, "external.url holds no address that can be asked")


@pytest.mark.parametrize(
    ("variable", "value"), [("SSL_CERT_FILE", "/nowhere/ca.pem"), ("ALL_PROXY", "gopher://somebody:hunter2@p.example")]
)
def test_an_environment_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(variable, value)
    verdict, message = answer("https://llm.invalid/v1")
    assert verdict is ExternalVerdict.UNREACHABLE
    assert message == "what HTTPS_PROXY, ALL_PROXY or SSL_CERT_FILE names here cannot be used"
