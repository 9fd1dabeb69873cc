"""Recurrent nets: a loop with a step block that scans over the steps of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from braces.builder.append import as_var, emit
from braces.builder.source_line import with_user_line
from braces.builder.symbol_table import BatchIndices, StackedParameters
from braces.builder.var import Var, expose, tensor_type
from braces.dims import Dim, Shape, Size
from braces.dtypes import BOOL, is_integer
from braces.errors import ProgramError, ShapeError
from braces.frontend.control.construct import LoopBlock, Memory, add_location, outer_var
from braces.frontend.core.random_state import as_shape
from braces.hints.objects import Hinted
from braces.ir.views import LoopView, StackedOutputView
from braces.notebook import Offering
from braces.ops.common.rules import axis_index
from braces.ops.control.construct.build import LoopCarry, ScannedInput, build_loop
from braces.ops.control.partition.random import row_numbers
from braces.passes.autodiff.checkpoint import Segments, check_trips
from braces.passes.rows.ragged_construct import RaggedLoop
from braces.passes.rows.ragged_steps import guard_steps


class StepNet(LoopBlock):
    """The block of one step; `with rnn.stepnet() as net`.

    Attributes:
        inputs: The scanned variables, each with its slice.
        stop: The stop condition, evaluated after the step.

    Example:
        >>> import braces as br
        >>> def step(net: br.StepNet, x: br.Var) -> None:
        ...     total = net.add_memory(init=0.0)
        ...     total.update(total + net.add_input(x))
        ...     net.add_output(total.next)
        >>> with br.Program():
        ...     x, rnn = br.data("x", ["t"]), br.create_rnn()
        ...     with rnn.stepnet() as net:
        ...         step(net, x)
    """

    _offered = ("add_input", "add_memory", "add_output", "stop_when")

    def __init__(self, rnn: Rnn) -> None:
        super().__init__("rnn")
        self.rnn = rnn
        self.inputs: list[tuple[Var, Var]] = []
        self.stop: Var | None = None
        self.output_axes: list[int] = []
        self.steps: Size | None = rnn.steps
        self.number: Var | None = None
        if rnn.lengths is not None:
            batch = rnn.lengths.shape[0]
            self.table.numbers = BatchIndices(batch, self.numbers, batch)
        if rnn.own_parameters is not None:
            self.table.owning = StackedParameters(rnn.own_parameters, self._own)

    def _own(self, parameter: Var) -> Var:
        """Return the slice of a stacked parameter that belongs to this step."""
        with self.program.building(self.table):
            own = self.add_input(parameter)
        assert self.table.owning is not None
        parts = self.table.owning.parts
        parts[parameter.name] = own

        def undo() -> None:
            del parts[parameter.name], self.inputs[-1]

        self.table.journal.note(undo)
        return own

    def numbers(self) -> Var:
        """Return the index of each batch element; made outside the loop on first use."""
        if self.number is None:
            assert self.rnn.lengths is not None
            rows = self.rnn.lengths.shape[0]
            self.number = row_numbers(self.program, self.outer, rows)
            self.table.journal.note(self._forget)
        return self.number

    def _forget(self) -> None:
        self.number = None

    @with_user_line
    def add_input(self, x: Any, axis: int = 0) -> Var:
        """Scan over an axis of an outer variable; return the slice of this step.

        Args:
            x: A variable from outside the block.
            axis: The axis of the steps; the slice does not have it.

        Raises:
            ShapeError: If the number of steps differs from that of another input, or the axis
                is out of range.
        """
        self.require_open("add_input")
        var = outer_var(self, x, "add_input")
        type_ = tensor_type(var)
        if not type_.rank:
            raise add_location(
                ShapeError(f"`{var.name}` is a scalar; expected an axis of steps."), self.what
            )
        at = axis_index(axis, type_.rank, "add_input")
        self._agree(var, type_.shape[at])
        if at:
            with self.program.building(self.outer):
                var = emit("moveaxis", var, source=at, destination=0)
        other_sizes = (*type_.shape[:at], *type_.shape[at + 1 :])
        inner = self.param(
            f"{x.name if isinstance(x, Var) else 'input'}.step", type_.with_shape(other_sizes)
        )
        self.inputs.append((var, inner))
        return inner

    def _agree(self, var: Var, size: Size) -> None:
        if self.steps is None:
            self.steps = size
            return
        agreed = self.table.unifier.unify(self.steps, size)
        if agreed is None:
            raise add_location(
                ShapeError(
                    f"`{var.name}` has {size} steps; expected {self.steps}.",
                    given=f"{var.name}: {var.type}",
                    fix="All inputs of an rnn have the same number of steps; see axis=.",
                ),
                self.what,
            )
        self.steps = agreed

    @with_user_line
    def add_memory(
        self,
        init: Any = None,
        *,
        shape: Sequence[Any] | None = None,
        batch_like: Var | None = None,
        batch_axis: int = 0,
        value: float = 0.0,
        dtype: object = None,
    ) -> Memory:
        """Add a carry: state that is passed from one step to the next.

        A bare memory `h` means `h.pre(1)` until its update. From the update on a bare `h` is an
        error: write `h.pre(1)` for the old value, `h.next` for the new one.

        Args:
            init: The value before the first step; a tuple `(t-1, t-2, …)` for `pre(n)`.
            shape: Instead of `init`: the shape without the batch axis, filled with `value`.
            batch_like: A variable whose axis `batch_axis` has the size of the leading batch
                axis.
            batch_axis: See `batch_like`.
            value: See `shape`.
            dtype: See `shape`; by default that of `batch_like` if it is a float dtype, else
                float32.
        """
        self.require_open("add_memory")
        if (init is None) == (shape is None):
            raise add_location(
                ProgramError(
                    "add_memory: expected either init= or shape=.",
                    fix="Pass init=variable, or shape=[32], batch_like=x.",
                ),
                self.what,
            )
        if shape is not None:
            init = self._filled(as_shape(shape), batch_like, batch_axis, value, dtype)
        return super().add_memory(init)

    def _filled(
        self,
        sizes: Shape,
        batch_like: Var | None,
        batch_axis: int,
        value: float,
        dtype: object,
    ) -> Var:
        if batch_like is not None:
            like = tensor_type(as_var(batch_like))
            sizes = (like.shape[axis_index(batch_axis, like.rank, "add_memory")], *sizes)
            if dtype is None and like.dtype.kind == "f":
                dtype = like.dtype
        with self.program.building(self.outer):
            return emit("full", shape=sizes, value=value, dtype=dtype or "float32")

    @with_user_line
    def add_output(self, *values: Any, axis: int = 0) -> None:
        """Stack values over all steps.

        Args:
            values: Variables of the step.
            axis: The position of the step axis in the stacked result.
        """
        super().add_output(*values)
        self.output_axes.extend([axis] * len(values))

    @with_user_line
    def stop_when(self, condition: Any) -> None:
        """Stop early; the condition is evaluated after the step.

        A condition on the state that the step computed reads `h.next`: `stop_when(h.next > 5)`.

        Args:
            condition: A bool scalar ends the loop after this step. A bool vector over the batch
                axis freezes the batch elements where it holds: their memories keep their
                values, and their later outputs are zero.

        Raises:
            ShapeError: If the condition is neither a bool scalar nor a bool vector.
        """
        self.require_open("stop_when")
        var = as_var(condition)
        if var.dtype != BOOL or var.ndim > 1:
            raise add_location(
                ShapeError(
                    "the condition of stop_when must be a bool scalar or a bool vector.",
                    given=f"{var.name}: {var.type}",
                    fix="Compare, and reduce with br.all or br.any.",
                ),
                self.what,
            )
        if var.ndim and self.rnn.own_parameters is not None:
            raise add_location(_no_rows("stop_when"), self.what)
        if self.stop is not None:
            raise add_location(
                ProgramError("stop_when is called twice.", fix="Combine both with `|`."),
                self.what,
            )
        self.stop = var

    def close(self) -> None:
        """Append the loop operator."""
        memories = self.carried()
        stop = None if self.stop is None else expose(self.stop).name
        if self.steps is None:
            raise ProgramError(
                "the number of steps is unknown.",
                fix="Add an input, or pass br.create_rnn(steps=10).",
            )
        if not self.memories and not self.outputs:
            raise ProgramError(
                "the rnn has neither a memory nor an output.", fix="Call net.add_output(...)."
            )
        loop = LoopView(
            self.step.name,
            self.table.freeze(),
            rows=tuple(StackedOutputView(var.name) for var in self.outputs),
            length=self.steps,
            reverse=self.rnn.reverse,
        )
        slices = [ScannedInput(outer, inner.name) for outer, inner in self.inputs]
        if self.rnn.lengths is not None or stop is not None:
            ragged_args = loop, memories, slices, self.rnn.lengths, stop, self.number
            loop, memories = guard_steps(RaggedLoop(self.program, self.outer, *ragged_args))
        finals, stacked = self._loop(loop, memories, slices)
        self.rnn.finals = tuple(finals)
        self.rnn.stacked = tuple(
            row if axis == 0 else emit("moveaxis", row, source=0, destination=axis)
            for row, axis in zip(stacked, self.output_axes, strict=True)
        )

    def _loop(
        self, loop: LoopView, memories: Sequence[LoopCarry], slices: Sequence[ScannedInput]
    ) -> tuple[Sequence[Var], Sequence[Var]]:
        """Append one loop, or two with checkpoints; return finals and stacked outputs."""
        if self.rnn.checkpoint_every is not None:
            segments = Segments(self.program, loop, memories, self.rnn.checkpoint_every)
            return segments.counted(slices)
        loop_vars = build_loop(loop, memories, slices)
        return loop_vars.finals, loop_vars.rows


class Rnn(Offering, Hinted):
    """A recurrent net; make it with `create_rnn`, write its step, then call it.

    Example:
        >>> import braces as br
        >>> isinstance(br.create_rnn(), br.Rnn)
        True
    """

    _offered = ("final", "stepnet")

    def __init__(
        self,
        reverse: bool = False,
        steps: Size | None = None,
        lengths: Var | None = None,
        checkpoint_every: int | None = None,
        own_parameters: int | None = None,
    ) -> None:
        self.own_parameters = own_parameters
        self.checkpoint_every = check_trips(checkpoint_every, "checkpoint_every")
        self.reverse = reverse
        self.steps = steps
        self.lengths = lengths
        self.net: StepNet | None = None
        self.finals: tuple[Var, ...] | None = None
        self.stacked: tuple[Var, ...] = ()

    def stepnet(self) -> StepNet:
        """Open the block of one step, for a `with` statement.

        Raises:
            ProgramError: If the block is already written.
        """
        if self.finals is not None:
            raise add_location(
                ProgramError("the step of this rnn is already defined.", fix="Create another."),
                "rnn",
            )
        self.net = StepNet(self)
        return self.net

    def _require_closed(self) -> None:
        if self.finals is None:
            raise add_location(
                ProgramError(
                    "the rnn is used before the end of its step block.",
                    fix="Call it after the `with rnn.stepnet()` block.",
                ),
                "rnn",
            )

    def __call__(self) -> Any:
        """Return the stacked outputs: one variable, or a tuple in the order of `add_output`."""
        self._require_closed()
        if not self.stacked:
            raise add_location(
                ProgramError("the rnn has no outputs.", fix="Use add_output, or rnn.final(h)."),
                "rnn",
            )
        return self.stacked[0] if len(self.stacked) == 1 else self.stacked

    def final(self, memory: Memory) -> Var:
        """Return the value of a memory after the last step; its initial value if none ran."""
        self._require_closed()
        return final_of(self.net, self.finals, memory)


def final_of(block: LoopBlock | None, finals: Any, memory: Any) -> Var:
    """Return the final value of a memory of a loop."""
    if not isinstance(memory, Memory) or memory.block is not block:
        raise add_location(
            ProgramError(
                f"{getattr(memory, 'name', memory)!r} is not a memory of this loop.",
                fix="Pass the result of add_memory.",
            ),
            "loop",
        )
    return finals[memory.position]


@with_user_line
def create_rnn(
    *,
    reverse: bool = False,
    lengths: Any = None,
    steps: Any = None,
    checkpoint_every: int | None = None,
    own_parameters: bool = False,
) -> Rnn:
    """Create a recurrent net whose step is written in a `with` block.

        h[t] = step(x[t], h[t-1])        t = 0 … T-1, or T-1 … 0 under `reverse`

    With `h = net.add_memory(…)`, `h.pre(1)` is h[t-1], and `h.next` is h[t] once `h.update(…)`
    set it. A bare `h` means `h.pre(1)` before the update and is an error from the update on.

    Args:
        reverse: Iterate from the last step to the first; outputs keep their positions.
        lengths: Sequence lengths: an integer vector with one entry per batch element. An
            element is active while its step is less than its length, also under `reverse`.
            After that its memories keep their values and its outputs are zero. Padding affects
            no value and no gradient. Memories and outputs have a leading batch axis. Give the
            batch dimension a name: an input or captured array with that dimension is batched,
            any other is shared by all batch elements. If the batch size is a number, inputs
            lead with it, a captured array is batched if it is computed from the same batch, and
            operators that pair batch elements with a number are refused.
        steps: The number of steps; required if there is no input.
        checkpoint_every: Gradient checkpointing: save memories at every `checkpoint_every`
            steps only, and recompute the steps between them in the gradient. Less memory for
            one more forward computation. A list memory is saved in full, element by element.
        own_parameters: Parameters made in the step are separate for each step, stacked along a
            leading axis, as in a stack of layers. `steps` must be a number.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x = br.data("x", ["t", "batch", 4])
        ...     rnn = br.create_rnn()
        ...     with rnn.stepnet() as net:
        ...         total = net.add_memory(shape=[4], batch_like=x, batch_axis=1)
        ...         total.update(total + net.add_input(x))
        ...         net.add_output(total.next)  # total.pre(1) is the sum without x[t]
        ...     print(rnn(), rnn.final(total).shape)
        <Var loop_0.stacked: f32[t,batch,4]> (batch, 4)
    """
    if steps is not None:
        steps = as_steps(steps)
    rows = None if lengths is None else check_lengths(lengths)
    own = _count_own_steps(steps, rows) if own_parameters else None
    return Rnn(reverse, steps, rows, checkpoint_every, own)


def _no_rows(what: str) -> ProgramError:
    return ProgramError(
        f"{what} of batch elements is unsupported with parameters of each step.",
        fix="Use br.where(done, before, after) in the step.",
    )


def _count_own_steps(steps: Size | None, lengths: Var | None) -> int:
    """Return the number of steps with separate parameters."""
    if lengths is not None:
        raise add_location(_no_rows("lengths="), "rnn")
    if not isinstance(steps, int) or not steps:
        raise add_location(
            ProgramError(
                "parameters of each step need a constant, positive number of steps.",
                given=f"steps={steps}",
                fix="Write steps=12, for example; a parameter has a constant shape.",
            ),
            "rnn",
        )
    return steps


def check_lengths(value: Any) -> Var:
    """Convert sequence lengths to an integer vector with one entry per batch element.

    Raises:
        ShapeError: If `value` is not an integer vector.
    """
    var = as_var(value)
    if not is_integer(var.dtype) or var.ndim != 1:
        raise add_location(
            ShapeError(
                "lengths= must be an integer vector with one entry for each batch element.",
                given=f"{var.name}: {var.type}",
            ),
            "rnn",
        )
    return var


def as_steps(steps: Any) -> Size:
    """Return a number of steps: an int, or a symbolic dimension."""
    if isinstance(steps, Var):
        raise add_location(
            ProgramError(
                "steps= must be an integer or a size, got a variable.",
                fix="Use br.create_while for a count that the program computes.",
            ),
            "rnn",
        )
    if isinstance(steps, Dim) or (isinstance(steps, int) and steps >= 0):
        return steps
    raise add_location(ProgramError(f"invalid number of steps: steps={steps!r}."), "rnn")
