"""Libraries of the JAX ecosystem through `br.from_jax`: values, gradients and files."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import braces as br
from suites.case import Check, Excluded, Group, attempt
from suites.comparison import Imported, differences, import_check, value_checks
from suites.jax.imported import as_fed, is_array, is_differentiable
from suites.jax.library_cases.case import Cases, LibraryCase

MODULES = (
    "solvers.equinox_loops", "solvers.lineax_solvers", "solvers.optimistix_solvers",
    "solvers.diffrax_solvers", "solvers.jaxopt_solvers", "solvers.optax_updates",
    "networks.flax_modules", "networks.haiku_modules", "networks.jraph_graphs",
    "networks.e3nn_products", "networks.dm_pix_images", "networks.chex_trees",
    "probability.distrax_distributions", "probability.numpyro_models",
    "probability.blackjax_samplers", "worlds.gymnax_environments", "worlds.brax_physics",
    "worlds.jax_md_simulations", "worlds.mctx_policies",
)  # fmt: skip
"""Modules of cases, each a group; a library that is not installed excludes its cases."""


def _cases(module: str) -> Cases:
    """Return the cases of a module by name."""
    try:
        return importlib.import_module(f"suites.jax.library_cases.{module}").CASES
    except ModuleNotFoundError as error:
        raise Excluded(f"{error.name} is not installed") from None


def names(module: str) -> list[str]:
    """Return the names of the cases of a module; one name if its library is not installed."""
    try:
        return list(_cases(module))
    except Excluded:
        return [module]


def _case(module: str, name: str) -> LibraryCase:
    found = _cases(module)[name]
    return found if isinstance(found, LibraryCase) else found()


def run(module: str, name: str) -> Iterator[Check]:
    """Compare one case: values in both modes, a file, and gradients where JAX has them."""
    case = _case(module, name)
    flat, arrays = flattened(case)
    try:
        wanted = jax.jit(flat)(*arrays)
    except Exception as error:
        raise Excluded(f"fails in JAX: {error}") from None
    check, made = import_check(partial(_import, flat, arrays))
    if made is None:
        yield check
        return
    tolerances = {"rtol": case.tolerance, "atol": case.tolerance / 10}
    yield from value_checks(made, [as_fed(value) for value in wanted], **tolerances)
    yield from _gradient_checks(made, flat, arrays, case)


def flattened(case: LibraryCase) -> tuple[Callable[..., list[Any]], list[Any]]:
    """Return a case as a function from arrays to arrays and their total, and its arrays."""
    leaves, tree = jax.tree.flatten(case.arguments)
    places = [at for at, leaf in enumerate(leaves) if is_array(leaf)]

    def flat(*arrays: Any) -> list[Any]:
        given = list(leaves)
        for at, array in zip(places, arrays, strict=True):
            given[at] = array
        results = jax.tree.leaves(case.function(*jax.tree.unflatten(tree, given)))
        kinds = (jax.Array, np.ndarray, np.generic, float, int)
        results = [jnp.asarray(value) for value in results if isinstance(value, kinds)]
        return [*results, _total(results)]

    return flat, [jnp.asarray(leaves[at]) for at in places]


def _import(flat: Callable[..., Any], arrays: Sequence[Any]) -> Imported:
    program, values = br.from_jax(flat, *arrays)
    feed = dict(zip(program.feeds, map(as_fed, arrays), strict=True))
    return Imported(program, values, feed)


def _total(results: Sequence[Any]) -> Any:
    """Return a weighted sum of all finite floats."""
    total = jnp.zeros(())
    for value in results:
        if jnp.issubdtype(value.dtype, jnp.floating):
            weights = jnp.cos(jnp.arange(value.size, dtype=value.dtype)).reshape(value.shape)
            total = total + jnp.sum(jnp.where(jnp.isfinite(value), value, 0.0) * weights)
    return total


def _gradient_checks(
    made: Imported, flat: Callable[..., Any], arrays: Sequence[Any], case: LibraryCase
) -> Iterator[Check]:
    """Compare the gradient of the total, and that of its gradient, if JAX has them."""
    by = [at for at, array in enumerate(arrays) if is_differentiable(array)]
    slope = jax.grad(lambda *arrays: flat(*arrays)[-1], by)

    def bend(*arrays: Any) -> Any:
        return sum(jnp.sum(jnp.sin(grad)) for grad in slope(*arrays))

    program, target = made.program, made.program.var(made.program.fetches[-1])
    for what, function in (("gradient", slope), ("second", jax.grad(bend, by))):
        try:
            wanted = jax.jit(function)(*arrays)
        except Exception:
            return  # JAX has no gradient
        grads = list[Any]()
        check = attempt(
            what, partial(_compare_gradients, made, target, by, wanted, case, grads)
        )
        yield check
        if check.verdict != "equal":
            return
        with program:
            bent = [br.sum(br.sin(grad)) for grad in grads if grad is not None]
            target = sum(bent[1:], start=bent[0]) if bent else target
        if not bent:
            return


def _compare_gradients(
    made: Imported,
    target: Any,
    by: Sequence[int],
    wanted: Sequence[Any],
    case: LibraryCase,
    grads: list[Any],
) -> str:
    """Return the difference of gradients; a gradient without a path is zero."""
    program = made.program
    with program:
        grads[:] = br.gradients(target, [program.var(program.feeds[at]) for at in by])
    found = iter(made.run("compile", [grad for grad in grads if grad is not None]))
    values = [
        jnp.zeros_like(want) if grad is None else next(found)
        for grad, want in zip(grads, wanted, strict=True)
    ]
    return differences(values, wanted, rtol=10 * case.tolerance, atol=case.tolerance)


GROUPS = {
    module.partition(".")[2].replace("_", " "): Group(
        1.0, partial(names, module), partial(run, module), seconds=600.0
    )
    for module in MODULES
}
