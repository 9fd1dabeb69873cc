"""Arrays that no machine holds are refused before XLA sees them, which would end the process.

Sizes may become so large only in a run, and a kernel may make such an array on the way to a
small one, so it is what JAX traced that is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from braces.define.decorator import OpDef
from braces.define.type_inference import Context, infer_lightly
from braces.dims import Unifier
from braces.dtypes import LARGEST_ARRAY, TensorType, room
from braces.errors import RunError
from braces.ir.records import Op
from braces.lazy import jax, tracing
from braces.ops.control.partition.kernel_cost import inner_computations


def refuse_huge(jaxpr: Any, ops: Iterable[Op] = ()) -> None:
    """Refuse a traced computation that makes an array of 2^63 bytes or more.

    Args:
        jaxpr: What JAX traced.
        ops: The operators of the block, whose names are the outermost names in it.

    Raises:
        RunError: It says how large the array is, and which operator makes it.
    """
    for equation in jaxpr.eqns:
        for made in _results(equation):
            if isinstance(made, tracing.ShapedArray):
                _refuse(made.shape, made.dtype, _place(equation, ops))


def _refuse(shape: tuple[int, ...], dtype: Any, at: Callable[[], str | None]) -> None:
    if room(shape, dtype.itemsize) > LARGEST_ARRAY:
        raise RunError(
            "The run needs an array that takes 2^63 bytes or more.",
            at=at(),
            given=f"{dtype.name}[{', '.join(map(str, shape))}]",
            fix="Feed smaller arrays, or compute it in parts.",
        )


def _results(equation: Any) -> Iterator[Any]:
    """What an equation makes, and what the computations inside it make."""
    yield from (made.aval for made in equation.outvars)
    for inner in inner_computations(equation.params.values()):
        for one in inner.eqns:
            yield from _results(one)


def _place(equation: Any, ops: Iterable[Op]) -> Callable[[], str | None]:
    def place() -> str | None:
        outermost = str(equation.source_info.name_stack).partition("/")[0]
        named = (op for op in ops if op.name.replace("/", ".") == outermost)
        return next((f"block 0, {op.describe()}" for op in named), None)

    return place


def guarded(compute: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """For a function that is traced: it refuses first what needs huge arrays."""

    def function(values: Any) -> Any:
        refuse_huge(jax.make_jaxpr(compute)(values))
        return compute(values)

    return function


def refuse_huge_results(
    definition: OpDef, attrs: Mapping[str, Any], wanted: tuple[str, ...]
) -> None:
    """Refuse an operator without inputs whose result no machine holds.

    Raises:
        RunError: It says how large the result is.
    """
    found = infer_lightly(definition, {}, attrs, wanted, Context(definition.type, Unifier()))
    for type_ in (one for types in (found or {}).values() for one in types):
        if isinstance(type_, TensorType):
            shape = tuple(size for size in type_.shape if isinstance(size, int))
            _refuse(shape, type_.dtype, lambda: None)
