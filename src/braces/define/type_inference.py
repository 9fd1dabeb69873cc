"""Output types from input types: by a rule, by the axes, else by the kernel.

Where a definition says its dtypes, shapes follow from its axes. Where it does not, its kernel
runs on symbolic shapes, once the axes that it says were found to fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

import numpy as np

from braces.define.axes.shape_rules import Shapes, check_sizes, shapes_of
from braces.define.core.jax_settings import own_settings
from braces.define.core.kernel_call import ask, refuse_inputs
from braces.define.decorator import OPS, Attrs, OpDef, Types
from braces.define.derivatives import DerivedJvp
from braces.define.jax_types import Translation, array_of, names_in
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


class Context:
    """What an inference rule may ask and say beyond its inputs."""

    def __init__(self, type: str, unifier: Unifier) -> None:
        self.type = type
        self.unifier = unifier

    def unify(self, left: Size, right: Size, problem: str) -> Size:
        """The one size that both are; where they differ, a `ShapeError` that says `problem`."""
        size = self.unifier.unify(left, right)
        if size is None:
            raise ShapeError(problem)
        return size

    def fresh(self) -> Dim:
        """A new unnamed dimension."""
        return self.unifier.fresh()


def infer(
    definition: OpDef,
    types: Types,
    attrs: Attrs,
    wanted: Iterable[str],
    context: Context,
    outer: Mapping[str, Type] | None = None,
) -> dict[str, tuple[Type, ...]]:
    """The types of the wanted outputs, by slot.

    Args:
        definition: The operator.
        types: Of its inputs, `resolved`.
        attrs: Its attributes.
        wanted: The output slots.
        context: What is known of unnamed dimensions; it learns what follows.
        outer: The types of captures by name.

    Raises:
        ShapeError: The shapes do not fit.
        DTypeError: The dtypes do not fit.
    """
    found = infer_lightly(definition, types, attrs, wanted, context, outer)
    if found is not None:
        return found
    if isinstance(definition, DerivedJvp):
        return _infer_jvp(infer, definition, types, attrs, wanted, context)
    if definition.axes_rule is None or definition.suffix:
        return _infer_by_kernel(definition, types, attrs, tuple(wanted))
    return _infer_by_both(definition, types, attrs, tuple(wanted), context.unifier)


def refuse_run(
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
        error: How the kernel failed.

    Raises:
        ShapeError: Types with these sizes are refused when a program is built, too.
        RunError: They are not, but the kernel does not accept them.
    """
    every = (value for given in values.values() for value in given)
    if all(hasattr(value, "dtype") and hasattr(value, "shape") for value in every):
        types = {slot: tuple(map(_type_of, given)) for slot, given in values.items()}
        with suppress(OpDefinitionError):
            infer_lightly(definition, types, attrs, wanted, Context(definition.type, Unifier()))
    refuse_inputs(RunError, definition.type, definition.kernel, values, attrs, error)


def _type_of(value: Any) -> TensorType:
    return TensorType(np.dtype(value.dtype), tuple(value.shape))


def infer_op(op: Op, types: Mapping[str, Type], unifier: Unifier) -> dict[str, Type]:
    """The types of an operator's outputs, by name, from the types of what it reads.

    Raises:
        ShapeError: The shapes do not fit.
        DTypeError: The dtypes do not fit.
    """
    definition = OPS.get(op.type)
    given = {slot: tuple(types[n] for n in names) for slot, names in op.inputs.items()}
    outer = {n: types[n] for n in op.captures()}
    context, given = Context(definition.type, unifier), resolved(given, unifier)
    found = infer(definition, given, op.attrs, tuple(op.outputs), context, outer)
    return {
        name: type_
        for slot, names in op.outputs.items()
        for name, type_ in zip(names, found[slot], strict=True)
    }


