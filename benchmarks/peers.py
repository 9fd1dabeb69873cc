"""Libraries to compare with that need not be there."""

from __future__ import annotations

from importlib.util import find_spec

OPTIONAL = ("equinox", "torch")


def installed(name: str) -> bool:
    """Whether a library can be imported."""
    return find_spec(name) is not None
