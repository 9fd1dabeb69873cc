"""Human-readable amounts of bytes or operations: `1.2 MFLOP`, and `1.2 MFLOP·batch`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from braces.dims.size import Size, terms_of

_PREFIXES = ("", "k", "M", "G", "T", "P", "E")
_SHOWN = 3
"""Maximum number of printed terms of a sum."""


def format_bytes(size_bytes: float) -> str:
    """Format a number of bytes with a binary unit.

    Example:
        >>> format_bytes(999), format_bytes(1536), format_bytes(2**31)
        ('999 B', '1.5 KiB', '2.0 GiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if round(size_bytes, 1) < 1024:
            return f"{size_bytes:.0f} B" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} TiB"


def amount(size: Size, unit: str) -> str:
    """Format a size in multiples of a unit; a symbolic size as a sum.

    Example:
        >>> from braces.dims import Dim
        >>> amount(999, "B"), amount(43_512, "B"), amount(2_000_000_000, "B")
        ('999 B', '43.5 kB', '2.0 GB')
        >>> b, t = Dim.named("b"), Dim.named("t")
        >>> amount(64 + 2048 * b * b * t, "FLOP")
        '2.0 kFLOP·b²·t + 64 FLOP'
    """
    terms = sorted(terms_of(size), key=lambda term: (-len(term[0]), -term[1]))
    shown = [_term(factor, monomial, unit) for monomial, factor in terms[:_SHOWN]]
    text = " + ".join(shown or [f"0 {unit}"]).replace("+ -", "- ")
    return text + (" + …" if len(terms) > _SHOWN else "")


def _term(factor: int, monomial: Sequence[object], unit: str) -> str:
    powers = Counter(map(str, monomial)).items()
    atoms = [atom + (_superscript(power) if power > 1 else "") for atom, power in powers]
    return "·".join([_with_prefix(factor, unit), *atoms])


def _superscript(power: int) -> str:
    return str(power).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _with_prefix(count: int, unit: str) -> str:
    value, at = float(count), 0
    while round(abs(value), 1) >= 1000 and at + 1 < len(_PREFIXES):
        value, at = value / 1000, at + 1
    return f"{value:.1f} {_PREFIXES[at]}{unit}" if at else f"{count} {unit}"
