"""The plain block: `with br.block("encoder") as enc`, a brace without a `for`.

    with br.block("enc") as enc:         enc/y: f32[b,8] = block() captures [x, enc/w] as enc
        w = br.parameter("w", [4, 8])      body {
        h = x @ w                            enc/matmul_0: f32[b,8] = matmul(x=x, y=enc/w)
        y = br.tanh(h, name="y")             enc/y: f32[b,8] = tanh(x=enc/matmul_0)
    z = y * 2.0                              return enc/y
                                           }
                                         multiply_0: f32[b,8] = multiply(x=enc/y, ...)

What is read after the block becomes an output of it, under its own name. Parameters made inside
live in the main block, as all do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, ParamSpec, TypeVar

from braces.builder.append import as_var
from braces.builder.builder import current_program
from braces.builder.source_line import says_where, user_line, user_source
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, shown
from braces.errors import BracesError, ProgramError, UnknownNameError, suggest
from braces.frontend.control.block_call import Recall
from braces.frontend.control.construct import SubBlock, located
from braces.frontend.core.pytree import values
from braces.ir.names import check_name
from braces.ir.records import BLOCK, Body, Op
from braces.ir.views import BlockView
from braces.ir.walk import free_names
from braces.ops.control.construct.build import append_plain_block, free_block_name

P = ParamSpec("P")
R = TypeVar("R")


class PlainBlock(SubBlock):
    """Operators between `with` and its end, as one operator; make it with `br.block`.

    Attributes:
        name: The name of the block, and what names inside begin with.
        recompute: Whether gradients run it again in place of keeping values.
        body: What was built, once it is closed.
        moves: The persistable variables that it moves, to their next values in it.
    """

    def __init__(self, name: str, recompute: bool) -> None:
        super().__init__("block")
        self.name = self.chosen = name
        self.recompute = recompute
        self.body: Body | None = None
        self.moves: dict[str, str] = {}
        self._known = 0

    def begin(self) -> None:
        """Take a name, and with it the beginning of the names inside."""
        if self.open or self.body is not None:
            raise located(
                ProgramError(
                    f"The block `{self.name}` is written already.",
                    fix="Call it on other inputs, or create another.",
                ),
                self.what,
            )
        self.name = free_block_name(self.outer, self.chosen)
        self.table = SymbolTable(parent=self.outer, block=self.name)
        self._known = len(self.program.table.vars)

    def close(self) -> None:
        """Make the operator, and give out what `add_output` and updates name."""
        if not self.table.ops and len(self.program.table.vars) == self._known:
            raise ProgramError(
                f"The block `{self.name}` is empty.", fix="Build something in it, or drop it."
            )
        inside = self.table.vars
        for var in self.outputs:
            if var.name not in inside:
                raise ProgramError(
                    f"`{var.name}` comes from outside of the block, so it cannot be an output.",
                    fix="It can be read after the block as it is.",
                )
        self.moves = {n: v for n, v in self.program.updates.items() if v in inside}
        self.body = self.table.freeze()
        with self.program.building(self.outer):
            append_plain_block(self.name, self.body, self.recompute)
        self.table.closed = True
        given = (name for name in self.program.results if name in inside)
        self.outer.show(*(var.name for var in self.outputs), *self.moves.values(), *given)

    # ---- calling it again --------------------------------------------------------------------

    @property
    def inputs(self) -> tuple[str, ...]:
        """What the block reads from outside, in the order in which it first did.

        Parameters and states are not among them: they are shared by all calls.

        Raises:
            ProgramError: The block is not closed yet.
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
        """What a call gives: what was read of the block so far, in the order of first use.

        Where nothing was, the last value of it that it does not use itself.
        """
        body = self._closed("results")
        moved = set(self.moves.values())
        given = self._op().binds()
        names = [n for n in given if n in self.outer.shown and n not in moved]
        if names:
            return tuple(names)
        last = _last_value(body, moved)
        if last is None:
            raise ProgramError(f"The block `{self.name}` computes nothing to give.")
        return (last,)

    def _op(self) -> Op:
        found = self.outer.find_op(self.name)
        if found is None:
            raise ProgramError(
                f"The block `{self.name}` is not part of the program any more.",
                fix="What built it was undone by an error; build it again.",
            )
        return found

    def _closed(self, what: str) -> Body:
        if self.body is None:
            raise ProgramError(
                f"The block `{self.name}` is not closed, so it has no {what} yet.",
                at=user_line(),
                fix="Ask for it after its `with`.",
            )
        return self.body

    def __call__(self, /, *given: Any, **named: Any) -> Any:
        """The block once more, on other inputs, with the same parameters.

        What draws random numbers draws anew, and what moves a state goes on from where the
        block before moved it.

        Args:
            *given: A value for each of `inputs`, in their order; or none.
            **named: Values by the names of inputs; an input without a value stays as it is.

        Returns:
            What was read of the block so far, or its last value: one variable, or a tuple.

        Raises:
            ProgramError: The block is not closed yet, values are too many or too few, or an
                input that stays is not visible here.
            DTypeError: A value has another dtype than the input in its place.
            ShapeError: The block cannot be run on these shapes.
        """
        made = self._called(lambda: (self._assigned(given, named), self.results))
        return made[0] if len(made) == 1 else made

    def call(self, values: Mapping[str, Any], results: Sequence[str]) -> tuple[Var, ...]:
        """The block once more, where what it gives is said.

        Args:
            values: Those of the inputs that change, by name.
            results: The names, in this block, of what the call gives.
        """
        return self._called(lambda: (values, results))

    def _called(
        self, asked: Callable[[], tuple[Mapping[str, Any], Sequence[str]]]
    ) -> tuple[Var, ...]:
        """What a call gives that is asked for certain results; an error says where."""
        program = self.program
        try:
            with program.transaction(), program.building(program.current) as current:
                body, (values, results) = self._closed("result"), asked()
                name = free_block_name(current, self.chosen)
                recall = Recall(program, self.outer, body, self.name, name)
                append_plain_block(name, recall.body(values, self.moves), self.recompute)
                return recall.finish(results, self.moves)
        except BracesError as problem:
            inside = f", in {problem.at}" if problem.at else ""
            problem.at = f"call of the block `{self.name}`, at {user_source()}{inside}"
            raise

    def _assigned(self, given: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """The values of a call by the names of inputs."""
        names = self.inputs
        prefix = self.outer.names.prefix
        values = {name if name in names else prefix + name: v for name, v in named.items()}
        for name in values:
            if name not in names:
                raise UnknownNameError(
                    f"The block `{self.name}` has no input `{name}`.",
                    given=f"inputs: {', '.join(names) or 'none'}",
                    fix=suggest(name, names),
                )
        rest = [name for name in names if name not in values]
        if given and len(given) != len(rest):
            raise ProgramError(
                f"The block `{self.name}` takes {len(rest)} inputs here, not {len(given)}.",
                given=f"inputs: {', '.join(rest) or 'none'}",
                fix="Give a value for each, in this order, or set some by name.",
            )
        return values | dict(zip(rest, given, strict=False))


def _last_value(body: Body, moved: Set[str]) -> str | None:
    """The last value of a block, or of a block in it, that it does not read itself."""
    read = {name for op in body.ops for name in op.reads()} | moved
    for op in reversed(body.ops):
        plain = op.type == BLOCK
        last = _last_value(BlockView.of(op).body, moved) if plain else next(op.binds(), None)
        if last is not None and last not in read:
            return last
    return None


def check_block_name(name: str) -> str:
    """`name`, if a block may be called so.

    Raises:
        ProgramError: It is no name, or has a slash.
    """
    if "/" in name:
        raise ProgramError(
            f"{name!r:.80} cannot be the name of a block.",
            fix="Write one `with br.block(...)` inside the other; slashes come from nesting.",
        )
    return check_name(name)


def layer_block(function: Callable[P, R]) -> Callable[P, R]:
    """A layer that is one block, made by `composed`, whatever it is given."""
    vars(function)["is_layer_block"] = True
    return function


def composed(name: str, build: Callable[[], Any]) -> Any:
    """What `build` builds, as a plain block of this name: a layer that is made of layers.

    Where `br.shared` has opened a block for this very layer, there is no other in it.

    Args:
        name: Of the block; one that is taken gets a number.
        build: Gives variables, which may be nested; those made in it are outputs of the block.
    """
    table = current_program().current
    if table.lent:
        table.lent = False
        return build()
    with block(check_block_name(name)) as made:
        given = build()
        inside = (shown(as_var(end)) for end in values(given))
        made.add_output(*(end for end in inside if end.table is made.table))
    return given


@says_where
def block(name: str, *, recompute: bool = False) -> PlainBlock:
    """A brace without a `for`: what is built inside becomes one operator.

    Names inside begin with the block's: `name="q"` in the block `encoder` makes `encoder/q`,
    and a parameter `encoder/q.w`. Blocks nest, in each other and in loops and branches. Of two
    with one name the second gets a number: `encoder_1`.

    What is read after the block is an output of it; nothing has to be handed out. Gradients go
    through it, and it costs nothing when compiled.

    The block can be called on other inputs, in place of those that it read: `enc(x2)` runs the
    same operators with the same parameters. `enc.inputs` says in which order, and `enc(x=x2)`
    sets one by name. A call gives what was read of the block so far; where nothing was, its
    last value.

    Args:
        name: Its name, without slashes.
        recompute: Keep nothing of it for the gradient, and run it again there: less memory for
            one more forward computation.

    Raises:
        ProgramError: It is no name, or has a slash.

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
