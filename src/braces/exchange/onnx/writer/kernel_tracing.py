"""Operators without a rule of their own: their kernels, traced, and each primitive written.

    silu: f32[b,4]              a = logistic x              sigmoid = Sigmoid(x)
                                b = mul x a                 mul = Mul(x, sigmoid)

A kernel is a function of JAX, and so is what is derived from one: `tanh.vjp.jvp` is traced as
`tanh` is. Sizes stay symbolic, and are computed in the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from braces.define.core.jax_settings import own_settings
from braces.define.decorator import OPS
from braces.define.definition import Values
from braces.define.jax_types import Translation
from braces.errors import BracesError
from braces.exchange.onnx.writer.graph.graph import Graph, refuse_complex
from braces.exchange.onnx.writer.graph.jaxpr_equation import (
    Cannot,
    Equation,
    is_complex,
    is_key,
)
from braces.exchange.onnx.writer.graph.unsupported import COMPLEX, why_not
from braces.exchange.onnx.writer.primitives import PRIMITIVES
from braces.ir.records import Op
from braces.jaxpr.convert import written
from braces.jaxpr.core.equation import needed
from braces.lazy import extend, jax

KEYED = frozenset(
    {
        "broadcast_in_dim",
        "jit",
        "random_bits",
        "random_fold_in",
        "random_split",
        "random_unwrap",
        "slice",
        "squeeze",
    }
)
"""The primitives that are written for keys, too."""


class Kernels:
    """Writes jaxprs, of one operator.

    Attributes:
        translation: Between JAX's symbolic sizes and ours.
    """

    def __init__(self, translation: Translation) -> None:
        self.translation = translation

    def run(
        self, g: Graph, jaxpr: Any, consts: Sequence[Any], given: Sequence[str]
    ) -> list[str]:
        """Write the equations of a jaxpr; what its results are called.

        Raises:
            Cannot: A primitive has no rule.
        """
        known: dict[Any, str] = dict(zip(jaxpr.invars, given, strict=True))
        known.update(
            (var, g.constant(np.asarray(value)))
            for var, value in zip(jaxpr.constvars, consts, strict=True)
        )

        def read(atom: Any) -> str:
            literal = isinstance(atom, extend.Literal)
            return g.constant(written(atom)) if literal else known[atom]

        _, equations = needed(jaxpr)
        for eqn in equations:
            made = self._written(g, eqn, [read(atom) for atom in eqn.invars])
            known.update(zip(eqn.outvars, made, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _written(self, g: Graph, eqn: Any, values: Sequence[str]) -> Sequence[str]:
        name = eqn.primitive.name
        rule = PRIMITIVES.get(name)
        if rule is None or (any(is_key(v.aval) for v in eqn.invars) and name not in KEYED):
            raise Cannot(why_not(name))
        if any(is_complex(v.aval) for v in eqn.outvars):
            raise Cannot(f"{COMPLEX}.")
        made = rule(Equation(g, self, eqn), *values)
        return [made] if isinstance(made, str) else made

    def call(
        self,
        g: Graph,
        function: Callable[..., Any],
        structs: Sequence[Any],
        given: Sequence[str],
    ) -> list[str]:
        """Trace a function of JAX for arrays of these types, and write its equations."""
        try:
            with own_settings():
                closed = _traced(function, *structs)
        except Exception as error:  # what JAX makes of sizes
            raise _no_sizes(error) from None
        return self.run(g, closed.jaxpr, closed.consts, given)


def write_kernel(g: Graph, op: Op) -> Mapping[str, Sequence[str]]:
    """Write the kernel of an operator; what its outputs are called, by slot.

    Raises:
        Cannot: Something in it cannot be written.
    """
    definition = OPS.get(op.type)
    types = {slot: [g.type(name) for name in names] for slot, names in op.inputs.items()}
    given = {slot: tuple(map(g.name, names)) for slot, names in op.inputs.items()}
    every = [one for some in types.values() for one in some]
    refuse_complex(every)
    translation = Translation(every, op.attrs)
    structs = {slot: tuple(map(translation.struct, some)) for slot, some in types.items()}
    attrs = {name: translation.attr(value) for name, value in op.attrs.items()}
    wanted = tuple(op.outputs)

    def compute(values: Values) -> dict[str, Any]:
        return definition.compute(values, attrs, wanted)

    try:
        with own_settings():
            closed, shapes = _traced(compute, structs, return_shape=True)
    except Exception as error:  # kernels may ask anything of sizes
        raise _no_sizes(error) from None
    names = jax.tree.leaves(given)
    made = Kernels(translation).run(g, closed.jaxpr, closed.consts, names)
    trees: Any = jax.tree
    return trees.unflatten(trees.structure(shapes), made)


def _traced(function: Callable[..., Any], *structs: Any, return_shape: bool = False) -> Any:
    library: Any = jax
    return library.make_jaxpr(function, return_shape=return_shape)(*structs)


def _no_sizes(error: Exception) -> BracesError:
    """The error for a kernel that asks for sizes which only a run has."""
    reason = str(error).strip().partition("\n")[0]
    return Cannot(f"its sizes must be numbers: {reason:.150}")
