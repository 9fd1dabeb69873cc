"""The table: on a terminal, as plain text, and as Markdown."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.case import Goal, Row
from benchmarks.peers import cores

HEADER = ("case", "side", "median", "peer", "peer median", "ratio", "goal", "")
LIBRARIES = (
    "jax",
    "jaxlib",
    "numpy",
    "optax",
    "equinox",
    "torch",
    "tensorflow-cpu",
    "tensorflow",
    "keras",
    "paddlepaddle",
    "onnxruntime",
)


# ---- numbers ---------------------------------------------------------------------------------


def shown(value: float, unit: str = "s") -> str:
    """A number with three digits."""
    if unit != "s":
        return f"{value:.4g} {unit}"
    if value == 0 or value >= 1:
        return f"{value:.3g} s"
    return f"{value * 1e3:.3g} ms" if value >= 1e-3 else f"{value * 1e6:.3g} µs"


def times(ratio: float) -> str:
    """A ratio, with at least one nonzero digit."""
    return f"{ratio:.2f}×" if ratio >= 0.1 else f"{ratio:.1g}×"


def goal_text(goal: Goal | None, unit: str) -> str:
    """A goal as text."""
    if goal is None:
        return ""
    if not goal.ratio:
        return f"≤ {shown(goal.extra, unit)}"
    extra = f" + {shown(goal.extra, unit)}" if goal.extra else ""
    return f"≤ {goal.ratio:g}×{extra}"


def cells(row: Row) -> tuple[str, ...]:
    """One line of the table as text."""
    spread = f" ± {row.spread:.0%}" if row.spread else ""
    return (
        row.label,
        row.ours,
        shown(row.time, row.unit) + spread,
        row.other,
        "" if row.other_time is None else shown(row.other_time, row.unit),
        "" if row.ratio is None else times(row.ratio),
        goal_text(row.goal, row.unit),
        {None: "", True: "met", False: "missed"}[row.met],
    )


# ---- the machine -----------------------------------------------------------------------------


def machine() -> list[str]:
    """The date, the kind of machine, and the measured versions."""
    load = f", load {os.getloadavg()[0]:.1f} at the start" if hasattr(os, "getloadavg") else ""
    found = [f"{name} {known}" for name in LIBRARIES if (known := _version(name))]
    return [
        f"{datetime.now(UTC):%Y-%m-%d}, {_processor()}, {cores()} cores{load}",
        f"Python {platform.python_version()}, {', '.join(found)}",
        "Medians of alternating runs; ± is half the interquartile range.",
    ]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


# ---- printing --------------------------------------------------------------------------------


def print_table(title: str, rows: Sequence[Row]) -> None:
    """Print a table: lines and colours on a terminal, plain columns elsewhere."""
    console = Console()
    if console.is_terminal:
        console.print(_rich(title, rows))
    else:
        print(_plain(title, rows), flush=True)


def _rich(title: str, rows: Sequence[Row]) -> Table:
    table = Table(title=title, title_justify="left")
    for name in HEADER:
        table.add_column(
            name, justify="right" if name in ("median", "its median", "ratio") else "left"
        )
    for row in rows:
        style = "red" if row.met is False else None
        table.add_row(*cells(row), style=style)
    return table


def _plain(title: str, rows: Sequence[Row]) -> str:
    lines = [HEADER, *map(cells, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
    return "\n".join([title, *padded, ""])


def markdown(tables: Sequence[tuple[str, Sequence[Row]]], about: Sequence[str]) -> str:
    """All tables as one Markdown table, below the measured machine."""
    lines = [*(f"{line}  " for line in about), ""]
    named = [(f"{title}: {row.label}", row) for title, rows in tables for row in rows]
    return "\n".join([*lines, *table(named)]) + "\n"


def table(rows: Sequence[tuple[str, Row]]) -> list[str]:
    """Rows under their names as lines of Markdown."""
    lines = ["| " + " | ".join(HEADER) + " |", "|---" * len(HEADER) + "|"]
    return lines + [f"| {name} | " + " | ".join(cells(row)[1:]) + " |" for name, row in rows]
