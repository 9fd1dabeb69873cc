"""Holding programs that `br.from_jax` made against the functions that they are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import braces as br


def hold(
    function: Callable[..., Any],
    params: Any,
    *data: Any,
    sizes: Any = None,
    mode: str = "compile",
    gradient: bool = True,
    second: bool = False,
    reference: Callable[..., Any] | None = None,
) -> br.Program:
    """Values, gradients and their gradients are those of JAX.

    Args:
        function: From a tree of parameters and arrays to arrays.
        params: The parameters; what of them is no float is held fast.
        *data: The arrays.
        sizes: As `br.from_jax` takes them.
        mode: Of the executor.
        gradient: Whether JAX has one.
        second: Whether to look at the second order, too.
        reference: What JAX evaluates, if it cannot differentiate the function.
    """
    wanted = reference or function
    prog, values = br.from_jax(function, params, *data, sizes=sizes)
    scope, exe = br.Scope(), br.Executor(mode=mode)
    scope.update(values)
    feed = dict(zip(prog.feeds, data, strict=True))
    found = exe.run(prog, scope, feed=feed, fetch=list(prog.fetches))
    close(found, jax.tree.leaves(jax.jit(lambda: wanted(params, *data))()))
    if not gradient:
        return prog
    with prog:
        weights = [prog.var(info.name) for info in prog.parameters]
        grads = br.gradients([_loss(prog)], weights)
        squares = [br.sum(br.square(g)) for g in grads if g is not None]
        again = br.gradients(squares, weights) if second else []

    leaves, tree = jax.tree.flatten(params)
    floats = [i for i, leaf in enumerate(leaves) if _trained(leaf)]

    def loss(*arrays: Any) -> Any:
        given = list(leaves)
        for at, array in zip(floats, arrays, strict=True):
            given[at] = array
        made = jax.tree.leaves(wanted(jax.tree.unflatten(tree, given), *data))
        return sum(jnp.sum(value**2) for value in made)

    places = tuple(range(len(floats)))
    first = jax.grad(loss, places)
    arrays = [leaves[at] for at in floats]
    _same(exe, prog, scope, feed, grads, jax.jit(first)(*arrays))
    if second:

        def slope(*arrays: Any) -> Any:
            return sum(jnp.sum(g**2) for g in first(*arrays))

        _same(exe, prog, scope, feed, again, jax.jit(jax.grad(slope, places))(*arrays))
    return prog


def _trained(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)


def _loss(prog: br.Program) -> br.Var:
    total = br.constant(0.0)
    for name in prog.fetches:
        total = total + br.sum(br.square(prog.var(name)))
    return total


def _same(
    exe: br.Executor, prog: br.Program, scope: br.Scope, feed: Any, mine: Any, theirs: Any
) -> None:
    """Gradients; where there is no way, that of JAX is zero."""
    pairs = list(zip(mine, theirs, strict=True))
    found = exe.run(prog, scope, feed=feed, fetch=[g for g, _ in pairs if g is not None])
    close(found, [want for g, want in pairs if g is not None])
    close([np.zeros_like(w) for g, w in pairs if g is None], [w for g, w in pairs if g is None])


def close(found: Any, wanted: Any) -> None:
    """The same numbers, but for how sums are rounded."""
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=2e-5)
