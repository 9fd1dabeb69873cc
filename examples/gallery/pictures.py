"""Pictures of the gallery as SVG, readable on light and on dark pages.

Path("loss.svg").write_text(line_chart({"train": losses}, x="epoch", y="loss"))
Path("digits.svg").write_text(image_grid(images, columns=8))
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

GREY = "#7a7a7a"
COLOURS = ("#3584c9", "#e0741b", "#2e9f6b", "#a067c9", "#c94f5c")
"""Colours with enough contrast to white and to black."""

SHADES = 8
"""The number of steps from black to white in a grid of images."""
WIDTH, HEIGHT, LEFT, BELOW, RIGHT = 400, 230, 46, 38, 16


def line_chart(
    curves: Mapping[str, Any],
    *,
    x: str,
    y: str,
    log: bool = False,
    points: tuple[str, ...] = (),
) -> str:
    """Return a chart of several curves with a legend.

    Args:
        curves: Values by name, or pairs of positions and values.
        x: The title of the horizontal axis.
        y: The title of the vertical axis.
        log: Whether the vertical axis is logarithmic.
        points: Names of curves that are drawn as points; those of `hares, measured` have the
            colour of the curve `hares`.
    """
    pairs = {name: _as_pair(values) for name, values in curves.items()}
    across = _Axis.of([at for at, _ in pairs.values()], LEFT, WIDTH - RIGHT, log=False)
    top = 12 + 16 * (len(pairs) > 1)
    up = _Axis.of([values for _, values in pairs.values()], HEIGHT - BELOW, top, log=log)
    parts = [_grid(across, up, x, y)]
    colours = _colours(list(pairs))
    for name, (at, values) in pairs.items():
        draw = _dots if name in points else _polyline
        parts.append(draw(across.places(at), up.places(values), colours[name]))
    if len(pairs) > 1:
        parts.append(_legend(colours, points))
    return _document(WIDTH, HEIGHT, "".join(parts))


def image_grid(images: np.ndarray, *, columns: int, scale: int = 4, gap: int = 1) -> str:
    """Return a grid of grey images; [count, height, width], from 0, black, to 1, white."""
    count, height, width = images.shape
    lines = -(-count // columns)
    sheet = np.full((lines * (height + gap) - gap, columns * (width + gap) - gap), 0.5)
    for i, image in enumerate(images):
        top, left = i // columns * (height + gap), i % columns * (width + gap)
        sheet[top : top + height, left : left + width] = image
    cells = f'<g transform="scale({scale})" shape-rendering="crispEdges">{_cells(sheet)}</g>'
    return _document(sheet.shape[1] * scale, sheet.shape[0] * scale, cells)


def _cells(sheet: np.ndarray) -> str:
    """A path for each grey level, of the horizontal runs of its cells."""
    levels = np.rint(np.clip(sheet, 0, 1) * SHADES).astype(int)
    paths: dict[int, list[str]] = {level: [] for level in range(SHADES)}  # the ground is white
    for y, row in enumerate(levels.tolist()):
        x = 0
        for level, run in groupby(row):
            wide = len(list(run))
            if level < SHADES:
                paths[level].append(f"M{x} {y}h{wide}")
            x += wide
    high, wide = sheet.shape
    lines = "".join(
        f'<path stroke="#{3 * f"{255 * level // SHADES:02x}"}" d="{"".join(runs)}"/>'
        for level, runs in paths.items()
        if runs
    )
    ground = f'<path fill="#fff" d="M0 0h{wide}v{high}H0"/>'
    return f'{ground}<g transform="translate(0 .5)">{lines}</g>'


def stacked(pictures: Sequence[str], gap: int = 12) -> str:
    """Return one picture of several, above each other."""
    sizes = [re.findall(r'(?:width|height)="(\d+)"', picture)[:2] for picture in pictures]
    parts, top, wide = list[str](), 0, max(int(width) for width, _ in sizes)
    for picture, (width, height) in zip(pictures, sizes, strict=True):
        parts.append(
            picture.replace("<svg ", f'<svg x="{(wide - int(width)) // 2}" y="{top}" ', 1)
        )
        top += int(height) + gap
    return _document(wide, top - gap, "".join(parts))


# ---- parts -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Axis:
    """A scale from values to positions.

    Attributes:
        low: The least value.
        high: The largest value.
        start: The position of the least value.
        end: The position of the largest value.
        log: Whether the scale is logarithmic.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool

    @classmethod
    def of(cls, values: list[np.ndarray], start: float, end: float, *, log: bool) -> _Axis:
        """The scale that covers all finite values, with a margin on a vertical axis."""
        every = np.concatenate(values)
        every = every[np.isfinite(every)]
        low, high = (float(f(every)) if len(every) else 0.0 for f in (np.min, np.max))
        if low == high:
            low, high = low - 0.5, high + 0.5
        return cls(low, high, start, end, log)

    def place(self, value: float) -> float:
        """The position of a value."""
        low, high, at = (math.log(v) if self.log else v for v in (self.low, self.high, value))
        return self.start + (at - low) / (high - low) * (self.end - self.start)

    def places(self, values: np.ndarray) -> list[float]:
        """The positions of values; NaN for those that are not finite."""
        return [self.place(v) if math.isfinite(v) else math.nan for v in values.tolist()]

    def ticks(self) -> list[float]:
        """Round values between the least and the largest."""
        if self.log:
            tens = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            steps = (1, 2, 5) if len(tens) <= 4 else (1,)
            found = [m * 10.0**k for k in tens for m in steps]
        else:
            step = _round_step((self.high - self.low) / 5)
            first = math.ceil(self.low / step)
            found = [k * step for k in range(first, math.floor(self.high / step + 1e-9) + 1)]
        return [
            tick for tick in found if self.low * (1 - 1e-9) <= tick <= self.high or not self.log
        ]


