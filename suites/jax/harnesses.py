"""JAX's harnesses of primitives, as cases: a function and its arguments each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import jax
import numpy as np

from suites.case import Check, Excluded, Group
from suites.jax.imported import Session, is_array, is_differentiable


@cache
def _harnesses() -> dict[str, Any]:
    """Return the harnesses by name; those of one name are numbered."""
    from jax._src.internal_test_util import test_harnesses

    found = dict[str, Any]()
    for harness in test_harnesses.all_harnesses:
        name, count = harness.fullname, 2
        while name in found:
            name, count = f"{harness.fullname}_{count}", count + 1
        found[name] = harness
    return found


def names() -> Iterator[str]:
    """Yield the names of the harnesses that JAX implements on CPU."""
    yield from (name for name, h in _harnesses().items() if h.filter("cpu"))


def arguments_of(name: str) -> tuple[Any, list[Any]]:
    """Return a harness and the arrays of its arguments."""
    harness = _harnesses()[name]
    seed = int(hashlib.sha256(name.encode()).hexdigest()[:8], 16)
    given = harness.dyn_args_maker(np.random.RandomState(seed))
    leaves = jax.tree.leaves(given)
    if not all(map(is_array, leaves)):
        raise Excluded("an argument is not an array")
    return harness, given


def run(name: str) -> Iterator[Check]:
    """Compare the values and gradients of a harness with those of JAX, with 64-bit numbers."""
    with jax.enable_x64(True):
        harness, given = arguments_of(name)
        leaves, tree = jax.tree.flatten(given)

        def flat(*arrays: Any) -> Any:
            result = harness.dyn_fun(*jax.tree.unflatten(tree, arrays))
            # The other triangle of the primitive's result is unspecified.
            return jax.numpy.tril(result) if harness.group_name == "cholesky" else result

        arrays = [jax.numpy.asarray(leaf) for leaf in leaves]
        try:
            wanted = jax.jit(flat)(*arrays)
        except Exception as error:
            raise Excluded(f"fails in JAX: {error}") from None
        session = Session()
        session.values(flat, arrays, wanted)
        if session.checks[0].verdict == "equal":
            _add_gradients(session, flat, arrays, jax.tree.leaves(wanted))
        yield from session.checks


def _add_gradients(
    session: Session, flat: Any, arrays: Sequence[Any], results: Sequence[Any]
) -> None:
    """Add checks of the gradients, where JAX has them."""
    by = [at for at, array in enumerate(arrays) if is_differentiable(array)]
    if not by or not any(map(is_differentiable, results)):
        return
    try:
        session.gradients(flat, arrays, by)
    except (NotImplementedError, TypeError, ValueError):
        return  # JAX has no gradient


GROUPS = {"harnesses of lax": Group(0.99, names, run, seconds=120.0)}