def infer_lightly(
    definition: OpDef,
    types: Types,
    attrs: Attrs,
    wanted: Iterable[str],
    context: Context,
    outer: Mapping[str, Type] | None = None,
) -> dict[str, tuple[Type, ...]] | None:
    """What `infer` gives, where that needs no kernel and so no JAX; else `None`."""
    if not definition.takes_stored:
        _refuse_stored(definition, types)
    if definition.dtype_attrs and not definition.makes_narrow:
        _refuse_narrow(definition, attrs)
    if definition.owns_blocks:
        return definition.infer_blocks(context, types, attrs, outer or {})
    if definition.infer_rule is not None:
        arguments = [context, *definition.arrange(types)]

        def read(found: object) -> dict[str, tuple[Type, ...]]:
            return _types_by_slot(definition, wanted, found)

        return ask(definition.type, "infer", definition.infer_rule, arguments, attrs, read)
    if definition.dtype_rule is not None:
        return _infer_by_axes(definition, types, attrs, context.unifier)
    if isinstance(definition, DerivedJvp):
        return _infer_jvp(infer_lightly, definition, types, attrs, wanted, context)
    return _mirrored(definition, wanted, types) if definition.suffix else None


def _refuse_stored(definition: OpDef, types: Types) -> None:
    """Refuse to compute with numbers that are only stored."""
    for slot, found in types.items():
        for type_ in found:
            dtype = (type_.element if isinstance(type_, ListType) else type_).dtype
            if is_stored(dtype):
                raise DTypeError(
                    f"{definition.type} does not compute with {dtype}, which is only stored.",
                    given=f"{slot}: {type_}",
                    fix="Cast it first: br.cast(x, 'float32').",
                )


def _refuse_narrow(definition: OpDef, attrs: Attrs) -> None:
    """Refuse to compute numbers of less than 8 bits, which are only stored."""
    for name in definition.dtype_attrs:
        dtype = attrs[name]
        if isinstance(dtype, np.dtype) and is_narrow(dtype):
            raise DTypeError(
                f"{definition.type} makes no {dtype}, which is only stored.",
                fix=f"Make another dtype, and cast that: br.cast(x, {dtype.name!r}).",
            )


def _types_by_slot(
    definition: OpDef, wanted: Iterable[str], found: object
) -> dict[str, tuple[Type, ...]]:
    """What an inference rule gives, which must be types, of all outputs that are wanted."""
    types = definition.by_slot(found)
    for slot in wanted:
        for one in types[slot]:
            if not isinstance(one, TensorType | ListType):
                raise TypeError
    return types


def _infer_jvp(
    infer: Callable[..., Any],
    definition: DerivedJvp,
    types: Types,
    attrs: Attrs,
    wanted: Iterable[str],
    context: Context,
) -> Any:
    """Tangents of outputs have the types of the outputs."""
    base = definition.base
    assert base is not None
    primals = {s.name: types[s.name] for s in base.inputs if types.get(s.name)}
    outs = {slot: slot.removesuffix(definition.suffix) for slot in wanted}
    inner = Context(base.type, context.unifier)
    found = infer(base, primals, attrs, tuple(outs.values()), inner)
    return None if found is None else {slot: found[out] for slot, out in outs.items()}


def _mirrored(
    definition: OpDef, wanted: Iterable[str], types: Types
) -> dict[str, tuple[Type, ...]] | None:
    """Cotangents have the types of what they belong to, where all of that is known."""
    found: dict[str, tuple[Type, ...]] = {}
    for slot in wanted:
        mirrored = types.get(slot.removesuffix(definition.suffix))
        if not mirrored:
            return None
        found[slot] = mirrored
    return found or None


# ---- by the axes -----------------------------------------------------------------------------

_known: dict[Any, dict[str, tuple[Type, ...]]] = {}
"""What follows from types and attributes, where nothing was learned of unnamed dimensions."""
_MOST = 10_000
"""So many are kept."""


def _infer_by_axes(
    definition: OpDef, types: Types, attrs: Attrs, unifier: Unifier
) -> dict[str, tuple[Type, ...]]:
    """What was found for these types before; else from the axes."""
    learned = len(unifier.known)
    key = (definition, tuple(types.items()), tuple(attrs.items()))
    found = _known.get(key)
    if found is None:
        found = _by_axes(definition, types, attrs, unifier)
        if len(unifier.known) == learned and not (learned and _unnamed_in(attrs)):
            if len(_known) >= _MOST:
                _known.clear()
            _known[key] = found
    return found


