"""A launch in place that fails: what served before serves again, through the real agent and a real engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.site import ask

if TYPE_CHECKING:
    from tests.e2e.site import Site

pytestmark = pytest.mark.timeout(300)


def test_what_served_before_serves_again_after_its_successor_failed_in_place(site: Site) -> None:
    site.model(strategy="in_place")
    site.commit()
    site.apply()
    (before,) = site.replicas()
    broken = site.root / "broken.gguf"
    broken.write_bytes(b"not weights")
    site.model(strategy="in_place")
    text = site.read("cluster/models/tiny.yaml")
    site.write("cluster/models/tiny.yaml", text.replace(str(site.weights), str(broken)))
    site.commit("other weights")
    site.apply(code=1)
    (after,) = site.replicas()
    assert after["id"] == before["id"]
    assert after["routable"]
    ask(after["address"])
    (model,) = site.status()["models"]
    assert (model["state"], model["ready"], model["updated"]) == ("stalled", 1, 0)
    site.model(strategy="in_place", context=512)
    site.commit("the weights of before")
    site.apply()
    (mended,) = site.replicas()
    assert mended["id"] != before["id"]
