"""Interpreter: runs blocks operator by operator, each block in its own scope."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar, final

from braces.define.core.kernel_call import is_out_of_memory
from braces.define.decorator import OPS
from braces.errors import BracesError
from braces.ir.records import Body, Op, VarInfo
from braces.lower.checks.out_of_memory import out_of_memory
from braces.lower.checks.value_checks import ValueChecks
from braces.lower.interpret.hot_traces import HotTrace
from braces.lower.interpret.kernels import Kernel, SpecializedKernel, compile_shared
from braces.lower.interpret.operator_timing import OperatorClock
from braces.lower.interpret.value_errors import find_no_role, refuse_values
from braces.lower.interrupt.deadline import CancellationToken
from braces.lower.xla.concrete_attributes import Sizes, size_number
from braces.ops.control.core.block_op import BlockOp, BoundCall
from braces.ops.lists.stack import Stack
from braces.scope import Scope
from braces.target import Target

T = TypeVar("T")
NO_NAMES: frozenset[str] = frozenset()
NO_INFOS: Mapping[str, VarInfo] = {}
_size = attrgetter("size")
Listener = Callable[[str, Op, Mapping[str, Any]], None]
"""Called after each operator with the path of its block, the operator, and its outputs."""


@dataclass(frozen=True, slots=True)
class BlockEntry:
    """The beginning of a run of a block.

    Attributes:
        path: The path of the block with iterations, as `loop_0/body[2]`; empty for block 0.
        outer: The path of the enclosing block, likewise.
        op: The operator that owns the block; `None` for block 0.
        label: The label of the block in its owner.
        iteration: The number of earlier runs of the block in this run of its owner.
        arguments: The values of its parameters by name; for block 0, of data and states.
    """

    path: str
    outer: str
    op: Op | None
    label: str
    iteration: int
    arguments: Mapping[str, Any]


class BlockListener:
    """A listener that also observes the beginning of blocks, and failing operators.

    By default, its methods do nothing.
    """

    def __call__(self, path: str, op: Op, values: Mapping[str, Any]) -> None:
        """Observe an operator that has run, as a `Listener`."""

    def enter(self, entry: BlockEntry) -> None:
        """Observe a block that begins to run."""

    def fail(self, path: str, op: Op) -> None:
        """Observe an operator that raises an error; its owners follow, the innermost first."""


@final
class BlockOpPlan:
    """Plan of an operator that owns blocks, prepared once for all runs.

    Attributes:
        op: The operator.
        definition: The definition of its type.
        captures: The names of outer variables that its blocks read.
        scripts: The plans of its blocks that have run, by label.
        made: The result that its definition computes once; see
            `braces.ops.control.core.block_op.Frame.once`.
    """

    def __init__(
        self, op: Op, definition: BlockOp, target: Target, infos: Mapping[str, VarInfo]
    ) -> None:
        self.op, self.definition, self.target = op, definition, target
        self.captures = op.captures()
        self._outer = {name: infos[name] for name in self.captures}
        self.scripts: dict[str, BlockPlan] = {}
        self.made: Any = None

    def script(self, label: str, body: Body) -> BlockPlan:
        """Return the plan of one of its blocks."""
        plan = self.scripts.get(label)
        if plan is None:
            plan = self.scripts[label] = BlockPlan(body, self.target, self._outer)
        return plan


Step: TypeAlias = Kernel | BlockOpPlan
TraceGroup: TypeAlias = tuple[Sequence[Step], HotTrace | None]


@final
class BlockPlan:
    """Plan of a block for the interpreter, prepared once for all runs.

    Attributes:
        body: The block.
        steps: Its operators, in order.
        parts: The same operators in parts, each with its hot trace, if it has one.
        whole: The hot trace of all operators, if there is one.

    Args:
        body: The block.
        target: The target of compilation.
        outer: The declarations of the outer variables that the block reads.
        wanted: The names that are read after the block, besides its results.
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
        self.steps = tuple(_plan_step(op, target, infos) for op in body.ops)
        self.parts = tuple(_group_steps(self.steps, infos, {*body.results, *wanted}, target))
        self.whole = self.parts[0][1] if len(self.parts) == 1 else None


