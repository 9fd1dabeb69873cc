"""Functions of JAX that run as imported programs, beside JAX itself.

A `Session` records the checks of one test. Every function that the test compiles or
differentiates is evaluated by JAX, imported, and compared; the test receives the values of
Braces and judges them by its own assertions. A session with `control=True` evaluates the traced
function by JAX instead. A test that fails in it asserts a property of JAX's tracing or
compilation, which no importer can keep.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

import braces as br
from braces.errors import BracesError, ProgramError
from suites.case import Check, Verdict, attempt
from suites.comparison import difference
from suites.jax.slopes import only_ours_is_slope

TOLERANCES = {"float64": 1e-8, "complex128": 1e-8, "float16": 1e-2, "bfloat16": 5e-2}
"""Relative tolerances by dtype; others have that of float32. Narrower floats have 0.25."""
SECOND_ORDER = 2


def is_array(value: Any) -> bool:
    """Return whether JAX compiles a leaf as an array."""
    numbers = (jax.Array, np.ndarray, np.generic, bool, int, float, complex)
    return isinstance(value, numbers) and not isinstance(value, jax.core.Tracer)


def is_key(value: Any) -> bool:
    """Return whether an array holds random keys."""
    return jnp.issubdtype(value.dtype, jax.dtypes.prng_key)


def is_differentiable(value: Any) -> bool:
    """Return whether an array has cotangents."""
    return not is_key(value) and jnp.issubdtype(value.dtype, jnp.inexact)


def is_empty_tangent(value: Any) -> bool:
    """Return whether an array is the tangent of integers, which has no values."""
    return getattr(value, "dtype", None) == jax.dtypes.float0


def as_fed(value: Any) -> np.ndarray[Any, Any]:
    """Return an array as a program is fed; keys are words, and empty tangents `False`."""
    if is_empty_tangent(value):
        return np.zeros(np.shape(value), bool)
    if isinstance(value, bool | int | float | complex):
        value = jnp.asarray(value)  # in JAX's dtype of a Python number
    return np.asarray(jax.random.key_data(value) if is_key(value) else value)


def differs(made: Any, wanted: Any, scale: float = 1.0) -> str:
    """Return the difference of an array, relative to its dtype and its largest element."""
    made, wanted = as_fed(made), as_fed(wanted)
    usual = 1e-4 if wanted.dtype.itemsize >= np.dtype("f4").itemsize else 0.25
    rtol = scale * TOLERANCES.get(wanted.dtype.name, usual)
    finite = np.abs(wanted[np.isfinite(wanted)]) if is_differentiable(wanted) else np.zeros(0)
    largest = float(finite.max(initial=0.0))
    return difference(made, wanted, rtol=rtol, atol=rtol * max(min(largest, 1e30), 0.1))


def first_difference(made: Sequence[Any], wanted: Sequence[Any], scale: float = 1.0) -> str:
    """Return the first difference of two lists of arrays."""
    if len(made) != len(wanted):
        return f"{len(made)} results for {len(wanted)}"
    texts = (differs(*pair, scale) for pair in zip(made, wanted, strict=True))
    return next((f"result {at}: {text}" for at, text in enumerate(texts) if text), "")


def with_type_of(value: Any, wanted: Any) -> Any:
    """Return a result as the array that JAX returns: with its weak type, keys as keys."""
    if is_empty_tangent(wanted):
        return wanted
    if not isinstance(wanted, jax.Array):
        return value
    if is_key(wanted):
        return jax.random.wrap_key_data(value, impl=jax.random.key_impl(wanted))
    array = jnp.asarray(value)
    return jax._src.lax.lax._convert_element_type(array, weak_type=wanted.weak_type)


def weights_of(shape: Sequence[int], at: int) -> np.ndarray[Any, Any]:
    """Return fixed weights for the elements of a result."""
    return np.random.RandomState(at + 1).uniform(0.5, 1.5, tuple(shape)).astype("f4")


def real_loss(results: Sequence[Any], library: Any) -> Any:
    """Return a real number that depends on all elements of the differentiable results."""
    total = 0.0
    for at, result in enumerate(results):
        if not is_differentiable(result):
            continue
        weights = weights_of(result.shape, at)
        is_complex = np.dtype(result.dtype).kind == "c"
        parts = [library.real(result), library.imag(result)] if is_complex else [result]
        for factor, part in zip((1.0, 0.5), parts, strict=False):
            wide = part if part.dtype == np.float64 else library.astype(part, "float32")
            total = total + library.sum(wide * (weights * factor).astype(wide.dtype))
    return total


class OfBraces:
    """The functions of `real_loss` on variables."""

    real, imag, sum = staticmethod(br.real), staticmethod(br.imag), staticmethod(br.sum)

    @staticmethod
    def astype(x: Any, dtype: str) -> Any:
        """Cast a variable."""
        return br.cast(x, dtype)


@dataclass
class Session:
    """The checks of one test.

    Attributes:
        control: Whether JAX evaluates the traced functions in place of Braces.
        eager: Whether operations that are compared with NumPy are imported as well.
        checks: The checks so far.
        imports: The number of imported functions.
        reloaded: Whether a program has run from its text; one for each test does.
    """

    control: bool = False
    eager: bool = False
    checks: list[Check] = field(default_factory=list[Check])
    imports: int = 0
    reloaded: bool = False

    def values(self, flat: Callable[..., Any], leaves: Sequence[Any], wanted: Any) -> Any:
        """Import a function, compare its results, and return those of Braces.

        Args:
            flat: From arrays to a tree of results.
            leaves: The arrays.
            wanted: The results of JAX.
        """
        wanted_leaves, tree = jax.tree.flatten(wanted)
        self.imports += 1
        if self.control:
            closed = jax.make_jaxpr(flattened(flat))(*leaves)
            made = jaxpr_as_fun(closed)(*leaves)
            return jax.tree.unflatten(tree, list(map(with_type_of, made, wanted_leaves)))
        made = self._compared(flat, leaves, wanted_leaves)
        if made is None:
            return wanted
        return jax.tree.unflatten(tree, list(map(with_type_of, made, wanted_leaves)))

    def _compared(
        self, flat: Callable[..., Any], leaves: Sequence[Any], wanted: Sequence[Any]
    ) -> list[Any] | None:
        run = Run(flattened(flat), leaves)
        if not self._passes("import", run.read):
            return None
        fetches = run.fetches
        for what, mode in (("interpreted", "interpret"), ("compiled", "compile")):
            compare = partial(run.difference, mode, fetches, wanted)
            if not self._passes(what, compare) and self.checks[-1].verdict == Verdict.DIFFERS:
                found = self.checks.pop()
                if not self._is_reproducible(flat, leaves, wanted):
                    return None
                self.checks.append(found)
        self._passes("file", partial(run.reparsed, with_values=not self.reloaded))
        self.reloaded = True
        return run.last

    def gradients(
        self,
        flat: Callable[..., Any],
        leaves: Sequence[Any],
        by: Sequence[int],
        order: int = 1,
        loss: Callable[[Sequence[Any], Any], Any] = real_loss,
    ) -> list[Any] | None:
        """Import a function, and compare the gradients of its results.

        Args:
            flat: From arrays to a tree of results.
            leaves: The arrays.
            by: The indices of the arrays with a gradient.
            order: The highest order.
            loss: The differentiated number, of results and a library.

        Returns:
            The gradients of order 1 of Braces, or `None` after an error.
        """
        self.imports += 1
        function = flattened(flat)
        if self.control:
            traced = jaxpr_as_fun(jax.make_jaxpr(function)(*leaves))
            return next(orders(traced, leaves, by, order, loss))
        wanted = list(orders(function, leaves, by, order, loss))
        if not self._is_consistent(function, leaves):
            return None
        run = Run(function, leaves)
        if not self._passes("import", run.read):
            return None
        made = list[Any]()
        for at, level in enumerate(wanted):
            what = ("gradient", "second gradient")[at]
            if not self._passes(what, lambda at=at: run.differentiate(by, at, loss)):
                break
            for mode in ("compile",) if at else ("interpret", "compile"):
                scale = 10.0 ** (at + 1)

                def compare(mode: str = mode, level: Any = level, scale: float = scale) -> str:
                    return first_difference(run.run(mode, run.grads), level, scale)

                if not self._passes(what, compare):
                    total = partial(_loss, function, loss)
                    self._exclude_wrong_slope(total, leaves, by, level, run.last)
            if not at:
                pairs = zip(run.last, level, strict=True)
                made = [theirs if is_empty_tangent(theirs) else ours for ours, theirs in pairs]
        return made

    def _exclude_wrong_slope(
        self,
        total: Callable[..., Any],
        leaves: Sequence[Any],
        by: Sequence[int],
        theirs: Sequence[Any],
        ours: Sequence[Any],
    ) -> None:
        """Exclude a difference if only the gradient of Braces is the slope of JAX's values."""
        check = self.checks[-1]
        if check[:2] != ("gradient", Verdict.DIFFERS):
            return
        if only_ours_is_slope(total, leaves, by, theirs, ours):
            reason = "JAX's gradient is not the slope of its own values"
            self.checks[-1] = Check(check.what, Verdict.EXCLUDED, reason)

    def _is_consistent(self, function: Callable[..., Any], leaves: Sequence[Any]) -> bool:
        """Return whether JAX computes the same values with and without derivatives.

        The forward function of a `custom_vjp` may compute others. A program has one value.
        """
        plain, differentiated = function(*leaves), jax.vjp(function, *leaves)[0]
        text = first_difference(plain, differentiated)
        if text:
            reason = f"a derivative rule in the test computes other values: {text}"
            self.checks.append(Check("gradient", Verdict.EXCLUDED, reason))
        return not text

    def _is_reproducible(
        self, flat: Callable[..., Any], leaves: Sequence[Any], wanted: Sequence[Any]
    ) -> bool:
        """Return whether JAX computes the same values with and without compilation."""
        with jax.disable_jit():
            text = first_difference(flattened(flat)(*leaves), wanted)
        if text:
            reason = f"JAX computes other values without compilation: {text}"
            self.checks.append(Check("compiled", Verdict.EXCLUDED, reason))
        return not text

    def _passes(self, what: str, compare: Callable[[], str | None]) -> bool:
        with jax.transfer_guard("allow"):
            check = attempt(what, lambda: compare() or "")
        self.checks.append(check)
        return check.verdict == Verdict.EQUAL


