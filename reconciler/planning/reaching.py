"""What a person does about an agent that does not answer; it follows from the kind of address that its node has.

Agents of this version answer on Unix sockets and on loopback (`agent.config`): an `https` address is answered only by
what somebody has put in front of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.fleet_spec import LOCAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.domain.desired import Node

_NAMED = 3
"""Nodes of one kind that are named in a hint."""

_ADVICE = {
    "none": "start an agent on {nodes} (reconciler agent --config FILE), and write where it answers into nodes/",
    "local": "{nodes}: reconciler agent stop, then reconciler apply starts its agent again",
    "here": "start the agent of {nodes} (reconciler agent --config FILE, where listen says that address), or mend the "
    "address in nodes/",
    "https": "{nodes}: agents of this version answer on Unix sockets and loopback only; bring the socket here, as ssh "
    "-L /HERE.sock:/THERE.sock NODE does, and write address: unix:/HERE.sock, or mend what answers for it at https",
}


def reach(nodes: Sequence[Node]) -> str:
    """What to do about these nodes, each kind of address once."""
    by_kind: dict[str, list[str]] = {}
    for node in sorted(nodes, key=lambda each: each.name):
        by_kind.setdefault(_kind(node.address), []).append(node.name)
    return "; ".join(_ADVICE[kind].format(nodes=_spoken(by_kind[kind])) for kind in _ADVICE if kind in by_kind)


def reach_words(node: Node) -> str:
    """The same of one node as a change that somebody could make: `start the agent of n1 (unix:/run/n1.sock)`."""
    match _kind(node.address):
        case "none":
            return f"start an agent on {node.name}, and write where it answers into nodes/"
        case "https":
            return f"bring the agent of {node.name} within reach ({node.address}: agents of this version have no TLS)"
        case _:
            return f"start the agent of {node.name} ({node.address})"


def _kind(address: str | None) -> str:
    if address is None:
        return "none"
    if address == LOCAL:
        return "local"
    return "https" if address.startswith("https:") else "here"


def _spoken(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"
