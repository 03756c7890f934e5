"""What is advised where an agent does not answer: nothing that the kind of its address does not allow."""

from __future__ import annotations

import pytest

from reconciler.planning.reaching import reach, reach_words
from tests.builders import a_node

HTTPS = "https://n1.gpu.internal:7443"


@pytest.mark.parametrize(
    ("address", "told", "words"),
    [
        (None, "write where it answers into nodes/", "start an agent on n1, and write where it answers into nodes/"),
        ("local", "reconciler agent stop, then reconciler apply starts", "start the agent of n1 (local)"),
        ("unix:/run/n1.sock", "start the agent of n1 (reconciler agent --config FILE", "(unix:/run/n1.sock)"),
        ("http://127.0.0.1:7443", "start the agent of n1 (reconciler agent --config FILE", "(http://127.0.0.1:7443)"),
        (HTTPS, "answer on Unix sockets and loopback only", f"within reach ({HTTPS}: agents of this version have no"),
    ],
)
def test_each_kind_of_address_has_its_own_advice(address: str | None, told: str, words: str) -> None:
    node = a_node("n1", address=address)
    assert told in reach([node])
    assert words in reach_words(node)
    if address == HTTPS:
        assert "start" not in reach([node])
        assert "start" not in reach_words(node)


def test_nodes_of_one_kind_are_told_together_and_three_by_name() -> None:
    nodes = [a_node(f"n{number}", address="unix:/run/x.sock") for number in range(1, 6)]
    told = reach([*nodes, a_node("far", address="https://far:1")])
    assert told.startswith("start the agent of n1, n2, n3 and 2 more (")
    assert told.count("listen") == 1
    assert "; far: agents of this version" in told
