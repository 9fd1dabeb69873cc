"""Export operators without a rule by tracing their kernels and exporting each primitive.

    silu: f32[b,4]              a = logistic x              sigmoid = Sigmoid(x)
                                b = mul x a                 mul = Mul(x, sigmoid)

A kernel is a JAX function, and so are the kernels derived from it: `tanh.vjp.jvp` is traced
like `tanh`. Sizes stay symbolic and are computed in the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from braces.errors import BracesError
from braces.exchange.onnx.writer.graph.graph import OnnxGraph, refuse_complex
from braces.exchange.onnx.writer.graph.jaxpr_equation import (
    ExportedEquation,
    Unsupported,
    is_complex,
    is_key,
)
from braces.exchange.onnx.writer.graph.unsupported import COMPLEX, why_not
from braces.exchange.onnx.writer.primitives import PRIMITIVES
from braces.extend.operators import (
    OPS,
    Values,
    braces_jax_settings,
    run_equations,
)
from braces.extend.programs import Op
from braces.extend.types import JaxTypeConverter
from braces.lazy import jax

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
        "unstack",
    }
)
"""The primitives that are supported for random keys."""


class KernelExporter:
    """Exports the jaxprs of one operator.

    Attributes:
        translation: The mapping between symbolic sizes of JAX and ours.
    """

    def __init__(self, translation: JaxTypeConverter) -> None:
        self.translation = translation

    def run(
        self, g: OnnxGraph, jaxpr: Any, consts: Sequence[Any], inputs: Sequence[str]
    ) -> list[str]:
        """Export the equations of a jaxpr; return the names of its results.

        Raises:
            Cannot: If a primitive has no rule.
        """
        names: dict[Any, str] = dict(zip(jaxpr.invars, inputs, strict=True))
        names.update(
            (var, g.constant(np.asarray(value)))
            for var, value in zip(jaxpr.constvars, consts, strict=True)
        )
        return run_equations(jaxpr, names, g.constant, partial(self._written, g))

    def _written(self, g: OnnxGraph, eqn: Any, values: Sequence[str]) -> Sequence[str]:
        name = eqn.primitive.name
        rule = PRIMITIVES.get(name)
        if rule is None or (any(is_key(v.aval) for v in eqn.invars) and name not in KEYED):
            raise Unsupported(why_not(name))
        if any(is_complex(v.aval) for v in eqn.outvars):
            raise Unsupported(f"{COMPLEX}.")
        results = rule(ExportedEquation(g, self, eqn), *values)
        return [results] if isinstance(results, str) else results

    def call(
        self,
        g: OnnxGraph,
        function: Callable[..., Any],
        structs: Sequence[Any],
        inputs: Sequence[str],
    ) -> list[str]:
        """Trace a JAX function for abstract arrays, and export its equations."""
        try:
            with braces_jax_settings():
                closed = _trace(function, *structs)
        except Exception as error:  # JAX may reject operations on symbolic sizes
            raise _size_error(error) from None
        return self.run(g, closed.jaxpr, closed.consts, inputs)


def write_kernel(g: OnnxGraph, op: Op) -> Mapping[str, Sequence[str]]:
    """Export the kernel of an operator; return the names of its outputs by slot.

    Raises:
        Cannot: If the kernel contains an unsupported primitive.
    """
    definition = OPS.get(op.type)
    types = {slot: [g.type(name) for name in names] for slot, names in op.inputs.items()}
    input_names = {slot: tuple(map(g.name, names)) for slot, names in op.inputs.items()}
    all_types = [type_ for slot_types in types.values() for type_ in slot_types]
    refuse_complex(all_types)
    translation = JaxTypeConverter(all_types, op.attrs)
    structs = {
        slot: tuple(map(translation.struct, slot_types)) for slot, slot_types in types.items()
    }
    attrs = {name: translation.attr(value) for name, value in op.attrs.items()}
    output_slots = tuple(op.outputs)

    def compute(values: Values) -> dict[str, Any]:
        return definition.compute(values, attrs, output_slots)

    try:
        with braces_jax_settings():
            closed, shapes = _trace(compute, structs, return_shape=True)
    except Exception as error:  # kernels may need numbers as sizes
        raise _size_error(error) from None
    names = jax.tree.leaves(input_names)
    results = KernelExporter(translation).run(g, closed.jaxpr, closed.consts, names)
    trees: Any = jax.tree
    return trees.unflatten(trees.structure(shapes), results)


def _trace(function: Callable[..., Any], *structs: Any, return_shape: bool = False) -> Any:
    library: Any = jax
    return library.make_jaxpr(function, return_shape=return_shape)(*structs)


def _size_error(error: Exception) -> BracesError:
    """Return the error for a kernel that needs sizes as numbers."""
    reason = str(error).strip().partition("\n")[0]
    return Unsupported(f"expected static sizes: {reason:.150}")
