"""HTTP requests to engines on this node; what the answers mean is for `engines` to say."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import anyio
import httpx

from reconciler.engines.base import Answer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from reconciler.engines.base import Probe

MAX_BODY_BYTES = 4 * 2**20
"""An engine's metrics page is some 10 kB, with hundreds of adapters perhaps 1 MiB; more is not an answer to a probe."""


class Prober:
    """Sends probes over one client without kept connections.

    Kept connections would be found dead when an engine restarts on its port, and some servers wait for idle ones
    before they exit. Proxies of the environment are never used and redirects never followed: a probe asks the
    process on this port and nobody else.
    """

    def __init__(self) -> None:
        self._client = httpx.AsyncClient(
            # Engines speak plain HTTP on this node; a context that trusts nobody also saves loading the CA store.
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            limits=httpx.Limits(max_keepalive_connections=0),
            headers={"accept-encoding": "identity"},
            follow_redirects=False,
            trust_env=False,
        )

    async def send(
        self,
        url: str,
        probe: Probe,
        timeout: timedelta,  # noqa: ASYNC109  # every probe has its own
        key: str | None = None,
    ) -> Answer:
        """Send one probe to the engine at this base URL and read at most `MAX_BODY_BYTES` of the answer.

        `key` goes with it as a bearer token.
        Network trouble, an answer that is no HTTP and a whole exchange longer than `timeout` give status None; a port
        on which nothing listens is told apart.
        """
        seconds = timeout.total_seconds()
        try:
            with anyio.fail_after(seconds):
                return await self._exchange(url.rstrip("/") + probe.path, probe, seconds, key)
        except httpx.ConnectError as error:
            return Answer(None, refused=all(isinstance(each, ConnectionRefusedError) for each in _roots(error)))
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError):
            return Answer(None)

    async def _exchange(self, url: str, probe: Probe, seconds: float, key: str | None) -> Answer:
        async with self._client.stream(
            probe.method,
            url,
            json=None if probe.body is None else dict(probe.body),
            data=None if probe.form is None else dict(probe.form),
            files=None if probe.upload is None else {"file": ("probe.wav", probe.upload)},
            headers={} if key is None else {"authorization": f"Bearer {key}"},
            timeout=seconds,
        ) as response:
            read = bytearray()
            async for chunk in response.aiter_raw():
                read += chunk
                if len(read) >= MAX_BODY_BYTES:
                    break
            return Answer(response.status_code, bytes(read[:MAX_BODY_BYTES]))

    async def aclose(self) -> None:
        """Close what is open."""
        await self._client.aclose()


def _roots(error: BaseException) -> Iterator[BaseException]:
    """What an error began with; of a name with several addresses, what each of them answered."""
    before = error.__cause__ or error.__context__
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _roots(each)
    elif before is not None:
        yield from _roots(before)
    else:
        yield error
