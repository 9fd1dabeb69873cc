"""A report in a folder: a Markdown file and a picture for each measured benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.case import Row
from benchmarks.peers import installed
from benchmarks.report import goal_text, shown, table, times


def write(
    folder: Path, name: str, title: str, rows: Sequence[Row], about: Sequence[str]
) -> None:
    """Write `NAME.md`, and `NAME.svg` if Matplotlib is installed; `about` is the machine."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"# {name}: {title}", "", *(f"- {line}" for line in about), ""]
    if _drawn(folder / f"{name}.svg", title, rows, about):
        lines += [f"![{title}]({name}.svg)", ""]
    for family in dict.fromkeys(row.family for row in rows if row.family):
        lines += [f"## {family}", "", *matrix([r for r in rows if r.family == family]), ""]
    lines += ["## All measurements", "", *table([(row.label, row) for row in rows])]
    (folder / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _drawn(path: Path, title: str, rows: Sequence[Row], about: Sequence[str]) -> bool:
    if not installed("matplotlib"):
        return False
    from benchmarks import plots

    return plots.draw(title, "\n".join(about[:2]), rows, path)


def matrix(rows: Sequence[Row]) -> list[str]:
    """Cases as rows, peers as columns: the time of Braces, and its ratio to each peer.

    A number in bold misses its goal, which is in the first row.
    """
    ours, others = rows[0].ours, list(dict.fromkeys(row.other for row in rows))
    goals = [next((row.goal for row in rows if row.other == name), None) for name in others]
    asked = [["goal", "", *(goal_text(goal, "s") for goal in goals)]] if any(goals) else []
    found = {(row.what, row.other): row for row in rows}
    lines = [
        ["", ours, *(f"÷ {name}" for name in others)],
        ["---"] * (len(others) + 2),
        *asked,
    ]
    for what in dict.fromkeys(row.what for row in rows):
        ratios = [_ratio(found.get((what, other))) for other in others]
        row = next(row for row in rows if row.what == what)
        lines.append([what, shown(row.time) if row.unit == "s" else "", *ratios])
    return ["| " + " | ".join(line) + " |" for line in lines]


def _ratio(row: Row | None) -> str:
    if row is None or row.ratio is None:
        return ""
    text = times(row.ratio)
    return f"**{text}**" if row.met is False else text
