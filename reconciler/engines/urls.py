"""Base URLs of engines."""

from __future__ import annotations


def base_url(host: str, port: int) -> str:
    """Plain HTTP at this address; IPv6 in brackets."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
