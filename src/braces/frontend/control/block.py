"""The plain block: `with br.block("encoder") as enc`, a brace without a `for`.

    with br.block("enc") as enc:         enc/y: f32[b,8] = block() captures [x, enc/w] as enc
        w = br.parameter("w", [4, 8])      body {
        h = x @ w                            enc/matmul_0: f32[b,8] = matmul(x=x, y=enc/w)
        y = br.tanh(h, name="y")             enc/y: f32[b,8] = tanh(x=enc/matmul_0)
    z = y * 2.0                              return enc/y
                                           }
                                         multiply_0: f32[b,8] = multiply(x=enc/y, ...)

Variables read after the block become its outputs, under their own names. Parameters made inside
live in the main block, as all parameters do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, ParamSpec, TypeVar

from braces.builder.append import as_var
from braces.builder.builder import current_program
from braces.builder.source_line import user_line, user_source, with_user_line
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, expose
from braces.errors import BracesError, ProgramError, UnknownNameError, suggest
from braces.frontend.control.block_call import BlockCall
from braces.frontend.control.construct import SubBlock, add_location
from braces.frontend.core.pytree import tree_leaves
from braces.ir.names import check_name
from braces.ir.records import BLOCK, Body, Op
from braces.ir.views import BlockView
from braces.ir.walk import free_names
from braces.ops.control.construct.build import append_plain_block, free_block_name

P = ParamSpec("P")
R = TypeVar("R")


class PlainBlock(SubBlock):
    """The operators of a `with` block as one operator; make it with `br.block`.

    Attributes:
        name: The name of the block, and the prefix of the names inside.
        recompute: Whether gradients recompute the block in place of saving residuals.
        body: The operators of the block, once it is closed.
        moves: The persistable variables that the block updates, to their next values in it.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", [3])
        ...     with br.block("encoder") as encoder:
        ...         h = br.tanh(x)
        >>> isinstance(encoder, br.PlainBlock)
        True
    """

    _offered = ("inputs", "name", "recompute", "results")

    def __init__(self, name: str, recompute: bool) -> None:
        super().__init__("block")
        self.name = self.chosen = name
        self.recompute = recompute
        self.body: Body | None = None
        self.moves: dict[str, str] = {}
        self._known = 0

    def begin(self) -> None:
        """Choose the block's name, which is the prefix of the names inside."""
        if self.open or self.body is not None:
            raise add_location(
                ProgramError(
                    f"the block `{self.name}` is already defined.",
                    fix="Call it on other inputs, or create another.",
                ),
                self.what,
            )
        self.name = free_block_name(self.outer, self.chosen)
        self.table = SymbolTable(parent=self.outer, block=self.name)
        self._known = len(self.program.table.vars)

    def close(self) -> None:
        """Append the operator; export the values of `add_output`, updates and results."""
        if not self.table.ops and len(self.program.table.vars) == self._known:
            raise ProgramError(
                f"the block `{self.name}` is empty.", fix="Append an operator, or remove it."
            )
        inside = self.table.vars
        for var in self.outputs:
            if var.name not in inside:
                raise ProgramError(
                    f"`{var.name}` is defined outside of the block, so it cannot be an output.",
                    fix="Read it directly after the block.",
                )
        self.moves = {n: v for n, v in self.program.updates.items() if v in inside}
        self.body = self.table.freeze()
        with self.program.building(self.outer):
            append_plain_block(self.name, self.body, self.recompute)
        self.table.closed = True
        fetches = (name for name in self.program.results if name in inside)
        self.outer.show(*(var.name for var in self.outputs), *self.moves.values(), *fetches)

    # ---- calling it again --------------------------------------------------------------------

    @property
    def inputs(self) -> tuple[str, ...]:
        """Variables that the block reads from outside, in the order of first use.

        Parameters and states are not included: all calls share them.

        Raises:
            ProgramError: If the block is not closed yet.
        """
        body, outer = self._closed("inputs"), self.outer
        trips = {table.trip_index for table in outer.chain()}
        return tuple(
            name
            for name in free_names(body)
            if name not in trips and not outer.get_var(name).persistable
        )

    @property
    def results(self) -> tuple[str, ...]:
        """Names of the results of a call: values read after the block, in order of first use.

        If no value has been read yet: the last value that the block does not use itself.
        """
        body = self._closed("results")
        moved = set(self.moves.values())
        bound = self._op().binds()
        names = [n for n in bound if n in self.outer.shown and n not in moved]
        if names:
            return tuple(names)
        last = _last_value(body, moved)
        if last is None:
            raise ProgramError(f"the block `{self.name}` has no output.")
        return (last,)

    def _op(self) -> Op:
        op = self.outer.find_op(self.name)
        if op is None:
            raise ProgramError(
                f"the block `{self.name}` is no longer part of the program.",
                fix="An error removed its operator; build the block again.",
            )
        return op

    def _closed(self, what: str) -> Body:
        if self.body is None:
            raise ProgramError(
                f"the block `{self.name}` is still open; it gets its {what} when it is closed.",
                at=user_line(),
                fix="Read it after the end of its `with`.",
            )
        return self.body

    def __call__(self, /, *given: Any, **named: Any) -> Any:
        """Call the block again on other inputs, with the same parameters.

        Each call draws new random numbers. State updates continue from the values that the
        previous call left.

        Args:
            *given: A value for each of `inputs`, in their order; or none.
            **named: Values by the names of inputs; an input without a value stays as it is.

        Returns:
            The values read after the block so far, or its last value: one variable, or a tuple.

        Raises:
            ProgramError: If the block is not closed yet, the number of values is wrong, or an
                input without a new value is not visible here.
            DTypeError: If the dtype of a value differs from that of the corresponding input.
            ShapeError: If the shapes are invalid for the block.
        """
        outcome = self._append_call(lambda: (self._assigned(given, named), self.results))
        return outcome[0] if len(outcome) == 1 else outcome

    def call(self, values: Mapping[str, Any], results: Sequence[str]) -> tuple[Var, ...]:
        """Call the block again and return explicitly named results.

        Args:
            values: Values of the inputs that change, by name.
            results: The names, in this block, of the values to return.
        """
        return self._append_call(lambda: (values, results))

    def _append_call(
        self, arguments: Callable[[], tuple[Mapping[str, Any], Sequence[str]]]
    ) -> tuple[Var, ...]:
        """Append a call and return its results; errors name the user's line."""
        program, recall = self.program, None
        try:
            with program.transaction(), program.building(program.current) as current:
                body, (values, results) = self._closed("result"), arguments()
                name = free_block_name(current, self.chosen)
                recall = BlockCall(program, self.outer, body, self.name, name)
                append_plain_block(name, recall.body(values, self.moves), self.recompute)
                return recall.finish(results, self.moves)
        except BracesError as problem:
            inside = f", in {problem.at}" if problem.at else ""
            problem.at = f"call of the block `{self.name}`, at {user_source()}{inside}"
            if recall is not None:
                recall.explain(problem)
            raise

    def _assigned(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a call by input name."""
        names = self.inputs
        prefix = self.outer.names.prefix
        values = {name if name in names else prefix + name: v for name, v in named.items()}
        for name in values:
            if name not in names:
                raise UnknownNameError(
                    f"the block `{self.name}` has no input `{name}`.",
                    given=f"inputs: {', '.join(names) or 'none'}",
                    fix=suggest(name, names),
                )
        unnamed = [name for name in names if name not in values]
        if arguments and len(arguments) != len(unnamed):
            raise ProgramError(
                f"the block `{self.name}` takes {len(unnamed)} positional inputs here, "
                f"got {len(arguments)}.",
                given=f"inputs: {', '.join(unnamed) or 'none'}",
                fix="Pass one value for each, in this order, or pass some by name.",
            )
        return values | dict(zip(unnamed, arguments, strict=False))


def _last_value(body: Body, moved: Set[str]) -> str | None:
    """Return the last value of a block, or of a nested block, that it does not read itself."""
    read = {name for op in body.ops for name in op.reads()} | moved
    for op in reversed(body.ops):
        nested = op.type == BLOCK
        last = _last_value(BlockView.of(op).body, moved) if nested else next(op.binds(), None)
        if last is not None and last not in read:
            return last
    return None


def check_block_name(name: str) -> str:
    """Return `name` if it is a valid block name.

    Raises:
        ProgramError: If the name is invalid, or contains a slash.
    """
    if "/" in name:
        raise ProgramError(
            f"invalid block name {name!r:.80}: it contains a slash.",
            fix="Nest one `with br.block(...)` in the other; nesting adds the slashes.",
        )
    return check_name(name)


def mark_layer_block(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a layer as always building exactly one block with `composed`."""
    vars(function)["is_layer_block"] = True
    return function


def compose_block(name: str, build: Callable[[], Any]) -> Any:
    """Run `build` inside a plain block of this name: a layer composed of layers.

    If `br.shared` has already opened a block for this layer, no second block is nested in it.

    Args:
        name: The name of the block; a number is appended if it is taken.
        build: Returns variables, possibly nested; those made in the block become its outputs.
    """
    table = current_program().current
    if table.lent:
        table.lent = False
        return build()
    with block(check_block_name(name)) as layer:
        outputs = build()
        inside = (expose(as_var(end)) for end in tree_leaves(outputs))
        layer.add_output(*(end for end in inside if end.table is layer.table))
    return outputs


@with_user_line
def block(name: str, *, recompute: bool = False) -> PlainBlock:
    """A brace without a `for`: the operators built inside become one operator.

    The block is a name scope: `name="q"` in the block `encoder` makes `encoder/q`, and a
    parameter `encoder/q.w`. Blocks nest, in each other and in loops and branches. If two blocks
    have the same name, the second gets a number: `encoder_1`.

    Variables read after the block are its outputs; they need not be declared. The block is
    differentiable and has no cost when compiled.

    The block can be called on other inputs: `enc(x2)` runs the same operators with the same
    parameters. `enc.inputs` gives the order of the inputs, and `enc(x=x2)` sets one by name. A
    call returns the values read after the block so far; if there are none, its last value.

    Args:
        name: Its name, without slashes.
        recompute: Rematerialization: save no residuals of the block and recompute it in the
            gradient. Less memory for one more forward computation.

    Raises:
        ProgramError: If the name is invalid, or contains a slash.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", ["batch", 4])
        ...     with br.block("encoder") as enc:
        ...         q = br.fc(x, 8, name="q")
        ...         y = br.tanh(q)
        ...     z = y * 2.0
        ...     again = enc(br.data("x2", ["others", 4]))
        >>> enc.inputs, [p.name for p in prog.parameters], again.type
        (('x',), ['encoder/q.w', 'encoder/q.b'], f32[others,8])
        >>> [op.name for op in prog.block(0).ops]
        ['encoder', 'constant_0', 'multiply_0', 'encoder_1']
    """
    return PlainBlock(check_block_name(name), recompute)
