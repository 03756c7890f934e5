"""What external models answered, in lines for `apply` and `run`: how many are ready, and why the others are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.views.words import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.external import ExternalAnswer


def external_lines(answers: Mapping[str, ExternalAnswer]) -> list[str]:
    """One line for all, then one for each that waits; none where there is no external model."""
    if not answers:
        return []
    ready = sum(1 for answer in answers.values() if answer.is_ready)
    first = f"{ready} of {counted(len(answers), 'external model')} ready"
    return [first, *(f"  {_line(name, answers[name])}" for name in sorted(answers) if not answers[name].is_ready)]


def changed_lines(before: Mapping[str, ExternalAnswer], after: Mapping[str, ExternalAnswer]) -> list[str]:
    """One line for each model whose answer is another than before; all of them together the first time."""
    if not before:
        return external_lines(after)
    return [f"external model {_line(name, after[name])}" for name in sorted(after) if before.get(name) != after[name]]


def _line(name: str, answer: ExternalAnswer) -> str:
    return f"{name} {'ready' if answer.is_ready else 'waits'}: {answer.message}"
