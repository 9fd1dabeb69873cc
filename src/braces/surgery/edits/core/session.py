"""Edits in order, as one transaction: types are inferred after each, and checked at the end."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Generic, TypeVar

from braces.builder.builder import Builder
from braces.builder.user_functions import located
from braces.errors import BracesError
from braces.ir.paths import OPERATOR, Located, locate_again
from braces.ir.places import Place
from braces.ir.records import Op, ProgramDef
from braces.passes.core.initial_values import separate_startup, transform
from braces.passes.verifier.program import verify
from braces.surgery.derivations.forward_part import check_derivations
from braces.surgery.edits.core.change import Address, Edit
from braces.surgery.edits.core.inference import Inference
from braces.surgery.edits.core.taken_part import Version

P = TypeVar("P", bound=Builder)


class EditSession(Generic[P]):
    """Edits of a program.

    An operator that does not fit its operands after an edit may fit again after a later one. If
    it still does not at the end, the error names the edit and the operator.

    Where an edit concerns a differentiated place, the derived part is taken away. It is built
    again at the end, or before an edit that needs it.

    Attributes:
        report: The report of the last rewriting.
    """

    def __init__(self, program: P) -> None:
        self._version = Version(program)
        self._labels: list[str] = []
        self._unfit: dict[Address, tuple[str, BracesError]] = {}
        self.report: Any = None

    def apply(self, edit: Edit[P]) -> None:
        """Apply one edit; an error leaves the session as it was."""
        before = self._version.program.definition.lineage
        version, change = self._version.edited(edit, self._misfit)
        lineage = change.program.definition.lineage
        unfit = {
            lineage.follow(before, (OPERATOR, *at))[1:]: entry
            for at, entry in self._unfit.items()
        }
        inference = Inference(change.variables, {*change.operators, *unfit})
        definition = inference.run(change.program.definition)
        if not change.followed:
            definition = check_derivations(version.program, definition)
        program = with_definition(change.program, definition)
        separate_startup(program, version.program)
        self._unfit = {
            at: (unfit[at][0] if at in unfit else change.label, error)
            for at, error in inference.errors.items()
        }
        self._labels.append(change.label)
        self.report = change.report or self.report
        self._version = version.then(program, change)

    @property
    def program(self) -> P:
        """The program after the edits so far: the whole one, if its types fit."""
        if not self._misfit:
            with suppress(BracesError):
                self._version = self._version.restored()
        return self._version.program

    @property
    def _misfit(self) -> str:
        """The error of an operator that does not fit its operands; empty if all fit."""
        return next((error.what for _, error in self._unfit.values()), "")

    def finish(self) -> P:
        """Return the program after verification.

        A derivative that does not fit is built again.

        Raises:
            BracesError: If an operator does not fit its operands; the message names it and the
                edit that changed them.
        """
        try:
            return self._verified()
        except BracesError:
            version = self._version
            self._version = version.forward()
            if self._version is version:
                raise
            return self._verified()

    def _verified(self) -> P:
        main = Place.main(self._version.program.definition)
        for at, (label, error) in self._unfit.items():
            place = locate_again(main, (OPERATOR, *at))
            if place is not None:
                raise _described(error, label, place)
        with located("; ".join(dict.fromkeys(self._labels[-3:]))):
            self._version = self._version.restored()
            verify(self._version.program)
        return self._version.program


def with_definition(program: P, definition: ProgramDef) -> P:
    """Return a program with another definition, and with the rest of another program."""
    return transform(program, lambda _: definition)


def _described(error: BracesError, label: str, place: Located) -> BracesError:
    assert isinstance(place.content, Op)
    error.at = f"{label}: `{place.path}`, {place.content.describe()}"
    return error
