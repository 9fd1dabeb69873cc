"""Copies of scopes, so that two runs draw the same random numbers."""

from __future__ import annotations

import braces as br


def copy_of(scope: br.Scope) -> br.Scope:
    """A scope with the same values."""
    other = br.Scope()
    other.update(scope.state_dict())
    return other
