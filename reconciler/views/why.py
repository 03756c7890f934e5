"""The answer of `why MODEL` as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.views.intent import intent_text
from reconciler.views.words import counted, json_text, width

if TYPE_CHECKING:
    from reconciler.domain.why import Why

_SLOTS = 4
"""Slots that are told one by one: a model of a hundred replicas waits for one thing."""


def why_json(answer: Why) -> str:
    """As the published schema says, indented."""
    return json_text(answer.model_dump(mode="json"))


def why_text(answer: Why) -> str:
    """The constraint, the nodes, the slots where they say more, and the ways out."""
    lines = [answer.message]
    names = max((width(each.node) for each in answer.nodes), default=0)
    lines += [f"  {each.node}{' ' * (names - width(each.node))}  {each.message}" for each in answer.nodes]
    if answer.more_nodes:
        lines.append(
            f"  {counted(answer.more_nodes, 'more node')} {'has' if answer.more_nodes == 1 else 'have'} no more"
        )
    if not answer.nodes and not (answer.rule or "").startswith("inventory/"):  # else every slot lacks the same: room
        lines += _slots(answer)
    lines += [f"  {intent_text(intent)}" for intent in answer.intents]
    return "\n".join([*lines, *_ways_out(answer)])


def _slots(answer: Why) -> list[str]:
    told = [each for each in answer.slots if each.message not in answer.message]
    lines = [f"  {each.replica.removeprefix(answer.model)}  {each.message}" for each in told[:_SLOTS]]
    return lines + ([f"  and {counted(len(told) - _SLOTS, 'more')}"] if len(told) > _SLOTS else [])


def _ways_out(answer: Why) -> list[str]:
    if not answer.unblock:
        return [f"  fix: {answer.hint}"] if answer.hint else []
    working = sum(each.works for each in answer.unblock)
    head = "None of these unblocks it (checked):"
    if working:
        head = "This unblocks it (checked):" if len(answer.unblock) == 1 else "Any one of these unblocks it (checked):"
        if working < len(answer.unblock):
            head = "What is marked ✓ unblocks it (checked):"
    wide = max(width(each.change) for each in answer.unblock)
    rows = [
        f"  {number}. {each.change}{' ' * (wide - width(each.change))}  {'✓' if each.works else '✗'} {each.outcome}"
        for number, each in enumerate(answer.unblock, 1)
    ]
    return [head, *rows]
