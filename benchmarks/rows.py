"""A row-wise branch with an expensive case, at several shares of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import braces as br
from benchmarks.case import OURS, Case, Comparison, Goal, check_close, clocked

TITLE = "row-wise IfElse: three products of 512x512 with tanh on the rows selected"
SHARES = (0, 10, 50, 100)
GOALS = {0: Goal(0.08), 10: Goal(0.3)}
PLAIN = "jax.jit, the branch on all rows"


def cases(tiny: bool) -> list[Case]:
    """Values and gradients, of two numbers of rows."""
    sizes, width = ((6,), 4) if tiny else ((1024, 4096), 512)
    return [_case(rows, width, grad) for grad in (False, True) for rows in sizes]


def _case(rows: int, width: int, grad: bool) -> Case:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, width)).astype("float32")
    weights = [(rng.normal(size=(width, width)) / width**0.5).astype("float32") for _ in "abc"]
    masks = {share: _mask(rng, rows, share) for share in SHARES}
    branch, plain, selected = (
        braces_branch(x, weights, grad),
        jax_function(x, weights, grad, select=False),
        jax_function(x, weights, grad, select=True),
    )

    def agree() -> None:
        for mask in masks.values():
            check_close(branch(mask), selected(mask), 1e-3)
        check_close(branch(masks[100]), plain(masks[100]), 1e-3)

    sides = {_name(share): clocked(lambda m=mask: branch(m)) for share, mask in masks.items()}
    kind = "gradient" if grad else "forward"
    return Case(
        what=f"{rows} rows, {kind}",
        sides={**sides, PLAIN: clocked(lambda: plain(masks[100]))},
        comparisons=_comparisons(),
        agree=agree,
    )


def _name(share: int) -> str:
    return f"{OURS}, {share} % selected"


def _comparisons() -> list[Comparison]:
    shares = [Comparison(_name(s), _name(100), GOALS.get(s)) for s in SHARES if s < 100]
    return [*shares, Comparison(_name(100), PLAIN, Goal(1.15))]


def _mask(rng: np.random.Generator, rows: int, share: int) -> Any:
    mask = np.zeros(rows, bool)
    mask[rng.permutation(rows)[: rows * share // 100]] = True
    return mask


# ---- sides -----------------------------------------------------------------------------------


def _expensive(x: Any, weights: Any, tanh: Callable[[Any], Any]) -> Any:
    for w in weights:
        x = tanh(x @ w)
    return x


def braces_branch(x: Any, weights: list[Any], grad: bool) -> Callable[[Any], Any]:
    """The branch; its output, or the gradients of the sum of its squares."""
    with br.Program() as prog:
        inputs = br.data("x", ["rows", x.shape[1]])
        choice = br.create_if_else(br.data("chosen", ["rows"], dtype="bool"))
        parameters = [br.parameter(f"w{i}", w.shape) for i, w in enumerate(weights)]
        with choice.true_block() as yes:
            yes.add_output(_expensive(yes.add_input(inputs), parameters, br.tanh))
        with choice.false_block() as no:
            no.add_output(no.add_input(inputs) * 0.5)
        out = choice()
        loss = br.sum(br.square(out))
        fetch = br.gradients([loss], [inputs, *parameters]) if grad else [out]
    exe, scope = br.Executor(), br.Scope()
    _set(scope, {f"w{i}": w for i, w in enumerate(weights)})
    return lambda mask: exe.run(prog, scope, feed={"x": x, "chosen": mask}, fetch=fetch)


def _set(scope: br.Scope, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        scope.var(name).set(value)


def jax_function(
    x: Any, weights: list[Any], grad: bool, *, select: bool
) -> Callable[[Any], Any]:
    """All rows through the expensive case, with a `select` afterwards."""

    def value(x: Any, weights: Any, mask: Any) -> Any:
        out = _expensive(x, weights, jnp.tanh)
        return jnp.where(mask[:, None], out, x * 0.5) if select else out

    def loss(x: Any, weights: Any, mask: Any) -> Any:
        return jnp.sum(value(x, weights, mask) ** 2)

    jitted = jax.jit(jax.grad(loss, argnums=(0, 1)) if grad else value)
    kept = [jnp.asarray(w) for w in weights]
    return lambda mask: [np.asarray(leaf) for leaf in jax.tree.leaves(jitted(x, kept, mask))]
