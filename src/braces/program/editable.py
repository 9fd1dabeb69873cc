"""Edits of programs: each method returns a new program, or is part of a transaction."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self, final

from braces.builder.checked_calls import checked_methods
from braces.errors import ProgramError
from braces.program.operator_edits import OperatorEdits
from braces.program.searchable import Searchable
from braces.program.structure_edits import StructureEdits
from braces.surgery.edits.core.change import Edit
from braces.surgery.edits.core.session import EditSession


@final
class Transaction(OperatorEdits, StructureEdits):
    """Several edits of a program that are verified together; see `Program.edit`."""

    def __init__(self, program: Any) -> None:
        self._result = program
        self._session: EditSession[Any] | None = None
        self._open = False

    @property
    def program(self) -> Any:
        """The program after the edits so far, and after the `with` the verified result.

        While types do not fit, a differentiated program lacks its derivatives.
        """
        if self._session is None or not self._open:
            return self._result
        return self._session.program

    def __enter__(self) -> Self:
        if self._session is not None:
            raise ProgramError(
                "the transaction has begun already.", fix="Begin another: prog.edit()."
            )
        self._session = EditSession(self._result)
        self._open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        assert self._session is not None
        self._open = False
        if kind is None:
            self._result = self._session.finish()

    def _edited(self, edit: Edit[Any]) -> Self:
        if self._session is None or not self._open:
            raise ProgramError(
                "the transaction is not open.", fix="Write: with prog.edit() as e: ..."
            )
        self._session.apply(edit)
        return self


@checked_methods
class Editable(OperatorEdits, StructureEdits, Searchable):
    """A program that is edited: each method returns a new program."""

    def _edited(self, edit: Edit[Any]) -> Self:
        session = EditSession(self)
        session.apply(edit)
        return session.finish()

    def edit(self) -> Transaction:
        """Begin a transaction of several edits.

        In `with prog.edit() as e:`, the methods of `e` are those of programs and change
        `e.program`. Types need to fit only at the end, when the result is verified. An error
        leaves `e.program` as the original, and this program is never modified.

        Raises:
            BracesError: If an operator does not fit its operands at the end; the message names
                the operator and the edit.

        Example:
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     y = br.softmax(br.data("x", ["n", 4]), axis=1, name="y")
            >>> with prog.edit() as e:
            ...     _ = e.retype({"x": "f32[n]"}).set_attrs("y", axis=0)
            ...     _ = e.rename({"y": "probs"})
            >>> e.program["probs"].outputs[0].type
            f32[n]
        """
        return Transaction(self)
