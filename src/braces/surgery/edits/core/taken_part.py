"""Derived parts of programs, taken away while their forward parts are edited.

    loss: f32[] = mean(x=h)                loss: f32[] = mean(x=h)
    w_grad: f32[4] = …              ->     … edits …                 ->   both parts again
    update w = w_1

An edit of a differentiated place needs the forward part alone. An edit of names, or of a value
of the derived part, needs the whole program. A session changes from one to the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from braces.builder.builder import Builder
from braces.builder.user_functions import located
from braces.errors import BracesError, ProgramError
from braces.surgery.derivations.forward_part import ForwardPart, forward_part
from braces.surgery.derivations.refusals import DifferentiatedError, NotRepeatableError
from braces.surgery.derivations.repeated_calls import repeat_calls
from braces.surgery.edits.core.change import Edit, EditResult
from braces.surgery.handles import Handle

P = TypeVar("P", bound=Builder)


class WholeNeededError(ProgramError):
    """An edit that concerns names or derivatives, while the derived part is taken away."""


@dataclass(frozen=True)
class Version(Generic[P]):
    """A program while it is edited: the whole, or its forward part.

    Attributes:
        program: The program, or the forward part.
        part: The forward part as it was taken; `None` for the whole program.
        readers: Main variables that readers of others read now, by the names of these.
    """

    program: P
    part: ForwardPart[P] | None = None
    readers: Mapping[str, str] = field(default_factory=dict[str, str])

    def edited(self, edit: Edit[P], misfit: str) -> tuple[Version[P], EditResult[P]]:
        """Return the result of an edit, and the version to which it was applied.

        Args:
            edit: The edit.
            misfit: The error of an operator whose types do not fit yet; empty for none.

        Raises:
            BracesError: If the edit fails, or the derivative cannot be built again.
        """
        version = self
        if self.part is not None:
            try:
                return self, edit(self.program)
            except WholeNeededError as cause:
                version = self._restored_for(cause, misfit)
        try:
            return version, edit(version.program)
        except DifferentiatedError as refusal:
            forward = version.without_derivatives(refusal)
        try:
            return forward, edit(forward.program)
        except WholeNeededError as cause:
            raise _mixed(cause) from None

    def then(self, program: P, change: EditResult[P]) -> Version[P]:
        """Return the version after an edit."""
        readers = {old: change.readers.get(new, new) for old, new in self.readers.items()}
        new = replace(self, program=program, readers=dict(change.readers) | readers)
        return new.marked() if self.part is not None else Version(program)

    def marked(self) -> Version[P]:
        """Record the forward part with the program, where edits find it."""
        self.program.built[ForwardPart] = self.part
        return self

    def without_derivatives(self, refusal: DifferentiatedError) -> Version[P]:
        """Return the forward part.

        Raises:
            ProgramError: If the derivative cannot be built again.
        """
        try:
            return self._forward()
        except NotRepeatableError as reason:
            raise refusal.because(str(reason)) from None

    def forward(self) -> Version[P]:
        """Return the forward part of a whole program; the same version if there is none."""
        try:
            return self if self.part is not None else self._forward()
        except NotRepeatableError:
            return self

    def _forward(self) -> Version[P]:
        part = forward_part(self.program)
        return Version(part.program, part).marked()

    def restored(self) -> Version[P]:
        """Return the whole program; the same version if it is the whole.

        Raises:
            BracesError: If a call fails, or a derivative that is read does not exist any more.
        """
        if self.part is None:
            return self
        copy = self.program.like(self.program.definition)
        copy.startup = self.program.startup.like(self.program.startup.definition)
        with located("while the edited program is differentiated again"):
            return Version(repeat_calls(self.part, copy, self.readers))

    def _restored_for(self, cause: WholeNeededError, misfit: str) -> Version[P]:
        try:
            if not misfit:
                return self.restored()
        except BracesError as error:
            misfit = error.what
        raise ProgramError(
            f"{cause.what.removesuffix('.')}; the derivative does not exist here.",
            at=cause.at,
            given=f"it cannot be built again before all edits are made: {misfit}",
            fix="Edit names and derivatives in another transaction.",
        )


def taken_part(program: Builder) -> ForwardPart[Builder] | None:
    """Return the forward part that edits of a program concern; `None` for a whole program."""
    part: ForwardPart[Builder] | None = program.built.get(ForwardPart)
    return part


def require_whole(program: Builder, label: str) -> None:
    """Raise an error if the derived part of a program is taken away."""
    if taken_part(program) is not None:
        raise WholeNeededError("the edit concerns the derivative of the program.", at=label)


def check_existing(program: Builder, handles: Iterable[Handle]) -> None:
    """Raise an error if a handle is that of a derivative that is taken away."""
    part = taken_part(program)
    outside = {} if part is None else part.outside
    for handle in handles:
        if handle.name in outside and not handle.chain and handle.maker is None:
            raise WholeNeededError(f"`{handle.path}` is a derivative.")


def _mixed(cause: WholeNeededError) -> ProgramError:
    return ProgramError(
        f"{cause.what.removesuffix('.')}, while the derivative is built again.",
        at=cause.at,
        given="the edit concerns differentiated places, and others of their derivative or that "
        "no result needs",
        fix="Select places of the forward part, as those of br.prune(prog, [loss]), and edit "
        "others afterwards.",
    )
