"""Lowering of a block to one JAX function.

`Lowerer.run` calls the kernels of a block in order and interleaves these concerns. Each has its
own module or method:

- names in XLA code and profiles: `scope_name` and `jax.named_scope`, in `Lowerer.run`;
- constructs with blocks: `BlockOp.lower`, through the interface `OpLowering`;
- failure codes of checks: `checks/check_codes.py`, `checks/run_checks.py`, called in
  `Lowerer._computed`;
- data-dependent sizes: `Lowerer._check_sizes` compares them with the assumed sizes;
- kernels that reject an assumed size: `check_points.py`, called in `Lowerer._plain`;
- list capacities: `Lowerer._measured`, `_whole`, `_lists`, `carried` and `attrs`;
- batched initializers: `fused_initializers.py`, called in `Lowerer._computed`;
- sharding: `Placement.pinned` after each operator, `on_devices` around each kernel,
  `OpLowering.in_parts` for code per device;
- NaN checks: `has_nan`, in `Lowerer.run`;
- commits: `commit.py`, at the end of each iteration in `Lowerer.run`;
- interruptible and vectorized loops: `OpLowering.repeat` and `scan`, with
  `interruptible_loops.py` and `vmap_loops.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from typing import Any

import numpy as np

from braces.define.axes.axis_map import shape_of
from braces.define.decorator import OPS, OpDef
from braces.define.definition import Values
from braces.define.type_inference import raise_run_error
from braces.dtypes import Type, is_float
from braces.errors import BracesError
from braces.ir.records import Attr, Body, Op, VarInfo
from braces.lazy import jax, jnp, lax
from braces.lower.checks.check_codes import CheckCodes, RunStatus, record_code, record_failure
from braces.lower.checks.run_checks import read_check_code, read_dynamic_sizes
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
from braces.lower.xla.vmap_loops import is_vectorizable
from braces.ops.control.core.block_op import BlockOp, Lowering
from braces.ops.lists.stack import ListBuffer
from braces.target import OTHER, Target

NAN_CHECK = "@nan"
"""The check point that records whether any operator produced a NaN."""
STOP_CHECK = "@stop"
"""The check point that records whether a loop was interrupted."""


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
        check_nan: Whether to record NaNs.
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
    check_nan: bool = False
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

    def run(self, body: Body, env: dict[str, Any], path: str, state: RunStatus) -> RunStatus:
        """Lower the operators of a block; `env` gains the values that they bind."""
        checks = CheckCodes()
        for op in body.ops:
            definition = OPS.get(op.type)
            here = f"{path}/{op.name}".lstrip("/")
            with jax.named_scope(self.scope(here, op)):
                if isinstance(definition, BlockOp):
                    state = self._whole(op, env, checks.record(state))
                    view = OpLowering(self, op, env, here, state)
                    env |= definition.lower(view)
                    state = view.outer
                else:
                    if definition.looks_into_lists:  # nothing is read beyond the capacity
                        state = self._whole(op, env, checks.record(state))
                    results, state = self._plain(definition, op, body, env, here, state, checks)
                    bind_outputs(op, results, env)
            if self.placement is not None:
                for name in op.binds():
                    env[name] = self.placement.pinned(body.vars[name], env[name])
            bound = [env[name] for name in op.binds()]
            state = self._measured(bound, state)
            if self.check_nan:
                state = record_code(checks.record(state), NAN_CHECK, has_nan(bound))
            if here in self.commits.places:
                state = checks.record(state)
                self.commits.choose(here, env, state.sites)
        return checks.record(state)

    def inside(self, body: Body, sizes: Mapping[str, int]) -> Lowerer:
        """Return the lowerer of a sub-block; `sizes` are the dimensions of this run of it."""
        changes = dict[str, Any]()
        if sizes:
            changes["sizes"] = sizes_inside(self.sizes, sizes)
        if self.placement is not None:
            changes["infos"] = {**self.infos, **body.vars}
        return replace(self, **changes) if changes else self

    def _plain(
        self,
        definition: OpDef,
        op: Op,
        body: Body,
        env: dict[str, Any],
        here: str,
        state: RunStatus,
        checks: CheckCodes,
    ) -> tuple[dict[str, Any], RunStatus]:
        values = {slot: tuple(env[n] for n in names) for slot, names in op.inputs.items()}
        try:
            return self._computed(definition, op, values, here, state, checks)
        except BracesError as error:
            if self.unfit is None or not may_be_unfit(op, body):
                raise error.located(op.describe()) from error.__cause__
            self.unfit[here] = CheckPoint(here, op, definition, refusal=without_traces(error))
        if here in state.sites:
            state = record_failure(checks.record(state), here, jnp.asarray(UNFIT_CODE, "int32"))
        return zero_outputs(op, body, self.sizes), state

    def _computed(
        self,
        definition: OpDef,
        op: Op,
        values: Values,
        here: str,
        state: RunStatus,
        checks: CheckCodes,
    ) -> tuple[dict[str, Any], RunStatus]:
        if definition.learn_rule is not None:
            dynamic_sizes = read_dynamic_sizes(definition, values, op.attrs)
            state = self._check_sizes(dynamic_sizes, here, checks.record(state))
        if (drawn := self.draws.get(here, op, values)) is not None:
            return definition.by_slot(drawn), state
        attrs = self.attrs(definition, op.attrs)
        if definition.check is not None:
            checks.add(here, read_check_code(definition, values, attrs))
        compute = partial(definition.compute, attrs=attrs, wanted=op.outputs.keys())
        try:
            if self.placement is not None:
                return compute_on_devices(compute, values, here, self.placement.mesh), state
            return compute(values), state
        except Exception as error:
            raise_run_error(definition, values, attrs, tuple(op.outputs), error)

    def _measured(self, bound: Iterable[Any], state: RunStatus) -> RunStatus:
        """Record the length of lists that began in the block of this state.

        Pushes beyond the capacity are counted, so one run reports all lengths.
        """
        for site, buffer in self._lists(bound, state):
            count = jnp.maximum(state.sites[site], buffer.highest)
            state = RunStatus(state.running, state.sites | {site: count})
        return state

    def _whole(self, op: Op, env: Mapping[str, Any], state: RunStatus) -> RunStatus:
        """Return the state before an operator reads lists: a truncated list stops the run."""
        for _, buffer in self._lists([env[name] for name in op.reads()], state):
            state = RunStatus(state.running & buffer.is_sufficient, state.sites)
        return state

    def _lists(
        self, values: Iterable[Any], state: RunStatus
    ) -> Iterator[tuple[str, ListBuffer]]:
        for value in values:
            if isinstance(value, ListBuffer):
                owners = (
                    p
                    for p in state.sites
                    if p in self.sites and self.sites[p].history == value.history
                )
                for site in islice(owners, 1):
                    yield site, value

    def _check_sizes(
        self, dynamic_sizes: Mapping[str, Any], here: str, state: RunStatus
    ) -> RunStatus:
        """Compare data-dependent sizes with the assumed sizes."""
        for name, size in dynamic_sizes.items():
            size, assumed = jnp.asarray(size, "int32"), self.sizes.setdefault(name, 0)
            room = assumed if name in self.rounded else 0
            fits = (size > 0) & (size <= room) if room else size == assumed
            code = jnp.where(fits, size if room else 0, room + 1 + size)
            code = jnp.maximum(state.sites[here], code)
            state = RunStatus(state.running & fits, state.sites | {here: code})
        return state

    @cached_property
    def carried(self) -> frozenset[str]:
        """The check points of all list lengths, if an operator reads a list by index."""
        if not any(site.definition.looks_into_lists for site in self.sites.values()):
            return frozenset()
        return frozenset(path for path, site in self.sites.items() if site.history)

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
        return placement.cut(shape_of(self.type_of(name))[0], self.lowerer.sizes)

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
        reported = [*inside, NAN_CHECK] if lowerer.check_nan else inside
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

    def apart(self, label: str, body: Body, given: Mapping[str, Any]) -> list[Any]:
        """Lower a sub-block once more; `given` holds all values that it reads."""
        env, path = dict(given), f"{self.path}/{label}"
        inside = (site for site in self.lowerer.sites if site.startswith(f"{path}/"))
        self.lowerer.run(body, env, path, start_state([*inside, NAN_CHECK, STOP_CHECK]))
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
        own = (self.path, NAN_CHECK, STOP_CHECK, *self.lowerer.carried)
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


def has_nan(values: Sequence[Any]) -> Any:
    """Return whether any array among these values has a NaN."""
    leaves = jax.tree.leaves(values)
    flags = [jnp.any(jnp.isnan(x)) for x in leaves if is_float(np.dtype(x.dtype))]
    return jnp.any(jnp.stack(flags)) if flags else jnp.asarray(False)


def start_state(sites: Iterable[str]) -> RunStatus:
    """Return the initial state: nothing has failed."""
    zero = jnp.asarray(0, "int32")
    return RunStatus(jnp.asarray(True), dict.fromkeys(sites, zero))
