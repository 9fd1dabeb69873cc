"""Functions of JAX, replaced in its tests by those that import what they are given.

`jit`, `grad`, `value_and_grad`, `vmap`, `jvp` and `check_grads` are replaced for callers in the
folder of the tests and in JAX's test utilities, and only outside of traces.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import jax.test_util
from jax._src import api, core, public_test_util, test_util as jtu

from suites.jax.imported import Session, is_array, is_differentiable

session = Session()
"""The session of the test that runs."""
active = False
"""Whether functions are replaced."""


def start(control: bool, eager: bool = False) -> Session:
    """Start a session, and return it.

    Args:
        control: Whether JAX evaluates the traced functions.
        eager: Whether operations that a test compares with NumPy are imported as well.
    """
    global session
    session = Session(control, eager)
    return session


class Arguments:
    """Arguments of a call, split into arrays and static leaves."""

    def __init__(self, tree: Any, is_static: Callable[[int], bool] = lambda at: False) -> None:
        self.leaves, self.tree = jax.tree.flatten(tree)
        self.dynamic = [
            at for at, x in enumerate(self.leaves) if is_array(x) and not is_static(at)
        ]

    @property
    def arrays(self) -> list[Any]:
        """The arrays; Python's numbers have weak types."""
        return [jnp.asarray(self.leaves[at]) for at in self.dynamic]

    def rebuilt(self, arrays: Sequence[Any]) -> Any:
        """Return the tree with other arrays."""
        leaves = list(self.leaves)
        for at, array in zip(self.dynamic, arrays, strict=True):
            leaves[at] = array
        return jax.tree.unflatten(self.tree, leaves)


def is_outermost(tree: Any) -> bool:
    """Return whether a call is outside of traces, and all of its arrays are concrete."""
    is_traced = any(isinstance(leaf, core.Tracer) for leaf in jax.tree.leaves(tree))
    return core.trace_ctx.is_top_level() and not is_traced


def imported(real: Callable[..., Any], args: Any, kwargs: Any, static: Any = None) -> Any:
    """Call a function of JAX, and the program that is imported from it."""
    static_args, static_names = static or ((), ())
    dynamic = (
        {at: arg for at, arg in enumerate(args) if at not in static_args},
        {name: arg for name, arg in kwargs.items() if name not in static_names},
    )
    if not is_outermost(dynamic):
        return real(*args, **kwargs)
    arguments = Arguments(dynamic)
    arrays = arguments.arrays
    wanted = real(*args, **kwargs)

    def flat(*arrays: Any) -> Any:
        positional, named = arguments.rebuilt(arrays)
        all_args = [positional.get(at, arg) for at, arg in enumerate(args)]
        return real(*all_args, **{**kwargs, **named})

    with jax.transfer_guard("allow"):  # a test may forbid transfers of JAX's own
        return session.values(flat, arrays, wanted)


class Jitted:
    """A function under `jit` that runs as an imported program."""

    def __init__(self, real: Any) -> None:
        self._real = real
        functools.update_wrapper(self, real)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        info = self._real._jit_info
        numbers = [at % max(len(args), 1) for at in info.static_argnums]
        return imported(self._real, args, kwargs, (numbers, info.static_argnames))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def jit(real: Any, *args: Any, **kwargs: Any) -> Any:
    """Compile a function."""
    made = real(*args, **kwargs)
    if not hasattr(made, "_jit_info"):  # `jit(static_argnums=1)` returns a decorator
        return lambda function: jit(real, function, **kwargs)
    return Jitted(made)


def transformed(real: Any, *args: Any, **kwargs: Any) -> Any:
    """Return a transformed function, as `vmap` does, that runs as an imported program."""
    made = real(*args, **kwargs)

    @functools.wraps(made)
    def call(*args: Any, **kwargs: Any) -> Any:
        return imported(made, args, kwargs)

    return call


def pushforward(real: Any, function: Any, *trees: Any, **options: Any) -> Any:
    """The results of a function and their tangents."""
    return imported(functools.partial(real, function, **options), trees, {})


def pullback(real: Any, function: Any, *primals: Any, **options: Any) -> Any:
    """The results of a function, and its pullback."""
    made = real(function, *primals, **options)
    if options or not is_outermost(primals):
        return made

    def pull(primals: Any, cotangents: Any) -> Any:
        return real(function, *primals)[1](cotangents)

    def pulled(*cotangents: Any) -> Any:
        if len(cotangents) != 1 or not is_outermost(cotangents):
            return made[1](*cotangents)
        return imported(pull, (primals, *cotangents), {})

    return imported(function, primals, {}), functools.wraps(made[1])(pulled)


