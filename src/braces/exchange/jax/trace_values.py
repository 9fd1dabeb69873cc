"""Trace of a JAX function: its equations evaluated one by one, those of inner jaxprs too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from braces.errors import FeedError
from braces.extend.comparing import Event, Key, Trace
from braces.extend.operators import source_of
from braces.extend.programs import Program
from braces.lazy import extend as lazy_extend, jax

_jax: Any = jax
_extend: Any = lazy_extend
_CALLS = ("jaxpr", "call_jaxpr", "fun_jaxpr")
"""The parameters that hold the jaxpr of a call, as of `jit`, `remat` and custom derivatives."""


def trace_jax(
    function: Any, program: Program, feed: Mapping[str, Any], args: Sequence[Any] | None = None
) -> Trace | None:
    """Return every value of a call of a JAX function; `None` for other models.

    Bodies of `scan` and `while_loop` are evaluated for each iteration, and the branch of `cond`
    that is taken.

    Args:
        function: The function.
        program: The program that gives the order of the arguments.
        feed: Its feed, the arguments by default.
        args: The arguments, if they are not the feeds in the order of `program.feeds`.

    Raises:
        FeedError: If a feed is missing.
    """
    if not callable(function):
        return None
    missing = [name for name in program.feeds if name not in feed] if args is None else []
    if args is None and missing:
        raise FeedError(f"missing feeds: {', '.join(missing)}.", fix="Pass feed= or args=.")
    arguments = [feed[name] for name in program.feeds] if args is None else list(args)
    arguments = _jax.tree.map(_array, arguments)
    closed, shapes = _jax.make_jaxpr(function, return_shape=True)(*arguments)
    tracer = JaxprTracer(Trace("JAX"))
    keys = tracer.run(closed, [tracer.record("", x) for x in _leaves(arguments)], "")
    count = len(_leaves(shapes))
    names = ["out"] if count == 1 else [f"out.{at}" for at in range(count)]
    tracer.trace.results = dict(zip(names, keys, strict=True))
    return tracer.trace


def _array(value: Any) -> Any:
    return _jax.numpy.asarray(value) if isinstance(value, list | float | int) else value


def _leaves(tree: Any) -> list[Any]:
    return list(_jax.tree.leaves(tree))


class JaxprTracer:
    """Evaluates jaxprs equation by equation.

    Attributes:
        trace: The values and equations so far.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._raws: dict[Key, Any] = {}
        self._count = 0

    def record(self, path: str, value: Any) -> Key:
        """Record a value; random keys are not compared."""
        key = (path, f"v{self._count}")
        self._count += 1
        self._raws[key] = value
        if not _jax.dtypes.issubdtype(_jax.numpy.result_type(value), _jax.dtypes.extended):
            self.trace.values[key] = np.asarray(value)
        return key

    def run(
        self, closed: Any, inputs: Sequence[Key], path: str, iteration: tuple[int, ...] = ()
    ) -> list[Key]:
        """Evaluate a closed jaxpr; return the keys of its results."""
        env = dict(zip(closed.jaxpr.invars, inputs, strict=True))
        for variable, constant in zip(closed.jaxpr.constvars, closed.consts, strict=True):
            env[variable] = self.record(path, constant)

        def key_of(atom: Any) -> Key:
            is_literal = isinstance(atom, _extend.Literal)
            return self.record(path, atom.val) if is_literal else env[atom]

        for at, eqn in enumerate(closed.jaxpr.eqns):
            reads = [key_of(atom) for atom in eqn.invars]
            place = f"{path}/{eqn.primitive.name}_{at}".lstrip("/")
            start = len(self.trace.events)
            writes = self._evaluate(eqn, reads, path, place, iteration)
            inner = [key for event in self.trace.events[start:] for key in event.writes]
            source = str(source_of(eqn) or "")
            names = (eqn.primitive.name, source, tuple(reads), tuple(writes), tuple(inner))
            self.trace.events.append(Event(place, iteration, *names, bool(inner)))
            env.update(zip(eqn.outvars, writes, strict=True))
        return [key_of(atom) for atom in closed.jaxpr.outvars]

    def _evaluate(
        self, eqn: Any, reads: list[Key], path: str, place: str, iteration: tuple[int, ...]
    ) -> list[Key]:
        step = _STEPS.get(eqn.primitive.name)
        inner = next((eqn.params[name] for name in _CALLS if name in eqn.params), None)
        if step is not None:
            return self._renewed(step(self, eqn.params, reads, place, iteration), path)
        if inner is not None and len(_closed(inner).jaxpr.invars) == len(reads):
            return self._renewed(self.run(_closed(inner), reads, place, iteration), path)
        values = eqn.primitive.bind(*self.raws(reads), **eqn.params)
        listed = values if eqn.primitive.multiple_results else [values]
        return [self.record(path, value) for value in listed]

    def raws(self, keys: Sequence[Key]) -> list[Any]:
        """Return the values of keys as arrays of JAX."""
        return [self._raws[key] for key in keys]

    def _renewed(self, keys: Sequence[Key], path: str) -> list[Key]:
        """Return keys of an outer block for the results of an inner one."""
        return [self.record(path, value) for value in self.raws(keys)]


