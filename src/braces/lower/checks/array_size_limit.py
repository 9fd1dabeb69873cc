"""Size limit of arrays: XLA aborts the process for arrays that no machine can hold.

Some sizes are known in a run only, and a kernel may need such an array for a small result, so
the traced computation is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from braces.define.decorator import OpDef
from braces.define.type_inference import InferenceContext, infer_without_kernel
from braces.dims import Unifier
from braces.dtypes import LARGEST_ARRAY, TensorType, count_bytes
from braces.errors import RunError
from braces.ir.records import Op
from braces.lazy import jax, tracing
from braces.ops.control.partition.kernel_cost import inner_jaxprs


def refuse_huge(jaxpr: Any, ops: Iterable[Op] = ()) -> None:
    """Refuse a traced computation that makes an array of 2^63 bytes or more.

    Args:
        jaxpr: The jaxpr of the computation.
        ops: The operators of the block, whose names are the outermost name scopes in it.

    Raises:
        RunError: If an array is too large; the error has its size and its operator.
    """
    for equation in jaxpr.eqns:
        for aval in _results(equation):
            if isinstance(aval, tracing.ShapedArray):
                _refuse(aval.shape, aval.dtype, _place(equation, ops))


def _refuse(shape: tuple[int, ...], dtype: Any, at: Callable[[], str | None]) -> None:
    if count_bytes(shape, dtype.itemsize) > LARGEST_ARRAY:
        raise RunError(
            "the run needs an array of 2^63 bytes or more.",
            at=at(),
            given=f"{dtype.name}[{', '.join(map(str, shape))}]",
            fix="Feed smaller arrays, or compute the array in parts.",
        )


def _results(equation: Any) -> Iterator[Any]:
    """Yield the results of an equation, and those of its inner computations."""
    yield from (result.aval for result in equation.outvars)
    for inner in inner_jaxprs(equation.params.values()):
        for inner_equation in inner.eqns:
            yield from _results(inner_equation)


def _place(equation: Any, ops: Iterable[Op]) -> Callable[[], str | None]:
    def place() -> str | None:
        outermost = str(equation.source_info.name_stack).partition("/")[0]
        named = (op for op in ops if op.name.replace("/", ".") == outermost)
        return next((f"block 0, {op.describe()}" for op in named), None)

    return place


def guard_array_sizes(compute: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the function with a check of its arrays before it is traced."""

    def function(values: Any) -> Any:
        refuse_huge(jax.make_jaxpr(compute)(values))
        return compute(values)

    return function


def refuse_huge_results(
    definition: OpDef, attrs: Mapping[str, Any], wanted: tuple[str, ...]
) -> None:
    """Refuse an operator without inputs whose result no machine can hold.

    Raises:
        RunError: If the result is too large; the error has its size.
    """
    inferred = infer_without_kernel(
        definition, {}, attrs, wanted, InferenceContext(definition.type, Unifier())
    )
    for type_ in (result for types in (inferred or {}).values() for result in types):
        if isinstance(type_, TensorType):
            shape = tuple(size for size in type_.shape if isinstance(size, int))
            _refuse(shape, type_.dtype, lambda: None)
