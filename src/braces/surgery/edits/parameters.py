"""Parameters that are frozen, and parameters and operators of another dtype.

    parameter w: f32[4,8]                       parameter w: bf16[4,8]
    y: f32[n,8] = matmul(x=x, y=w)       ->     cast_0: f32[4,8] = cast(x=w) {dtype=f32}
                                                y: f32[n,8] = matmul(x=x, y=cast_0)

A cast parameter is stored in the dtype and converted when it is read. A cast operator computes
in the dtype, and its outputs are converted back. So no other type changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from braces.builder.append import emit
from braces.builder.builder import Builder
from braces.define.decorator import OPS
from braces.define.type_inference import infer_op
from braces.dtypes import DType, TensorType, Type, dtype_of, is_float
from braces.errors import BracesError, DTypeError, ProgramError
from braces.ir.places import Chain
from braces.ir.records import PARAMETER, Op, ProgramDef, VarInfo
from braces.ir.walk import rename_slots
from braces.passes.core.rewrite import InsertionPoint, Replacement
from braces.passes.training.freeze import freeze_parameters
from braces.surgery.edits.core.address import handles_at, operators_at, paths_text
from braces.surgery.edits.core.change import EditResult
from braces.surgery.edits.core.derived import refuse_derived
from braces.surgery.edits.core.inference import retyped
from braces.surgery.edits.core.session import with_definition
from braces.surgery.edits.core.taken_part import require_whole
from braces.surgery.edits.core.walk import Action, EditWalk
from braces.surgery.edits.types import CAST, retyped_startup
from braces.surgery.handles import Handle, is_parameter

P = TypeVar("P", bound=Builder)


# ---- freezing --------------------------------------------------------------------------------


def freeze(program: P, at: Any) -> EditResult[P]:
    """Stop the updates of parameters; see `Edits.freeze`."""
    require_whole(program, "freeze")
    names = [handle.name for handle in _parameters(program, at)]
    label = f"freeze {', '.join(f'`{name}`' for name in names[:3])}"
    moving = [name for name in names if name in program.updates]
    frozen = freeze_parameters(program, moving) if moving else program
    return EditResult(_with_trainable(program, frozen.definition, names, False), label)


def unfreeze(program: P, at: Any) -> EditResult[P]:
    """Make parameters trainable again; see `Edits.unfreeze`.

    Raises:
        ProgramError: If a parameter has no float dtype, or a training step does not update it.
    """
    require_whole(program, "unfreeze")
    handles = _parameters(program, at)
    names = [handle.name for handle in handles]
    label = f"unfreeze {', '.join(f'`{name}`' for name in names[:3])}"
    _check_parameters(handles, label, "Only float parameters have gradients; retype it.")
    _refuse_step(program.definition, names, label)
    return EditResult(_with_trainable(program, program.definition, names, True), label)


def _refuse_step(definition: ProgramDef, names: Sequence[str], label: str) -> None:
    """Refuse parameters that a training step does not update: it would not train them.

    Raises:
        ProgramError: If there is one.
    """
    records = (each for each in definition.derivations if each.updates)
    step = next((each for each in records if each.remains_in(definition)), None)
    still = next((name for name in names if name not in definition.updates), None)
    if step is not None and still is not None:
        raise ProgramError(
            f"the training step has no update of `{still}`, which was frozen when "
            f"{step.function} built it, or afterwards.",
            at=label,
            given=f"updates: {', '.join(f'`{name}`' for name in list(definition.updates)[:6])}",
            fix="Unfreeze br.prune(prog, [loss]), and call minimize again.",
        )


def _with_trainable(
    program: P, definition: ProgramDef, names: Sequence[str], trainable: bool
) -> P:
    """Return a program with a definition in which some parameters are trainable, or not."""
    infos = dict(definition.main.vars)
    infos |= {name: infos[name].with_(trainable=trainable) for name in names}
    return with_definition(program, definition.with_(main=definition.main.with_(vars=infos)))


def _parameters(program: Builder, at: Any) -> list[Handle]:
    """Return the parameters of an argument: given, or read by operators.

    Raises:
        ProgramError: If a variable is no parameter, or operators read none.
    """
    parameters: dict[Handle, None] = {}
    handles = handles_at(program, at, "parameters")
    for handle in handles:
        if handle.info is not None and handle.maker is None:
            parameters |= {handle: None} if is_parameter(handle) else {}
        else:
            operators = operators_at(program, handle, inside=True)
            read = (var for op in operators for var in op.inputs)
            parameters |= {var: None for var in read if is_parameter(var)}
    if not parameters:
        raise ProgramError(
            f"expected parameters or operators that read some, got {paths_text(handles)}.",
            fix="prog.find(kind='parameters') lists all.",
        )
    return list(parameters)


# ---- casting ---------------------------------------------------------------------------------


def cast(program: P, at: Any, dtype: Any, *, exact: bool = False) -> EditResult[P]:
    """Store parameters, and compute operators, in another dtype; see `Edits.cast`."""
    if dtype is None:
        raise DTypeError("expected a float dtype, got None.", at="cast", fix='Pass "bfloat16".')
    narrow = dtype_of(dtype)
    handles = handles_at(program, at, "parameters")
    label = f"cast {paths_text(handles)} to {narrow.name}"
    if not is_float(narrow):
        raise DTypeError(
            f"expected a float dtype, got {narrow.name}.",
            at=label,
            fix='Pass "bfloat16", "float16", "float32" or "float64".',
        )
    declared = [handle for handle in handles if handle.info and handle.maker is None]
    _check_parameters(declared, label)
    if declared:
        require_whole(program, label)
    rest = [handle for handle in handles if handle not in declared]
    operators = operators_at(program, rest, inside=True) if rest else []
    refuse_derived(program, operators, label, exact)
    casting = _Casting(program, narrow, label, declared)
    for handle in operators:
        casting.actions[handle.chain, handle.name] = casting.operator
    casting.plan_updates()
    walk = EditWalk(label, casting.actions, {(): casting.begin} if declared else {})
    new = walk.apply(program)
    types = {handle.name: casting.narrow_type(handle) for handle in declared}
    new.startup = retyped_startup(new.startup, types, label)
    return EditResult(new, label)


def _check_parameters(
    handles: Sequence[Handle],
    label: str,
    fix: str = "Cast parameters and operators; retype changes the type of data.",
) -> None:
    for handle in handles:
        info = handle.info
        if info is None or info.kind != PARAMETER or not is_float(info.dtype):
            raise ProgramError(
                f"expected a float parameter, got `{handle.path}`.",
                at=label,
                given=f"{info.kind} {info.name}: {info.shown_type}" if info else None,
                fix=fix,
            )


class _Casting:
    """A walk that casts parameters and operators."""

    def __init__(
        self, program: Builder, dtype: DType, label: str, parameters: Sequence[Handle]
    ) -> None:
        self.program = program
        self.dtype = dtype
        self.label = label
        self.parameters = parameters
        self.actions: dict[tuple[Chain, str], Action] = {}
        self._narrow: dict[tuple[Chain, str], str] = {}
        self._next: dict[str, list[str]] = {}

    def narrow_type(self, handle: Handle) -> TensorType:
        """Return the type of a parameter in the dtype."""
        assert handle.info is not None
        return TensorType(self.dtype, handle.info.shape)

    # ---- parameters --------------------------------------------------------------------------

    def plan_updates(self) -> None:
        """Cast the next values of the parameters where they are computed."""
        makers = {n: op for op in self.program.definition.main.ops for n in op.binds()}
        for handle in self.parameters:
            value = self.program.updates.get(handle.name)
            maker = makers.get(value) if value is not None else None
            if maker is None or value is None:
                continue
            address = ((), maker.name)
            self._next.setdefault(maker.name, []).append(handle.name)
            self.actions[address] = partial(self._cast_next, self.actions.get(address))

    def begin(self, point: InsertionPoint) -> None:
        """Declare the parameters in the dtype, and convert them for their readers."""
        for handle in self.parameters:
            name = handle.name
            info = point.table.vars[name]
            point.table.vars[name] = retyped(info, self.narrow_type(handle))
            with point.building():
                point.names[name] = emit(CAST, point.var(name), dtype=info.dtype).name

    def _cast_next(self, inner: Action | None, op: Op, point: InsertionPoint) -> Replacement:
        """Convert next values of parameters to the dtype, after the operator."""
        if inner is not None:
            inner(op, point)
        else:
            point.keep(op)
        for name in self._next[op.name]:
            with point.building():
                value = point.var(self.program.updates[name])
                point.program.updates[name] = emit(CAST, value, dtype=self.dtype).name
        return {}

    # ---- operators ---------------------------------------------------------------------------

    def operator(self, op: Op, point: InsertionPoint) -> Replacement:
        """Compute an operator in the dtype, and convert its float outputs back."""
        names = {name: self._operand(name, point) for name in self._floats(op.reads(), point)}
        olds = self._floats(op.binds(), point)
        new_names = {old: point.table.names.unique(old) for old in olds}
        outputs = rename_slots(op.outputs, new_names)
        new = op.with_(inputs=rename_slots(op.inputs, names), outputs=outputs)
        types = self._types(new, point)
        wide = {old: point.info(old) for old in olds}
        bound = [VarInfo(n, types[n]) for n in new.binds() if n in types]
        point.keep(new, [info for info in bound if info.name in new_names.values()])
        chain = point.chain
        for old, name in new_names.items():
            self._narrow[chain, old] = name
            point.keep(_cast_op(point, op, name, old, wide[old].dtype))
        return {}

    def _floats(self, names: Iterable[str], point: InsertionPoint) -> list[str]:
        infos = [point.info(name) for name in dict.fromkeys(names)]
        return [
            info.name
            for info in infos
            if isinstance(info.type, TensorType)
            and is_float(info.dtype)
            and info.dtype != self.dtype
        ]

    def _operand(self, name: str, point: InsertionPoint) -> str:
        """Return an operand in the dtype; a value that was converted back is not again."""
        chain = point.chain
        if (chain, name) not in self._narrow:
            with point.building():
                value = emit(CAST, point.var(name), dtype=self.dtype)
            self._narrow[chain, name] = value.name
        return self._narrow[chain, name]

    def _types(self, op: Op, point: InsertionPoint) -> dict[str, Type]:
        types = {name: point.var(name).type for name in op.reads()}
        try:
            return infer_op(op, types, point.table.unifier)
        except BracesError as error:
            error.at = f"{self.label}, {op.describe()}"
            raise


def _cast_op(point: InsertionPoint, op: Op, value: str, name: str, dtype: DType) -> Op:
    """Return the operator that converts a value and binds an old name."""
    definition = OPS.get(CAST)
    (x,), (out,) = definition.inputs, definition.output_names
    new = point.table.names.unique(CAST)
    slots = {x.name: (value,)}, {out: (name,)}
    return Op(CAST, new, *slots, definition.bind_attrs({"dtype": dtype}), op.source)
