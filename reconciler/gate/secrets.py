"""What looks like a secret in plain text: by the form that its issuer gives it, or by the name it stands under.

Words of a kind, never the value: whatever is told about a secret is printed in terminals, CI logs and pull requests.
"""

from __future__ import annotations

import math
import re
from collections import Counter

_KEY_MARK = "[A-Z ]*PRIVATE KEY-----"
_TO_NEXT_MARK = "[^-]*+(?:-(?!----(?:BEGIN|END) )[^-]*+)*+"

_KINDS: tuple[tuple[str, str], ...] = (
    ("a Hugging Face token", r"\bhf_[A-Za-z0-9]{20,}"),
    ("an Anthropic key", r"\bsk-ant-[A-Za-z0-9_-]{20,}"),
    ("an OpenAI key", r"\bsk-[A-Za-z0-9_-]{20,}"),
    ("a GitHub token", r"\b(?:gh[opusr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,})"),
    ("a GitLab token", r"\bglpat-[A-Za-z0-9_-]{20,}"),
    ("an AWS access key", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    ("a Google API key", r"\bAIza[A-Za-z0-9_-]{35}"),
    ("an NVIDIA API key", r"\bnvapi-[A-Za-z0-9_-]{20,}"),
    ("a Slack token", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    ("an npm token", r"\bnpm_[A-Za-z0-9]{36}\b"),
    ("a PyPI token", r"\bpypi-AgE[A-Za-z0-9_-]{20,}"),
    ("a Weights & Biases key", r"\bwandb_v1_[A-Za-z0-9_]{20,}"),
    (
        "a signed web token",
        r"(?<![A-Za-z0-9_-])(?=[A-Za-z0-9_-]*eyJ)[A-Za-z0-9_-]{13,}+\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+",
    ),
    (
        "a private key",
        rf"-----BEGIN {_KEY_MARK}{_TO_NEXT_MARK}(?:-----END {_KEY_MARK})?",
    ),
)
"""How issuers let their secrets be recognised, for scanners such as this one; the first that fits names it.

Each passes a text once, however it was made up: no run is begun again in its middle. A key without an end has all that
follows, to the next one.
"""

_LETTER = re.compile(r"[^\r\n]")
_LITERALS = (
    *("hf_", "sk-", "gho_", "ghp_", "ghr_", "ghs_", "ghu_", "github_pat_", "glpat-", "AKIA", "ASIA", "AIza", "nvapi-"),
    *("xox", "npm_", "pypi-AgE", "wandb_v1_", "eyJ", "PRIVATE KEY-----"),
)
"""A secret of any kind holds one of these. Most texts hold none, and then no pattern is tried at each of their letters,
which takes ten times as long."""
_ANY = re.compile("|".join(pattern for _, pattern in _KINDS), re.DOTALL)
_BY_KIND = tuple((kind, re.compile(pattern, re.DOTALL)) for kind, pattern in _KINDS)

_USER_INFO = re.compile(r"[a-z0-9+.-]://[^\s/@:]*:[^\s/@]+@", re.IGNORECASE)
_SIGNED = re.compile(r"[?&](X-Amz-Signature|Signature|sig|token|access_token|api_key|key)=[^&\s]{8,}", re.IGNORECASE)

_QUOTED = re.compile(
    r"(?P<before>(?<=://)[^\s/@:]*:|[?&](?:X-Amz-Signature|Signature|sig|token|access_token|api_key|key)=)"
    r"(?P<value>[^\s/@&\"',}\]]+)(?P<after>@)?",
    re.IGNORECASE,
)
"""Passwords of addresses, and what follows a signature's name in their query."""
_WORD = r"(?:token|password|passwd|passphrase|secret|credentials?|(?:api|access|private|secret)[_-]?key)"
_BESIDE = re.compile(
    rf"(?i)(?P<before>(?<![\w.-])[\w.-]*{_WORD}(?!\w)[\"']?"
    r"(?:[ \t]*=|[ \t]*:[ \t]+|[ \t]*,\s*|[ \t]*\r?\n[ \t]*-[ \t]+)[\"']?)"
    r"(?P<value>[^\s\"',{}\[\]-][^\s\"',{}\[\]]*)"
)
"""In YAML: the value of a key, or the word after a flag, whose name holds nothing but secrets."""

_SECRET_NAME = re.compile(
    r"(^|[_-])(TOKEN|PASSWORD|PASSWD|PASSPHRASE|SECRET|CREDENTIALS?|API[_-]?KEY|ACCESS[_-]?KEY|PRIVATE[_-]?KEY|SECRET[_-]?KEY)$",
    re.IGNORECASE,
)
"""Names that hold nothing but secrets."""
_KEY_NAME = re.compile(r"(^|[_-])(KEY|PASS|AUTH)$", re.IGNORECASE)
"""Names that may hold one: cache keys and switches are called so too."""

_NO_SECRET = re.compile(
    r"|true|false|yes|no|on|off|none|null|auto|default|empty|\d+(\.\d+)?|\$\{?\w+\}?|[~.]?/\S*|file:\S+", re.IGNORECASE
)
"""Settings, numbers, names of variables, and paths to where the secret lies."""
_LEAST = 4
"""Shorter values are switches."""
_RUN = re.compile(r"[A-Za-z0-9+]{16,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""As long as keys are, without the hyphens that join words; or a UUID."""
_RANDOM_BITS = 3.0
"""Bits a character from which such a run is taken for drawn at random: hex digits have 3.6, a repeated word fewer."""


def kind_of(text: str) -> str | None:
    """Which kind of secret the text holds, by its form; None where it looks like none."""
    if _may_hold_one(text) and _ANY.search(text):
        return next(kind for kind, pattern in _BY_KIND if pattern.search(text))
    return "a password in an address" if "@" in text and _USER_INFO.search(text) else None


def kind_under(name: str, text: str) -> str | None:
    """As `kind_of`, and by the name that the text stands under, as `HF_TOKEN` or `--api-key`."""
    found = kind_of(text)
    if found is not None or _NO_SECRET.fullmatch(text.strip()):
        return found
    if _SECRET_NAME.search(name) and len(text) >= _LEAST:
        return "a secret"
    return "a secret" if _KEY_NAME.search(name) and _is_random(text) else None


def kind_in_address(url: str) -> str | None:
    """As `kind_of`, and a signature or key in the query of an address."""
    return kind_of(url) or ("a signature or key in its query" if _SIGNED.search(url) else None)


def redacted(text: str) -> str:
    """The text with everything blanked that has the form of a secret; its length stays, and its lines stay lines."""
    if _may_hold_one(text):
        text = _ANY.sub(lambda found: _LETTER.sub("*", found[0]), text)
    return _QUOTED.sub(_blanked, text) if "://" in text else text


def redacted_source(text: str) -> str:
    """YAML as it may be shown: as `redacted`, and without the words that stand under names of secrets."""
    return _BESIDE.sub(_blanked, redacted(text))


def _may_hold_one(text: str) -> bool:
    return any(literal in text for literal in _LITERALS)


def _blanked(found: re.Match[str]) -> str:
    """The value blanked; of an address only where a user stands before it, or it is part of a query."""
    before, value, after = found["before"], found["value"], found.groupdict().get("after") or ""
    if before.endswith(":") and not after and found.re is _QUOTED:
        return found[0]  # a port
    return f"{before}{'*' * len(value)}{after}"


def _is_random(text: str) -> bool:
    found = _RUN.search(text)
    if found is None or not any(each.isdigit() for each in found[0]):
        return False
    counts, length = Counter(found[0]), len(found[0])
    return -sum(count / length * math.log2(count / length) for count in counts.values()) >= _RANDOM_BITS
