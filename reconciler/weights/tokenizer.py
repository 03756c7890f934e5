"""What a checkpoint says beside its weights: the tokenizer's longest input and the chat template."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reconciler.domain.base import canonical_json
from reconciler.weights.files import beside, read_json, read_whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.weights.files import Files

TOKENIZER_FILES = ("tokenizer_config.json", "chat_template.jinja", "chat_template.json")


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """Both None where the source does not say."""

    model_max_length: float | None
    chat_template_sha256: str | None


def read_tokenizer(files: Files) -> Tokenizer:
    """Read it from the files that transformers takes it from, which take precedence in its order.

    A template of its own (chat_template.jinja) wins over the one in tokenizer_config.json; processors of older
    checkpoints have chat_template.json. Several named templates are one digest over all of them.
    """
    config_file, own_file, older_file = (beside(files, name) for name in TOKENIZER_FILES)
    config = read_json(files, config_file) or {}
    own = read_whole(files, own_file)
    if own is not None:
        template: str | None = hashlib.sha256(own).hexdigest()
    else:
        template = _digest(config) or _digest(read_json(files, older_file) or {})
    longest = config.get("model_max_length")
    is_number = isinstance(longest, int | float) and not isinstance(longest, bool)
    return Tokenizer(float(longest) if is_number and longest is not None else None, template)


def _digest(config: Mapping[str, Any]) -> str | None:
    template = config.get("chat_template")
    if isinstance(template, str):
        return hashlib.sha256(template.encode()).hexdigest()
    return hashlib.sha256(canonical_json(template)).hexdigest() if isinstance(template, list) and template else None
