"""A program of a file prepared to run: its state, feeds and fetches."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from braces.cli.common.feed_values import read_feeds
from braces.cli.common.program_files import Content, read_file
from braces.cli.common.program_selection import select_program, split_names
from braces.dtypes import TensorType
from braces.errors import FeedError, ProgramError
from braces.ir.records import Op
from braces.ir.walk import producers
from braces.passes.registry import DCE
from braces.program import Program
from braces.runtime.backends import PASSES
from braces.runtime.executor import Executor
from braces.runtime.plan.plan import Plan
from braces.runtime.profiling.profile import Profile
from braces.scope import Scope
from braces.storage.model_files import load_model
from braces.storage.parameters import load_parameters
from braces.surgery.op_alignment import align_ops

COMPILE, INTERPRET = "compile", "interpret"


@dataclass(frozen=True)
class PreparedRun:
    """A program with the state and settings of a run.

    Attributes:
        program: The program.
        scope: Its variables; a run does not change the file.
        fetches: Fetch names and their variables.
        seed: The random seed; `None` for the random state of the file.
        without: The names of disabled passes of compiled runs.
    """

    program: Program
    scope: Scope
    fetches: Mapping[str, str]
    seed: int | None = None
    without: Sequence[str] = ()

    def run(self, mode: str, feeds: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
        """Run once in a copy of the state; feeds that this program lacks are ignored."""
        own_feeds = self._mine(feeds)
        return self._executor(mode).run(
            self.program, self.copied(), own_feeds, names, seed=self.seed
        )

    def profile(self, mode: str, feeds: Mapping[str, Any], runs: int) -> Profile:
        """Profile several consecutive runs in a copy of the state."""
        own_feeds, fetches = self._mine(feeds), dict(self.fetches)
        return self._executor(mode).profile(
            self.program, self.copied(), own_feeds, fetches, runs=runs, seed=self.seed
        )

    def _executor(self, mode: str) -> Executor:
        passes = PASSES[mode] if mode != COMPILE else PASSES[mode].without(*self.without)
        return Executor(mode, passes=passes)

    def _mine(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in feeds.items() if name in self.program.infos}

    def copied(self) -> Scope:
        """Return a copy of the variables before the run."""
        copy = Scope()
        for name in self.scope.names():
            variable = self.scope.find_var(name)
            if variable is not None and variable.initialized:
                copy.var(name).set(variable.value)
        return copy


def prepare_run(
    file: str,
    options: Namespace,
    default: Callable[[Program], Sequence[str]] | None = None,
) -> PreparedRun:
    """Load a program or model, and initialize its variables.

    Args:
        file: The file.
        options: The options of the run.
        default: Returns the fetches of a program without results, which may be none; without
            it such a program is refused.

    Raises:
        BracesError: If the file, the parameters or the fetches do not match.
    """
    content, fetches = read_file(file), split_names(options.fetch or [])
    picked, scope = select_program(content, options.program), load_stored_scope(file, content)
    program, fetch_vars = picked.program, {name: picked.variable(name) for name in fetches}
    fetch_vars = fetch_vars or dict(picked.gives)
    if not fetch_vars and default is not None:
        fetch_vars = {name: name for name in default(program)}
    elif not fetch_vars:
        raise ProgramError(
            "no variable is fetched.", fix=f"Pass --fetch NAME; {_last_variables(program)}"
        )
    if options.params:
        load_parameters(scope, Path(options.params))
    needed = Plan.of(program.definition, fetch_vars.values()).states
    if any(name not in scope.names() for name in needed) and program.startup.updates:
        Executor(COMPILE).init(program, scope, options.seed or 0, missing_only=True)
    return PreparedRun(program, scope, fetch_vars, options.seed, options.without or ())


def load_stored_scope(file: str, content: Content) -> Scope:
    """Return the variables stored in a file; a run does not change the file."""
    if content.kind == "model":
        return load_model(file).scope
    scope = Scope()
    scope.update(content.values)
    return scope


def _last_variables(program: Program) -> str:
    names = [n for op in program.definition.main.ops for n in op.binds()][-4:]
    return (
        f"the last variables are {', '.join(names)}."
        if names
        else "the program has no operators."
    )


def feeds_for(ready: PreparedRun, options: Namespace) -> dict[str, Any]:
    """Return the feeds given by the options."""
    plan = Plan.of(ready.program.definition, ready.fetches.values())
    feeds = read_feeds(options.feed or [], plan.data, options.seed or 0)
    missing = [name for name in plan.feeds if name not in feeds]
    if missing:
        listed = ", ".join(f"`{name}`: {plan.feeds[name].type}" for name in missing)
        raise FeedError(
            f"missing feeds: {listed}.",
            given=f"fed: {', '.join(feeds) or 'nothing'}",
            fix=f"Add --feed {missing[0]}=@FILE.npy, or --feed {missing[0]}=random.",
        )
    return feeds


# ---- comparison ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """The first operator whose results differ.

    Attributes:
        op: The operator, in the first program.
        name: The variable that differs: an output of the operator, or computed from one.
        largest: The largest absolute difference; infinite if shapes or dtypes differ.
    """

    op: Op
    name: str
    largest: float


def first_difference(
    left: PreparedRun,
    right: PreparedRun,
    modes: tuple[str, str],
    feeds: Mapping[str, Any],
    tolerances: tuple[float, float],
) -> Difference | None:
    """Run two programs on the same feeds and state; return `None` if they agree."""
    pairs = [(op, a, b) for op, a, b in _matched_arrays(left, right)]
    olds = left.run(modes[0], feeds, [a for _, a, _ in pairs])
    news = right.run(modes[1], feeds, [b for _, _, b in pairs])
    for (op, name, _), old, new in zip(pairs, olds, news, strict=True):
        if not is_close(old, new, *tolerances):
            return Difference(op, name, largest_difference(old, new))
    return None


def _matched_arrays(left: PreparedRun, right: PreparedRun) -> list[tuple[Op, str, str]]:
    """Return corresponding arrays of the main blocks, in program order.

    Fetches of the same name correspond, independent of their operators; they come last. An
    operator whose inputs depend on operators without counterparts is replaced by the first of
    those.
    """
    bodies = [
        Plan.of(ready.program.definition, ready.fetches.values(), (DCE,)).body
        for ready in (left, right)
    ]
    operators = dict[tuple[str, str], tuple[Op, Op]]()
    unmatched_ops: tuple[list[Op], list[Op]] = [], []
    for old, new in align_ops(bodies[0].ops, bodies[1].ops):
        if old is None or new is None:
            unmatched_ops[0].extend([old] if old else [])
            unmatched_ops[1].extend([new] if new else [])
            continue
        for slot, names in old.outputs.items():
            for a, b in zip(names, new.outputs.get(slot, ()), strict=False):
                types = bodies[0].vars[a].type, bodies[1].vars[b].type
                if all(isinstance(t, TensorType) for t in types):
                    operators[a, b] = old, new
    makers, others = producers(bodies[0].ops), producers(bodies[1].ops)
    for key, a in left.fetches.items():
        b = right.fetches.get(key, "")
        maker = makers.get(a) or others.get(b)
        if maker and b:
            operators.setdefault((a, b), (makers.get(a, maker), others.get(b, maker)))
    unmatched = producers(unmatched_ops[0]), producers(unmatched_ops[1])
    return [
        (_first_unmatched(old, new, *unmatched), a, b)
        for (a, b), (old, new) in operators.items()
    ]


def _first_unmatched(old: Op, new: Op, left: Mapping[str, Op], right: Mapping[str, Op]) -> Op:
    """Return the earliest ancestor among operators without counterparts, else the operator."""
    for slot, names in old.inputs.items():
        for a, b in zip(names, new.inputs.get(slot, ()), strict=False):
            if a in left and b in right:
                return _first_unmatched(left[a], right[b], left, right)
    return old


def is_close(old: Any, new: Any, rtol: float, atol: float) -> bool:
    """Return whether two arrays are equal, with tolerances for floats."""
    if old.shape != new.shape or old.dtype != new.dtype:
        return False
    if old.dtype.kind in "biu":
        return bool(np.array_equal(old, new))
    wide = np.complex128 if old.dtype.kind == "c" else np.float64
    return bool(np.allclose(old.astype(wide), new.astype(wide), rtol, atol, equal_nan=True))


def largest_difference(old: Any, new: Any) -> float:
    """Return the largest absolute difference; infinite if shapes or dtypes differ."""
    if old.shape != new.shape or old.dtype != new.dtype or not old.size:
        return float("inf")
    wide = np.complex128 if old.dtype.kind == "c" else np.float64
    return float(np.nanmax(np.abs(old.astype(wide) - new.astype(wide)), initial=0.0))
