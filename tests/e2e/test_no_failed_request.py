"""While one replica is surged, a client that asks routable addresses sees no failed request."""

from __future__ import annotations

import threading
from itertools import count
from typing import TYPE_CHECKING, Self

import pytest

from tests.e2e.site import ask

if TYPE_CHECKING:
    from tests.e2e.site import Site

REQUESTS = 200


class Router:
    """Knows the routable addresses as of the last `status`, asked for again and again."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._addresses = tuple(site.addresses())
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(30)

    def choose(self, turn: int) -> str:
        return self._addresses[turn % len(self._addresses)]

    def _follow(self) -> None:
        while not self._end.is_set():
            self._addresses = tuple(self._site.addresses())


@pytest.mark.timeout(300)
def test_a_surge_fails_no_request(site: Site) -> None:
    site.model(withdraw="5s")
    site.commit()
    site.apply()
    (before,) = site.replicas()
    site.model(withdraw="5s", context=512)
    site.commit()
    asked: dict[str, int] = {}
    with Router(site) as router:
        change = site.start("apply", "--auto-approve")
        for turn in count():
            address = router.choose(turn)
            ask(address)
            asked[address] = asked.get(address, 0) + 1
            if change.poll() is not None and turn >= REQUESTS:
                break
        out, err = change.communicate()
    assert change.returncode == 0, out + err
    (after,) = site.replicas()
    assert after["id"] != before["id"]
    assert sum(asked.values()) > REQUESTS
    assert set(asked) == {before["address"], after["address"]}, "both replicas answered in their time"
