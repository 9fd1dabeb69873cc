"""Switch: cases selected by an index or by conditions, for a whole batch or per element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from braces.builder.append import as_var, emit
from braces.builder.source_line import with_user_line
from braces.builder.var import Var, tensor_type
from braces.dtypes import is_integer
from braces.errors import ProgramError, ShapeError
from braces.frontend.control.construct import add_location
from braces.frontend.control.if_else import Branch, Branches, as_predicate


class Switch(Branches):
    """A conditional with several blocks; make it with `create_switch`.

    Example:
        >>> import braces as br
        >>> isinstance(br.create_switch(), br.Switch)
        True
    """

    _offered = ("case", "default", "pass_through")
    what = "switch"

    def __init__(self, index: Var | None = None) -> None:
        super().__init__()
        self.index = index
        self.has_default = False
        if index is not None:
            self._choose_by(index)

    def _choose_by(self, predicate: Var) -> None:
        self.predicate, self.row_wise = predicate, predicate.ndim == 1

    @with_user_line
    def case(self, when: Any) -> Branch:
        """Open the block for this index, or for this condition if it is the first to hold.

        Args:
            when: An integer if the switch has an index. Otherwise a bool scalar, or bool[rows]
                in all cases.
        """
        if self.has_default:
            raise add_location(
                ProgramError("unreachable case after the default.", fix="Move it before."),
                self.what,
            )
        return self.opened(self._key(when), "case_rows")

    def _key(self, when: Any) -> Any:
        if self.index is None:
            return self._condition(as_predicate(when, self.what, rows=True))
        used_keys = {branch.key for branch in self.branches}
        if not isinstance(when, int) or isinstance(when, bool) or when in used_keys:
            raise add_location(
                ProgramError(
                    f"case({when!r}) is not a new integer.",
                    fix="Pass a different integer to each case of a switch with an index.",
                ),
                self.what,
            )
        return when

    def _condition(self, condition: Var) -> Var:
        """Check that a condition has the batch axis of the first one."""
        if not self.branches:
            self._choose_by(condition)
        sizes = zip(condition.shape, self.predicate.shape, strict=False)
        unify = condition.table.unifier.unify
        if condition.ndim != self.predicate.ndim or any(unify(*pair) is None for pair in sizes):
            raise add_location(
                ShapeError(
                    "shape mismatch between the conditions of a switch.",
                    given=f"{self.predicate.name}: {self.predicate.type}   "
                    f"{condition.name}: {condition.type}",
                    fix="Pass bool scalars to all cases, or bool[rows] to all of them.",
                ),
                self.what,
            )
        return condition

    def default(self) -> Branch:
        """Open the block that runs if no case matches."""
        if self.has_default:
            raise add_location(ProgramError("the default is defined twice."), self.what)
        if not self.branches:
            raise add_location(
                ProgramError(
                    "the default has no case before it.", fix="Define the cases first."
                ),
                self.what,
            )
        if self.passed:
            self.check_block_missing(1)
        block = self._default()
        self.has_default = True
        return block

    def _default(self) -> Branch:
        return self.opened(None, "default_rows")

    def check_block_missing(self, more: int) -> None:
        """Refuse `pass_through` if the default is written."""
        if self.has_default or more:
            raise add_location(
                ProgramError(
                    "pass_through is unused: the default is defined.",
                    fix="Remove the default, or pass_through.",
                ),
                self.what,
            )

    def _append_op(self) -> tuple[Var, ...]:
        if not self.branches:
            raise add_location(ProgramError("the switch has no case."), self.what)
        branches = list(self.branches)
        if self.passed:
            branches.append(self.passing(branches[0], self._default))
        keys = [branch.key for branch in branches if branch.key is not None]
        total = len(keys) < len(branches)
        chosen = self._chosen(keys, total)
        if self.row_wise:
            masks = [emit("equal", chosen, number) for number in range(len(branches))]
            return self.finish_rows(masks, branches)
        return self.finish(chosen, branches, total=total or self.index is not None)

    def _chosen(self, keys: Sequence[Any], total: bool) -> Var:
        """Return the position of the selected block, for each batch element if partitioned."""
        if self.index is not None:
            return emit("case_of", self.index, cases=tuple(keys), default=total)
        first: Any = as_var(len(keys) if total or not self.row_wise else -1)
        for position in range(len(keys) - 1, -1, -1):
            first = emit("where", keys[position], position, first)
        if total or not self.row_wise:  # a scalar switch checks its own index
            return first
        return emit("case_of", first, cases=tuple(range(len(keys))), default=False)


@with_user_line
def create_switch(index: Any = None) -> Switch:
    """Create a switch: blocks selected by an index, or by the first condition that holds.

    With a vector index or vector conditions the batch is partitioned, as in `create_if_else`:
    `add_input` gathers the batch elements that select the block, and the outputs are scattered
    back in the original order. A block without batch elements does not run. If no case matches,
    the default runs, or the outputs are the values of `switch.pass_through(a, ...)`; with
    neither, it is an error of the run.

    Args:
        index: An integer scalar, or an integer vector with one entry per batch element; cases
            are then integers. Without it cases are conditions: bool scalars, or all bool[rows].

    Raises:
        ShapeError: If the index is neither an integer scalar nor an integer vector.

    Example:
        Each row goes to one of two experts:

        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", ["rows", 2])
        ...     expert = br.data("expert", ["rows"], dtype="int32")
        ...     switch = br.create_switch(expert)
        ...     with switch.case(0) as case:
        ...         case.add_output(case.add_input(x) * 10.0)
        ...     with switch.case(1) as case:
        ...         case.add_output(br.sqrt(case.add_input(x)))
        ...     switch.pass_through(x)
        ...     out = switch()
        >>> feed = {"x": [[1.0, 2.0], [4.0, 9.0], [5.0, 6.0]], "expert": [0, 1, 7]}
        >>> br.Executor().run(prog, br.Scope(), feed, out)
        array([[10., 20.],
               [ 2.,  3.],
               [ 5.,  6.]], dtype=float32)
    """
    if index is None:
        return Switch()
    var = as_var(index)
    if tensor_type(var).rank > 1 or not is_integer(var.dtype):
        raise add_location(
            ShapeError(
                "the index of a switch must be an integer scalar, or an integer vector with "
                "one entry for each batch element.",
                given=str(var),
                fix="For k indices of each element pass index.reshape(-1), and operands "
                "br.repeat(x, k, axis=0)."
                if tensor_type(var).rank > 1
                else "Use br.cast(index, 'int32').",
            ),
            "switch",
        )
    return Switch(var)
