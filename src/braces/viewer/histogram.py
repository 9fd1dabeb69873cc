"""Histograms of values as SVG, one for each variable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from braces.notebook import escape_html
from braces.report import in_bytes
from braces.scope.value_summary import Summary
from braces.viewer.training_curve import BELOW, HEIGHT, LEFT, RIGHT, TOP, WIDTH, figure, labels

BINS = 40
MOST = 200
"""The largest number of histograms on a page; the others are only counted."""


def histogram_figures(title: str, values: Mapping[str, Any]) -> str:
    """Return a box with a figure for each value in order; empty without values.

    Example:
        >>> histogram_figures("Parameters", {"w": [1.0, 2.0]}).count("<figure")
        1
    """
    if not values:
        return ""
    shown = list(values.items())[:MOST]
    more = f"<p>… and {len(values) - MOST:,} more</p>" if len(values) > MOST else ""
    figures = "".join(_figure(name, np.asarray(value)) for name, value in shown)
    summary = f"<summary>{escape_html(title)} ({len(values):,})</summary>"
    return f'<details class="values">{summary}<div>{figures}{more}</div></details>'


def _figure(name: str, value: Any) -> str:
    summary = Summary.of(value)
    state = "last" if summary.is_well else "last ill"
    shape = f"{value.dtype}[{','.join(map(str, value.shape))}]  {in_bytes(value.nbytes)}"
    description = f'<span class="{state}">{shape}<br>{summary}</span>'
    return figure(name, description, histogram_svg(summary))


def histogram_svg(summary: Summary) -> str:
    """Return the bars of a histogram of the finite numbers, with counts as tooltips."""
    if not summary.finite.size:
        return ""
    counts, edges = bin_counts(summary)
    width, room = (WIDTH - LEFT - RIGHT) / len(counts), HEIGHT - TOP - BELOW
    bars = "".join(
        f'<rect x="{LEFT + i * width:.1f}" y="{HEIGHT - BELOW - height:.1f}" '
        f'width="{width * 0.9:.1f}" height="{height:.1f}"><title>{count:,} from '
        f"{edges[i]:.4g} to {edges[i + 1]:.4g}</title></rect>"
        for i, count in enumerate(counts.tolist())
        if (height := room * count / counts.max())
    )
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{_axes(counts, edges)}{bars}</svg>'


def bin_counts(summary: Summary, bins: int = BINS) -> tuple[Any, Any]:
    """Return counts and edges of bins; very large numbers are scaled to avoid overflow."""
    finite, factor = summary.finite, 1.0
    if np.abs(finite).max() > np.finfo(np.float64).max / 4:
        finite, factor = finite / 4, 4.0
    try:
        counts, edges = np.histogram(finite, bins)
    except ValueError:  # too close together for that many bins
        counts, edges = np.histogram(finite, 1)
    with np.errstate(over="ignore"):
        return counts, edges * factor


def _axes(counts: Any, edges: Any) -> str:
    bottom = HEIGHT - BELOW
    line = f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}"/>'
    texts = (
        (LEFT - 4, TOP + 4, "end", f"{counts.max():,}"),
        (LEFT, HEIGHT - 3, "start", f"{edges[0]:.3g}"),
        (WIDTH - RIGHT, HEIGHT - 3, "end", f"{edges[-1]:.3g}"),
    )
    return line + labels(texts)
