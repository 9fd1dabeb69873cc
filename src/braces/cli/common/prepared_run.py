"""A program of a file made ready to run: its state, its feeds, what it gives."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from braces.cli.common.diff_programs import aligned
from braces.cli.common.feed_values import read_feeds
from braces.cli.common.program_files import Content, read_file
from braces.cli.common.program_selection import pick, split_names
from braces.dtypes import TensorType
from braces.errors import FeedError, ProgramError
from braces.ir.records import Op
from braces.ir.walk import producers
from braces.passes.registry import DCE
from braces.program import Program
from braces.runtime.executor import PASSES, Executor
from braces.runtime.plan.plan import Plan
from braces.runtime.profiling.profile import Profile
from braces.scope import Scope
from braces.storage.model_files import load_model
from braces.storage.parameters import load_parameters

COMPILE, INTERPRET = "compile", "interpret"


@dataclass(frozen=True)
class Ready:
    """A program and all that a run of it needs.

    Attributes:
        program: The program.
        scope: Its variables; a run does not change the file.
        fetches: A name to the variable that is fetched under it.
        seed: What its draws follow from; `None` for the random state of the file.
        without: The passes of compiled runs that are left out, by name.
    """

    program: Program
    scope: Scope
    fetches: Mapping[str, str]
    seed: int | None = None
    without: Sequence[str] = ()

    def run(self, mode: str, feeds: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
        """Run once, in a copy of the state; feeds that this program lacks are left out."""
        mine = self._mine(feeds)
        return self._executor(mode).run(
            self.program, self.copied(), mine, names, seed=self.seed
        )

    def profile(self, mode: str, feeds: Mapping[str, Any], runs: int) -> Profile:
        """Run several times, one after the other, in a copy of the state, and measure."""
        mine, fetches = self._mine(feeds), dict(self.fetches)
        return self._executor(mode).profile(
            self.program, self.copied(), mine, fetches, runs=runs, seed=self.seed
        )

    def _executor(self, mode: str) -> Executor:
        passes = PASSES[mode] if mode != COMPILE else PASSES[mode].without(*self.without)
        return Executor(mode, passes=passes)

    def _mine(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in feeds.items() if name in self.program.infos}

    def copied(self) -> Scope:
        """The variables as they are before the run."""
        copy = Scope()
        for name in self.scope.names():
            variable = self.scope.find_var(name)
            if variable is not None and variable.initialized:
                copy.var(name).set(variable.value)
        return copy


def make_ready(file: str, options: Namespace) -> Ready:
    """Load a program or model, and give values to its variables.

    Raises:
        BracesError: The file, the parameters or the fetches do not fit.
    """
    content, fetches = read_file(file), split_names(options.fetch or [])
    picked, scope = pick(content, options.program), stored(file, content)
    program, named = picked.program, {name: picked.variable(name) for name in fetches}
    named = named or dict(picked.gives)
    if not named:
        raise ProgramError("Nothing is fetched.", fix=f"Say --fetch NAME; {_last(program)}")
    if options.params:
        load_parameters(scope, Path(options.params))
    needed = Plan.of(program.definition, named.values()).states
    if any(name not in scope.names() for name in needed) and program.startup.updates:
        Executor(COMPILE).init(program, scope, options.seed or 0, missing_only=True)
    return Ready(program, scope, named, options.seed, options.without or ())


def stored(file: str, content: Content) -> Scope:
    """What a file holds of the variables of its programs; a run does not change it."""
    if content.kind == "model":
        return load_model(file).scope
    scope = Scope()
    scope.update(content.values)
    return scope


def _last(program: Program) -> str:
    names = [n for op in program.definition.main.ops for n in op.binds()][-4:]
    return f"the last variables are {', '.join(names)}." if names else "there are no operators."


def feeds_for(ready: Ready, options: Namespace) -> dict[str, Any]:
    """What the options feed."""
    plan = Plan.of(ready.program.definition, ready.fetches.values())
    feeds = read_feeds(options.feed or [], plan.data, options.seed or 0)
    missing = [name for name in plan.feeds if name not in feeds]
    if missing:
        listed = ", ".join(f"`{name}`: {plan.feeds[name].type}" for name in missing)
        raise FeedError(
            f"The run needs data that was not fed: {listed}.",
            given=f"fed: {', '.join(feeds) or 'nothing'}",
            fix=f"Add --feed {missing[0]}=@FILE.npy, or --feed {missing[0]}=random.",
        )
    return feeds


# ---- against another -------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """The first operator whose results differ.

    Attributes:
        op: The operator, in the first program.
        name: The variable whose values differ: the operator's, or computed from them.
        largest: The largest difference of a number; infinite where shapes or dtypes differ.
    """

    op: Op
    name: str
    largest: float


def first_difference(
    left: Ready,
    right: Ready,
    modes: tuple[str, str],
    feeds: Mapping[str, Any],
    tolerances: tuple[float, float],
) -> Difference | None:
    """Run two programs on the same feeds and state; `None` where all agrees."""
    pairs = [(op, a, b) for op, a, b in _pairs(left, right)]
    olds = left.run(modes[0], feeds, [a for _, a, _ in pairs])
    news = right.run(modes[1], feeds, [b for _, _, b in pairs])
    for (op, name, _), old, new in zip(pairs, olds, news, strict=True):
        if not close(old, new, *tolerances):
            return Difference(op, name, largest(old, new))
    return None


def _pairs(left: Ready, right: Ready) -> list[tuple[Op, str, str]]:
    """The arrays of the main blocks that stand for each other, in program order.

    Fetches of the same name do so at the end, whatever computes them. An operator that reads
    what operators without counterparts compute stands for the first of them.
    """
    bodies = [
        Plan.of(one.program.definition, one.fetches.values(), (DCE,)).body
        for one in (left, right)
    ]
    found = dict[tuple[str, str], tuple[Op, Op]]()
    alone: tuple[list[Op], list[Op]] = [], []
    for old, new in aligned(bodies[0].ops, bodies[1].ops):
        if old is None or new is None:
            alone[0].extend([old] if old else [])
            alone[1].extend([new] if new else [])
            continue
        for slot, names in old.outputs.items():
            for a, b in zip(names, new.outputs.get(slot, ()), strict=False):
                types = bodies[0].vars[a].type, bodies[1].vars[b].type
                if all(isinstance(t, TensorType) for t in types):
                    found[a, b] = old, new
    makers, others = producers(bodies[0].ops), producers(bodies[1].ops)
    for key, a in left.fetches.items():
        b = right.fetches.get(key, "")
        maker = makers.get(a) or others.get(b)
        if maker and b:
            found.setdefault((a, b), (makers.get(a, maker), others.get(b, maker)))
    unmatched = producers(alone[0]), producers(alone[1])
    return [(_first(old, new, *unmatched), a, b) for (a, b), (old, new) in found.items()]


def _first(old: Op, new: Op, left: Mapping[str, Op], right: Mapping[str, Op]) -> Op:
    """The first of the operators without counterparts that lead to this one; else itself."""
    for slot, names in old.inputs.items():
        for a, b in zip(names, new.inputs.get(slot, ()), strict=False):
            if a in left and b in right:
                return _first(left[a], right[b], left, right)
    return old


def close(old: Any, new: Any, rtol: float, atol: float) -> bool:
    """Whether two arrays are the same, numbers up to tolerances."""
    if old.shape != new.shape or old.dtype != new.dtype:
        return False
    if old.dtype.kind in "biu":
        return bool(np.array_equal(old, new))
    wide = np.complex128 if old.dtype.kind == "c" else np.float64
    return bool(np.allclose(old.astype(wide), new.astype(wide), rtol, atol, equal_nan=True))


def largest(old: Any, new: Any) -> float:
    """The largest difference of a number; infinite where shapes or dtypes differ."""
    if old.shape != new.shape or old.dtype != new.dtype or not old.size:
        return float("inf")
    wide = np.complex128 if old.dtype.kind == "c" else np.float64
    return float(np.nanmax(np.abs(old.astype(wide) - new.astype(wide)), initial=0.0))
