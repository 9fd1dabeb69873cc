"""Pictures of a table: ratios as dots with their goals, or times as lines along an axis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, NullLocator

from benchmarks.case import Row
from benchmarks.report import shown

COLOURS = [
    "#332288",
    "#CC6677",
    "#117733",
    "#88CCEE",
    "#882255",
    "#DDCC77",
    "#44AA99",
    "#AA4499",
    "#999933",
    "#777777",
]
"""By Paul Tol: the colour-blind can tell them apart, and each has a marker of its own."""
MARKERS = "osD^vPX*<>"
INK, FAINT, BETTER = "#222222", "#dddddd", "#edf5ed"
STYLE = {
    "axes.edgecolor": "#999999",
    "axes.labelcolor": INK,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "figure.facecolor": "white",  # opaque, since some pages are dark
    "font.size": 9.5,
    "svg.hashsalt": "braces",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}
COARSE, FINE = (1.0, 2.0, 5.0), (1.0, 1.2, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
"""Numbers with a tick in each power of ten, where there are several of these and one."""

Looks: TypeAlias = Mapping[str, Mapping[str, Any]]


def draw(title: str, about: str, rows: Sequence[Row], path: Path) -> bool:
    """Write a picture of a table; return whether it shows anything."""
    lines = [row for row in rows if row.at is not None]
    dots = [row for row in rows if row.ratio is not None]
    if not lines and not dots:
        return False
    with mpl.rc_context(STYLE):
        figure = _lines(lines, about) if lines else _dots(dots, about)
        figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold")
        undated = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(path, bbox_inches="tight", pad_inches=0.25, metadata=undated)
    return True


# ---- ratios ----------------------------------------------------------------------------------


def _dots(rows: Sequence[Row], about: str) -> Figure:
    families, looks = _families(rows), _looks(row.other for row in rows)
    columns = min(2, len(families))
    lines = -(-len(families) // columns)
    most = max(len(_places(found)) for found in families.values())
    figure = Figure(figsize=(11, lines * (0.8 + 0.5 * most) + 1.2), layout="constrained")
    axes = list(figure.subplots(lines, columns, squeeze=False, sharex=True).flat)
    for ax, (family, found) in zip(axes, families.items(), strict=False):
        ax.set_title(family, loc="left")
        _dot_panel(ax, found, looks)
    _ratio_axes(axes, [row.ratio or 1.0 for row in rows])
    for ax in axes[-columns:]:
        ax.set_xlabel("Braces ÷ the other")
    if len({tuple(_places(found)) for found in families.values()}) == 1:
        for ax in axes[1::columns] if columns > 1 else ():
            ax.tick_params(labelleft=False)
    for ax in axes[len(families) :]:
        ax.set_visible(False)
    better = Patch(color=BETTER, label="Braces takes less")
    goal = Line2D([], [], color=INK, marker="|", linestyle="", markeredgewidth=2, markersize=11)
    goal.set_label("a goal, where it is not 1×")
    _legend(figure, axes, about, [better, goal])
    return figure


def _places(rows: Sequence[Row]) -> dict[tuple[str, str], int]:
    """The vertical position of each line of dots."""
    return {key: at for at, key in enumerate(dict.fromkeys((r.what, r.ours) for r in rows))}


def _dot_panel(ax: Any, rows: Sequence[Row], looks: Looks) -> None:
    """A line for each case, a dot for each peer, and a tick in its colour for a goal."""
    places, alone = _places(rows), len({row.ours for row in rows}) == 1
    apart = {name: (i + 0.5) / len(looks) * 0.7 - 0.35 for i, name in enumerate(looks)}
    ax.axvspan(1e-9, 1, color=BETTER, zorder=0)
    ax.axvline(1, color=INK, linewidth=1)
    for name, look in looks.items():
        found = [row for row in rows if row.other == name]
        heights = [places[row.what, row.ours] + apart[name] for row in found]
        ratios = [row.ratio for row in found]
        ax.plot(ratios, heights, linestyle="", markersize=6, label=name, **look)
        for row, height in zip(found, heights, strict=True):
            if row.goal and row.goal.ratio not in (0, 1):
                goal = {**look, "marker": "|"}
                ax.plot(row.goal.ratio, height, markersize=11, markeredgewidth=2, **goal)
    ax.set_yticks(range(len(places)), [w if alone else f"{w}, {o}" for w, o in places])
    ax.set_ylim(len(places) - 0.5, -0.5)
    for between in range(1, len(places)):
        ax.axhline(between - 0.5, color=FAINT, linewidth=0.7)
    ax.tick_params(left=False)
    ax.grid(axis="x", color=FAINT, linewidth=0.7)
    ax.set_axisbelow(True)


def _ratio_axes(axes: Sequence[Any], ratios: Sequence[float]) -> None:
    """One scale for all panels, which includes 1."""
    low, high = min(0.8, min(ratios) / 1.3), max(1.25, max(ratios) * 1.3)
    for ax in axes:
        ax.set_xscale("log")
        ax.set_xlim(low, high)
        _ticks(ax.xaxis, low, high, lambda value, _: f"{value:g}×")


# ---- times along an axis ---------------------------------------------------------------------


def _lines(rows: Sequence[Row], about: str) -> Figure:
    families = _families(rows)
    looks = _looks([*(row.ours for row in rows), *(row.other for row in rows)])
    figure = Figure(figsize=(4.2 * len(families), 4.6), layout="constrained")
    axes = list(figure.subplots(1, len(families), squeeze=False).flat)
    for ax, (family, found) in zip(axes, families.items(), strict=True):
        what, _, along = family.rpartition(", ")
        ax.set_title(what, loc="left")
        ax.set_xlabel(along.removeprefix("by "))
        _line_panel(ax, found, looks)
    axes[0].set_ylabel("time of a training step")
    _legend(figure, axes, about)
    return figure


def _line_panel(ax: Any, rows: Sequence[Row], looks: Looks) -> None:
    """A line for each side, with logarithmic axes for a large range."""
    times: dict[str, dict[float, float]] = {}
    for row in rows:
        for name, time in ((row.ours, row.time), (row.other, row.other_time)):
            if row.at is not None and time is not None:
                times.setdefault(name, {})[row.at] = time
    for name, found in times.items():
        ours = name == rows[0].ours
        ax.plot(
            *zip(*sorted(found.items()), strict=True),
            label=name,
            linewidth=2.6 if ours else 1.4,
            markersize=6,
            zorder=3 if ours else 2,
            **looks[name],
        )
    places = sorted({row.at for row in rows if row.at is not None})
    if places[-1] > 8 * places[0]:
        ax.set_xscale("log")
    ax.set_xticks(places, [f"{place:,g}" for place in places])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_yscale("log")
    _ticks(ax.yaxis, *ax.get_ylim(), lambda value, _: shown(value))
    ax.grid(color=FAINT, linewidth=0.7)
    ax.set_axisbelow(True)


# ---- parts -----------------------------------------------------------------------------------


def _families(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.family, []).append(row)
    return found


def _looks(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """A colour and a marker for each name, in the order in which they appear."""
    known = [name for name in dict.fromkeys(names) if name]
    return {
        name: {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)]}
        for i, name in enumerate(known)
    }


def _ticks(axis: Any, low: float, high: float, text: Any) -> None:
    axis.set_major_locator(LogLocator(10, FINE if high < 8 * low else COARSE, numticks=20))
    axis.set_major_formatter(text)
    axis.set_minor_locator(NullLocator())


def _legend(figure: Figure, axes: Sequence[Any], about: str, more: Sequence[Any] = ()) -> None:
    """One legend for all panels, below them, with the machine."""
    found: dict[str, Any] = {handle.get_label(): handle for handle in more}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    figure.legend(
        found.values(),
        found.keys(),
        loc="outside lower left",
        ncols=min(len(found), 4),
        frameon=False,
        title=about,
        title_fontsize=8,
        alignment="left",
    )
