"""A step of optimizers: what they keep, and the operators that move it.

The `update` of all transformations is traced once, for all parameters together, and so is the
`init` of each. What a transformation keeps becomes persistable variables, which are called as
the fields and keys are by which optax reaches them:

    ScaleByAdamState(count=…, mu={"fc1.w": …})      adam/count  adam/mu/fc1.w

Their first values are operators of the startup program. The step itself is one plain block,
called as they are, whose outputs are the next values:

    adam/add_3: f32[4], … = block() captures [adam/mu/fc1.w, …] as adam
      body {
        adam/multiply_0: f32[4] = multiply(x=adam/constant_0, y=adam/mu/fc1.w)
        …
      }

16-bit floats are computed with in 32 bits, and rounded where they are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

from braces.builder.append import one
from braces.builder.program import Builder
from braces.builder.var import Var, shown, var_of
from braces.dtypes import INT32, DType, TensorType
from braces.errors import BracesError, DTypeError, DuplicateNameError, ProgramError, ShapeError
from braces.frontend.optimizer.parts import Given, Part
from braces.frontend.optimizer.schedule import Schedule
from braces.frontend.plain_block import block
from braces.frontend.variables import persistable
from braces.ir.names import check_name
from braces.ir.records import STATE
from braces.jaxpr.trace import Traced, trace, with_leaves
from braces.lazy import jax, jnp, optax
from braces.ops.precision import widened

Tree = Any
"""A tree of optax, of variables, types or arrays."""
_STEPS = TensorType(INT32, ())


def append_step(
    program: Builder,
    parts: Sequence[Part],
    dtype: DType,
    pairs: Mapping[Var, Var],
    loss: Var | None,
) -> dict[Var, Var]:
    """Append a step, and make every run commit it.

    Args:
        program: What it is appended to.
        parts: In the order in which gradients pass through them.
        dtype: Of learning rates that are kept.
        pairs: Each parameter to its gradient.
        loss: What is minimized, for transformations that ask for it.

    Returns:
        Each parameter to its next value.
    """
    params = {param.name: param for param in pairs}
    grads = {param.name: grad for param, grad in pairs.items()}
    kept = [Kept(program, part, dtype, params) for part in parts]
    states = [one.states for one in kept]
    with block(_leading(kept).own_name):
        arguments = [one.rate() for one in kept], states, params, grads, loss
        traced = trace(_called(parts), _update(parts, params), *arguments)
        after, moved = traced.build(*arguments)
        for one_part, next_states in zip(kept, after, strict=True):
            one_part.move(next_states)
        for name, value in moved.items():
            program.update(name, value.name)
    return {param: shown(moved[param.name]) for param in pairs}


def _leading(kept: Sequence[Kept]) -> Kept:
    """The part after which the whole step is called: the one that has the learning rate."""
    return max(kept, key=lambda one: (one.part.rate is not None, one.part.whole))


def _called(parts: Sequence[Part]) -> str:
    return f"The optimizer `{' '.join(part.name for part in parts)}`"


def _update(parts: Sequence[Part], given: Mapping[str, Var]) -> Callable[..., Tree]:
    """The step as a function of JAX."""

    def update(rates: Tree, states: Tree, params: Tree, grads: Tree, loss: Any) -> Tree:
        wide, updates = _wide(params), _wide(grads)
        after = list[Tree]()
        for part, rate, state in zip(parts, rates, states, strict=True):
            made = optax.with_extra_args_support(part.make(Given(rate, given)))
            updates, moved = made.update(updates, _wide(state), wide, value=loss)
            after.append(_like(moved, state))
        return after, _like(optax.apply_updates(wide, _like(updates, wide)), params)

    return update


def _wide(tree: Tree) -> Tree:
    return jax.tree.map(widened, tree)


def _like(tree: Tree, wanted: Tree) -> Tree:
    """A tree of arrays in the dtypes of another; their shapes are the same."""
    numpy: Any = jnp  # its own types are not all known

    def like(given: Any, other: Any) -> Any:
        array = numpy.asarray(given)
        if array.shape != other.shape:
            raise ShapeError(
                "A transformation changes the shape of what it is given or keeps.",
                given=f"{other.shape} becomes {array.shape}",
            )
        return array.astype(other.dtype)

    return jax.tree.map(like, tree, wanted)


# ---- what is kept ----------------------------------------------------------------------------


class Kept:
    """The persistable variables of one part in a program.

    Attributes:
        name: The first part of their names.
        states: What its transformation keeps, as optax has it.
    """

    def __init__(
        self, program: Builder, part: Part, dtype: DType, params: Mapping[str, Var]
    ) -> None:
        self.program = program
        self.name = _free_name(program, part)
        self.part = part
        self.dtype = dtype
        self._moves = list[tuple[Var, Var]]()
        self._rate: Var | None = None
        if part.rate is not None and not callable(part.rate):
            self._rate = self._given_rate(part.rate)
        self.states = self._make(params)
        self._course = self._scheduled(part.rate) if callable(part.rate) else None

    @property
    def own_name(self) -> str:
        """The name, without that of the block around."""
        return self.name.removeprefix(self.program.current.names.prefix)

    def move(self, after: Tree) -> None:
        """Give all that is kept its value after the run."""
        pairs = zip(jax.tree.leaves(self.states), jax.tree.leaves(after), strict=True)
        for state, value in (*pairs, *self._moves):
            self.program.update(state.name, value.name)

    # ---- learning rates ----------------------------------------------------------------------

    def rate(self) -> Var | None:
        """The learning rate of this step; a schedule computes it in the current block."""
        if self._course is None:
            return self._rate
        value, moves = self._course.build(self.dtype)
        self._moves.extend(moves)
        return value

    def _given_rate(self, given: float | Var) -> Var:
        return _scalar(given) if isinstance(given, Var) else self._new_rate(given)

    def _new_rate(self, value: float) -> Var:
        return self._new(["learning_rate"], TensorType(self.dtype, ()), value)

    def _scheduled(self, schedule: Callable[[Var], Var]) -> _Course:
        """A schedule of the steps that the transformation counts, or else of its own count."""
        table = self.program.table
        found = table.find_var(f"{self.name}/count")
        if found is not None and found.type == _STEPS:
            steps, counted = var_of(self.program, table, found.name), True
        else:
            steps, counted = self._new(["count"], _STEPS, 0.0), False
        return _Course(schedule, steps, counted, self._new_rate(0.0))

    # ---- states ------------------------------------------------------------------------------

    def _make(self, params: Mapping[str, Var]) -> Tree:
        """What the transformation keeps, as variables."""

        def init(rate: Any, arrays: Tree) -> Tree:
            return self.part.make(Given(rate, params)).init(arrays)

        rate = TensorType(self.dtype, ()) if self._rate is None else self._rate
        traced = trace(_called([self.part]), init, rate, params)
        firsts = jax.tree.leaves(self._first_values(traced, (rate, params)))
        made = [
            self._new(path, type_, first)
            for (path, type_), first in zip(traced.leaves, firsts, strict=True)
        ]
        return with_leaves(traced.shapes, made)

    def _first_values(self, traced: Traced, arguments: Tree) -> Tree:
        """What it begins with, in the startup program, where parameters have first values."""
        leaves, startup = jax.tree.leaves(arguments), self.program.startup
        first_values = list(map(self._first_value, leaves))
        for place in traced.read:
            if first_values[place] is None:
                raise ProgramError(
                    f"What `{self.name}` keeps begins with a value that the startup program "
                    "does not set.",
                    given=f"{leaves[place]!r}",
                    fix="It may begin with numbers, with first values of parameters, and with "
                    "a learning rate that is a number.",
                )
        pairs = zip(leaves, first_values, strict=True)
        given = [leaf if first is None else first for leaf, first in pairs]
        with startup.building(startup.table):
            return traced.build(with_leaves(arguments, given))

    def _first_value(self, leaf: Var | TensorType) -> Var | None:
        """The first value of a persistable variable."""
        startup = self.program.startup
        name = startup.updates.get(leaf.name) if isinstance(leaf, Var) else None
        return None if name is None else var_of(startup, startup.table, name)

    def _new(self, path: Sequence[str], type_: TensorType, first: float | Var) -> Var:
        """A new persistable variable; what has the same name as another gets a number."""
        stem, *rest = path or ("state",)
        names = ("/".join([self.name, f"{stem}_{i}" if i else stem, *rest]) for i in count())
        name = next(name for name in names if self.program.table.find_var(name) is None)
        init = partial(_already, first) if isinstance(first, Var) else first
        sizes = [size for size in type_.shape if isinstance(size, int)]
        return persistable(
            check_name(name), sizes, init, type_.dtype, kind=STATE, trainable=False
        )


def _already(first: Var, *_: Any) -> Var:
    """An initializer whose value is there."""
    return first


def _free_name(program: Builder, part: Part) -> str:
    """The name of a part in the current block, with a count where another one has it."""
    prefix = program.current.names.prefix
    inside = (n.removeprefix(prefix) for n in program.table.vars if n.startswith(prefix))
    taken = {name.partition("/")[0] for name in inside if "/" in name}
    if part.chosen and part.name in taken:
        raise DuplicateNameError(
            f"There are variables called `{prefix}{part.name}/…` already.",
            fix="Give each optimizer of a program another name.",
        )
    names = (f"{part.name}_{i}" if i else part.name for i in count())
    return prefix + next(name for name in names if name not in taken)


# ---- learning rates --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Course:
    """A learning rate that follows from the count of steps.

    Attributes:
        schedule: What gives it.
        steps: The steps done.
        counted: Whether the transformation counts them.
        shown: What the scope shows of it.
    """

    schedule: Callable[[Var], Var]
    steps: Var
    counted: bool
    shown: Var

    def build(self, dtype: DType) -> tuple[Var, list[tuple[Var, Var]]]:
        """The learning rate of this step, and the next values of what is kept for it."""
        value = _scalar(_called_with(self.schedule, self.steps, dtype))
        if value.dtype != dtype:
            value = one("cast", value, dtype=dtype)
        moves = [(self.shown, value)]
        if not self.counted:
            after = trace("The count", optax.safe_increment, self.steps).build(self.steps)
            moves.insert(0, (self.steps, after))
        return value, moves


def _called_with(schedule: Callable[[Var], Var], steps: Var, dtype: DType) -> Any:
    """The number that a schedule gives after these steps."""
    if isinstance(schedule, Schedule):
        return schedule(steps, dtype)
    try:
        return schedule(steps)
    except BracesError:
        raise
    except Exception as error:
        raise ProgramError(
            f"A schedule fails: {error!s:.200}",
            fix="It is given the count of steps, a variable, and computes with operators; "
            "br.optimizer.Schedule(function) is one that computes with jax.numpy.",
        ) from error


def _scalar(value: Any) -> Var:
    if not isinstance(value, Var):
        raise DTypeError(
            f"{value!r:.80} is not a learning rate.",
            fix="A schedule takes the count of steps and returns a scalar variable.",
        )
    if value.shape:
        raise ShapeError(
            "A learning rate is one number.",
            given=f"{value.name}: {value.type}",
            fix="Reduce it.",
        )
    return value
