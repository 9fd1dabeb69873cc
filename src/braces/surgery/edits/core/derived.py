"""Places that have been differentiated: an edit there needs the forward part alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from braces.builder.builder import Builder
from braces.errors import ProgramError
from braces.passes.probing.derived_places import DerivedPlaces
from braces.surgery.derivations.refusals import DifferentiatedError
from braces.surgery.edits.core.taken_part import require_whole, taken_part
from braces.surgery.handles import Handle


def refuse_derived(
    program: Builder, operators: Iterable[Handle], label: str, exact: bool
) -> None:
    """Raise an error if a derivative relies on the values of an operator, unless `exact`.

    Raises:
        DifferentiatedError: If an operator has been differentiated: the session takes the
            derived part away and repeats the edit.
        ProgramError: If an operator has a user-written gradient.
    """
    if exact:
        require_whole(program, label)
        return
    part = taken_part(program)
    derived = DerivedPlaces.of(program)
    if part is not None:
        derived = DerivedPlaces.of_definition(program.definition, (), part.outside)
    for handle in operators:
        _refuse_custom(derived, handle, label)
        top = handle.chain[0][0] if handle.chain else handle.name
        if top in derived.main:
            name = derived.main[top]
            raise DifferentiatedError(
                f"`{handle.path}` is already differentiated; its gradient would remain that "
                "of the old values.",
                at=label,
                given=f"the derivative of `{name}`" if name else None,
                fix="Edit br.prune(prog, [loss]) and differentiate the new program, or pass "
                "exact=True if the values stay the same.",
            )


def _refuse_custom(derived: DerivedPlaces, handle: Handle, label: str) -> None:
    for path in _paths(handle):
        if path in derived.custom:
            raise ProgramError(
                "the edit would invalidate the user-written gradient "
                f"`{derived.custom[path]}`.",
                at=f"{label}, at `{handle.path}`",
                fix="Edit the function of br.custom_gradient, or pass exact=True if the values "
                "stay the same.",
            )


def _paths(handle: Handle) -> Iterator[str]:
    """Yield the path of an operator, and those of the operators around it."""
    yield handle.path
    yield from (outer.path_of(owner.name) for outer, owner, _ in handle.place.around())


def affected_by(variables: Iterable[Handle]) -> list[Handle]:
    """Return the operators that bind or read variables: those that another value concerns."""
    makers = [maker for var in variables if (maker := var.maker) is not None]
    return [*makers, *(user for var in variables for user in var.users)]
