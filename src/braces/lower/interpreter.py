"""Operator by operator, each block run in a scope of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

from braces.define.calling import exhausted, refuse_inputs
from braces.define.decorator import OPS, OpDef
from braces.errors import BracesError, NaNError, RunError
from braces.ir.records import Body, Op
from braces.lazy import jax
from braces.lower.attributes import Sizes, concrete_attrs, size_number
from braces.lower.huge import guarded, refuse_huge_results
from braces.lower.lowerer import bind, has_nan
from braces.lower.memory import out_of_memory
from braces.lower.target import OTHER, Target, XlaOptions
from braces.lower.telling import told_offence, told_sizes
from braces.lower.watch import Watch
from braces.ops.control.base import BlockOp
from braces.ops.lists import Stack
from braces.scope import Scope

Listener = Callable[[str, Op, Mapping[str, Any]], None]
"""Called after each operator with the path of its block, the operator, and what it bound."""


@dataclass
class Interpreter:
    """Runs blocks operator by operator.

    Attributes:
        sizes: The named dimensions of the run.
        listeners: Called after each operator.
        check_nan: Whether to stop at the first operator that produces a NaN.
        target: What kernels are compiled for.
        watch: Ends the run where its time is over.
        kept: Where step scopes stay after the run: path to scope; `None` lets them go.
    """

    sizes: Sizes
    listeners: Sequence[Listener] = ()
    kept: dict[str, Scope] | None = None
    trips: dict[str, int] = field(default_factory=dict[str, int])
    check_nan: bool = False
    target: Target = OTHER
    watch: Watch = field(default_factory=Watch)

    def run(self, body: Body, env: dict[str, Any], path: str) -> None:
        """Run the operators of a block; `env` gains what they bind."""
        for op in body.ops:
            before = set(env) if self.listeners else set[str]()
            try:
                self.watch.check()
                self._step(op, env, path)
                if self.check_nan:
                    refuse_nan(op, env)
            except BracesError as error:
                raise error.located(place(path, op)) from error.__cause__
            except RuntimeError as error:
                if not exhausted(error):
                    raise
                raise out_of_memory(str(error)).located(place(path, op)) from None
            if self.listeners:
                bound = {name: env[name] for name in op.binds() if name not in before}
                for listener in self.listeners:
                    listener(path, op, bound)

    def _step(self, op: Op, env: dict[str, Any], path: str) -> None:
        definition = OPS.get(op.type)
        if isinstance(definition, BlockOp):
            env |= definition.interpret(OpFrame(self, op, env, path))
            return
        values = {slot: tuple(env[n] for n in names) for slot, names in op.inputs.items()}
        if definition.learn_rule is not None:
            found = told_sizes(definition, values, op.attrs)
            self.sizes.update((name, int(size)) for name, size in found.items())
        attrs = concrete_attrs(op.attrs, self.sizes)
        check(definition, values, attrs)
        bind(op, compute(definition, values, attrs, tuple(op.outputs), self.target), env)

    def enter(self, path: str, outer: str) -> None:
        """Make the scope of a block, in that of the block around it, if that was asked for."""
        if self.kept is not None:
            self.kept[path] = self.kept[outer].new_scope()

    def keep(self, path: str, env: Mapping[str, Any]) -> None:
        """Put the values of a finished block into its scope, if that was asked for."""
        if self.kept is None:
            return
        for name, value in env.items():
            kept = value.values() if isinstance(value, Stack) else value
            self.kept[path].var(name).put(kept)


def refuse_nan(op: Op, env: Mapping[str, Any]) -> None:
    """Raise where an operator produced a NaN.

    Raises:
        NaNError: It says which output has one, and which inputs had one already.
    """
    for name in op.binds():
        if _has_nan(env[name]):
            before = [n for n in op.reads() if _has_nan(env[n])]
            raise NaNError(
                f"{op.type} produced a NaN in `{name}`.",
                given="NaN in its inputs: " + (", ".join(before) or "none"),
                fix="Look at the values before it with a listener, or keep_scopes=True.",
            )


def _has_nan(value: Any) -> bool:
    return not isinstance(value, Stack) and bool(has_nan([value]))


def place(path: str, op: Op) -> str:
    """Where an operator is, for messages."""
    block = f"block `{path}`" if path else "block 0"
    return f"{block}, {op.describe()}"


def check(definition: OpDef, values: Mapping[str, Any], attrs: Mapping[str, Any]) -> None:
    """Raise what the operator says is wrong with its inputs."""
    code = 0 if definition.check is None else int(told_offence(definition, values, attrs))
    if code:
        raise definition.failure(attrs, code)


def compute(
    definition: OpDef,
    values: Mapping[str, Any],
    attrs: Mapping[str, Any],
    wanted: tuple[str, ...],
    target: Target,
) -> dict[str, Any]:
    """Run one kernel; compiled on its own where it reads arrays, and nothing else.

    What reads nothing, a constant above all, would be compiled again for each value. What draws
    is compiled as it is in whole programs, and so gives the same bits.
    """
    if not values:
        refuse_huge_results(definition, attrs, wanted)
    if definition.lists or not values:
        run = partial(definition.compute, attrs=attrs, wanted=wanted)
    else:
        numbers = sum(x.size for given in values.values() for x in given)
        options = () if definition.random else target.kernel_options(numbers)
        run = _kernel(definition, tuple(attrs.items()), wanted, options)
    try:
        return run(values)
    except Exception as error:
        refuse_inputs(RunError, definition.type, definition.kernel, values, attrs, error)


def forget_kernels() -> None:
    """Let go of what was compiled to interpret single operators."""
    _kernel.cache_clear()


@lru_cache(maxsize=4096)
def _kernel(
    definition: OpDef,
    attrs: tuple[tuple[str, Any], ...],
    wanted: tuple[str, ...],
    options: XlaOptions,
) -> Callable[[Any], dict[str, Any]]:
    function = guarded(lambda values: definition.compute(values, dict(attrs), wanted))
    return jax.jit(function, compiler_options=dict(options) or None)


@dataclass
class OpFrame:
    """One operator that owns blocks, being interpreted; `braces.ops.control.base.Frame`."""

    interpreter: Interpreter
    op: Op
    env: dict[str, Any]
    path: str

    def read(self, name: str) -> Any:
        """The value of a visible variable."""
        return self.env[name]

    def size(self, size: Any) -> int:
        """A size as a number."""
        return size_number(size, self.interpreter.sizes)

    def run(self, label: str, body: Body, arguments: Sequence[Any]) -> list[Any]:
        """Run a sub-block in a scope of its own."""
        place_ = f"{self.path}/{self.op.name}/{label}".lstrip("/")
        trip = self.interpreter.trips.get(place_, 0)
        self.interpreter.trips[place_] = trip + 1
        env = {name: self.env[name] for name in self.op.captures()}
        env.update(zip(body.params, arguments, strict=True))
        here = f"{place_}[{trip}]"
        self.interpreter.enter(here, self.path)
        self.interpreter.run(body, env, here)
        self.interpreter.keep(here, {n: v for n, v in env.items() if n in body.vars})
        return [env[name] for name in body.results]

    def set_size(self, size: Any, value: int) -> None:
        """Say what a dimension of the sub-blocks is."""
        self.interpreter.sizes[str(size)] = value
