"""Lowering of a block to one JAX function.

`Lowerer.run` calls the kernels of a block in order. Other concerns are hooks that act before
and after each operator; see `lowering_hooks.py`. Constructs with blocks are lowered by their
definition, through the interface `OpLowering`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from braces.define.axes.axis_map import shape_of
from braces.define.decorator import OPS, OpDef
from braces.define.definition import Values
from braces.define.type_inference import raise_run_error
from braces.dtypes import Type
from braces.errors import BracesError
from braces.ir.records import Attr, Body, Op, VarInfo
from braces.lazy import jax, jnp, lax
from braces.lower.checks.check_codes import (
    STOP_CHECK,
    VALUE_CHECK,
    RunStatus,
    record_failure,
    start_state,
)
from braces.lower.checks.run_checks import read_check_code
from braces.lower.checks.value_checks import ValueChecks
from braces.lower.interrupt.run_handle import STOPPED
from braces.lower.sharding.local_rows import RowShards
from braces.lower.sharding.partitioner_fixes import compute_on_devices
from braces.lower.sharding.sharding import Placement
from braces.lower.xla.check_points import (
    UNFIT_CODE,
    CheckPoint,
    may_be_unfit,
    without_traces,
    zero_outputs,
)
from braces.lower.xla.commit import Commits
from braces.lower.xla.concrete_attributes import (
    Sizes,
    concrete_attrs,
    size_number,
    sizes_inside,
)
from braces.lower.xla.fused_initializers import BatchedInitializers
from braces.lower.xla.interruptible_loops import (
    build_interruptible_scan,
    build_interruptible_while,
    call_next_end,
    first_iterations,
)
from braces.lower.xla.list_lengths import ListLengthReports
from braces.lower.xla.lowering_hooks import (
    DynamicSizes,
    LoweringHook,
    LoweringState,
    OutputShardings,
    ValueCheck,
)
from braces.lower.xla.vmap_loops import is_vectorizable
from braces.ops.control.core.block_op import BlockOp, Lowering
from braces.target import OTHER, Target


def scope_name(path: str, op: Op) -> str:
    """Return the name of an operator in XLA code; `path` is its path."""
    del path
    return op.name.replace("/", ".")


def block_path(path: str, op: Op) -> str:
    """Return the path of the block of an operator; names may contain slashes too."""
    return path.removesuffix(op.name).rstrip("/")


@dataclass
class Lowerer:
    """Lowers blocks, for one set of sizes and capacities.

    Attributes:
        sizes: The named dimensions of the run.
        sites: The check points: operators that may fail or report a size, by path.
        capacities: The capacity of each list history.
        checks: The values that are recorded as failures: NaNs, infinities.
        target: The target of compilation.
        rounded: The dimensions whose sizes are capacities for a data-dependent number of rows,
            at least 1.
        commits: Selects next values where they are computed.
        infos: The variables of the main block.
        run_number: Number of the run's handle, for the callback of interruptible loops; `None`
            if loops cannot be interrupted.
        timed: Whether all loops are interruptible, or only those without a known trip count.
        loops: The interruptible loops, by number: the path of the block and the operator.
        scope: Returns the name of an operator in XLA code.
        draws: The batched initializers.
        placement: The sharding of values, if there are several devices.
        unfit: Operators whose kernels reject the assumed sizes, by path; `None` if the sizes
            are exact. See `braces.lower.xla.check_points`.
        transposable: Whether JAX will differentiate the code in reverse mode.
    """

    sizes: Sizes
    sites: dict[str, CheckPoint]
    capacities: Mapping[str, int] = field(default_factory=dict[str, int])
    checks: ValueChecks = ()
    target: Target = OTHER
    infos: Mapping[str, VarInfo] = field(default_factory=dict[str, VarInfo])
    run_number: Any = None
    timed: bool = False
    loops: list[tuple[str, Op]] = field(default_factory=list[tuple[str, Op]])
    rounded: frozenset[str] = frozenset()
    commits: Commits = field(default_factory=Commits)
    scope: Callable[[str, Op], str] = scope_name
    draws: BatchedInitializers = field(default_factory=BatchedInitializers)
    placement: Placement | None = None
    unfit: dict[str, CheckPoint] | None = None
    transposable: bool = False

    def __post_init__(self) -> None:
        self.lists = ListLengthReports(self.sites)

    def run(self, body: Body, env: dict[str, Any], path: str, state: RunStatus) -> RunStatus:
        """Lower the operators of a block; `env` gains the values that they bind."""
        block, hooks = LoweringState(body, env, state), self._hooks()
        for op in body.ops:
            definition = OPS.get(op.type)
            here = f"{path}/{op.name}".lstrip("/")
            with jax.named_scope(self.scope(here, op)):
                for hook in hooks:
                    hook.before(op, here, block)
                if isinstance(definition, BlockOp):
                    view = OpLowering(self, op, env, here, block.record_checks())
                    env |= definition.lower(view)
                    block.status = view.outer
                else:
                    bind_outputs(op, self._lower_kernel(definition, op, here, block), env)
            for hook in hooks:
                hook.after(op, here, block)
        return block.record_checks()

    def _hooks(self) -> Sequence[LoweringHook]:
        """Return the hooks, in the order in which they act."""
        pins = [OutputShardings(self.placement)] if self.placement is not None else []
        value_checks = [ValueCheck(self.checks)] if self.checks else []
        sizes = DynamicSizes(self.sizes, self.rounded)
        return [*pins, self.lists, sizes, *value_checks, self.commits]

    def inside(self, body: Body, sizes: Mapping[str, int]) -> Lowerer:
        """Return the lowerer of a sub-block; `sizes` are the dimensions of this run of it."""
        changes = dict[str, Any]()
        if sizes:
            changes["sizes"] = sizes_inside(self.sizes, sizes)
        if self.placement is not None:
            changes["infos"] = {**self.infos, **body.vars}
        return replace(self, **changes) if changes else self

    def _lower_kernel(
        self, definition: OpDef, op: Op, path: str, block: LoweringState
    ) -> Mapping[str, Sequence[Any]]:
        """Return the outputs by slot; zeros if the kernel rejects an assumed size."""
        values = {slot: tuple(block.env[n] for n in names) for slot, names in op.inputs.items()}
        try:
            return self._compute(definition, op, path, values, block)
        except BracesError as error:
            if self.unfit is None or not may_be_unfit(op, block.body):
                raise error.located(op.describe()) from error.__cause__
            self.unfit[path] = CheckPoint(path, op, definition, refusal=without_traces(error))
        if path in block.status.sites:
            code = jnp.asarray(UNFIT_CODE, "int32")
            block.status = record_failure(block.record_checks(), path, code)
        return zero_outputs(op, block.body, self.sizes)

    def _compute(
        self, definition: OpDef, op: Op, path: str, values: Values, block: LoweringState
    ) -> Mapping[str, Sequence[Any]]:
        if (drawn := self.draws.get(path, op, values)) is not None:
            return definition.by_slot(drawn)
        attrs = self.attrs(definition, op.attrs)
        if definition.check is not None:
            block.pending.add(path, read_check_code(definition, values, attrs))
        compute = partial(definition.compute, attrs=attrs, wanted=op.outputs.keys())
        try:
            if self.placement is not None:
                return compute_on_devices(compute, values, path, self.placement.mesh)
            return compute(values)
        except Exception as error:
            raise_run_error(definition, values, attrs, tuple(op.outputs), error)

    def attrs(self, definition: OpDef, attrs: Mapping[str, Attr]) -> dict[str, Any]:
        """Return concrete attributes; the executor chooses the capacity of a list."""
        numbers, roles = concrete_attrs(attrs, self.sizes), definition.roles
        if "Capacity" in roles:
            numbers[roles["Capacity"]] = self.capacities[numbers[roles["History"]]]
        return numbers


def bind_outputs(op: Op, results: Mapping[str, Sequence[Any]], env: dict[str, Any]) -> None:
    """Add the outputs of an operator to `env`."""
    for slot, names in op.outputs.items():
        for name, value in zip(names, results.get(slot, ()), strict=True):
            env[name] = value


@dataclass
class OpLowering:
    """An operator that owns blocks, during lowering; see `block_op.Lowering`."""

    lowerer: Lowerer
    op: Op
    env: dict[str, Any]
    path: str
    outer: RunStatus

    def read(self, name: str) -> Any:
        """Return the value of a visible variable."""
        return self.env[name]

    def size(self, size: Any) -> int:
        """Return a size as a number."""
        return size_number(size, self.lowerer.sizes)

    def run(
        self,
        label: str,
        body: Body,
        arguments: Sequence[Any],
        state: RunStatus,
        sizes: Mapping[str, int] | None = None,
    ) -> tuple[list[Any], RunStatus]:
        """Lower a sub-block; `sizes` are the dimensions of this run of it."""
        env = {name: self.env[name] for name in self.op.captures()}
        env.update(zip(body.params, arguments, strict=True))
        lowerer = self.lowerer.inside(body, sizes or {})
        state = lowerer.run(body, env, f"{self.path}/{label}", state)
        return [env[name] for name in body.results], state

    def type_of(self, name: str) -> Type:
        """Return the type of a visible variable."""
        return self.lowerer.infos[name].type

    def cut_by(self, name: str) -> str | None:
        """Return the dimension along which the rows of a variable are sharded, or `None`.

        An empty variable is not sharded: XLA turns it into a constant, and then rejects it as a
        shard.
        """
        placement = self.lowerer.placement
        if placement is None or not self.env[name].shape[0]:
            return None
        return placement.shard_name(shape_of(self.type_of(name))[0], self.lowerer.sizes)

    def in_parts(
        self,
        cut: str,
        rows: Collection[str],
        outs: int,
        run: Callable[[Lowering], list[Any]],
    ) -> list[Any]:
        """Run a function on each device, for its own shard of the rows."""
        lowerer, placement = self.lowerer, self.lowerer.placement
        assert placement is not None
        inside = [path for path in self.outer.sites if path.startswith(f"{self.path}/")]
        reported = [*inside, VALUE_CHECK] if lowerer.checks else inside
        parts = RowShards(placement.mesh, placement.layout.dims[cut], rows, outs, reported)
        sizes = {**lowerer.sizes, cut: placement.part(cut, lowerer.sizes)}
        alone = replace(lowerer, placement=None, sizes=sizes)

        def part(env: dict[str, Any], state: RunStatus) -> tuple[list[Any], RunStatus]:
            local = replace(self, lowerer=alone, env=env, outer=state)
            return run(local), local.outer

        values = {name: self.env[name] for name in self.op.reads()}
        results, self.outer = parts.run(part, values, self.outer)
        return results

    def capacities(self, rows: int) -> list[int]:
        """Return the smaller numbers of rows for which the target compiles masked branches."""
        return self.lowerer.target.capacities(rows)

    def is_little(self, work: float) -> bool:
        """Return whether computing is faster than compiling for several numbers of rows."""
        return work <= self.lowerer.target.little

    def run_if(self, wanted: Any, function: Callable[[Any], Any], values: Any) -> Any:
        """Return `function(values)` if wanted, otherwise the values; they are a tree.

        It is a loop of at most one iteration, because a conditional copies its results; JAX
        cannot transpose a loop.
        """
        if self.lowerer.transposable:
            return lax.cond(wanted, function, lambda values: values, values)

        def once(carry: Any) -> Any:
            return False, function(carry[1])

        return lax.while_loop(lambda carry: carry[0], once, (wanted, values))[1]

    def inline(self, label: str, body: Body) -> list[Any]:
        """Lower a sub-block that runs exactly once, in the state of the outer block."""
        results, self.outer = self.run(label, body, [], self.outer)
        return results

    def lower_isolated(self, label: str, body: Body, arguments: Mapping[str, Any]) -> list[Any]:
        """Lower a sub-block once more; `arguments` holds all values that it reads."""
        env, path = dict(arguments), f"{self.path}/{label}"
        inside = (site for site in self.lowerer.sites if site.startswith(f"{path}/"))
        self.lowerer.run(body, env, path, start_state([*inside, VALUE_CHECK, STOP_CHECK]))
        return [env[name] for name in body.results]

    def repeat(
        self, check: Callable[[Any], Any], step: Callable[[Any], Any], carry: Any, endless: bool
    ) -> Any:
        """Build a while loop, interruptible if the run needs it."""
        lowerer = self.lowerer
        if lowerer.run_number is None or not (endless or lowerer.timed):
            return lax.while_loop(check, step, carry)
        lowerer.loops.append((block_path(self.path, self.op), self.op))
        loop = len(lowerer.loops) - 1

        first = first_iterations(self.op, lowerer.infos, lowerer.sizes)
        (trip, values, state), end = build_interruptible_while(
            check, step, carry, lambda at: call_next_end(at, lowerer.run_number, loop), first
        )
        return trip, values, record_failure(state, STOP_CHECK, end == STOPPED)

    def scan(
        self, step: Callable[..., Any], carry: Any, xs: Any, length: int, reverse: bool
    ) -> Any:
        """Build a `lax.scan`, interruptible if the run has a time limit.

        On several devices, independent iterations are vectorized into one computation.
        """
        if self.lowerer.placement is not None and self._are_alone(carry, length):
            with suppress(BracesError):  # a user's kernel that JAX cannot vectorize
                return carry, jax.vmap(lambda x: step(carry, x)[1])(xs)
        if self.lowerer.run_number is None or not self.lowerer.timed or not length:
            return lax.scan(step, carry, xs, length=length, reverse=reverse)
        return build_interruptible_scan(
            step, carry, xs, length, reverse, partial(self.repeat, endless=False)
        )

    def _are_alone(self, carry: Any, length: int) -> bool:
        """Return whether iterations are independent, report nothing and fit together."""
        values, state = carry
        most, reported = self.lowerer.target.stacked_bytes, state.sites.keys() - {STOP_CHECK}
        return not (values or reported) and is_vectorizable(self.op, length, self.size, most)

    def state(self, *labels: str) -> RunStatus:
        """Return the state on entry to these sub-blocks."""
        prefixes = tuple(f"{self.path}/{label}/" for label in labels)
        zero = jnp.asarray(0, "int32")
        own = (self.path, VALUE_CHECK, STOP_CHECK, *self.lowerer.lists.carried)
        sites = {p: zero for p in self.outer.sites if p.startswith(prefixes) or p in own}
        return RunStatus(self.outer.running, sites)

    def leave(self, state: RunStatus) -> None:
        """Merge the state on exit from the sub-blocks."""
        sites = {p: jnp.maximum(self.outer.sites[p], code) for p, code in state.sites.items()}
        self.outer = RunStatus(state.running, self.outer.sites | sites)

    def running(self, state: RunStatus) -> Any:
        """Return whether nothing has failed so far."""
        return state.running

    def flag(self, state: RunStatus, wrong: Any) -> RunStatus:
        """Record a failure of this operator."""
        return record_failure(state, self.path, wrong)
