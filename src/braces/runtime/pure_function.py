"""A program as a pure JAX function: for `jax.jit`, `vmap`, `grad`, export.

    results, after, status = function(values, feeds)

The values that a run reads from a scope are arguments; the values that a run commits are
results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from braces.builder.source_line import user_line
from braces.define.core.jax_settings import braces_jax_settings
from braces.dtypes import TensorType
from braces.errors import ProgramError, RunError, ShapeError, UnknownNameError, suggest
from braces.ir.records import ProgramDef, VarInfo
from braces.lazy import jax, jnp
from braces.lower.checks.check_codes import start_state
from braces.lower.interpret.interpreter import describe_location
from braces.lower.xla.block_lowering import Lowerer, block_path
from braces.lower.xla.check_points import CheckPoint, find_check_points
from braces.lower.xla.concrete_attributes import Sizes, bind_sizes
from braces.lower.xla.x64_call import call_with_x64
from braces.runtime.plan.plan import Plan

_jax: Any = jax
_np: Any = jnp


def _call(function: Callable[[Any], Any], operands: Any) -> Any:
    return _jax.jit(function)(operands)


class PureFunction:
    """A program as a pure JAX function; created by `program.to_jax`.

    Its arguments are the values of persistable variables and the feeds, both by name. It
    returns `(results, after, status)`: the fetches, in order; the next values of updated
    variables, by name; and for each operator that may fail 0 or a failure code, which `check`
    decodes. If something failed, `after` has the old values.

    Attributes:
        fetches: The names of the fetches.
        states: The persistable variables that it reads.
        feeds: The data that it reads.
        updates: The persistable variables that it updates.
    """

    def __init__(self, definition: ProgramDef, fetches: Sequence[str], room: int) -> None:
        plan = Plan.of(definition, fetches, (), gradients=True)
        self.fetches = tuple(fetches)
        self.states: Mapping[str, VarInfo] = plan.states
        self.feeds: Mapping[str, VarInfo] = plan.feeds
        self.updates = tuple(plan.updates)
        self._body, self._after = plan.compiled.main, plan.compiled.updates
        self._sites = find_check_points(self._body)
        self._room = room
        _refuse_unknown_sizes(plan, list(self._sites.values()), room)

    def __call__(
        self, values: Mapping[str, Any], feeds: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, Any], Any]:
        """Return results, next values and status; see the class."""
        inputs = {
            **_select_inputs(values, self.states, "value"),
            **_select_inputs(feeds, self.feeds, "feed"),
        }
        sizes = Sizes()
        for name, info in {**self.states, **self.feeds}.items():
            conflict = bind_sizes(info.type, np.shape(inputs[name]), sizes)
            if conflict is not None:
                raise ShapeError(
                    f"shape mismatch of `{name}`: {conflict}.",
                    given=f"{name}: declared {info.type}, got {list(np.shape(inputs[name]))}",
                )
        return self.run_flat(inputs, sizes)

    def run_flat(
        self, inputs: Mapping[str, Any], sizes: Sizes
    ) -> tuple[list[Any], dict[str, Any], Any]:
        """Return the same, from all inputs by name and their sizes."""
        call = _call if _jax.config.jax_enable_x64 else call_with_x64
        with braces_jax_settings(), jax.threefry_partitionable(True):
            return call(lambda inputs: self._run(inputs, sizes), self._typed(inputs))

    def _typed(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Convert inputs to the dtypes of the program."""
        infos = {**self.states, **self.feeds}
        return {name: _np.asarray(inputs[name], infos[name].dtype) for name in infos}

    def _run(
        self, inputs: Mapping[str, Any], sizes: Sizes
    ) -> tuple[list[Any], dict[str, Any], Any]:
        rooms = {s.history: self._room for s in self._sites.values() if s.history}
        lowerer = Lowerer(sizes, self._sites, rooms, transposable=True)
        env = dict(inputs)
        state = lowerer.run(self._body, env, "", start_state(self._sites))
        codes = [self._code(site, state.sites[path]) for path, site in self._sites.items()]
        status = _np.stack(codes) if codes else _np.zeros(0, "int32")
        good = _np.all(status == 0)
        after = {
            name: _np.where(good, env[source], inputs.get(name, env[source]))
            if codes
            else env[source]
            for name, source in self._after.items()
        }
        return [env[name] for name in self._body.results], after, status

    def _code(self, site: CheckPoint, code: Any) -> Any:
        """Return the failure code of a check point; for a list history, an exceeded length."""
        code = _np.asarray(code, "int32")
        limit = np.int32(self._room if site.history else 0)
        return _np.where(code > limit, code, np.int32(0))

    def check(self, status: Any) -> None:
        """Raise the error of a call, if it failed.

        Args:
            status: The status that the call returned.

        Raises:
            BracesError: If an operator failed; the error is that of a run.
        """
        for site, code in zip(self._sites.values(), np.asarray(status).tolist(), strict=True):
            if code and site.history:
                raise RunError(
                    f"the loop has {code} iterations, more than its capacity.",
                    at=describe_location(block_path(site.path, site.op), site.op),
                    fix=f"Raise the capacity: to_jax(room={code}).",
                )
            if code:
                failure = site.failure(code)
                raise failure.located(
                    describe_location(block_path(site.path, site.op), site.op)
                )


def _refuse_unknown_sizes(plan: Plan, sites: Sequence[CheckPoint], room: int) -> None:
    """Refuse data-dependent sizes and lists of unknown length."""
    if plan.learned:
        raise ProgramError(
            f"data-dependent size `{plan.learned[0]}` is unsupported in a JAX function.",
            at=user_line(),
            fix="Run the program with an executor, or fetch other variables.",
        )
    history_site = next((site for site in sites if site.history), None)
    if history_site is not None and not room:
        raise ProgramError(
            "the program saves the iterations of a loop with an unknown iteration count.",
            at=describe_location(
                block_path(history_site.path, history_site.op), history_site.op
            ),
            fix="Pass the maximum number of iterations: to_jax(room=1000).",
        )
    assert all(isinstance(info.type, TensorType) for info in plan.reads.values())


def _select_inputs(
    inputs: Mapping[str, Any], wanted: Mapping[str, VarInfo], what: str
) -> dict[str, Any]:
    """Select inputs by name; additional inputs are allowed except for feeds."""
    for name in wanted:
        if name not in inputs:
            raise UnknownNameError(
                f"missing {what} `{name}` of the function.",
                given=", ".join(inputs) or "nothing",
                fix=suggest(name, inputs) or f"Pass {wanted[name].type}.",
            )
    unknown = [name for name in inputs if name not in wanted]
    if what == "feed" and unknown:
        raise UnknownNameError(
            f"unknown feed `{unknown[0]}` of the function.", fix=suggest(unknown[0], wanted)
        )
    return {name: inputs[name] for name in wanted}
