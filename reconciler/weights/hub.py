"""The files of a `hf:` source: a repository of a model hub at one commit.

huggingface_hub says where the hub is (HF_ENDPOINT), as whom we ask (HF_TOKEN or its login) and whether we may
(HF_HUB_OFFLINE), so that mirrors and logins work as people know them. The requests go through `web`, with its bounds
and its counting: the package's own client waits without end and reads answers of any length.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from reconciler.errors import WeightsError
from reconciler.weights.plain_json import read_object
from reconciler.weights.web import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reconciler.domain.lock import LockedFile
    from reconciler.domain.source import HubSource
    from reconciler.weights.web import Web

MOST_ANSWER_BYTES = 32 * 2**20
"""Of what a hub says of a repository: about 300 bytes a file."""

_COMMIT = re.compile(r"[0-9a-f]{40}")
_FORBIDDEN = 403
_NOT_FOUND = frozenset({401, 404})
"""Without a token a hub answers 401 also where there is nothing, so as not to tell what is private."""


@dataclass(frozen=True, slots=True)
class Hub:
    """Where the hub is and as whom we ask."""

    endpoint: str
    headers: Mapping[str, str]

    @property
    def netloc(self) -> str:
        """How people are told of it."""
        return urlsplit(self.endpoint).netloc.rpartition("@")[2]

    @property
    def signed_in(self) -> bool:
        """Whether a token is sent."""
        return bool(self.headers)


def hub_of_environment() -> Hub:
    """The hub that huggingface_hub's own variables and login say; WeightsError without that package."""
    try:
        from huggingface_hub import constants, get_token  # noqa: PLC0415  # optional: the message names the extra
    except ImportError as error:
        raise WeightsError(
            "hf: sources need the huggingface_hub package", hint="pip install 'reconciler[hub]'"
        ) from error
    except ValueError as error:  # it takes HF_ENDPOINT and its other variables apart when it is imported
        raise WeightsError(f"huggingface_hub cannot be used: {error}", hint="check HF_ENDPOINT") from error
    endpoint = constants.ENDPOINT
    if constants.HF_HUB_OFFLINE:
        raise WeightsError(
            f"{urlsplit(endpoint).netloc} is not asked: HF_HUB_OFFLINE is set", hint="unset HF_HUB_OFFLINE"
        )
    token = None if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else get_token()
    if token is None:
        return Hub(endpoint, {})
    if not (token.isascii() and token.isprintable()):
        raise WeightsError("the hub token holds characters that no token has", hint="check HF_TOKEN, or log in again")
    return Hub(endpoint, {"Authorization": f"Bearer {token}"})