def _loss(function: Callable[..., Any], loss: Callable[..., Any], *leaves: Any) -> Any:
    return loss(function(*leaves), jnp)


def flattened(function: Callable[..., Any]) -> Callable[..., list[Any]]:
    """Return a function with a list of arrays as its result."""
    return lambda *leaves: jax.tree.leaves(function(*leaves))


def orders(
    function: Callable[..., Any],
    leaves: Sequence[Any],
    by: Sequence[int],
    order: int,
    loss: Callable[[Sequence[Any], Any], Any],
) -> Any:
    """Yield JAX's gradients of each order, as lists of arrays."""

    def grads_of(
        results_of: Callable[..., Any], loss: Callable[..., Any]
    ) -> Callable[..., Any]:
        return jax.grad(lambda *arrays: loss(results_of(*arrays), jnp), tuple(by))

    results_of = function
    for at in range(min(order, SECOND_ORDER)):
        results_of = grads_of(results_of, real_loss if at else loss)
        yield list(results_of(*leaves))


@dataclass
class Run:
    """An imported function and its arguments."""

    function: Callable[..., Any]
    leaves: Sequence[Any]
    grads: list[Any] = field(default_factory=list[Any])
    last: list[Any] = field(default_factory=list[Any])

    def read(self) -> None:
        """Import the function."""
        try:
            self.program, values = br.from_jax(self.function, *self.leaves)
        except BracesError as error:
            reason = re.sub(r"^.*?: |first at \S+, in \S+ ", "", error.given or error.what)
            raise ProgramError(reason) from None
        self.scope = br.Scope()
        self.scope.update(values)
        self.feed = dict(zip(self.program.feeds, map(as_fed, self.leaves), strict=True))
        self.fetches = list(self.program.fetches)

    def run(self, mode: str, fetches: Sequence[Any]) -> list[Any]:
        """Return the values of variables."""
        if fetches:
            executor = br.Executor(mode=mode)
            self.last = executor.run(self.program, self.scope, self.feed, list(fetches))
        return self.last

    def difference(self, mode: str, fetches: Sequence[Any], wanted: Sequence[Any]) -> str:
        """Return the first difference of the values of variables."""
        return first_difference(self.run(mode, fetches), wanted)

    def reparsed(self, with_values: bool) -> str:
        """Return the difference of the program's text after it is parsed, and of its values."""
        text = str(self.program)
        program = br.parse(text)
        if str(program) != text:
            return "the reparsed program has another text"
        if not self.fetches or not with_values:
            return ""
        fetched = br.Executor().run(program, self.scope, self.feed, self.fetches)
        return first_difference(fetched, self.last)

    def differentiate(
        self, by: Sequence[int], level: int, loss: Callable[[Sequence[Any], Any], Any]
    ) -> None:
        """Append the gradients of the results, or those of the last gradients."""
        with self.program:
            inputs = [self.program.var(self.program.feeds[at]) for at in by]
            targets = self.grads if level else list(map(self.program.var, self.fetches))
            total = (real_loss if level else loss)(targets, OfBraces)
            if isinstance(total, float):
                self.grads = [br.zeros_like(var) for var in inputs]
                return
            found = br.gradients(total, inputs)
            self.grads = [
                br.zeros_like(var) if grad is None else grad
                for var, grad in zip(inputs, found, strict=True)
            ]
