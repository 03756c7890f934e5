"""What the tests of weights share: a hub on loopback, and access to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reconciler.weights.hub import Hub
from reconciler.weights.lock_source import Access
from reconciler.weights.meter import Meter
from reconciler.weights.web import Patience, Web
from tests.weights.hub_server import CERTIFICATE, HubServer, running_hub

if TYPE_CHECKING:
    from collections.abc import Iterator

SHORT = Patience(connect=5, silence=0.4, answer=1.5)
"""Nobody on loopback needs longer, and a test of silence waits for it."""


@pytest.fixture(autouse=True)
def loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy between a test and its server, and the server's certificate is believed."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))


@pytest.fixture
def web() -> Iterator[Web]:
    with Web(Meter(), SHORT) as made:
        yield made


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with running_hub() as server:
        yield server


@pytest.fixture
def access(web: Web, hub: HubServer) -> Access:
    """Access to the hub without a token."""
    return Access(web, Hub(hub.address, {}))


@pytest.fixture
def signed_in(web: Web, hub: HubServer) -> Access:
    """Access to the hub with its token."""
    return Access(web, Hub(hub.address, {"Authorization": f"Bearer {hub.token}"}))
