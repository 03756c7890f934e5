"""Licences that exclude uses which most fleets are for, by the names that hubs give them."""

from __future__ import annotations

import re

_NON_COMMERCIAL = re.compile(r"(^|[-_ .])(nc|non[-_ ]?commercial)([-_ .]|$)", re.IGNORECASE)
"""cc-by-nc-4.0, flux-1-dev-non-commercial-license and their like."""
_RESEARCH = re.compile(r"(^|[-_ .])(research|academic|evaluation)([-_ .]|$)", re.IGNORECASE)
"""mistral-ai-research-licence, qwen-research, apple-amlr's long name and their like."""
_RESEARCH_BY_NAME = frozenset({"apple-amlr", "mrl", "mnpl"})
"""Identifiers of hubs that do not say it: Apple's and Mistral's research and non-production licences."""
_UNKNOWN = frozenset({"unknown", "unlicensed"})


def restricted(licence: str) -> str | None:
    """Why a licence is to be looked at, as the end of a sentence; None where its name says nothing of the kind."""
    name = licence.strip().lower()
    if _NON_COMMERCIAL.search(name):
        return f"has the licence {licence}, which excludes commercial use"
    if _RESEARCH.search(name) or name in _RESEARCH_BY_NAME:
        return f"has the licence {licence}, which allows research or evaluation only"
    return f"has a licence that is stated as {licence}" if name in _UNKNOWN else None
