"""Text tables with aligned columns, and human-readable numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from braces.dims import amount


def columns(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> Iterator[str]:
    r"""Yield rows as lines with aligned cells.

    Args:
        rows: Cells; all rows have the same number.
        right: Right-aligned columns.

    Example:
        >>> print(*columns([["w", "12"], ["bias", "3"]], right=[1]), sep="\n")
        w     12
        bias   3
    """
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()


def in_bytes(count: int) -> str:
    """Format a number of bytes.

    Example:
        >>> in_bytes(999), in_bytes(43_512), in_bytes(2_000_000_000)
        ('999 B', '43.5 kB', '2.0 GB')
    """
    return amount(count, "B")


def in_time(seconds: float) -> str:
    """Format a time with three digits.

    Example:
        >>> in_time(0.0000021), in_time(0.01234), in_time(75.0)
        ('2.10 us', '12.3 ms', '75.0 s')
    """
    for unit, least in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= least:
            number = seconds / least
            return f"{number:.{2 if number < 10 else 1 if number < 100 else 0}f} {unit}"
    return f"{seconds * 1e9:.0f} ns"
