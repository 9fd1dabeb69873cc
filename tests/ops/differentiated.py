"""Examples of operators with their derivatives: first = J(x)^T c, second = (d/dx (first . u)),
tangent = J(x) u. All examples of an operator share one program, which XLA compiles once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import jax

from braces import Executor, Var, gradients
from braces.extend.building import apply
from tests.ops.cases import (
    Built,
    Case,
    build_together,
    differentiable_cases,
    number,
    numbered,
    run_together as run_built,
)
from tests.ops.reference import is_float, numbers

STEP = 1e-5


def floats(slots: Mapping[str, Any]) -> list[Var]:
    """The variables in some slots that can have a gradient."""
    return [v for vars_ in slots.values() for v in vars_ if is_float(v.dtype)]


class Differentiated:
    """A case with its gradient, second-order gradient and tangents, in the program of the case.

    Attributes:
        values: The inputs by slot.
        extra: The cotangents `c` and directions `u`, by the names of their variables.
    """

    def __init__(self, built: Built, sizes: Mapping[str, int]) -> None:
        self.case, self.sizes, self.built = built.case, sizes, built
        rng = self.case.rng()
        self.inputs, self.outputs = floats(built.inputs), floats(built.outputs)
        with built.program:
            self.c = {v.name: built.declare(f"{v.name}_c", v.type) for v in self.outputs}
            self.u = {v.name: built.declare(f"{v.name}_u", v.type) for v in self.inputs}
            if self.outputs:
                self.differentiate()
        self.values = self.case.values(sizes)
        self.extra = {
            name: numbers(rng, number(var.shape, sizes), var.dtype)
            for name, var in built.extra.items()
            if name != "sizes"
        }

    def differentiate(self) -> None:
        """Add gradients of both orders, and tangents."""
        fetch, inputs = self.built.fetch, self.inputs
        first = gradients(self.outputs, inputs, list(self.c.values()))
        reached = [
            (g, self.u[v.name]) for g, v in zip(first, inputs, strict=True) if g is not None
        ]
        second: list[Var | None] = [None] * len(inputs)
        if reached:
            second = gradients([g for g, _ in reached], inputs, [u for _, u in reached])
        for var, one, two in zip(inputs, first, second, strict=True):
            for order, grad in (("first", one), ("second", two)):
                if grad is not None:
                    assert grad.type == var.type, f"the gradient of {var.name} is {grad.type}"
                    fetch[f"{order}.{var.name}"] = grad
        self.add_tangents()

    def add_tangents(self) -> None:
        """The derived operator for forward mode."""
        slots = {
            slot: tuple(self.u[v.name] for v in vars_)
            for slot, vars_ in self.built.inputs.items()
            if all(is_float(v.dtype) for v in vars_)
        }
        tangents = {f"{slot}_tangent": vars_ for slot, vars_ in slots.items() if vars_}
        if not tangents:
            return
        wanted = [s for s, vars_ in self.built.outputs.items() if is_float(vars_[0].dtype)]
        made = apply(
            f"{self.case.op}.jvp",
            self.built.inputs | tangents,
            self.case.attrs,
            wanted=[f"{slot}_tangent" for slot in wanted],
        )
        for slot in wanted:
            pairs = zip(self.built.outputs[slot], made[f"{slot}_tangent"], strict=True)
            for var, tangent in pairs:
                assert tangent.type == var.type, f"the tangent of {var.name} is {tangent.type}"
                self.built.fetch[f"tangent.{var.name}"] = tangent

    def direction(self, var: Var) -> Any:
        """The direction of differences for one input; zero where it takes no part."""
        return self.extra[f"{var.name}_u"]

    def moved(self, by: float) -> Any:
        """The inputs, moved along their directions."""
        directions = {v.name: self.direction(v) for v in self.inputs}
        return {
            slot: tuple(
                value + by * directions[var.name] if var.name in directions else value
                for value, var in zip(values, self.built.inputs[slot], strict=True)
            )
            for slot, values in self.values.items()
        }

    def feed(self, values: Any) -> dict[str, Any]:
        """Return the feeds of a run at these inputs."""
        return self.built.feed(values, self.extra, self.sizes)

    def run(self, executor: Executor, values: Any) -> dict[str, Any]:
        """Run at other inputs, alone."""
        return self.built.run(executor, self.feed(values))

    # ---- by JAX alone ----

    @property
    def named(self) -> dict[str, Any]:
        """The inputs by the names of their variables."""
        return {
            v.name: value
            for slot, vars_ in self.built.inputs.items()
            for v, value in zip(vars_, self.values[slot], strict=True)
        }

    def forward(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """What the kernel gives for inputs, of which some are chosen, by names of variables."""
        values = self.named | dict(chosen)
        given = {
            slot: tuple(values[v.name] for v in vars_)
            for slot, vars_ in self.built.inputs.items()
        }
        computed = self.case.definition.compute(
            given, numbered(self.case.attrs, self.sizes), ()
        )
        return {
            v.name: value
            for slot, vars_ in self.built.outputs.items()
            for v, value in zip(vars_, computed[slot], strict=True)
            if v.name in self.c
        }

    def backward(self, chosen: Mapping[str, Any], cotangents: Mapping[str, Any]) -> Any:
        """The kernel's own gradient."""
        return jax.vjp(self.forward, chosen)[1](dict(cotangents))[0]


class Together:
    """The examples of an operator, differentiated in one program, and what its runs give.

    Attributes:
        found: By example.
        executor: Compiles the program once.
    """

    def __init__(self, chosen: Sequence[Case], zero: bool) -> None:
        built = build_together(chosen)
        self.found = {b.case: Differentiated(b, b.case.sizes(zero)) for b in built}
        self.executor = Executor()

    def run(self, by: float = 0.0) -> dict[Case, dict[str, Any]]:
        """All examples at their inputs, moved along their directions."""
        feeds = [one.feed(one.moved(by) if by else one.values) for one in self.found.values()]
        results = run_built(self.executor, [one.built for one in self.found.values()], feeds)
        return dict(zip(self.found, results, strict=True))

    @cached_property
    def results(self) -> dict[Case, dict[str, Any]]:
        """By example, at its inputs."""
        return self.run()

    @cached_property
    def ahead(self) -> dict[Case, dict[str, Any]]:
        """A step along the directions."""
        return self.run(STEP)

    @cached_property
    def behind(self) -> dict[Case, dict[str, Any]]:
        """A step against the directions."""
        return self.run(-STEP)

    @cached_property
    def derived(self) -> dict[Case, dict[str, Any]]:
        """The kernel's own gradients by `jax.vjp`, by example and by the names of inputs."""
        parts = list(self.found.values())
        points = [
            {n: x for n, x in one.named.items() if f"{n}_u" in one.extra} for one in parts
        ]
        seeds = [{n: one.extra[f"{n}_c"] for n in one.c} for one in parts]

        def backward(points: Any, seeds: Any) -> list[Any]:
            return [
                one.backward(*given) for one, *given in zip(parts, points, seeds, strict=True)
            ]

        with jax.enable_x64(True):
            return dict(zip(self.found, jax.jit(backward)(points, seeds), strict=True))


@lru_cache(maxsize=2)
def together(op: str, zero: bool = False) -> Together:
    """All differentiable examples of an operator, or those whose sizes can be zero."""
    return Together(
        [
            case
            for case in differentiable_cases()
            if case.op == op and (not zero or (case.symbols and case.reference.empty))
        ],
        zero,
    )
