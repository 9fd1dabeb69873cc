"""Types of data and persistable variables, with sizes and initial values that depend on them.

    data x: f32[b,8]                            data x: f32[32,8]
    y: f32[b,8] = tanh(x=x)              ->     y: f32[32,8] = tanh(x=x)
    z: f32[b] = full() {shape=[b]}              z: f32[32] = full() {shape=[32]}

A symbol that no declaration has any more is replaced by the new size everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from braces.builder.append import emit
from braces.builder.builder import Builder
from braces.builder.var import main_var
from braces.dims import Dim, Size, substitute
from braces.dtypes import TensorType, Type, is_float, parse_type
from braces.errors import BracesError, DTypeError, ProgramError, ShapeError
from braces.ir.records import VALUE, Attr, Op, ProgramDef
from braces.ir.walk import dimensions, resolve_body
from braces.surgery.edits.core.address import handles_at
from braces.surgery.edits.core.change import EditResult
from braces.surgery.edits.core.inference import Inference, retyped
from braces.surgery.edits.core.session import with_definition
from braces.surgery.handles import Handle

P = TypeVar("P", bound=Builder)
CAST = "cast"


def retype(program: P, types: Mapping[Any, Any]) -> EditResult[P]:
    """Declare other types of data, parameters and states; see `Edits.retype`."""
    if not types:
        raise ProgramError("the mapping of types is empty.", fix='Pass {"x": "f32[n,8]"}.')
    new_types = {
        handle.name: _new_type(handle, type_)
        for at, type_ in types.items()
        for handle in _declared(handles_at(program, at, "variables"))
    }
    return _retyped_program(program, new_types)


def _retyped_program(program: P, types: Mapping[str, Type]) -> EditResult[P]:
    definition = program.definition
    infos = definition.main.vars
    shown = [f"`{name}` from {infos[name].type} to {new}" for name, new in types.items()]
    label = f"retype {', '.join(shown[:3])}"
    declared = with_types(definition, types)
    sizes = _replaced_sizes(definition, declared, types)
    if sizes:
        main = resolve_body(declared.main, lambda size: substitute(size, sizes))
        declared = declared.with_(main=main)
    new = with_definition(program, declared)
    new.startup = retyped_startup(program.startup, types, label)
    addresses = [((), name) for name in types]
    return EditResult(new, label, variables=addresses, followed=True)


def with_types(definition: ProgramDef, types: Mapping[str, Type]) -> ProgramDef:
    """Return a program with other types of some variables of its main block."""
    infos = {
        name: retyped(info, types[name]) if name in types else info
        for name, info in definition.main.vars.items()
    }
    return definition.with_(main=definition.main.with_(vars=infos))


def _declared(handles: Sequence[Handle]) -> list[Handle]:
    """Return the data and the persistable variables among some handles.

    Raises:
        ProgramError: If there are none: their types are not declared, but inferred.
    """
    declared = [h for h in handles if h.info and h.info.kind != VALUE and not h.chain]
    if not declared:
        raise ProgramError(
            f"the type of `{handles[0].path}` follows from its operator.",
            given=f"{handles[0].path}: {handles[0].type}",
            fix="Retype data, parameters and states; or replace the operator with retype=True.",
        )
    return declared


def _new_type(handle: Handle, chosen: Any) -> TensorType:
    """Return a type from its text.

    Raises:
        ProgramError: If the type is not that of an array.
        DTypeError: If the dtype of a trainable parameter is not a float.
    """
    try:
        type_ = parse_type(chosen) if isinstance(chosen, str) else chosen
    except BracesError as error:
        type_, cause = None, f": {error.what}"
    else:
        cause = "."
    if not isinstance(type_, TensorType):
        raise ProgramError(
            f"expected a type for `{handle.path}`, got {chosen!r:.80}{cause}",
            fix='Write a type as text: "f32[n,8]".',
        )
    assert handle.info is not None
    if handle.info.trainable and not is_float(type_.dtype):
        raise DTypeError(
            f"expected a float dtype for the trainable parameter `{handle.path}`, got "
            f"{type_.dtype}.",
            fix="Freeze it first: prog.freeze(...).",
        )
    if handle.info.persistable and any(isinstance(size, Dim) for size in type_.shape):
        raise ShapeError(
            f"the {handle.info.kind} `{handle.path}` requires fixed sizes, got {type_}.",
            fix="Use numbers.",
        )
    return type_


# ---- sizes -----------------------------------------------------------------------------------


def _replaced_sizes(
    old: ProgramDef, new: ProgramDef, types: Mapping[str, Type]
) -> dict[str, Size]:
    """Return the sizes that replace symbols which no declaration has any more."""
    sizes: dict[str, Size] = {}
    for name, type_ in types.items():
        before = old.main.vars[name].type
        if not isinstance(before, TensorType) or not isinstance(type_, TensorType):
            continue
        if before.rank == type_.rank:
            pairs = zip(before.shape, type_.shape, strict=True)
            sizes |= {a.name: b for a, b in pairs if isinstance(a, Dim) and a.name and a != b}
    declared = [info for info in new.main.vars.values() if info.kind != VALUE]
    used = {name for info in declared for name in dimensions(_shape(info.type))}
    return {name: size for name, size in sizes.items() if name not in used}


def _shape(type_: Type) -> tuple[Size, ...]:
    return type_.shape if isinstance(type_, TensorType) else ()


# ---- initial values --------------------------------------------------------------------------


def retyped_startup(startup: P, types: Mapping[str, Type], label: str) -> P:
    """Return a startup program that sets variables of other types.

    The shape is replaced in the operators that compute the initial value; another dtype is
    cast, so that random draws stay.

    Raises:
        ShapeError: If an initial value cannot have the new shape.
    """
    old = startup.definition
    names = [name for name in types if name in old.updates]
    if not names:
        return startup
    definition = with_types(old, {name: types[name] for name in names})
    for name in names:
        definition = _initialized(definition, name, old.main.vars[name].type, types[name])
    new = startup.like(definition)
    for name in names:
        _check_initial(new, name, types[name], label)
    return new


def _initialized(definition: ProgramDef, name: str, old: Type, new: Type) -> ProgramDef:
    """Return a startup program with the attributes of an initializer replaced."""
    assert isinstance(old, TensorType)
    assert isinstance(new, TensorType)
    if old.shape == new.shape:
        return definition
    makers = _only_for(definition, definition.updates[name])
    ops = tuple(
        _with_shape(op, old.shape, new.shape) if op.name in makers else op
        for op in definition.main.ops
    )
    changed = definition.with_(main=definition.main.with_(ops=ops))
    inference = Inference((), [((), name) for name in makers])
    inferred = inference.run(changed)
    return definition if inference.errors else inferred


def _only_for(definition: ProgramDef, value: str) -> set[str]:
    """Return the operators that compute an initial value, and no other one."""
    needed, makers = {value}, set[str]()
    shared = [v for v in definition.updates.values() if v == value]
    for op in reversed(definition.main.ops):
        if len(shared) == 1 and not needed.isdisjoint(op.binds()):
            needed.update(op.reads())
            makers.add(op.name)
    return makers


def _with_shape(op: Op, old: Attr, new: Attr) -> Op:
    """Return an operator with another shape among its attributes."""
    attrs = {n: new if isinstance(v, tuple) and v == old else v for n, v in op.attrs.items()}
    return op.with_(attrs=attrs)


def _check_initial(startup: Builder, name: str, wanted: Type, label: str) -> None:
    """Cast an initial value if only its dtype differs."""
    value = main_var(startup, startup.updates[name])
    assert isinstance(wanted, TensorType)
    if value.shape != wanted.shape:
        raise ShapeError(
            f"the initial value of `{name}` has the shape {list(value.shape)}; expected "
            f"{list(wanted.shape)}.",
            at=label,
            given=f"{value.name}: {value.type}   {name}: {wanted}",
            fix="Define another parameter by replace or insert_after.",
        )
    if value.dtype != wanted.dtype:
        with startup.building(startup.table):
            startup.update_again(name, emit(CAST, value, dtype=wanted.dtype))
