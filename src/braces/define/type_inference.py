"""Type inference: from input types to output types, by a rule, the axes, or the kernel.

If a definition declares its dtypes, shapes follow from its axes. Otherwise its inputs are
checked against the axes, and its kernel is traced with symbolic shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

import numpy as np

from braces.define.axes.shape_rules import Shapes, infer_shapes, infer_unmixed_shapes
from braces.define.core.jax_settings import braces_jax_settings
from braces.define.core.kernel_call import call_rule, first_line_of, raise_input_error
from braces.define.decorator import OPS, Attrs, OpDef, Types
from braces.define.derivatives import DerivedJvp
from braces.define.jax_types import JaxTypeConverter, require_array, symbolic_names
from braces.define.written_vjp import is_of_user
from braces.dims import Dim, Size, Unifier
from braces.dtypes import (
    DType,
    ListType,
    TensorType,
    Type,
    dtype_of,
    is_narrow,
    is_stored,
    unifies,
)
from braces.errors import DTypeError, OpDefinitionError, RunError, ShapeError
from braces.ir.records import Op
from braces.lazy import jax


class InferenceContext:
    """Context of an inference rule: the operator type, and unification of dimensions."""

    def __init__(self, type: str, unifier: Unifier) -> None:
        self.type = type
        self.unifier = unifier

    def unify(self, left: Size, right: Size, problem: str) -> Size:
        """Return the common size; if sizes differ, raise a `ShapeError` with `problem`."""
        size = self.unifier.unify(left, right)
        if size is None:
            raise ShapeError(problem)
        return size

    def fresh(self) -> Dim:
        """Return a new unnamed dimension."""
        return self.unifier.fresh()


def infer(
    definition: OpDef,
    types: Types,
    attrs: Attrs,
    wanted: Iterable[str],
    context: InferenceContext,
    outer: Mapping[str, Type] | None = None,
) -> dict[str, tuple[Type, ...]]:
    """Infer the types of the wanted outputs, by slot.

    Args:
        definition: The operator.
        types: The types of its inputs, `resolved`.
        attrs: Its attributes.
        wanted: The output slots.
        context: The context; its unifier records new equalities of dimensions.
        outer: The types of captures by name.

    Raises:
        ShapeError: If the shapes are incompatible.
        DTypeError: If the dtypes are incompatible.
    """
    light_types = infer_without_kernel(definition, types, attrs, wanted, context, outer)
    if light_types is not None:
        if definition.infer_rule is not None and is_of_user(definition.kernel):
            _check_against_kernel(definition, types, attrs, light_types, context.unifier)
        return light_types
    if isinstance(definition, DerivedJvp):
        return _infer_jvp(infer, definition, types, attrs, wanted, context)
    if definition.axes_rule is None or definition.suffix:
        return _infer_by_kernel(definition, types, attrs, tuple(wanted))
    return _infer_by_both(definition, types, attrs, tuple(wanted), context.unifier)


def raise_run_error(
    definition: OpDef,
    values: Mapping[str, Sequence[Any]],
    attrs: Attrs,
    wanted: Iterable[str],
    error: Exception,
) -> NoReturn:
    """Raise the error of an operator whose kernel failed for the sizes of a run.

    Args:
        definition: The operator.
        values: Its inputs, by slot.
        attrs: Its attributes, with numbers for sizes.
        wanted: The output slots.
        error: The exception of the kernel.

    Raises:
        ShapeError: If types with these sizes are also rejected when a program is built.
        RunError: If these types are accepted when a program is built, but the kernel rejects
            them.
    """
    all_values = (value for slot_values in values.values() for value in slot_values)
    if all(hasattr(value, "dtype") and hasattr(value, "shape") for value in all_values):
        types = {
            slot: tuple(map(_type_of, slot_values)) for slot, slot_values in values.items()
        }
        with suppress(OpDefinitionError):
            infer_without_kernel(
                definition, types, attrs, wanted, InferenceContext(definition.type, Unifier())
            )
    raise_input_error(RunError, definition.type, definition.kernel, values, attrs, error)


def _type_of(value: Any) -> TensorType:
    return TensorType(np.dtype(value.dtype), tuple(value.shape))


def infer_op(op: Op, types: Mapping[str, Type], unifier: Unifier) -> dict[str, Type]:
    """Infer the types of an operator's outputs, by name, from those of its inputs.

    Raises:
        ShapeError: If the shapes are incompatible.
        DTypeError: If the dtypes are incompatible.
    """
    definition = OPS.get(op.type)
    input_types = {slot: tuple(types[n] for n in names) for slot, names in op.inputs.items()}
    outer = {n: types[n] for n in op.captures()}
    context, input_types = (
        InferenceContext(definition.type, unifier),
        resolve_types(input_types, unifier),
    )
    output_types = infer(definition, input_types, op.attrs, tuple(op.outputs), context, outer)
    return {
        name: type_
        for slot, names in op.outputs.items()
        for name, type_ in zip(names, output_types[slot], strict=True)
    }


def infer_without_kernel(
    definition: OpDef,
    types: Types,
    attrs: Attrs,
    wanted: Iterable[str],
    context: InferenceContext,
    outer: Mapping[str, Type] | None = None,
) -> dict[str, tuple[Type, ...]] | None:
    """Return the result of `infer` if that needs no kernel and so no JAX, else `None`."""
    if not definition.takes_stored:
        _reject_stored(definition, types)
    if definition.dtype_attrs and not definition.makes_narrow:
        _reject_narrow(definition, attrs)
    if definition.owns_blocks:
        return definition.infer_blocks(context, types, attrs, outer or {})
    if definition.infer_rule is not None:
        arguments = [context, *definition.arrange(types)]

        def result_type(result: object) -> dict[str, tuple[Type, ...]]:
            return _types_by_slot(definition, wanted, result)

        return call_rule(
            definition.type, "infer", definition.infer_rule, arguments, attrs, result_type
        )
    if definition.dtype_rule is not None:
        return _infer_by_axes(definition, types, attrs, context.unifier)
    if isinstance(definition, DerivedJvp):
        return _infer_jvp(infer_without_kernel, definition, types, attrs, wanted, context)
    return _mirror_types(definition, wanted, types) if definition.suffix else None


def _reject_stored(definition: OpDef, types: Types) -> None:
    """Reject computation with storage-only dtypes."""
    for slot, slot_types in types.items():
        for type_ in slot_types:
            dtype = (type_.element if isinstance(type_, ListType) else type_).dtype
            if is_stored(dtype):
                raise DTypeError(
                    f"{definition.type}: unsupported storage-only dtype {dtype}.",
                    given=f"{slot}: {type_}",
                    fix="Cast it first: br.cast(x, 'float32').",
                )


def _reject_narrow(definition: OpDef, attrs: Attrs) -> None:
    """Reject computation of numbers below 8 bits, which are storage-only."""
    for name in definition.dtype_attrs:
        dtype = attrs[name]
        if isinstance(dtype, np.dtype) and is_narrow(dtype):
            raise DTypeError(
                f"{definition.type}: unsupported storage-only output dtype {dtype}.",
                fix=f"Use another dtype, and cast the result: br.cast(x, {dtype.name!r}).",
            )


def _types_by_slot(
    definition: OpDef, wanted: Iterable[str], result: object
) -> dict[str, tuple[Type, ...]]:
    """Return the checked result of an inference rule for all wanted outputs."""
    types = definition.by_slot(result)
    for slot in wanted:
        for type_ in types[slot]:
            if not isinstance(type_, TensorType | ListType):
                raise TypeError
    return types


def _infer_jvp(
    infer: Callable[..., Any],
    definition: DerivedJvp,
    types: Types,
    attrs: Attrs,
    wanted: Iterable[str],
    context: InferenceContext,
) -> Any:
    """Infer the types of tangents: those of the outputs."""
    base = definition.base
    assert base is not None
    primals = {s.name: types[s.name] for s in base.inputs if types.get(s.name)}
    outs = {slot: slot.removesuffix(definition.suffix) for slot in wanted}
    inner = InferenceContext(base.type, context.unifier)
    base_types = infer(base, primals, attrs, tuple(outs.values()), inner)
    return None if base_types is None else {slot: base_types[out] for slot, out in outs.items()}


def _mirror_types(
    definition: OpDef, wanted: Iterable[str], types: Types
) -> dict[str, tuple[Type, ...]] | None:
    """Return the types of cotangents, those of the original slots, or `None` if unknown."""
    types_by_slot: dict[str, tuple[Type, ...]] = {}
    for slot in wanted:
        mirrored = types.get(slot.removesuffix(definition.suffix))
        if not mirrored:
            return None
        types_by_slot[slot] = mirrored
    return types_by_slot or None


# ---- inference by axes -----------------------------------------------------------------------

_axis_cache: dict[Any, dict[str, tuple[Type, ...]]] = {}
"""Cache of output types, for inferences that record no equality of unnamed dimensions."""
_CACHE_LIMIT = 10_000
"""Capacity of the cache."""


def _infer_by_axes(
    definition: OpDef, types: Types, attrs: Attrs, unifier: Unifier
) -> dict[str, tuple[Type, ...]]:
    """Infer types from the axes, with memoization."""
    known_before = len(unifier.known)
    key = (definition, tuple(types.items()), tuple(attrs.items()))
    output_types = _axis_cache.get(key)
    if output_types is None:
        output_types = _types_by_axes(definition, types, attrs, unifier)
        if len(unifier.known) == known_before and not (known_before and _has_unnamed(attrs)):
            if len(_axis_cache) >= _CACHE_LIMIT:
                _axis_cache.clear()
            _axis_cache[key] = output_types
    return output_types


def _types_by_axes(
    definition: OpDef, types: Types, attrs: Attrs, unifier: Unifier
) -> dict[str, tuple[Type, ...]]:
    assert definition.axes_rule is not None
    assert definition.dtype_rule is not None
    shapes = infer_shapes(definition.type, definition.axes_rule, types, attrs, unifier)
    input_dtypes = [
        None if type_ is None else require_array(type_).dtype
        for type_ in definition.arrange(types)
    ]
    arguments = [definition.type, *input_dtypes]

    def result_type(result: Any) -> list[DType]:
        return list(map(dtype_of, result if isinstance(result, tuple) else (result,)))

    dtypes = call_rule(
        definition.type, "dtypes=", definition.dtype_rule, arguments, attrs, result_type
    )
    if shapes is None or not shapes.keys() >= set(definition.output_names):
        raise OpDefinitionError(
            f"{definition.type}: axes= does not determine the shapes of the outputs.",
            fix="Give each new axis the name of the attribute that is its size, or define the "
            "type inference with @NAME.infer.",
        )
    if len(dtypes) != len(definition.output_names):
        raise OpDefinitionError(
            f"{definition.type}: dtypes= returned {len(dtypes)} dtypes for "
            f"{len(definition.output_names)} outputs.",
            fix="Return one dtype for each output.",
        )
    return {
        slot: tuple([TensorType(dtype, shape) for shape in shapes[slot]])
        for slot, dtype in zip(definition.output_names, dtypes, strict=True)
    }


def resolve_types(types: Types, unifier: Unifier) -> Types:
    """Return types with known unnamed dimensions resolved."""
    return (
        types
        if not unifier.known
        else {
            slot: tuple([type_.map_sizes(unifier.resolve) for type_ in slot_types])
            for slot, slot_types in types.items()
        }
    )


# ---- inference by kernel ---------------------------------------------------------------------


def _infer_by_both(
    definition: OpDef, types: Types, attrs: Attrs, wanted: tuple[str, ...], unifier: Unifier
) -> dict[str, tuple[Type, ...]]:
    """Infer types from the kernel, and check them against the shapes from the axes."""
    assert definition.axes_rule is not None
    expected_shapes = infer_unmixed_shapes(
        definition.type, definition.axes_rule, types, attrs, unifier
    )
    output_types = _infer_by_kernel(definition, resolve_types(types, unifier), attrs, wanted)
    if expected_shapes is not None:
        _check_against_axes(definition, expected_shapes, output_types, unifier)
    return output_types


def _check_against_axes(
    definition: OpDef,
    expected_shapes: Shapes,
    output_types: Mapping[str, tuple[Type, ...]],
    unifier: Unifier,
) -> None:
    """Reject a definition whose axes disagree with its kernel."""
    for slot, types in output_types.items():
        for shape, type_ in zip(expected_shapes.get(slot, ()), types, strict=False):
            assert isinstance(type_, TensorType)
            expected = type_.with_shape(shape)
            if not unifies(expected, type_, unifier.copy()):
                raise OpDefinitionError(
                    f"{definition.type}: expected {expected} for `{slot}` from axes=, got "
                    f"{type_} from the kernel.",
                    fix="Declare the kernel's axes in axes=; append `!` to axes that change.",
                )


def _check_against_kernel(
    definition: OpDef,
    types: Types,
    attrs: Attrs,
    declared: Mapping[str, tuple[Type, ...]],
    unifier: Unifier,
) -> None:
    """Reject a definition of a user whose inference rule disagrees with its kernel."""
    try:
        traced = types_of_kernel(definition, types, attrs)
    except OpDefinitionError:  # a kernel that reads values runs interpreted
        return
    for slot, slot_types in ({} if traced is None else traced).items():
        for got, expected in zip(slot_types, declared.get(slot, ()), strict=False):
            if not unifies(expected, got, unifier.copy()):
                raise OpDefinitionError(
                    f"{definition.type}: expected {expected} for `{slot}` from "
                    f"@{definition.type}.infer, got {got} from the kernel.",
                    fix=f"Make both agree. See {first_line_of(definition.kernel)}",
                )


def types_of_kernel(
    definition: OpDef, types: Types, attrs: Attrs
) -> dict[str, tuple[Type, ...]] | None:
    """Return the types of all results of a kernel; `None` if it cannot be traced with these.

    A kernel may need known sizes, although its inference rule does not.
    """
    try:
        return _infer_by_kernel(definition, types, attrs, ())
    except ShapeError:
        return None


_kernel_cache: dict[Any, dict[str, tuple[Type, ...]]] = {}


def _infer_by_kernel(
    definition: OpDef, types: Types, attrs: Attrs, wanted: tuple[str, ...]
) -> dict[str, tuple[Type, ...]]:
    key = (
        definition.type,
        id(definition),
        tuple(types.items()),
        tuple(attrs.items()),
        wanted,
    )
    if key not in _kernel_cache:
        _kernel_cache[key] = _trace_kernel(definition, types, attrs, wanted)
    return _kernel_cache[key]


def _trace_kernel(
    definition: OpDef, types: Types, attrs: Attrs, wanted: tuple[str, ...]
) -> dict[str, tuple[Type, ...]]:
    translate = JaxTypeConverter(
        (type_ for slot_types in types.values() for type_ in slot_types), attrs
    )
    structs = {
        slot: tuple(map(translate.struct, slot_types)) for slot, slot_types in types.items()
    }
    symbolic = {name: translate.attr(value) for name, value in attrs.items()}
    try:
        with braces_jax_settings():
            results = jax.eval_shape(lambda v: definition.compute(v, symbolic, wanted), structs)
    except Exception as error:
        raise_input_error(ShapeError, definition.type, definition.kernel, types, attrs, error)
    _check_arrays(definition, results)
    return {slot: tuple(map(translate.type, values)) for slot, values in results.items()}


def _check_arrays(definition: OpDef, results: Mapping[str, Iterable[object]]) -> None:
    for slot, values in results.items():
        for value in values:
            if not isinstance(value, jax.ShapeDtypeStruct):
                raise OpDefinitionError(
                    f"{definition.type}: expected an array for `{slot}` from the kernel.",
                    given=f"{type(value).__name__}: {value!r:.80}",
                    fix="Return an array for each output, in the order of outputs=.",
                )


def _has_unnamed(attrs: Attrs) -> bool:
    """Return whether the attributes contain an unnamed dimension."""
    return any(name.startswith("?") for name in symbolic_names({}, attrs))