def grad(real: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the gradient of a function."""
    function = args[0]
    made = real(*args, **kwargs)
    argnums = args[1] if len(args) > 1 else kwargs.get("argnums", 0)

    @functools.wraps(made)
    def call(*call_args: Any, **call_kwargs: Any) -> Any:
        if not is_outermost((call_args, call_kwargs)):
            return made(*call_args, **call_kwargs)
        result = made(*call_args, **call_kwargs)
        if kwargs.get("holomorphic") or kwargs.get("allow_int"):
            return imported(made, call_args, call_kwargs)
        chosen = [argnums] if isinstance(argnums, int) else list(argnums)
        chosen = [at % len(call_args) for at in chosen]
        found = _gradients(function, call_args, call_kwargs, chosen)
        return (
            result if found is None else _with_gradients(result, found, real.__name__, kwargs)
        )

    return call


def _gradients(function: Any, args: Any, kwargs: Any, chosen: Sequence[int]) -> Any:
    """Return the gradients of Braces by arguments, as leaves."""
    differentiated = [args[at] for at in chosen]
    others = ([arg for at, arg in enumerate(args) if at not in chosen], kwargs)
    arguments = Arguments((differentiated, others))
    arrays = arguments.arrays
    count = len([x for x in jax.tree.leaves(differentiated) if is_array(x)])

    def flat(*arrays: Any) -> Any:
        inputs, (rest, named) = arguments.rebuilt(arrays)
        remaining, given = iter(rest), iter(inputs)
        order = {at: arg for at, arg in zip(chosen, given, strict=False)}
        all_args = [order[at] if at in order else next(remaining) for at in range(len(args))]
        return function(*all_args, **named)

    return session.gradients(flat, arrays, range(count), loss=lambda results, _: results[0])


def _with_gradients(result: Any, found: Sequence[Any], name: str, options: Any) -> Any:
    """Return the result of JAX with the gradients of Braces."""
    is_pair = name == "value_and_grad" or options.get("has_aux")
    at = 1 if name == "value_and_grad" else 0
    grads = result[at] if is_pair else result
    leaves, tree = jax.tree.flatten(grads)
    made = jax.tree.unflatten(tree, [jnp.asarray(x) for x in found[: len(leaves)]])
    if not is_pair:
        return made
    return (result[0], made) if at else (made, *result[1:])


def check_grads(
    real: Any,
    f: Any,
    args: Any,
    order: int,
    modes: Any = ("fwd", "rev"),
    *more: Any,
    **options: Any,
) -> None:
    """Compare gradients with those of JAX, in place of finite differences."""
    if not active:  # the files of the tests keep a reference to this function
        real(f, args, order, modes, *more, **options)
        return
    arguments = Arguments(tuple(args))
    arrays = arguments.arrays

    def flat(*arrays: Any) -> Any:
        return f(*arguments.rebuilt(arrays))

    by = [at for at, array in enumerate(arrays) if is_differentiable(array)]
    results = jax.tree.leaves(jax.eval_shape(flat, *arrays))
    if not by or not any(map(is_differentiable, results)):
        return
    if "rev" in modes:
        session.gradients(flat, arrays, by, order)
    if "fwd" in modes:
        imported(functools.partial(jax.jvp, f), (tuple(args), tuple(args)), {})


def compare_with_numpy(
    real: Any,
    case: Any,
    reference: Any,
    operation: Any,
    arguments: Any,
    *args: Any,
    **options: Any,
) -> None:
    """Compare an operation with NumPy, as an imported program if the session is eager."""

    def imported_operation(*given: Any) -> Any:
        try:
            jax.eval_shape(operation, *given)
        except Exception:  # it needs concrete values
            return operation(*given)
        return imported(operation, given, {})

    chosen = imported_operation if session.eager else operation
    real(case, reference, chosen, arguments, *args, **options)


REPLACED = {
    "jit": jit, "vmap": transformed, "jvp": pushforward, "vjp": pullback,
    "grad": grad, "value_and_grad": grad,
}  # fmt: skip


@contextmanager
def replaced_functions(folder: str) -> Iterator[None]:
    """Replace functions of JAX for callers in a folder and in JAX's test utilities."""
    files = (folder, jtu.__file__)

    def for_tests(real: Any, replacement: Any) -> Any:
        @functools.wraps(real)
        def choose(*args: Any, **kwargs: Any) -> Any:
            caller = sys._getframe(1).f_code.co_filename
            if caller.startswith(files):
                return replacement(real, *args, **kwargs)
            return real(*args, **kwargs)

        return choose

    check = functools.wraps(jtu.check_grads)(functools.partial(check_grads, jtu.check_grads))
    made = {name: for_tests(getattr(api, name), by) for name, by in REPLACED.items()}
    real = jtu.JaxTestCase._CheckAgainstNumpy
    with ExitStack() as stack:
        for module in (jtu, jax.test_util, public_test_util):
            stack.enter_context(mock.patch.object(module, "check_grads", check))
        for module in (jax, api):
            stack.enter_context(mock.patch.multiple(module, **made))
        compare = functools.partialmethod(functools.partial(compare_with_numpy, real))
        stack.enter_context(mock.patch.object(jtu.JaxTestCase, "_CheckAgainstNumpy", compare))
        stack.enter_context(mock.patch.object(sys.modules[__name__], "active", True))
        yield