class HubFiles:
    """One repository at one commit; whatever happens to its branches, its files stay these."""

    def __init__(self, source: HubSource, revision: str | None, shown: str, hub: Hub, web: Web) -> None:
        """Ask the hub what the revision is and which files it has: one request."""
        self.shown = shown
        self.named = source.path
        self._repo = source.repo
        self._hub = hub
        self._web = web
        told = self._ask(revision)
        sha, siblings = told.get("sha"), told.get("siblings")
        if not isinstance(sha, str) or not _COMMIT.fullmatch(sha) or not isinstance(siblings, list):
            raise WeightsError(
                f"{hub.netloc} does not answer as a model hub does", hint="check HF_ENDPOINT: it names the hub"
            )
        self.commit = sha
        rows = [row for row in siblings if isinstance(row, dict) and isinstance(row.get("rfilename"), str)]
        self._rows: dict[str, dict[str, Any]] = {row["rfilename"]: row for row in rows}
        self.licence = _licence(told)

    def paths(self) -> tuple[str, ...]:
        """All files of the repository."""
        return tuple(sorted(self._rows))

    def size(self, path: str) -> int | None:
        """Bytes of a file; None where there is none. A mirror that does not list sizes is asked for each."""
        row = self._rows.get(path)
        if row is None:
            return None
        if type(row.get("size")) is not int:
            row["size"] = self._part(path, 0, 1)[1]
        size: int = row["size"]
        return size

    def read(self, path: str, start: int, length: int) -> bytes:
        """Exactly so many bytes, or up to the end of the file."""
        data, size = self._part(path, start, length)
        if size != self.size(path):
            raise WeightsError(
                f"{self._hub.netloc} lists {path} of {self._repo} with {self.size(path):,} bytes and sends {size:,}",
                hint="a mirror that copied only pointers of large files answers so; ask another one",
            )
        return data

    def digest(self, path: str) -> str | None:
        """The sha256 of a large file, which the hub lists."""
        large = self._rows[path].get("lfs")
        found = large.get("sha256") if isinstance(large, dict) else None
        return found if isinstance(found, str) else None

    def revision(self, files: Sequence[LockedFile]) -> str:
        """The commit."""
        del files
        return self.commit

    def _part(self, path: str, start: int, length: int) -> tuple[bytes, int]:
        url = f"{self._hub.endpoint}/{self._repo}/resolve/{self.commit}/{quote(path)}"
        try:
            part = self._web.part(url, start, length, path, self._hub.headers)
        except Refused as refused:
            raise self._refused(refused, f"{path} of {self._repo}", None) from refused
        if part.size is None:
            raise WeightsError(f"{self._hub.netloc} does not say how large {path} of {self._repo} is")
        return part.data, part.size

    def _ask(self, revision: str | None) -> dict[str, Any]:
        at = f"/revision/{quote(revision, safe='')}" if revision is not None else ""
        url = f"{self._hub.endpoint}/api/models/{self._repo}{at}?blobs=true"
        try:
            data = self._web.whole(url, MOST_ANSWER_BYTES, self._repo, self._hub.headers)
        except Refused as refused:
            raise self._refused(refused, self._repo, revision) from refused
        return read_object(data, f"what {self._hub.netloc} says of {self._repo}")

    def _refused(self, refused: Refused, what: str, revision: str | None) -> WeightsError:
        """Why a hub does not let us in, by its own codes and by the status."""
        netloc = self._hub.netloc
        if refused.code == "GatedRepo":
            page = f"{netloc}/{self._repo}"
            then = "with the account of your token" if self._hub.signed_in else "then set HF_TOKEN to a token of yours"
            return WeightsError(
                f"{self._repo} is gated: {netloc} gives {what} only to those it was granted to",
                hint=f"ask for access at {page}, {then}",
            )
        if refused.code == "RevisionNotFound":
            return WeightsError(f"{self._repo} has no revision {revision} on {netloc}", hint="check what follows the @")
        if refused.code == "EntryNotFound":
            return WeightsError(f"{netloc} lists {what} and does not have it", hint="run it again")
        if refused.status == _FORBIDDEN or "credentials" in (refused.told or ""):
            hint = (
                "check what your token may read, and whether it has expired" if self._hub.signed_in else "set HF_TOKEN"
            )
            return WeightsError(f"{netloc} does not let us read {what} ({refused.status})", hint=hint)
        if refused.status in _NOT_FOUND:
            how = "use a token that may read it" if self._hub.signed_in else "set HF_TOKEN"
            return WeightsError(
                f"{netloc} knows no model repository {self._repo}, or it is private",
                hint=f"check the spelling; for a private one {how}",
            )
        if refused.hint and not self._hub.signed_in:
            return WeightsError(refused.message, hint=f"{refused.hint}; with HF_TOKEN set more are allowed")
        return refused


def _licence(told: Mapping[str, Any]) -> str | None:
    """What the model card's front matter says, else the hub's tag; `other` gives way to the licence's own name."""
    card = told.get("cardData")
    card = card if isinstance(card, dict) else {}
    stated = card.get("license")
    stated = stated[0] if isinstance(stated, list) and stated else stated
    if stated == "other" and isinstance(card.get("license_name"), str):
        stated = card["license_name"]
    if not isinstance(stated, str):
        tags = told.get("tags")
        tags = [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
        stated = next((tag.removeprefix("license:") for tag in tags if tag.startswith("license:")), None)
    return stated or None
