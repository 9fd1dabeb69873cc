"""Operator by operator, each block run in a scope of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar, final

from braces.define.core.kernel_call import exhausted
from braces.define.decorator import OPS
from braces.errors import BracesError, NaNError
from braces.ir.records import Body, Op, VarInfo
from braces.lower.checks.out_of_memory import out_of_memory
from braces.lower.interpret.hot_traces import Bundle
from braces.lower.interpret.kernels import Kernel, Ready, compiled
from braces.lower.interpret.operator_timing import Clock
from braces.lower.interrupt.deadline import Watch
from braces.lower.xla.block_lowering import has_nan
from braces.lower.xla.concrete_attributes import Sizes, size_number
from braces.ops.control.core.block_op import BlockOp, Call
from braces.ops.lists.stack import Stack
from braces.scope import Scope
from braces.target import Target

T = TypeVar("T")
NOTHING: frozenset[str] = frozenset()
NO_INFOS: Mapping[str, VarInfo] = {}
_size = attrgetter("size")
Listener = Callable[[str, Op, Mapping[str, Any]], None]
"""Called after each operator with the path of its block, the operator, and what it bound."""


@final
class Owner:
    """One operator that owns blocks, prepared once for all runs.

    Attributes:
        op: The operator.
        definition: What is known of its type.
        captures: What its blocks read from outside.
        scripts: Its blocks by label, as far as they ran.
        made: What its definition made of it; see `braces.ops.control.core.block_op.Frame.once`.
    """

    def __init__(
        self, op: Op, definition: BlockOp, target: Target, infos: Mapping[str, VarInfo]
    ) -> None:
        self.op, self.definition, self.target = op, definition, target
        self.captures = op.captures()
        self._outer = {name: infos[name] for name in self.captures}
        self.scripts: dict[str, Script] = {}
        self.made: Any = None

    def script(self, label: str, body: Body) -> Script:
        """One of its blocks, prepared."""
        found = self.scripts.get(label)
        if found is None:
            found = self.scripts[label] = Script(body, self.target, self._outer)
        return found


Step: TypeAlias = Kernel | Owner
Part: TypeAlias = tuple[Sequence[Step], Bundle | None]


@final
class Script:
    """A block as the interpreter goes through it, prepared once for all runs.

    Attributes:
        body: The block.
        steps: Its operators, in order.
        parts: The same in parts, each with what dispatches it together, if it can be.
        whole: What dispatches all of it together, if it can be.

    Args:
        body: The block.
        target: What code is made for.
        outer: The declarations of what it reads from outside.
        wanted: The names that are read after it, beside its results.
    """

    def __init__(
        self,
        body: Body,
        target: Target,
        outer: Mapping[str, VarInfo] = NO_INFOS,
        wanted: Iterable[str] = (),
    ) -> None:
        self.body = body
        infos = {**outer, **body.vars}
        self.steps = tuple(_step(op, target, infos) for op in body.ops)
        self.parts = tuple(_parts(self.steps, infos, {*body.results, *wanted}, target))
        self.whole = self.parts[0][1] if len(self.parts) == 1 else None


def _parts(
    steps: Sequence[Step], infos: Mapping[str, VarInfo], wanted: set[str], target: Target
) -> Iterable[Part]:
    """Operators by whether they may be bundled; `wanted` is read after all of them."""
    groups = [(bundled, tuple(group)) for bundled, group in groupby(steps, _is_bundled)]
    found = list[Part]()
    for bundled, group in reversed(groups):
        part, bundle = group, None
        kernels = [step for step in part if bundled and type(step) is Kernel]
        if len(kernels) > 1 and target.hot:
            names = (name for one in kernels for name in (*one.reads, *one.binds))
            types = {name: infos[name].type for name in names}
            bundle = Bundle(kernels, types, frozenset(wanted), target)
        elif found and found[-1][1] is None:
            part = (*part, *found.pop()[0])
        found.append((part, bundle))
        wanted.update(name for step in group for name in _read_by(step))
    return reversed(found)


def _is_bundled(step: Step) -> bool:
    return type(step) is Kernel and step.bundled


def _read_by(step: Step) -> Iterable[str]:
    return step.reads if type(step) is Kernel else (*step.op.reads(), *step.captures)


def _step(op: Op, target: Target, infos: Mapping[str, VarInfo]) -> Step:
    definition = OPS.get(op.type)
    if isinstance(definition, BlockOp):
        return Owner(op, definition, target, infos)
    return Kernel(op, definition, target, infos)


@dataclass
class Interpreter:
    """Runs blocks operator by operator.

    Attributes:
        sizes: The named dimensions of the run.
        listeners: Called after each operator.
        check_nan: Whether to stop at the first operator that produces a NaN.
        watch: Ends the run where its time is over.
        kept: Where step scopes stay after the run: path to scope; `None` lets them go.
        constants: What small operators that read nothing gave.
        clock: Takes the time of each operator, where somebody wants to know it.
        unwatched: Whether nobody looks at single operators.
    """

    sizes: Sizes
    listeners: Sequence[Listener] = ()
    kept: dict[str, Scope] | None = None
    check_nan: bool = False
    watch: Watch = field(default_factory=Watch)
    constants: dict[Ready, Sequence[Any]] = field(default_factory=dict[Ready, Sequence[Any]])
    clock: Clock | None = None

    def __post_init__(self) -> None:
        looks = bool(self.listeners) or self.check_nan
        self.unwatched = not looks and self.kept is None and self.clock is None

    def run(self, script: Script, env: dict[str, Any], path: str) -> None:
        """Run the operators of a block; `env` gains what they bind and somebody may read."""
        if not self.unwatched:
            self._run_each(script.steps, env, path)
            return
        sizes, timed = self.sizes, self.watch.limited
        for steps, bundle in script.parts:
            late = timed and self.watch.over()
            if late or bundle is None or not bundle.run(env, sizes, self.constants):
                self._run_each(steps, env, path)

    def _run_each(self, steps: Sequence[Step], env: dict[str, Any], path: str) -> None:
        clock, listeners = self.clock, self.listeners
        timed, check_nan = self.watch.limited, self.check_nan
        for step in steps if clock is None else clock.over(steps, path, env):
            before = set(env) if listeners else NOTHING
            try:
                if timed:
                    self.watch.check()
                if type(step) is Kernel:
                    step.run(env, self.sizes, self.constants)
                else:
                    env |= step.definition.interpret(OpFrame(self, step, env, path))
                if check_nan:
                    refuse_nan(step.op, env)
            except BracesError as error:
                raise error.located(place(path, step.op)) from error.__cause__
            except RuntimeError as error:
                if not exhausted(error):
                    raise
                raise out_of_memory(str(error)).located(place(path, step.op)) from None
            if listeners:
                self._tell(path, step.op, env, before)

    def _tell(self, path: str, op: Op, env: Mapping[str, Any], before: Collection[str]) -> None:
        bound = {name: env[name] for name in op.binds() if name not in before}
        for listener in self.listeners:
            listener(path, op, bound)

    def enter(self, path: str, outer: str) -> None:
        """Make the scope of a block, in that of the block around it, if that was asked for."""
        if self.kept is not None:
            self.kept[path] = self.kept[outer].new_scope()

    def keep(self, path: str, env: Mapping[str, Any], body: Body | None = None) -> None:
        """Put the values of a finished block into its scope, if that was asked for.

        Of a sub-block, those are what it binds; all else belongs to blocks around it.
        """
        if self.kept is None:
            return
        for name, value in env.items():
            if body is not None and name not in body.vars:
                continue
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


@dataclass(slots=True)
class OpFrame:
    """One operator that owns blocks, being interpreted; see `block_op.Frame`."""

    interpreter: Interpreter
    owner: Owner
    env: dict[str, Any]
    path: str
    trips: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def op(self) -> Op:
        """The operator."""
        return self.owner.op

    def once(self, make: Callable[[Op], T]) -> T:
        """What is made of the operator, once for all runs of it."""
        if self.owner.made is None:
            self.owner.made = make(self.op)
        return self.owner.made

    def read(self, name: str) -> Any:
        """The value of a visible variable."""
        return self.env[name]

    def size(self, size: Any) -> int:
        """A size as a number."""
        return size_number(size, self.interpreter.sizes)

    def run(self, label: str, body: Body, arguments: Sequence[Any]) -> list[Any]:
        """Run a sub-block in a scope of its own."""
        interpreter, trip = self.interpreter, self.trips.get(label, 0)
        self.trips[label] = trip + 1
        here = f"{self.path}/{self.op.name}/{label}[{trip}]".lstrip("/")
        env = {name: self.env[name] for name in self.owner.captures}
        env.update(zip(body.params, arguments, strict=True))
        script = self.owner.script(label, body)
        if interpreter.kept is None:
            interpreter.run(script, env, here)
        else:
            interpreter.enter(here, self.path)
            interpreter.run(script, env, here)
            interpreter.keep(here, env, body)
        return [env[name] for name in body.results]

    def run_between(self, label: str, body: Body, before: Call, after: Call) -> list[Any]:
        """Run a sub-block between two functions; all at once where that is often."""
        interpreter = self.interpreter
        whole = self.owner.script(label, body).whole
        watch = interpreter.watch
        late = watch.limited and watch.over()
        if whole is not None and not late and interpreter.unwatched:
            found = whole.run_between(body, self.env, interpreter.sizes, before, after)
            if found is not None:
                return found
        (first, given), (last, more) = before, after
        results = self.run(label, body, self.compute(first, *given))
        return self.compute(last, *results, *more)

    def compute(self, function: Callable[..., T], *values: Any) -> T:
        """Call a function of JAX, which is compiled for what it is given."""
        target = self.owner.target
        few = sum(map(_size, values)) <= target.small
        return compiled(function, target.quickly if few else ())(*values)

    def set_size(self, size: Any, value: int) -> None:
        """Say what a dimension of the sub-blocks is."""
        self.interpreter.sizes[str(size)] = value
