"""While: a loop with a condition and a data-dependent trip count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from braces.builder.append import apply, as_var
from braces.builder.source_line import with_user_line
from braces.builder.var import Var, expose, tensor_type
from braces.dims import Dim
from braces.dtypes import BOOL, ListType, TensorType
from braces.errors import ProgramError, ShapeError
from braces.frontend.control.construct import LoopBlock, Memory, add_location
from braces.frontend.control.rnn import final_of
from braces.hints.objects import Hinted
from braces.ir.views import LoopView
from braces.notebook import Offering
from braces.ops.control.construct.build import LoopCarry, build_loop
from braces.ops.lists.list_to_array import append_stack
from braces.ops.lists.stack import EMPTY, append_push, list_attrs
from braces.passes.autodiff.checkpoint import Segments, check_trips
from braces.passes.loops.loop_condition import extract_condition


class WhileBlock(LoopBlock):
    """The body of a while; `with loop.block() as body`.

    Example:
        >>> import braces as br
        >>> def halve(body: br.WhileBlock, x: br.Var) -> None:
        ...     value = body.add_memory(init=x)
        ...     body.set_condition(value > 1.0)
        ...     value.update(value * 0.5)
    """

    _offered = ("add_memory", "add_output", "set_condition")

    def __init__(self, loop: While) -> None:
        super().__init__("while")
        self.loop = loop
        self.condition: Var | None = None

    @with_user_line
    def set_condition(self, condition: Any) -> None:
        """Set the loop condition: a bool scalar of memories and outer variables.

        It is evaluated before each iteration, including the first one, so it reads the current
        values of memories: `i < n` before the update of `i`, `i.pre(1) < n` after it. `i.next`
        is the value that the next iteration would compute.

        Raises:
            ProgramError: If the condition is already set.
            ShapeError: If the condition is not a bool scalar.
        """
        self.require_open("set_condition")
        if self.condition is not None:
            raise add_location(
                ProgramError("the condition is set twice.", fix="Combine both with `&`."),
                "while",
            )
        var = as_var(condition)
        if var.type != TensorType(BOOL, ()):
            raise add_location(_not_scalar(var), "while")
        self.condition = var

    def close(self) -> None:
        """Extract the condition from the body and append the loop operator."""
        if self.condition is None:
            raise ProgramError(
                "the while has no condition.", fix="Call body.set_condition(...) in its block."
            )
        if self.outputs and any(table.trip_index for table in self.outer.chain()):
            raise ProgramError(
                "a while has stacked outputs of data-dependent size, which are unsupported in "
                "another loop.",
                fix="Reduce them in a memory, or collect them as outputs of the outer loop.",
            )
        memories = self.carried()
        own, lists = len(memories), [self._collect(var) for var in self.outputs]
        memories += lists
        name = expose(self.condition).name
        if not memories:
            raise ProgramError(
                "a while without memories never ends, or never begins.",
                given=f"{name}: {self.condition.type}",
                fix="Add a memory for the value that changes: body.add_memory(init=...).",
            )
        self.table.params = [self.step.name, *(memory.param for memory in memories)]
        body, condition = extract_condition(self.table.freeze(m.next for m in memories), name)
        loop = LoopView(
            self.step.name, body, condition=condition, max_trips=self.loop.max_trips
        )
        finals, self.loop.trips = self._loop(loop, memories)
        self.loop.finals = tuple(finals[:own])
        length = Dim.named(self.table.names.unique_word("trips"))
        self.loop.rows = tuple(append_stack(rows, length) for rows in finals[own:])

    def _loop(self, loop: LoopView, memories: Sequence[LoopCarry]) -> tuple[Sequence[Var], Var]:
        """Append one loop, or two with checkpoints; return finals and the trip count."""
        if self.loop.checkpoint_every is not None:
            return Segments(
                self.program, loop, memories, self.loop.checkpoint_every
            ).conditional()
        loop_vars = build_loop(loop, memories)
        return loop_vars.finals, loop_vars.trips

    def _collect(self, var: Var) -> LoopCarry:
        """Return a carried list to which each iteration appends a value."""
        row, history = tensor_type(var), self.table.names.unique("rows")
        start = apply(EMPTY, {}, list_attrs(row, history))["out"][0]
        inner = self.param("rows", ListType(row))
        with self.program.building(self.table):
            return LoopCarry(start, inner.name, append_push(inner, var, history).name)


class While(Offering, Hinted):
    """A loop with a condition; make it with `create_while`, write its block, read `final`.

    Example:
        >>> import braces as br
        >>> isinstance(br.create_while(), br.While)
        True
    """

    _offered = ("block", "final")

    def __init__(
        self, max_trips: int | None = None, checkpoint_every: int | None = None
    ) -> None:
        self.max_trips = check_trips(max_trips, "max_trips", least=0)
        self.checkpoint_every = check_trips(checkpoint_every, "checkpoint_every")
        if self.checkpoint_every is not None and max_trips is not None:
            raise ProgramError(
                "max_trips and checkpoint_every are mutually exclusive.",
                fix="Count iterations in a memory, and check the limit in the condition.",
            )
        self.body: WhileBlock | None = None
        self.finals: tuple[Var, ...] | None = None
        self.trips: Var | None = None
        self.rows: tuple[Var, ...] = ()

    def block(self) -> WhileBlock:
        """Open the body, for a `with` statement."""
        if self.finals is not None:
            raise add_location(
                ProgramError(
                    "the block of this while is already defined.", fix="Create another."
                ),
                "while",
            )
        self.body = WhileBlock(self)
        return self.body

    def _require_closed(self) -> None:
        if self.finals is None:
            raise add_location(
                ProgramError(
                    "the while is used before the end of its block.",
                    fix="Call final(...) after the `with loop.block()` block.",
                ),
                "while",
            )

    def __call__(self) -> Any:
        """Return the stacked outputs, one slice per iteration: one variable, or a tuple.

        The leading axis is a separate dimension, of data-dependent size. Compiled code
        has a capacity of a power of two, and masks the padding out of all results. Where that
        is impossible, the program is compiled once for each size that occurs.
        """
        self._require_closed()
        if not self.rows:
            raise add_location(
                ProgramError(
                    "the while has no outputs.", fix="Use add_output, or final(memory)."
                ),
                "while",
            )
        return self.rows[0] if len(self.rows) == 1 else self.rows

    def final(self, memory: Memory) -> Var:
        """Return the value of a memory after the loop; its initial value if it did not run."""
        self._require_closed()
        return final_of(self.body, self.finals, memory)


@with_user_line
def create_while(*, max_trips: int | None = None, checkpoint_every: int | None = None) -> While:
    """Create a loop that runs while a condition on its memories holds.

    Args:
        max_trips: A limit on the trip count; exceeding it is an error, and the scope does not
            change.
        checkpoint_every: Gradient checkpointing: save memories at every `checkpoint_every`
            iterations only, and recompute the iterations between them in the gradient. Less
            memory for one more forward computation. A list memory is saved in full, element by
            element.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     loop = br.create_while()
        ...     with loop.block() as body:
        ...         x = body.add_memory(init=br.constant(1.0))
        ...         body.set_condition(x < 100.0)
        ...         x.update(x * 2.0)
        ...     print(loop.final(x).type)
        f32[]
    """
    return While(max_trips, checkpoint_every)


def _not_scalar(condition: Var) -> ShapeError:
    """Return the error of a condition that is not a bool scalar."""
    is_vector = condition.dtype == BOOL
    each = (
        " For a trip count of its own for each element, vectorize the loop: "
        "br.vmap(lambda row: br.while_loop(cond_fn, body_fn, row))(x)."
    )
    return ShapeError(
        "the condition of a while must be a bool scalar.",
        given=f"{condition.name}: {condition.type}",
        fix=f"Reduce it with br.any or br.all.{each}"
        if is_vector
        else "Compare, as `x < 3`, and reduce with br.any or br.all.",
    )
