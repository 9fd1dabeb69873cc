"""Training curves as SVG, one for each measure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from braces.notebook import escape_html

Curve: TypeAlias = "Mapping[str, Sequence[float]]"
"""The values of each measure, as `loss`, by epoch."""

WIDTH, HEIGHT, LEFT, BELOW = 336, 120, 38, 16
TOP = RIGHT = 8


def curve_figures(curve: Curve | None) -> str:
    """Return a figure for each measure of a curve; empty without any.

    Example:
        >>> curve_figures({"loss": [2.0, 1.0]}).count("<circle")
        2
    """
    return "".join(_figure(name, values) for name, values in (curve or {}).items())


def _figure(name: str, values: Sequence[float]) -> str:
    last = f"{values[-1]:.4g} after epoch {len(values)}" if len(values) else "no epoch yet"
    return figure(name, f'<span class="last">{last}</span>', curve_svg(values))


def figure(name: str, told: str, svg: str) -> str:
    """Return a figure with a name and a description."""
    caption = f"<figcaption>{escape_html(name)} {told}</figcaption>"
    return f'<figure class="curve">{caption}{svg}</figure>'


def curve_svg(values: Sequence[float]) -> str:
    """Return one line with a point and tooltip per epoch, and gaps at infinities."""
    finite = [value for value in values if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=1.0)
    positions = _places(values, low, high)
    points = [(place, values[i]) for i, place in enumerate(positions) if place is not None]
    circles = (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5"{_end(i == len(points) - 1)}>'
        f"<title>epoch {positions.index((x, y)) + 1}: {value:.4g}</title></circle>"
        for i, ((x, y), value) in enumerate(points)
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{_axes(low, high, len(values))}'
        f'<path d="{_path(positions)}"/>{"".join(circles)}</svg>'
    )


def _end(is_last: bool) -> str:
    return ' class="end"' if is_last else ""


def _places(
    values: Sequence[float], low: float, high: float
) -> list[tuple[float, float] | None]:
    """Return the position of each value."""
    span = (high - low) or 1.0
    step = (WIDTH - LEFT - RIGHT) / max(len(values) - 1, 1)
    room = HEIGHT - TOP - BELOW
    return [
        (LEFT + i * step, TOP + (high - value) / span * room) if math.isfinite(value) else None
        for i, value in enumerate(values)
    ]


def _path(places: Sequence[tuple[float, float] | None]) -> str:
    parts, pen = list[str](), "M"
    for place in places:
        if place is None:
            pen = "M"
            continue
        parts.append(f"{pen}{place[0]:.1f} {place[1]:.1f}")
        pen = "L"
    return "".join(parts)


def _axes(low: float, high: float, epochs: int) -> str:
    bottom = HEIGHT - BELOW
    lines = "".join(
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>' for y in (TOP, bottom)
    )
    texts = (
        (LEFT - 4, TOP + 4, "end", f"{high:.3g}"),
        (LEFT - 4, bottom + 3, "end", f"{low:.3g}"),
        (LEFT, HEIGHT - 3, "start", "epoch 1"),
        (WIDTH - RIGHT, HEIGHT - 3, "end", str(epochs) if epochs > 1 else ""),
    )
    return lines + labels(texts)


def labels(texts: Iterable[tuple[float, float, str, str]]) -> str:
    """Return axis labels, each with a position, an anchor and a text."""
    return "".join(
        f'<text x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>'
        for x, y, anchor, text in texts
    )
