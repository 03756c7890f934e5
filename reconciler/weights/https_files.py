"""The file behind an `https:` source, with what lies beside it; its revision is what the server calls it, the ETag."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from reconciler.domain.base import digest
from reconciler.errors import WeightsError
from reconciler.weights.web import Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.domain.lock import LockedFile
    from reconciler.weights.web import Part, Web

_FIRST_BYTES = 2**17
"""Read to learn size and ETag, and kept: most headers of safetensors lie within it. A HEAD request would tell as much,
but signed addresses refuse it."""

_URL = re.compile(r"https?://(?:[^/?#]*@)?(?P<place>[^?#]*)")
_ABSENT = frozenset({403, 404, 410})
"""For a file beside the one that was named: object stores answer 403 where one may not list."""


class HttpsFiles:
    """One file by its URL; another of its directory by that URL with the last part replaced."""

    def __init__(self, url: str, web: Web) -> None:
        self.shown = shown_source(url)
        self.named = unquote(self.shown.rpartition("/")[2])
        self._netloc = self.shown.split("/")[2]
        self.licence = None
        self._url = url
        self._web = web
        self._first: dict[str, Part | None] = {}
        if not self.named:
            raise WeightsError(f"{self.shown} names no file", hint="end the URL with the name of the file")

    def paths(self) -> tuple[str, ...]:
        """Itself: a URL lists nothing."""
        return (self.named,)

    def size(self, path: str) -> int | None:
        """Bytes of a file; None where there is none."""
        part = self._begin(path)
        return None if part is None else part.size

    def read(self, path: str, start: int, length: int) -> bytes:
        """Exactly so many bytes, or up to the end of the file; an error when it changes in between."""
        first = self._begin(path)
        assert first is not None  # noqa: S101  # callers asked for the size
        if start + length <= len(first.data) or len(first.data) == first.size:
            return first.data[start : start + length]
        part = self._web.part(self._address(path), start, length, path)
        if (part.etag, part.size) != (first.etag, first.size):
            raise WeightsError(f"{path} of {self.shown} changed while it was read", hint="run it again")
        return part.data

    def digest(self, path: str) -> str | None:
        """Unknown: it would take a download."""
        del path
        return None

    def revision(self, files: Sequence[LockedFile]) -> str:
        """The ETag, or a digest over those of all parts."""
        etags = [self._etag(file.path) for file in files]
        return etags[0] if len(etags) == 1 else f"etags:{digest(etags)}"

    def _begin(self, path: str) -> Part | None:
        if path not in self._first:
            try:
                part = self._web.part(self._address(path), 0, _FIRST_BYTES, path)
            except Refused as refused:
                if path == self.named or refused.status not in _ABSENT:
                    raise self._refused(path, refused) from refused
                self._first[path] = None
                return None
            if part.size is None:
                raise WeightsError(f"{self._netloc} does not say how large {path} is")
            self._first[path] = part
        return self._first[path]

    def _etag(self, path: str) -> str:
        part = self._begin(path)
        etag = part.etag if part else None
        if etag is None:
            raise WeightsError(
                f"{self._netloc} sends no ETag for {path}, so a change could not be seen",
                hint="put the file on a hub, or on the node with source: file:/PATH",
            )
        return f"etag:{etag.replace(chr(34), '')}"

    def _address(self, path: str) -> str:
        """A file beside the named one has its directory, and not its query: that may be a signature of the one."""
        if path == self.named:
            return self._url
        found = _URL.match(self._url)
        assert found is not None  # noqa: S101  # it is a URL
        return f"{found[0].rpartition('/')[0]}/{quote(path)}"

    def _refused(self, path: str, refused: Refused) -> WeightsError:
        if refused.status in {404, 410}:
            return WeightsError(f"{self._netloc} has no {path} ({refused.status})", hint="check the URL")
        if refused.status in {401, 403}:
            hint = "https: sources are read without credentials: use a hub with HF_TOKEN, or a file on the node"
            return WeightsError(f"{refused.message} at {path}", hint=hint)
        return refused


def shown_source(source: str) -> str:
    """A source as people may read it: of a URL without user, password, query and fragment, which may be secret."""
    found = _URL.match(source)
    return f"{source.partition(':')[0]}://{found['place']}" if found else source
