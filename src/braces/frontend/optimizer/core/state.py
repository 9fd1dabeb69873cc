"""States of optimizers: persistable variables, their names and initial values.

    ScaleByAdamState(count=…, mu={"fc1.w": …})      adam/count  adam/mu/fc1.w

States of a wrapped optimizer are named as without the wrapper; those of the wrapper get the
name of the wrapped optimizer:

    multi_steps(adam())     adam/count  adam/mu/fc1.w  adam/mini_step  adam/acc_grads/fc1.w
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import count, repeat
from typing import Any

from braces.builder.append import emit
from braces.builder.builder import Builder
from braces.builder.var import Var, var_of
from braces.dtypes import INT32, DType, TensorType
from braces.errors import BracesError, DTypeError, DuplicateNameError, ProgramError, ShapeError
from braces.frontend.core.variables import persistable
from braces.frontend.optimizer.core.schedule import Schedule
from braces.frontend.optimizer.core.transforms import Transform, leading_transform
from braces.ir.names import check_name
from braces.ir.records import STATE
from braces.jaxpr.trace import TracedFunction, trace, with_leaves
from braces.lazy import jax

Tree = Any
"""A pytree of optax, of variables, types or arrays."""
_STEPS = TensorType(INT32, ())


def describe_parts(parts: Sequence[Transform]) -> str:
    """Return the name of an optimizer in messages."""
    leaves = [leaf.name for part in parts for leaf in part.leaves()]
    return f"The optimizer `{' '.join(leaves)}`"


class OptimizerState:
    """The persistable variables of one transformation in a program, including nested ones.

    Attributes:
        part: The transformation.
        states: The state of its optax transformation, as a tree of variables.
        leaves: The nested transformations that wrap nothing, with their names and learning
            rates.
    """

    def __init__(
        self, program: Builder, part: Transform, dtype: DType, params: Mapping[str, Var]
    ) -> None:
        self.program = program
        self.part = part
        self.leaves = [LeafTransform(program, leaf, dtype) for leaf in part.leaves()]
        self._of = {leaf.part: leaf for leaf in self.leaves}
        self._keys = list[bool]()
        self.states = self._make(params)
        for leaf in self.leaves:
            leaf.follow()

    def rates(self) -> list[Var | None]:
        """Return the learning rates; schedules compute them in the current block."""
        return [leaf.rate() for leaf in self.leaves]

    def rated(self, rates: Sequence[Any]) -> dict[Transform, Any]:
        """Map transformations to their learning rates."""
        return dict(zip((leaf.part for leaf in self.leaves), rates, strict=True))

    def keyed(self, states: Tree) -> Tree:
        """Return a state with random keys restored from their raw data."""
        leaves = zip(jax.tree.leaves(states), self._keys, strict=True)
        random: Any = jax.random  # its type annotations are incomplete
        values = [random.wrap_key_data(leaf) if key else leaf for leaf, key in leaves]
        return with_leaves(states, values)

    def move(self, after: Tree) -> None:
        """Update all states with their next values."""
        pairs = zip(jax.tree.leaves(self.states), jax.tree.leaves(after), strict=True)
        rate_moves = (move for leaf in self.leaves for move in leaf.moves)
        for state, value in (*pairs, *rate_moves):
            self.program.update(state.name, value.name)

    # ---- states ------------------------------------------------------------------------------

    def _make(self, params: Mapping[str, Var]) -> Tree:
        """Return the initial state of the transformation, as variables."""

        def init(rates: Tree, arrays: Tree) -> Tree:
            states = self.part.transformation(self.rated(rates), params).init(arrays)
            self._keys = list(map(_is_key, jax.tree.leaves(states)))
            return unwrap_keys(states)

        rates = [leaf.known_rate() for leaf in self.leaves]
        traced = trace(describe_parts([self.part]), init, rates, params)
        firsts = jax.tree.leaves(self._first_values(traced, (rates, params)))
        names = self._names(self.part, traced.shapes)
        variables = [
            self._new(name, path, type_, first)
            for name, (path, type_), first in zip(names, traced.leaves, firsts, strict=True)
        ]
        return with_leaves(traced.shapes, variables)

    def _names(self, part: Transform, states: Tree) -> Iterator[str]:
        """Yield the name prefix of each leaf of a transformation's state."""
        if part.inner:
            inner_states, states = states
            for inner_part, inner_state in zip(part.inner, inner_states, strict=True):
                yield from self._names(inner_part, inner_state)
        yield from repeat(
            self._of[leading_transform([part])].name, len(jax.tree.leaves(states))
        )

    def _first_values(self, traced: TracedFunction, arguments: Tree) -> Tree:
        """Append the initial state to the startup program, from initial parameters."""
        leaves, startup = jax.tree.leaves(arguments), self.program.startup
        first_values = list(map(self._first_value, leaves))
        for index in traced.read:
            if first_values[index] is None:
                raise ProgramError(
                    f"the initial state of `{self.leaves[0].name}` depends on a value that the "
                    "startup program does not set.",
                    given=f"{leaves[index]!r}",
                    fix="Compute the initial state from constants, initial values of "
                    "parameters and a constant learning rate only.",
                )
        pairs = zip(leaves, first_values, strict=True)
        initial = [leaf if first is None else first for leaf, first in pairs]
        with startup.building(startup.table):
            return traced.build(with_leaves(arguments, initial))

    def _first_value(self, leaf: Var | TensorType) -> Var | None:
        return first_value(self.program, leaf.name) if isinstance(leaf, Var) else None

    def _new(self, name: str, path: Sequence[str], type_: TensorType, first: Var) -> Var:
        """Declare a new persistable variable; a duplicate name gets a number."""
        stem, *suffix = path or ("state",)
        names = ("/".join([name, f"{stem}_{i}" if i else stem, *suffix]) for i in count())
        free = next(
            candidate for candidate in names if self.program.table.find_var(candidate) is None
        )
        return new_state(check_name(free), type_, first)