def _group_steps(
    steps: Sequence[Step], infos: Mapping[str, VarInfo], wanted: set[str], target: Target
) -> Iterable[TraceGroup]:
    """Group operators into hot traces and others; `wanted` is read after all of them."""
    groups = [(bundled, tuple(group)) for bundled, group in groupby(steps, _is_bundled)]
    parts = list[TraceGroup]()
    for bundled, group in reversed(groups):
        part, bundle = group, None
        kernels = [step for step in part if bundled and type(step) is Kernel]
        if len(kernels) > 1 and target.hot:
            names = (name for kernel in kernels for name in (*kernel.reads, *kernel.binds))
            types = {name: infos[name].type for name in names}
            bundle = HotTrace(kernels, types, frozenset(wanted), target)
        elif parts and parts[-1][1] is None:
            part = (*part, *parts.pop()[0])
        parts.append((part, bundle))
        wanted.update(name for step in group for name in _read_by(step))
    return reversed(parts)


def _is_bundled(step: Step) -> bool:
    return type(step) is Kernel and step.bundled


def _read_by(step: Step) -> Iterable[str]:
    return step.reads if type(step) is Kernel else (*step.op.reads(), *step.captures)


def _plan_step(op: Op, target: Target, infos: Mapping[str, VarInfo]) -> Step:
    definition = OPS.get(op.type)
    if isinstance(definition, BlockOp):
        return BlockOpPlan(op, definition, target, infos)
    return Kernel(op, definition, target, infos)


@dataclass
class Interpreter:
    """Runs blocks operator by operator.

    Attributes:
        sizes: The named dimensions of the run.
        listeners: Called after each operator.
        checks: The values that stop the run: NaNs, infinities.
        watch: Ends a run that exceeds its time limit or is cancelled.
        step_scopes: The step scopes that outlive the run, by path; `None` discards them.
        constants: The results of small operators without inputs.
        clock: Measures the time of each operator, if a profile is recorded.
        unwatched: Whether no listener, check or profiler observes single operators.
        find_role: Returns the role of an output of an operator, for messages: its block's path,
            the operator, the name.
        observers: The listeners that observe the beginning of blocks, too.
    """

    sizes: Sizes
    listeners: Sequence[Listener] = ()
    step_scopes: dict[str, Scope] | None = None
    checks: ValueChecks = ()
    watch: CancellationToken = field(default_factory=CancellationToken)
    constants: dict[SpecializedKernel, Sequence[Any]] = field(
        default_factory=dict[SpecializedKernel, Sequence[Any]]
    )
    clock: OperatorClock | None = None
    find_role: Callable[[str, Op, str], str] = find_no_role

    def __post_init__(self) -> None:
        looks = bool(self.listeners) or bool(self.checks)
        self.unwatched = not looks and self.step_scopes is None and self.clock is None
        self.observers = [x for x in self.listeners if isinstance(x, BlockListener)]

    def run(self, script: BlockPlan, env: dict[str, Any], path: str) -> None:
        """Run the operators of a block; `env` gains their results that may be read later."""
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
        timed, checks = self.watch.limited, self.checks
        for step in steps if clock is None else clock.over(steps, path, env):
            before = set(env) if listeners else NO_NAMES
            try:
                if timed:
                    self.watch.check()
                if type(step) is Kernel:
                    step.run(env, self.sizes, self.constants)
                else:
                    env |= step.definition.interpret(OpFrame(self, step, env, path))
                if checks:
                    refuse_values(checks, step.op, env, partial(self.find_role, path, step.op))
            except BracesError as error:
                for observer in self.observers:
                    observer.fail(path, step.op)
                raise error.located(describe_location(path, step.op)) from error.__cause__
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                raise out_of_memory(str(error)).located(
                    describe_location(path, step.op)
                ) from None
            if listeners:
                self._tell(path, step.op, env, before)

    def _tell(self, path: str, op: Op, env: Mapping[str, Any], before: Collection[str]) -> None:
        bound = {name: env[name] for name in op.binds() if name not in before}
        for listener in self.listeners:
            listener(path, op, bound)

    def announce(self, entry: BlockEntry) -> None:
        """Call the listeners that observe the beginning of blocks."""
        for observer in self.observers:
            observer.enter(entry)

    def enter(self, path: str, outer: str) -> None:
        """Create the scope of a block inside that of the outer block, if scopes are kept."""
        if self.step_scopes is not None:
            self.step_scopes[path] = self.step_scopes[outer].new_scope()

    def keep(self, path: str, env: Mapping[str, Any], body: Body | None = None) -> None:
        """Store the values of a finished block in its scope, if scopes are kept.

        A sub-block stores the values that it binds; all others belong to outer blocks.
        """
        if self.step_scopes is None:
            return
        for name, value in env.items():
            if body is not None and name not in body.vars:
                continue
            stored = value.values() if isinstance(value, Stack) else value
            self.step_scopes[path].var(name).put(stored)


