"""The history of a training: a row of measurements for each epoch, and their curves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from braces.errors import UnknownNameError, suggest
from braces.fitting.steps.position import Row
from braces.hints.objects import Hinted
from braces.notebook import escape_html

_COUNTS = ("epoch", "step")
_SHOWN_ROWS, _SPARK_WIDTH = 12, 40


@dataclass(eq=False)
class History(Hinted):
    """The measurements of a training by epoch.

    `history["loss"]` is a list of one value for each epoch, and `history.rows` has a dict for
    each epoch. `history[-1]` is the dict of the last epoch. `print(history)` and a notebook
    show the curves.

    Attributes:
        rows: A dict for each epoch, with `epoch` and `step` from 1.
        stopped: The reason of an early end; empty without one.

    Example:
        >>> history = History([{"epoch": 1, "step": 9, "loss": 2.0},
        ...                    {"epoch": 2, "step": 18, "loss": 0.5}])
        >>> history["loss"], history.spark("loss")
        ([2.0, 0.5], '█▁')
        >>> history[-1]
        {'epoch': 2, 'step': 18, 'loss': 0.5}
        >>> history
        <History: 2 epochs, loss 2 → 0.5>
    """

    rows: list[Row] = field(default_factory=list[Row])
    stopped: str = ""

    @property
    def names(self) -> list[str]:
        """The names of the measurements."""
        names = dict.fromkeys(name for row in self.rows for name in row)
        return [name for name in names if name not in _COUNTS]

    @overload
    def __getitem__(self, name: str) -> list[Any]: ...
    @overload
    def __getitem__(self, name: int) -> Row: ...
    @overload
    def __getitem__(self, name: slice) -> list[Row]: ...

    def __getitem__(self, name: str | int | slice) -> Any:
        """Return the values of a measurement by epoch; NaN for an epoch without it.

        A number is the position of an epoch: `history[-1]` is the row of the last one.

        Raises:
            UnknownNameError: If no epoch has the measurement.
            IndexError: If there is no epoch at the position.
        """
        if isinstance(name, int | slice):
            return self.rows[name]
        if not any(name in row for row in self.rows):
            raise UnknownNameError(
                f"unknown measurement `{name}`.", fix=suggest(str(name), self.names)
            )
        return [row.get(name, float("nan")) for row in self.rows]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def spark(self, name: str) -> str:
        """Return the curve of a measurement as one line of text."""
        return sparkline(self._curve(name))

    def svg(self, *names: str) -> str:
        """Return curves as one SVG image; by default of all measurements that are numbers.

        Raises:
            UnknownNameError: If a measurement does not exist.
        """
        return curves_svg({name: self._curve(name) for name in names or self._numbers()})

    def _curve(self, name: str) -> list[float]:
        values = self[name]
        if name not in self._numbers():
            raise UnknownNameError(
                f"`{name}` is an array in each epoch, so it has no curve.",
                fix=suggest(name, self._numbers()),
            )
        return [float(value) for value in values]

    def _numbers(self) -> list[str]:
        return [n for n in self.names if all(not isinstance(v, list) for v in self[n])]

    def __repr__(self) -> str:
        spans = (
            f", {name} {curve[0]:.4g} → {curve[-1]:.4g}"
            for name in self._numbers()
            if (curve := self._curve(name))
        )
        epochs = f"{len(self)} epoch{'s' * (len(self) != 1)}"
        return f"<History: {epochs}{''.join(spans)}{self._ending(', ')}>"

    def __str__(self) -> str:
        names = self._numbers()
        width = max(map(len, names), default=0)
        lines = (
            f"{name:{width}}  {sparkline(curve[-_SPARK_WIDTH:])}  {curve[-1]:.4g}"
            for name in names
            if (curve := self._curve(name))
        )
        return "\n".join((*lines, f"{len(self)} epochs{self._ending(', ')}"))

    def _ending(self, before: str) -> str:
        return f"{before}stopped: {self.stopped}" if self.stopped else ""

    def _repr_html_(self) -> str:  # pyright: ignore[reportUnusedFunction] — notebooks use it
        names = self._numbers()
        head = "".join(f"<th>{escape_html(name)}</th>" for name in (*_COUNTS, *names))
        rows = "".join(_html_row(row, names) for row in self.rows[-_SHOWN_ROWS:])
        ending = f"<div>{escape_html(self._ending(''))}</div>"
        return f"<div>{self.svg()}<table><tr>{head}</tr>{rows}</table>{ending}</div>"


def _html_row(row: Row, names: list[str]) -> str:
    nan = float("nan")
    cells = (f"<td>{row.get(name, nan):.4g}</td>" for name in names)
    return f"<tr><td>{row['epoch']}</td><td>{row['step']}</td>{''.join(cells)}</tr>"


# ---- curves ----------------------------------------------------------------------------------

_BARS = "▁▂▃▄▅▆▇█"
_COLORS = ("#0b57d0", "#d9480f", "#2b8a3e", "#862e9c", "#0b7285", "#a61e4d")
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BELOW = 520, 220, 48, 12, 26, 24
_GRID_LINES = 5


def sparkline(values: Sequence[float]) -> str:
    """Return values as bars; a value that is not finite is a space.

    Example:
        >>> sparkline([4.0, 2.0, 1.0, float("nan")])
        '█▃▁ '
    """
    finite = list(filter(math.isfinite, values))
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    scale = (len(_BARS) - 1) / ((high - low) or 1.0)
    return "".join(
        _BARS[int((value - low) * scale)] if math.isfinite(value) else " " for value in values
    )


def curves_svg(curves: Mapping[str, Sequence[float]]) -> str:
    """Return curves by epoch as one SVG image, readable on light and dark ground.

    Values that are not finite are gaps.
    """
    finite = [value for values in curves.values() for value in values if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=1.0)
    epochs = max((len(values) for values in curves.values()), default=0)
    lines = (
        _curve(values, low, high, epochs, _COLORS[i % len(_COLORS)])
        for i, values in enumerate(curves.values())
    )
    content = "".join((*_grid(low, high, epochs), *lines, *_legend(curves)))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" role="img" font-family="sans-serif" font-size="11" '
        f'fill="currentColor"><title>{escape_html(", ".join(curves))}</title>{content}</svg>'
    )


def _x(epoch: int, epochs: int) -> float:
    return _LEFT + (epoch - 1) * (_WIDTH - _LEFT - _RIGHT) / max(1, epochs - 1)


def _y(value: float, low: float, high: float) -> float:
    room = _HEIGHT - _TOP - _BELOW
    return _HEIGHT - _BELOW - (value - low) * room / ((high - low) or 1.0)


def _curve(values: Sequence[float], low: float, high: float, epochs: int, color: str) -> str:
    points = [
        (_x(epoch, epochs), _y(value, low, high)) if math.isfinite(value) else None
        for epoch, value in enumerate(values, start=1)
    ]
    dots = "".join(
        f'<circle cx="{point[0]:.1f}" cy="{point[1]:.1f}" r="2.5" fill="{color}">'
        f"<title>epoch {epoch}: {value:.4g}</title></circle>"
        for epoch, (point, value) in enumerate(zip(points, values, strict=True), start=1)
        if point is not None
    )
    return f'<path fill="none" stroke="{color}" stroke-width="2" d="{_path(points)}"/>{dots}'


def _path(points: Iterable[tuple[float, float] | None]) -> str:
    parts, pen = list[str](), "M"
    for point in points:
        if point is not None:
            parts.append(f"{pen}{point[0]:.1f} {point[1]:.1f}")
        pen = "M" if point is None else "L"
    return "".join(parts)


def _grid(low: float, high: float, epochs: int) -> Iterable[str]:
    for i in range(_GRID_LINES):
        value = low + i * (high - low) / (_GRID_LINES - 1)
        y = _y(value, low, high)
        yield (
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" '
            f'stroke="currentColor" opacity=".15"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>'
        )
    y = _HEIGHT - 8
    yield f'<text x="{_LEFT}" y="{y}">epoch 1</text>'
    if epochs > 1:
        yield f'<text x="{_WIDTH - _RIGHT}" y="{y}" text-anchor="end">{epochs}</text>'


def _legend(names: Iterable[str]) -> Iterable[str]:
    x = float(_LEFT)
    for i, name in enumerate(names):
        color = _COLORS[i % len(_COLORS)]
        yield f'<text x="{x:.0f}" y="14" fill="{color}">● {escape_html(name)}</text>'
        x += 26 + 6.5 * len(name)
