"""Conditional blocks, scalar or partitioned over the batch axis; `IfElse` has two blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from braces.builder.append import as_var, emit, handle_of
from braces.builder.builder import current_program
from braces.builder.source_line import user_source, with_user_line
from braces.builder.symbol_table import BatchIndices
from braces.builder.var import Var, tensor_type
from braces.dims import Dim
from braces.dtypes import BOOL, TensorType, Type
from braces.errors import BracesError, ProgramError, ShapeError
from braces.frontend.control.construct import (
    SubBlock,
    add_location,
    literal_dtype,
    outer_var,
    types_agree,
)
from braces.ir.records import Body, Source
from braces.ir.walk import rename_body
from braces.keywords import hint_keywords
from braces.notebook import Offering
from braces.ops.control.batch_axis.masking import analyze_row_axes
from braces.ops.control.construct.build import build_partition, build_switch
from braces.ops.control.partition.random import number_draws, row_numbers


class Branch(SubBlock):
    """One block of an if-else or of a switch.

    Example:
        >>> import braces as br
        >>> def scaled(branch: br.Branch, x: br.Var, factor: float) -> None:
        ...     branch.add_output(branch.add_input(x) * factor)
    """

    _offered = ("add_input", "add_output")

    def __init__(self, what: str, owner: Branches, key: Any) -> None:
        super().__init__(what)
        self.owner = owner
        self.key = key
        self.inputs: list[Var] = []
        self.body: Body | None = None
        self.rows: Dim | None = None
        self.valid: Var | None = None
        self.number: Var | None = None

    @with_user_line
    def add_input(self, x: Any) -> Var:
        """Return an outer variable as seen by this branch.

        With a scalar predicate that is the whole variable. With a predicate over the batch
        axis, it is the batch elements that select this branch, in their order.
        """
        self.require_open("add_input")
        return self.take(x, "add_input")

    def take(self, x: Any, action: str) -> Var:
        """Return an outer variable as seen by this branch; errors name the action."""
        var = outer_var(self, x, action)
        inner = var
        if self.rows is not None:
            inner = self.param(
                "rows", selected_type(self, var, self.owner.predicate, self.rows)
            )
        self.inputs.append(var)
        return inner

    def select(self, stem: str) -> None:
        """Restrict the block to its batch elements; the stem names their number."""
        self.rows = self.new_dim(stem)
        self.valid = self.param("valid", TensorType(BOOL, (self.rows,)))
        batch = self.owner.predicate.shape[0]
        self.table.numbers = BatchIndices(self.rows, self.numbers, batch, self._title())

    def _title(self) -> str:
        """Return the name of the block for messages, as the user opened it."""
        if isinstance(self.key, bool):
            return f"{str(self.key).lower()}_block()"
        if self.key is None:
            return "default()"
        return f"case({self.key.name if isinstance(self.key, Var) else self.key})"

    def numbers(self) -> Var:
        """Return the index of each batch element in the whole batch; an input of the block."""
        if self.number is None:
            owner, before = self.owner, len(self.inputs)
            if owner.numbers is None:
                owner.numbers = row_numbers(self.program, self.outer, owner.predicate.shape[0])
            self.number = self.take(owner.numbers, "a draw")
            self.table.journal.note(lambda: self._forget(before))
        return self.number

    def _forget(self, inputs: int) -> None:
        del self.inputs[inputs:]
        self.number = self.owner.numbers = None

    def close(self) -> None:
        """Freeze the block; calling the construct appends the operator."""
        if not self.outputs:
            raise ProgramError("the branch has no output.", fix="Call add_output(...).")
        if self.rows is not None:
            places = dict.fromkeys(self.table.params, (0,))
            number_draws(self.program, self.table, self.rows, places, self.numbers)
            analyze_row_axes(self.table, self.rows, dict.fromkeys(self.table.params, (0,)))
        self.body = self.table.freeze([var.name for var in self.outputs])
        self.owner.branches.append(self)


class Branches(Offering, ABC):
    """The blocks of an IfElse or a Switch.

    Attributes:
        predicate: Selects a block, for the whole batch or for each batch element.
        row_wise: Whether the batch is partitioned: each block runs on its own batch elements.
        branches: The blocks that are written, in order.
    """

    what = "branch"
    predicate: Var
    row_wise = False
    numbers: Var | None = None

    def __init__(self) -> None:
        self.branches: list[Branch] = []
        self.results: tuple[Var, ...] | None = None
        self.passed: tuple[Any, ...] = ()
        self.passed_at: Source | None = None

    def opened(self, key: Any, stem: str) -> Branch:
        """Open a new block, restricted to its batch elements if the batch is partitioned."""
        self._check_not_called()
        branch = Branch(self.what, self, key)
        if self.row_wise:
            branch.select(stem)
        return branch

    def _check_not_called(self) -> None:
        if self.results is not None:
            raise add_location(
                ProgramError(f"this {self.what} was already called.", fix="Create another."),
                self.what,
            )

    def __call__(self) -> Any:
        """The outputs of the block that ran: one variable, or a tuple."""
        if self.results is None:
            with current_program().transaction():
                self.results = self._append_op()
        return self.results[0] if len(self.results) == 1 else self.results

    @with_user_line
    def pass_through(self, *values: Any) -> None:
        """Set the outputs for the case that no written block runs.

        In an IfElse this replaces the block that is not written; in a Switch it applies if no
        case matches. If the batch is partitioned, it passes those batch elements of each value:
        `choice.pass_through(x)` keeps the rows of `x` that no written block sees.

        Args:
            *values: Variables from outside the blocks, one for each output of a written block,
                of its type; for a scalar predicate also numbers and arrays.

        Raises:
            ProgramError: If no value is passed, values are already set, or all blocks are
                written.
        """
        if not values:
            raise ProgramError(
                "pass_through: expected at least one value.",
                fix="Pass one value for each output.",
            )
        if self.passed:
            raise ProgramError("pass_through is called twice.", fix="Call it once.")
        self._check_not_called()
        self.check_block_missing(0)
        self.passed = tuple(map(handle_of, values))
        self.passed_at = user_source()

    @abstractmethod
    def check_block_missing(self, more: int) -> None:
        """Refuse `pass_through` if, with `more` blocks, every case has a block.

        Raises:
            ProgramError: If each case already has a block.
        """

    def passing(self, written: Branch, opened: Callable[[], Branch]) -> Branch:
        """Build the missing block, which returns the values of `pass_through`.

        Args:
            written: A block that is written.
            opened: Opens the block.
        """
        branches = list(self.branches)
        try:
            with written.program.at(self.passed_at):
                return self._passed_on(written, opened())
        except BracesError as error:
            at = f", at {self.passed_at}" if self.passed_at else ""
            raise error.located(f"pass_through{at}") from None
        finally:
            self.branches = branches

    def _passed_on(self, written: Branch, missing: Branch) -> Branch:
        outputs = written.outputs
        if len(self.passed) != len(outputs):
            raise ProgramError(
                f"the block has {len(outputs)} outputs, but pass_through has "
                f"{len(self.passed)} values.",
                fix="Pass one value for each output, in their order.",
            )
        with missing:
            for value, output in zip(self.passed, outputs, strict=True):
                missing.add_output(_pass_value(missing, value, output))
        return missing

    @abstractmethod
    def _append_op(self) -> tuple[Var, ...]:
        """Append the operator and return its outputs."""

    def finish(self, index: Var, branches: Sequence[Branch], total: bool) -> tuple[Var, ...]:
        """Append a switch operator, which runs one block; return its outputs."""
        cases = [branch.body for branch in branches if branch.body is not None]
        return build_switch(index, cases, total)

    def finish_rows(self, masks: Sequence[Var], branches: Sequence[Branch]) -> tuple[Var, ...]:
        """Append a partition operator: each block runs on its mask; return its outputs."""
        inputs = list(dict.fromkeys(x for branch in branches for x in branch.inputs))
        cases = [_align_inputs(branch, inputs) for branch in branches]
        counts = [branch.rows for branch in branches if branch.rows is not None]
        return build_partition(masks, inputs, cases, counts)


class IfElse(Branches):
    """A conditional with two blocks; make it with `create_if_else`.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     choice = br.create_if_else(br.data("p", [], dtype="bool"))
        >>> isinstance(choice, br.IfElse)
        True
    """

    _offered = ("false_block", "pass_through", "true_block")
    what = "if-else"

    @hint_keywords
    def __init__(self, pred: Var) -> None:
        super().__init__()
        self.predicate = pred
        self.row_wise = pred.ndim == 1

    def true_block(self) -> Branch:
        """Open the block that runs where the predicate holds."""
        return self._side(True)

    def false_block(self) -> Branch:
        """Open the block that runs where the predicate does not hold."""
        return self._side(False)

    def check_block_missing(self, more: int) -> None:
        """Refuse `pass_through` if both blocks are written."""
        if len(self.branches) + more > 1:
            raise add_location(
                ProgramError(
                    "pass_through is unused: both blocks are defined.",
                    fix="Remove one of the blocks, or pass_through.",
                ),
                self.what,
            )

    def _side(self, side: bool) -> Branch:
        if any(branch.key is side for branch in self.branches):
            raise add_location(
                ProgramError(f"the {str(side).lower()} block is defined twice."), self.what
            )
        if self.passed:
            self.check_block_missing(1)
        return self._opened(side)

    def _opened(self, side: bool) -> Branch:
        return self.opened(side, "true_rows" if side else "false_rows")

    def _append_op(self) -> tuple[Var, ...]:
        sides = {branch.key: branch for branch in self.branches}
        if not sides:
            raise add_location(
                ProgramError("the if-else is called before the end of its blocks."), self.what
            )
        for side in (True, False):
            if side not in sides:
                sides[side] = self._passing(sides[not side], side)
        if self.row_wise:
            masks = (~self.predicate, self.predicate)
            return self.finish_rows(masks, (sides[False], sides[True]))
        index = emit("cast", self.predicate, dtype="int32")
        return self.finish(index, [sides[False], sides[True]], total=True)

    def _passing(self, written: Branch, side: bool) -> Branch:
        """Build the missing side, which returns the values of `pass_through`."""
        if not self.passed:
            raise add_location(
                ProgramError(
                    f"the {str(side).lower()} block is missing.",
                    given=f"outputs of the other block: {len(written.outputs)}",
                    fix="Define both blocks, or set the outputs of the missing one: "
                    "choice.pass_through(a, ...).",
                ),
                self.what,
            )
        return self.passing(written, lambda: self._opened(side))


def _pass_value(missing: Branch, value: Any, output: Var) -> Var:
    """Return the value that replaces an output of the written block in the missing one."""
    if not isinstance(value, Var):
        with missing.program.building(missing.outer):
            value = as_var(value, literal_dtype(output.type))
    replacement = missing.take(value, "pass_through")
    if not types_agree(
        missing, _element_type(missing, replacement.type), _element_type(missing, output.type)
    ):
        raise ShapeError(
            f"`{value.name}` of pass_through has another type than the output.",
            given=f"{value.name}: {value.type}   output {output.name}: {output.type}",
            fix="A value has the dtype and shape of the output that it replaces.",
        )
    return replacement


def _element_type(block: Branch, type_: Type) -> Type:
    """Return the type, without its batch axis if the batch is partitioned."""
    if block.rows is None or not isinstance(type_, TensorType) or not type_.rank:
        return type_
    return type_.with_shape(type_.shape[1:])


def _align_inputs(branch: Branch, inputs: Sequence[Var]) -> Body:
    """Return the body of a partitioned branch with one parameter per input of all branches."""
    assert branch.body is not None
    assert branch.valid is not None
    body, own = branch.body, dict(zip(branch.inputs, branch.body.params[1:], strict=False))
    infos, params = dict(body.vars), [branch.valid.name]
    repeated = zip(branch.inputs, body.params[1:], strict=True)
    names = {param: own[x] for x, param in repeated if own[x] != param}
    for x in inputs:
        if x not in own:
            assert branch.rows is not None
            rows_param = branch.param(
                "rows", selected_type(branch, x, branch.owner.predicate, branch.rows)
            )
            infos[rows_param.name] = branch.table.vars[rows_param.name]
            own[x] = rows_param.name
        params.append(own[x])
    return rename_body(Body(tuple(params), body.results, infos, body.ops), names)


def selected_type(block: SubBlock, var: Var, predicate: Var, rows: Dim) -> TensorType:
    """Return the type of the selected batch elements of a variable.

    Raises:
        ShapeError: If the variable has no batch axis, or its batch size differs from that of
            the predicate.
    """
    type_ = tensor_type(var)
    unify = block.table.unifier.unify
    if not type_.rank or unify(type_.shape[0], predicate.shape[0]) is None:
        what = "predicate" if predicate.dtype == BOOL else "index"
        several = "; for k indices each, pass index.reshape(-1) and br.repeat(x, k, axis=0)"
        raise add_location(
            ShapeError(
                f"the leading axis of `{var.name}` does not match the {what}.",
                given=f"{var.name}: {type_}   {what}: {predicate.type}",
                fix=f"An input of a row-wise branch has the leading axis of the {what}"
                f"{several if what == 'index' else ''}.",
            ),
            block.what,
        )
    return type_.with_shape((rows, *type_.shape[1:]))


def as_predicate(value: Any, what: str, rows: bool = False) -> Var:
    """Convert a predicate to a bool scalar; if `rows`, a bool vector is allowed too.

    Raises:
        ShapeError: If the predicate is neither a bool scalar nor, with `rows`, a bool vector.
    """
    var = as_var(value)
    article = "an" if what.startswith("if") else "a"
    if var.dtype != BOOL or var.ndim > int(rows):
        raise add_location(
            ShapeError(
                f"the predicate of {article} {what} must be a bool scalar"
                + (" or a bool vector." if rows else "."),
                given=f"{var.name}: {var.type}",
                fix="Compare, and reduce with br.all or br.any.",
            ),
            what,
        )
    return var


@with_user_line
def create_if_else(pred: Any) -> IfElse:
    """Create an if-else: two blocks, selected for the whole batch or per batch element.

    With a bool scalar one block runs. With a bool vector the batch is partitioned: `add_input`
    gathers the batch elements that select the block, and the outputs are scattered back in the
    original order. A block without batch elements does not run. Write both blocks; or one of
    them, and set the outputs of the other with `choice.pass_through(a, ...)`.

    Args:
        pred: A bool scalar, or a bool vector with one entry per batch element.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x = br.data("x", [])
        ...     choice = br.create_if_else(x > 0.0)
        ...     with choice.true_block() as t:
        ...         t.add_output(br.sqrt(t.add_input(x)))
        ...     with choice.false_block() as f:
        ...         f.add_output(f.add_input(x) * 0.5)
        ...     print(choice().type)
        f32[]

        Only the rows that need it are changed:

        >>> with br.Program() as prog:
        ...     x = br.data("x", ["rows"])
        ...     choice = br.create_if_else(x > 1.0)
        ...     with choice.true_block() as t:
        ...         t.add_output(br.sqrt(t.add_input(x)))
        ...     choice.pass_through(x)
        ...     out = choice()
        >>> br.Executor().run(prog, br.Scope(), {"x": [4.0, -1.0, 9.0]}, out)
        array([ 2., -1.,  3.], dtype=float32)
    """
    return IfElse(as_predicate(pred, "if-else", rows=True))
