"""A timetable as text: what happens when, where, and how many replicas of the model serve from then on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.views.placement import clock_text, place_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.domain.outlook import TimetableRow

HEAD = "timetable (simulated: nothing fails, and starts take as long as the last ones or as their weights tell)"


def timetable_lines(rows: Sequence[TimetableRow]) -> list[str]:
    """One line an event. There is at least one."""
    cells = [
        (
            clock_text(row.seconds),
            row.replica,
            place_text(row.placement),
            row.event,
            f"{row.serving} {'serves' if row.serving == 1 else 'serve'}",
        )
        for row in rows
    ]
    widths = [max(len(each[column]) for each in cells) for column in range(5)]
    lines = [
        f"  {when:>{widths[0]}}  {slot:<{widths[1]}}  {place:<{widths[2]}}  {event:<{widths[3]}}  {serving}"
        for when, slot, place, event, serving in cells
    ]
    return [HEAD, *(line.rstrip() for line in lines)]