def unwrap_keys(states: Tree) -> Tree:
    """Return a state with random keys replaced by their raw data."""

    def number(leaf: Any) -> Any:
        return jax.random.key_data(leaf) if _is_key(leaf) else leaf

    return jax.tree.map(number, states)


def _is_key(leaf: Any) -> bool:
    types: Any = jax.dtypes  # its type annotations are incomplete
    return types.issubdtype(getattr(leaf, "dtype", "bool"), types.prng_key)


def first_value(program: Builder, name: str) -> Var | None:
    """Return the initial value of a persistable variable, in the startup program."""
    startup = program.startup
    value = startup.updates.get(name)
    return None if value is None else var_of(startup, startup.table, value)


def new_state(name: str, type_: TensorType, first: float | Var) -> Var:
    """Declare a persistable variable, initialized with a number or a startup variable."""
    init = partial(_precomputed, first) if isinstance(first, Var) else first
    sizes = [size for size in type_.shape if isinstance(size, int)]
    return persistable(name, sizes, init, type_.dtype, kind=STATE, trainable=False)


def _precomputed(first: Var, *_: Any) -> Var:
    """Return an initializer's precomputed value."""
    return first


def free_name(program: Builder, name: str, *, chosen: bool) -> str:
    """Return a name prefix in the current block, with a number if it is taken.

    Args:
        program: The program under construction.
        name: The name.
        chosen: Whether the user chose it; then a taken name is an error.
    """
    prefix = program.current.names.prefix
    inside = (n.removeprefix(prefix) for n in program.table.vars if n.startswith(prefix))
    taken = {name.partition("/")[0] for name in inside if "/" in name}
    if chosen and name in taken:
        raise DuplicateNameError(
            f"duplicate optimizer name: variables `{prefix}{name}/…` exist already.",
            fix="Use a different name for each optimizer of a program.",
        )
    names = (f"{name}_{i}" if i else name for i in count())
    return prefix + next(name for name in names if name not in taken)


# ---- learning rates --------------------------------------------------------------------------


class LeafTransform:
    """A transformation that wraps nothing: its name in a program, and its learning rate.

    Attributes:
        part: The transformation.
        name: Prefix of the names of its states.
        moves: Further updates of a run: the displayed learning rate of a schedule.
    """

    def __init__(self, program: Builder, part: Transform, dtype: DType) -> None:
        self.program = program
        self.part = part
        self.name = free_name(program, part.name, chosen=part.chosen)
        self.moves = list[tuple[Var, Var]]()
        self._type = TensorType(dtype, ())
        self._steps: Var | None = None
        self._rate: Var | None = None
        if part.rate is not None:
            self._rate = self._update_args(0.0 if callable(part.rate) else part.rate)

    @property
    def own_name(self) -> str:
        """The name without the prefix of the enclosing block."""
        return self.name.removeprefix(self.program.current.names.prefix)

    def known_rate(self) -> Var | TensorType:
        """Return the learning rate (its type for a schedule) while states are initialized."""
        rate = None if callable(self.part.rate) else self._rate
        return self._type if rate is None else rate

    def follow(self) -> None:
        """Find the count of steps that a schedule reads, once states are declared."""
        if callable(self.part.rate):
            self._steps = var_of(self.program, self.program.table, f"{self.name}/count")

    def rate(self) -> Var | None:
        """Return the learning rate; a schedule computes it in the current block."""
        if self._steps is None or self._rate is None:
            return self._rate
        dtype = self._type.dtype
        value = _scalar(_call_schedule(self.part.rate, self._steps, dtype))
        if value.dtype != dtype:
            value = emit("cast", value, dtype=dtype)
        self.moves.append((self._rate, value))
        return value

    def _update_args(self, rate: float | Var) -> Var:
        return _scalar(rate) if isinstance(rate, Var) else self._new(rate)

    def _new(self, value: float) -> Var:
        return new_state(check_name(f"{self.name}/learning_rate"), self._type, value)


def _call_schedule(schedule: Any, steps: Var, dtype: DType) -> Any:
    """Return the value of a schedule after these steps."""
    if isinstance(schedule, Schedule):
        return schedule(steps, dtype)
    try:
        return schedule(steps)
    except BracesError:
        raise
    except Exception as error:
        raise ProgramError(
            f"the schedule raised an error: {error!s:.200}",
            fix="Compute with operators on the step count, a variable; or wrap a function of "
            "jax.numpy in br.optimizer.Schedule(function).",
        ) from error


def _scalar(value: Any) -> Var:
    if not isinstance(value, Var):
        raise DTypeError(
            f"the schedule must return a scalar variable, got {value!r:.80}.",
            fix="Return a variable that is computed from the step count.",
        )
    if value.shape:
        raise ShapeError(
            "a learning rate must be a scalar.",
            given=f"{value.name}: {value.type}",
            fix="Reduce it, for example with br.mean.",
        )
    return value
