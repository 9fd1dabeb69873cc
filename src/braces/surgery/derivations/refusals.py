"""Refusals of changes at places that have been differentiated."""

from __future__ import annotations

from braces.errors import ProgramError


class NotRepeatableError(Exception):
    """A derivative cannot be built again; the text is the reason."""


class DifferentiatedError(ProgramError):
    """A place that has been differentiated."""

    def because(self, reason: str) -> ProgramError:
        """Return the error with the reason for which the derivative cannot be built again."""
        what = f"{self.what.removesuffix('.')}; it cannot be built again: {reason}."
        return ProgramError(what, at=self.at, given=self.given, fix=self.fix)