def _by_axes(
    definition: OpDef, types: Types, attrs: Attrs, unifier: Unifier
) -> dict[str, tuple[Type, ...]]:
    assert definition.axes_rule is not None
    assert definition.dtype_rule is not None
    shapes = shapes_of(definition.type, definition.axes_rule, types, attrs, unifier)
    given = [None if one is None else array_of(one).dtype for one in definition.arrange(types)]
    arguments = [definition.type, *given]

    def read(found: Any) -> list[DType]:
        return list(map(dtype_of, found if isinstance(found, tuple) else (found,)))

    dtypes = ask(definition.type, "dtypes=", definition.dtype_rule, arguments, attrs, read)
    if shapes is None or not shapes.keys() >= set(definition.output_names):
        raise OpDefinitionError(
            f"{definition.type}: the axes do not tell the shapes of its outputs.",
            fix="Name an axis that no input has like the attribute that tells its size, or "
            "write the inference: @NAME.infer.",
        )
    if len(dtypes) != len(definition.output_names):
        raise OpDefinitionError(
            f"{definition.type}: its dtypes are {len(dtypes)}, its outputs "
            f"{len(definition.output_names)}.",
            fix="Let the function give a dtype for each output.",
        )
    return {
        slot: tuple([TensorType(dtype, shape) for shape in shapes[slot]])
        for slot, dtype in zip(definition.output_names, dtypes, strict=True)
    }


def resolved(types: Types, unifier: Unifier) -> Types:
    """Types with all that is known of unnamed dimensions put in."""
    return (
        types
        if not unifier.known
        else {
            slot: tuple([one.map_sizes(unifier.resolve) for one in given])
            for slot, given in types.items()
        }
    )


# ---- by the kernel ---------------------------------------------------------------------------


def _infer_by_both(
    definition: OpDef, types: Types, attrs: Attrs, wanted: tuple[str, ...], unifier: Unifier
) -> dict[str, tuple[Type, ...]]:
    """The kernel tells the types of what fits by the axes; both must say the same shapes."""
    assert definition.axes_rule is not None
    told = check_sizes(definition.type, definition.axes_rule, types, attrs, unifier)
    found = _infer_by_kernel(definition, resolved(types, unifier), attrs, wanted)
    if told is not None:
        _check_told(definition, told, found, unifier)
    return found


def _check_told(
    definition: OpDef, told: Shapes, found: Mapping[str, tuple[Type, ...]], unifier: Unifier
) -> None:
    """Refuse a definition whose axes are not what its kernel does."""
    for slot, types in found.items():
        for shape, type_ in zip(told.get(slot, ()), types, strict=False):
            assert isinstance(type_, TensorType)
            wanted = type_.with_shape(shape)
            if not unifies(wanted, type_, unifier.copy()):
                raise OpDefinitionError(
                    f"{definition.type}: by its axes, {slot} is {wanted}; the kernel makes "
                    f"{type_} of it.",
                    fix="Say in axes=... what the kernel does; `!` is for axes that change.",
                )


_cache: dict[Any, dict[str, tuple[Type, ...]]] = {}


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
    if key not in _cache:
        _cache[key] = _evaluate(definition, types, attrs, wanted)
    return _cache[key]


def _evaluate(
    definition: OpDef, types: Types, attrs: Attrs, wanted: tuple[str, ...]
) -> dict[str, tuple[Type, ...]]:
    translate = Translation((one for given in types.values() for one in given), attrs)
    structs = {slot: tuple(map(translate.struct, given)) for slot, given in types.items()}
    symbolic = {name: translate.attr(value) for name, value in attrs.items()}
    try:
        with own_settings():
            results = jax.eval_shape(lambda v: definition.compute(v, symbolic, wanted), structs)
    except Exception as error:
        refuse_inputs(ShapeError, definition.type, definition.kernel, types, attrs, error)
    _check_arrays(definition, results)
    return {slot: tuple(map(translate.type, values)) for slot, values in results.items()}


def _check_arrays(definition: OpDef, results: Mapping[str, Iterable[object]]) -> None:
    for slot, values in results.items():
        for value in values:
            if not isinstance(value, jax.ShapeDtypeStruct):
                raise OpDefinitionError(
                    f"{definition.type}: the kernel returns no array for {slot}.",
                    given=f"{type(value).__name__}: {value!r:.80}",
                    fix="Return an array for each output, in the order of outputs=....",
                )


def _unnamed_in(attrs: Attrs) -> bool:
    """Whether an unnamed dimension is in the attributes."""
    return any(name.startswith("?") for name in names_in({}, attrs))
