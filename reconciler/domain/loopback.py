"""Whether an address stays on this machine: there alone plain HTTP is spoken (design section 8)."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str | None) -> bool:
    """`localhost` and names below it (RFC 6761), 127.0.0.0/8 and ::1; a name is never looked up."""
    if host is None:
        return False
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
