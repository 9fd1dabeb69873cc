"""Edits of operators, as methods of programs and of transactions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Self

from braces.builder.checked_calls import checked_methods
from braces.surgery.edits import attributes, insertions, removal
from braces.surgery.edits.core.address import At
from braces.surgery.edits.core.change import Edit


@checked_methods
class OperatorEdits:
    """Edits of a program; each is verified.

    A place is given as a path, a pattern with `*`, a variable, a handle or a selection of
    `prog.find`. Functions of users receive variables, build with them as in `with prog:`, and
    return variables. A keyword-only parameter `place` receives the place: `place["w"]` is a
    visible variable.
    """

    @abstractmethod
    def _edited(self, edit: Edit[Any]) -> Self:
        """Return the result of one edit."""

    # ---- operators ---------------------------------------------------------------------------

    def insert_after(
        self, at: At, function: Callable[..., Any], *, retype: bool = False, exact: bool = False
    ) -> Self:
        """Insert the results of a function after values; their readers read the new values.

        A value keeps its name. All operators that read it, results and updates of it read the
        new value. Data, parameters and arguments of blocks are values, too.

        Args:
            at: Operators or variables. For an operator, the function receives all outputs.
            function: From the values to as many new values.
            retype: Whether the types of the new values may differ; the types of later
                operators are then inferred again.
            exact: Whether the new values are equal. Derivatives then stay as they are; without
                it, the calls that built them are repeated on the edited program.

        Returns:
            The new program; in a transaction, the transaction.

        Raises:
            ProgramError: If the place has a user-written gradient, or has been differentiated
                and the call cannot be repeated.
            ShapeError, DTypeError: If a type differs, or a later operator does not fit.
            UnknownNameError: If the place does not exist.

        Example:
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     x = br.data("x", ["steps", 8])
            ...     y = br.scan(lambda h, row: (br.tanh(h + row, name="act"),) * 2, x[0], x)
            >>> new = prog.insert_after("loop_0/body/act", lambda v: br.dropout(v, 0.1))
            >>> [op.type for op in new["loop_0/body"].body.ops]
            ['add', 'tanh', 'dropout']
        """
        return self._edited(
            lambda p: insertions.insert_after(p, at, function, retype=retype, exact=exact)
        )

    def insert_before(
        self,
        at: At,
        function: Callable[..., Any],
        *,
        operand: str | None = None,
        retype: bool = False,
        exact: bool = False,
    ) -> Self:
        """Insert the results of a function before operators, which read the new values.

        Other readers of the operands are not changed.

        Args:
            at: Operators.
            function: From the operands of the operator to as many new ones.
            operand: The name of a slot or of a variable, if the function receives only this.
            retype: Whether the types of the new values may differ, as for `insert_after`.
            exact: Whether the new values are equal, as for `insert_after`.

        Returns:
            The new program; in a transaction, the transaction.

        Raises:
            UnknownNameError: If the operator or the operand does not exist.
            BracesError: As for `insert_after`.

        Example:
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     y = br.matmul(br.data("x", ["n", 4]), br.parameter("w", [4, 2]), name="y")
            >>> new = prog.insert_before("y", br.round, operand="w")
            >>> [op.type for op in new.block(0).ops]
            ['round', 'matmul']
        """
        return self._edited(
            lambda p: insertions.insert_before(
                p, at, function, operand=operand, retype=retype, exact=exact
            )
        )

    def replace(
        self, at: At, function: Callable[..., Any], *, retype: bool = False, exact: bool = False
    ) -> Self:
        """Replace operators by results of a function of their operands.

        The new values have the names of the old ones. `prog.rewrite` replaces patterns.

        Args:
            at: Operators.
            function: From the operands to a variable for each output.
            retype: Whether the types of the new values may differ, as for `insert_after`.
            exact: Whether the new values are equal, as for `insert_after`.

        Returns:
            The new program; in a transaction, the transaction.

        Raises:
            BracesError: As for `insert_after`.

        Example:
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     y = br.relu(br.data("x", ["n", 4]), name="act")
            >>> new = prog.replace("act", br.gelu)
            >>> new["act"].type
            'gelu'
        """
        return self._edited(
            lambda p: insertions.replace(p, at, function, retype=retype, exact=exact)
        )

    def remove(self, at: At, *, by: Any = None, exact: bool = False) -> Self:
        """Remove operators that nothing reads, or whose readers read another variable.

        Data, parameters and states that nothing reads can be removed, too. All of a selection
        is removed together.

        Args:
            at: Operators or declared variables.
            by: The variable that readers read instead: the name of an operand slot, as `x`, or
                of a visible variable; a sequence for several outputs.
            exact: Whether the new values are equal, as for `insert_after`.

        Returns:
            The new program; in a transaction, the transaction.

        Raises:
            ProgramError: If something reads a removed variable; the message names the reader.
            UnknownNameError: If the operator, or the variable of `by`, does not exist.
            BracesError: As for `insert_after`.

        Example:
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     y = br.tanh(br.relu(br.data("x", ["n", 4]), name="h"))
            >>> new = prog.remove("h", by="x")
            >>> [op.type for op in new.block(0).ops]
            ['tanh']
        """
        return self._edited(lambda p: removal.remove(p, at, by=by, exact=exact))

    # ---- attributes --------------------------------------------------------------------------

    def set_attrs(self, at: At, *, exact: bool = False, **attrs: Any) -> Self:
        """Set attributes of operators; the types of later operators are inferred again.

        Args:
            at: Operators.
            exact: Whether the new values are equal, as for `insert_after`.
            **attrs: The attributes, as `axis=1`.

        Returns:
            The new program; in a transaction, the transaction.

        Raises:
            ProgramError: If an attribute is unknown, has another kind, or is a block.
            BracesError: As for `insert_after`.

        Example:
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     y = br.softmax(br.data("x", ["n", 4]), name="y")
            >>> prog.set_attrs("y", axis=0)["y"].attrs["axis"]
            0
        """
        return self._edited(lambda p: attributes.set_attrs(p, at, attrs, exact=exact))

    def set_constant(
        self, at: At, value: Any, *, retype: bool = False, exact: bool = False
    ) -> Self:
        """Set the value of constants.

        Args:
            at: Constants.
            value: A number or an array of the same shape.
            retype: Whether shape and dtype may differ, as for `insert_after`.
            exact: Whether the new values are equal, as for `insert_after`.

        Returns:
            The new program; in a transaction, the transaction.

        Raises:
            ShapeError, DTypeError: If shape or dtype differ.
            ProgramError: If an operator is not a constant.
            BracesError: As for `insert_after`.

        Example:
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     y = br.data("x", ["n"]) * 2.0
            >>> prog.set_constant("constant_0", 3.0)["constant_0"].attrs["value"].array()
            array(3., dtype=float32)
        """
        return self._edited(
            lambda p: attributes.set_constant(p, at, value, retype=retype, exact=exact)
        )
