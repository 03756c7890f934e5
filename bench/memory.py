"""How close sizing comes to what engines printed: `memory.py [FOLDER]`.

Without FOLDER the rows of `data/memory.json`; with it those of FOLDER/memory.jsonl, made compact the same way, and the
rows of FOLDER/oracle.jsonl, which are vLLM's own answers. Rows of one project's sweep and all others are told apart.
Every miss is listed. Prints figures and never fails.
"""  # noqa: INP001  # a script, not part of a package

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from memory_rows import FILE, compact
from memory_scores import Asked, Errors, answers

from reconciler.sizing.sized import FitVerdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

write = sys.stdout.write
Measure = "Callable[[Asked], float | None]"


def main(folder: Path | None) -> None:
    """All tables."""
    data = json.loads(FILE.read_text("utf-8")) if folder is None else compact(folder)
    asked = answers(data)
    fair = [each for each in asked if each.row["left_out"] is None]
    write(f"{len(asked)} rows with a shape, {len(asked) - len(fair)} of them not scored\n")
    weights(fair)
    tokens(fair)
    budget(fair)
    verdicts(fair)
    write("\nNot scored\n")
    for each in asked:
        if each.row["left_out"] is not None:
            write(f"  {line(each)}: {each.row['left_out']}; {each.sized.verdict}\n")


def table(title: str, groups: dict[str, Iterable[Asked]], measure: Callable[[Asked], float | None], unit: str) -> None:
    """Median, nine in ten, worst and lean of each group."""
    write(f"\n{title} ({unit}): median / 90 % / worst (rows), lean\n")
    scale = 100 if unit == "%" else 1
    for name, rows in groups.items():
        errors = Errors.of(rows, measure)
        if errors.found:
            figures = " / ".join(f"{scale * each:.2f}" for each in (errors.median, errors.nine_in_ten, errors.worst))
            write(f"  {name:<28} {figures} ({len(errors.found)}), {scale * errors.lean:+.2f}\n")


def misses(rows: Iterable[Asked], measure: Callable[[Asked], float | None], limit: float) -> None:
    """Rows beyond a limit."""
    for error, each in sorted(Errors.of(rows, measure).found, key=lambda pair: -abs(pair[0])):
        if abs(error) > limit:
            write(f"    {line(each)}: {error:+.4f}\n")


def line(each: Asked) -> str:
    """One row in short."""
    row, ask = each.row, each.row["ask"]
    width = f"tp {ask['tensor']}" + (f" pp {ask['pipeline']}" if ask["pipeline"] > 1 else "")
    return f"{row['id']} {row['engine']} {row['version'] or '?'} {row['config']} {width} {row['gpu'] or '?'}"


def split(rows: list[Asked]) -> dict[str, Iterable[Asked]]:
    """All, the sweep by whether constants were fitted to the half a row is in, and the others."""
    return {
        "all": rows,
        "sweep": [each for each in rows if each.row["sweep"]],
        "sweep, half fitted to": [each for each in rows if each.fitted],
        "sweep, the rest": [each for each in rows if each.row["sweep"] and not each.fitted],
        "other sources": [each for each in rows if not each.row["sweep"]],
    }


def weights(rows: list[Asked]) -> None:
    """Weights a card after loading."""
    plain = [each for each in rows if not each.row["quantized"]]
    packed = [each for each in rows if each.row["quantized"]]
    table("Weights a card, 16 bit", split(plain), lambda each: each.weights_error, "%")
    misses(plain, lambda each: each.weights_error, 0.015)
    known = [each for each in plain if each.files is not None]
    table("  the same where files are known", split(known), lambda each: each.weights_error, "%")
    table("  files / width, as most tools", split(known), lambda each: each.files_error, "%")
    table("Weights a card, quantized", split(packed), lambda each: each.weights_error, "%")
    misses(packed, lambda each: each.weights_error, 0.05)


def tokens(rows: list[Asked]) -> None:
    """Tokens in the cache that was printed."""
    table("Tokens from the printed cache", split(rows), lambda each: each.tokens_error, "%")
    misses(rows, lambda each: each.tokens_error, 0.015)


def budget(rows: list[Asked]) -> None:
    """The cache from card, share and length."""
    known = [each for each in rows if each.row["outcome"] == "ok" and each.row["gpu"] and "share" in each.row["ask"]]
    table("Cache a card, share and card stated", split(known), lambda each: each.budget_gib, "GiB")
    misses(known, lambda each: each.budget_gib, 1.0)
    table("  share x card - files, no overhead", split(known), lambda each: each.files_budget_gib, "GiB")
    assumed = [each for each in rows if each.row["gpu"] and "share" not in each.row["ask"]]
    table("Cache a card, default share", {"all": assumed}, lambda each: each.budget_gib, "GiB")
    misses(assumed, lambda each: each.budget_gib, 1.0)
    table("Tokens, share and card stated", split(known), lambda each: each.budget_tokens_error, "%")
    misses(known, lambda each: each.budget_tokens_error, 0.1)
    widths = sorted({each.width for each in known})
    by_width = {f"width {width}": [each for each in known if each.width == width] for width in widths}
    table("Cache a card by width", by_width, lambda each: each.budget_gib, "GiB")
    versions = sorted({f"{each.row['engine']} {each.row['version']}" for each in known})
    by_version: dict[str, Iterable[Asked]] = {
        name: [each for each in known if f"{each.row['engine']} {each.row['version']}" == name] for name in versions
    }
    table("Cache a card by version", by_version, lambda each: each.budget_gib, "GiB")


def verdicts(rows: list[Asked]) -> None:
    """What started, what was refused, what ran out of memory."""
    write("\nVerdicts: rows by outcome and verdict, and how many of them bring a remark\n")
    for outcome in ("ok", "refused", "oom"):
        some = [each for each in rows if each.row["outcome"] == outcome and each.row["gpu"]]
        counts = {verdict: sum(each.sized.verdict is verdict for each in some) for verdict in FitVerdict}
        said = ", ".join(f"{verdict} {count}" for verdict, count in counts.items())
        write(f"  {outcome:<8} {len(some)}: {said}; remarks on {sum(each.warned for each in some)}\n")
        for each in some:
            if each.warned == (outcome == "ok"):
                why = "; ".join(remark.message for remark in each.sized.remarks)
                write(f"    {line(each)}: {each.sized.verdict}. {why}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
