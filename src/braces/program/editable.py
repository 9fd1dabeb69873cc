"""Edits of programs: each method returns a new program, or is part of a transaction."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self, final

from braces.builder.checked_calls import checked_call, checked_methods
from braces.builder.source_line import user_line
from braces.errors import ProgramError
from braces.program.operator_edits import OperatorEdits
from braces.program.searchable import Searchable
from braces.program.structure_edits import StructureEdits
from braces.surgery.edits.core.change import Edit
from braces.surgery.edits.core.session import EditSession
from braces.surgery.matches.match_report import RewriteReport
from braces.surgery.matches.rewriting import rewrite_in_transaction


@final
class Transaction(OperatorEdits, StructureEdits):
    """Several edits of a program that are verified together; see `Program.edit`.

    Attributes:
        report: The report of the last `rewrite`, or `None`.
    """

    report: RewriteReport | None = None

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
                "the transaction has begun already.",
                at=user_line(),
                fix="Begin another: prog.edit().",
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
            if self.report is not None:
                self._result.report = self.report

    def _edited(self, edit: Edit[Any]) -> Self:
        if self._session is None or not self._open:
            raise ProgramError(
                "the transaction is not open.", fix="Write: with prog.edit() as e: ..."
            )
        self._session.apply(edit)
        self.report = self._session.report
        return self

    @checked_call
    def rewrite(self, before: Any, after: Any = None, *, exact: bool = False) -> Self:
        """Replace all matches of a pattern, as `Program.rewrite` does.

        Args:
            before: The pattern, or without `after` a rule.
            after: The replacement.
            exact: Whether the replacement computes the same values.

        Returns:
            The transaction; its `report` has the matches and the near misses, and so has that
            of the result.

        Raises:
            BracesError: As for `Program.rewrite`.

        Example:
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     x = br.data("x", ["n", 4])
            ...     y = br.multiply(br.sigmoid(x), x, name="act")
            >>> with prog.edit() as e:
            ...     _ = e.rewrite(lambda x: x * br.sigmoid(x), br.silu).rename({"act": "silu"})
            >>> e.program["silu"].type, e.report.paths
            ('silu', ('act',))
        """
        return self._edited(lambda p: rewrite_in_transaction(p, before, after, exact=exact))


@checked_methods
class Editable(OperatorEdits, StructureEdits, Searchable):
    """A program that is edited: each method returns a new program."""

    def _edited(self, edit: Edit[Any]) -> Self:
        session = EditSession(self)
        session.apply(edit)
        return session.finish()

    def edit(self) -> Transaction:
        """Begin a transaction of several edits.

        In `with prog.edit() as e:`, the methods of `e` are the edits of programs and `rewrite`,
        and change `e.program`. Types need to fit only at the end, when the result is verified.
        An error leaves `e.program` as the original, and this program is never modified.

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