def describe_location(path: str, op: Op) -> str:
    """Return the location of an operator, for messages."""
    block = f"block `{path}`" if path else "block 0"
    return f"{block}, {op.describe()}"


@dataclass(slots=True)
class OpFrame:
    """An operator that owns blocks, during interpretation; see `block_op.Frame`."""

    interpreter: Interpreter
    owner: BlockOpPlan
    env: dict[str, Any]
    path: str
    trips: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def op(self) -> Op:
        """The operator."""
        return self.owner.op

    def once(self, make: Callable[[Op], T]) -> T:
        """Return `make(op)`, computed once for all runs of the operator."""
        if self.owner.made is None:
            self.owner.made = make(self.op)
        return self.owner.made

    def read(self, name: str) -> Any:
        """Return the value of a visible variable."""
        return self.env[name]

    def size(self, size: Any) -> int:
        """Return a size as a number."""
        return size_number(size, self.interpreter.sizes)

    def run(self, label: str, body: Body, arguments: Sequence[Any]) -> list[Any]:
        """Run a sub-block in a separate scope."""
        interpreter, trip = self.interpreter, self.trips.get(label, 0)
        self.trips[label] = trip + 1
        number = "" if label.endswith("]") else f"[{trip}]"
        here = f"{self.path}/{self.op.name}/{label}{number}".lstrip("/")
        env = {name: self.env[name] for name in self.owner.captures}
        env.update(zip(body.params, arguments, strict=True))
        if interpreter.observers:
            bound = {name: env[name] for name in body.params}
            interpreter.announce(BlockEntry(here, self.path, self.op, label, trip, bound))
        script = self.owner.script(label, body)
        if interpreter.step_scopes is None:
            interpreter.run(script, env, here)
        else:
            interpreter.enter(here, self.path)
            interpreter.run(script, env, here)
            interpreter.keep(here, env, body)
        return [env[name] for name in body.results]

    def run_between(
        self, label: str, body: Body, before: BoundCall, after: BoundCall
    ) -> list[Any]:
        """Run a sub-block between two functions, as one fused region if it is hot."""
        interpreter = self.interpreter
        whole = self.owner.script(label, body).whole
        watch = interpreter.watch
        late = watch.limited and watch.over()
        if whole is not None and not late and interpreter.unwatched:
            fused_results = whole.run_between(body, self.env, interpreter.sizes, before, after)
            if fused_results is not None:
                return fused_results
        (first, before_values), (last, after_values) = before, after
        results = self.run(label, body, self.compute(first, *before_values))
        return self.compute(last, *results, *after_values)

    def compute(self, function: Callable[..., T], *values: Any) -> T:
        """Call a JAX function, compiled for the shapes of its arguments."""
        target = self.owner.target
        few = sum(map(_size, values)) <= target.small
        return compile_shared(function, target.quickly if few else ())(*values)

    def set_size(self, size: Any, value: int) -> None:
        """Set the size of a dimension of the sub-blocks."""
        self.interpreter.sizes[str(size)] = value