def _round_step(rough: float) -> float:
    ten = 10.0 ** math.floor(math.log10(rough))
    return next(m * ten for m in (1, 2, 5, 10) if m * ten >= rough * (1 - 1e-9))


def _colours(names: Sequence[str]) -> dict[str, str]:
    """The colour of each curve; `hares, measured` has that of `hares`, if there is one."""
    leading = {name: name.split(", ")[0] for name in names}
    own = [name for name in names if leading[name] == name or leading[name] not in names]
    colours = dict(zip(own, COLOURS, strict=False))
    return {name: colours.get(name) or colours[leading[name]] for name in names}


def _as_pair(values: Any) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(values, tuple):
        at, values = values
        return np.asarray(at, float), np.asarray(values, float)
    return np.arange(1.0, len(values) + 1), np.asarray(values, float)


def _polyline(xs: Sequence[float], ys: Sequence[float], colour: str) -> str:
    parts, pen = list[str](), "M"
    for x, y in zip(xs, ys, strict=True):
        if math.isnan(y):
            pen = "M"
            continue
        parts.append(f"{pen}{x:.1f} {y:.1f}")
        pen = "L"
    return f'<path d="{"".join(parts)}" fill="none" stroke="{colour}" stroke-width="1.8"/>'


def _dots(xs: Sequence[float], ys: Sequence[float], colour: str) -> str:
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6"/>'
        for x, y in zip(xs, ys, strict=True)
        if not math.isnan(y)
    )
    return f'<g fill="{colour}">{dots}</g>'


def _grid(across: _Axis, up: _Axis, x: str, y: str) -> str:
    parts = list[str]()
    for tick in up.ticks():
        at = up.place(tick)
        parts.append(f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" {_HAIR}/>')
        parts.append(_text(LEFT - 5, at + 4, f"{tick:.4g}", "end"))
    for tick in across.ticks():
        parts.append(_text(across.place(tick), HEIGHT - BELOW + 15, f"{tick:.6g}", "middle"))
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(_text(middle, HEIGHT - 7, x, "middle"))
    high = (up.start + up.end) / 2
    turned = f' transform="rotate(-90 11 {high:.1f})"'
    parts.append(_text(11, high, y, "middle", turned))
    return "".join(parts)


def _legend(colours: Mapping[str, str], points: Sequence[str]) -> str:
    parts, left = list[str](), float(LEFT)
    for name, colour in colours.items():
        if name in points:
            parts.append(f'<circle cx="{left + 9:.0f}" cy="8" r="2.6" fill="{colour}"/>')
        else:
            parts.append(f'<rect x="{left:.0f}" y="6" width="14" height="4" fill="{colour}"/>')
        parts.append(_text(left + 18, 12, name, "start"))
        left += 32 + 5.8 * len(name)
    return "".join(parts)


_HAIR = f'stroke="{GREY}" stroke-opacity="0.25" fill="none"'


def _text(x: float, y: float, text: str, anchor: str, extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{escape(text)}</text>'


def _document(width: int, height: int, content: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="system-ui,sans-serif" font-size="11" '
        f'fill="{GREY}" role="img">{content}</svg>\n'
    )