def _closed(jaxpr: Any) -> Any:
    return jaxpr if hasattr(jaxpr, "consts") else _extend.ClosedJaxpr(jaxpr, ())


def _scan(
    tracer: JaxprTracer, params: Any, reads: list[Key], place: str, iteration: tuple[int, ...]
) -> list[Key]:
    constants, carried = params["num_consts"], params["num_carry"]
    consts, carry = reads[:constants], reads[constants : constants + carried]
    scanned = tracer.raws(reads[constants + carried :])
    rows = dict[int, list[Key]]()
    order = range(params["length"])
    for step, at in enumerate(reversed(order) if params["reverse"] else order):
        block = f"{place}/body[{step}]"
        slices = [tracer.record(block, value[at]) for value in scanned]
        body = _closed(params["jaxpr"])
        results = tracer.run(body, [*consts, *carry, *slices], block, (*iteration, step))
        carry, rows[at] = results[:carried], results[carried:]
    columns = zip(*(tracer.raws(rows[at]) for at in order), strict=True)
    stacked = [_jax.numpy.stack(column) for column in columns]
    if not rows:
        avals = _closed(params["jaxpr"]).out_avals[carried:]
        stacked = [_jax.numpy.zeros((0, *aval.shape), aval.dtype) for aval in avals]
    return [*carry, *(tracer.record(place, value) for value in stacked)]


def _while(
    tracer: JaxprTracer, params: Any, reads: list[Key], place: str, iteration: tuple[int, ...]
) -> list[Key]:
    of_cond, of_body = params["cond_nconsts"], params["body_nconsts"]
    cond_consts, body_consts = reads[:of_cond], reads[of_cond : of_cond + of_body]
    carry, step = reads[of_cond + of_body :], 0
    while True:
        here = (*iteration, step)
        cond, body = _closed(params["cond_jaxpr"]), _closed(params["body_jaxpr"])
        (more,) = tracer.run(cond, [*cond_consts, *carry], f"{place}/cond[{step}]", here)
        if not bool(tracer.raws([more])[0]):
            return list(carry)
        carry = tracer.run(body, [*body_consts, *carry], f"{place}/body[{step}]", here)
        step += 1


def _cond(
    tracer: JaxprTracer, params: Any, reads: list[Key], place: str, iteration: tuple[int, ...]
) -> list[Key]:
    branches = params["branches"]
    index = min(max(int(tracer.raws(reads[:1])[0]), 0), len(branches) - 1)
    branch = _closed(branches[index])
    return tracer.run(branch, reads[1:], f"{place}/branches[{index}]", iteration)


_STEPS: dict[str, Callable[..., list[Key]]] = {"scan": _scan, "while": _while, "cond": _cond}
