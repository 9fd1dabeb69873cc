"""Verification of one operator against its definition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter, is_

from braces.define.decorator import OPS, OpDef, Slot
from braces.define.type_inference import (
    InferenceContext,
    infer,
    infer_without_kernel,
    resolve_types,
)
from braces.dims import Unifier
from braces.dtypes import Type, unifies
from braces.errors import BracesError, OpDefinitionError, did_you_mean, suggest
from braces.ir.records import Body, Op
from braces.ir.walk import captures_of
from braces.ops.control.core.block_op import BlockOp, Interface
from braces.passes.verifier.rules import Report
from braces.passes.verifier.scoping import ScopeChain

_slot_name: Callable[[Slot], str] = attrgetter("name")


def check_definition(op: Op, report: Report, at: str) -> Op | None:
    """Check slots and attributes of an operator against its definition.

    Returns:
        The operator with all its attributes; `None` if it violates its definition.
    """
    definition, before = OPS.find(op.type), len(report.errors)
    if definition is None:
        _report_unknown(op, report, at)
        return None
    _check_slots("input", op.inputs, definition.inputs, op, report, at)
    _check_slots("output", op.outputs, definition.outputs, op, report, at)
    completed = _with_attrs(op, definition, report, at)
    return completed if len(report.errors) == before else None


def _report_unknown(op: Op, report: Report, at: str) -> None:
    """Report an operator without definition: from another process, or misspelt."""
    module = report.modules.get(op.type.partition(".")[0])
    origin, fix = None, did_you_mean(op.type, OPS.definitions)
    if module is not None:
        origin = f"{op.type} was defined in {module}, not in Braces"
        fix = f"Import {module}, or the module that defines the operator now."
    elif not fix:
        fix = "For a custom operator, import the module that defines it."
    report.say("B101", f"unknown operator `{op.type}`.", at=at, given=origin, fix=fix)


def check_captures(op: Op, report: Report, at: str) -> None:
    """Check the captures of an operator against the outer reads of its sub-blocks."""
    captured = captures_of(op.attrs)
    if captured != op.captures():
        report.say(
            "B208",
            f"the captures of `{op.name}` are not the outer names that its sub-blocks read.",
            at=at,
            given=f"stored: {_join_names(op.captures())}   computed: {_join_names(captured)}",
            fix="List each outer name once, in the order of first use.",
        )


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _check_slots(
    kind: str,
    names_by_slot: Mapping[str, tuple[str, ...]],
    slots: tuple[Slot, ...],
    op: Op,
    report: Report,
    at: str,
) -> None:
    known = list(map(_slot_name, slots))
    for name in names_by_slot:
        if name not in known:
            what = f"unknown {kind} `{name}` of {op.type}."
            report.say("B102", what, at=at, fix=suggest(name, known))
    for slot in slots:
        names = names_by_slot.get(slot.name)
        if names is None and not slot.optional:
            what = f"missing {kind} `{slot.name}` of {op.type}."
            report.say("B103", what, at=at, fix="Add it.")
        elif names is not None and not slot.many and len(names) != 1:
            what = (
                f"expected one variable for the {kind} `{slot.name}` of {op.type}, "
                f"got {len(names)}."
            )
            report.say(
                "B104",
                what,
                at=at,
                fix="Pass one variable, or omit the slot if it is optional.",
            )


def _with_attrs(op: Op, definition: OpDef, report: Report, at: str) -> Op | None:
    try:
        attrs = definition.bind_attrs(op.attrs)
    except BracesError as error:
        report.say("B105", error.what, at=at, given=error.given, fix=error.fix)
        return None
    is_complete = len(attrs) == len(op.attrs) and all(
        map(is_, map(attrs.get, op.attrs), op.attrs.values())
    )
    return op if is_complete else op.with_(attrs=attrs)


# ---- sub-blocks ------------------------------------------------------------------------------


def check_interface(
    op: Op, visible: ScopeChain, unifier: Unifier, report: Report, at: str
) -> None:
    """Check the sub-blocks of an operator against its operands and results."""
    definition = OPS.get(op.type)
    if not isinstance(definition, BlockOp):
        return
    types = {slot: visible.types(names) for slot, names in op.inputs.items()}
    try:
        interfaces = definition.interface(op, types)
    except BracesError as error:
        report.say("B108", error.what, at=at, given=error.given, fix=error.fix)
        return
    for label, body in op.bodies().items():
        _check_body(label, body, interfaces[label], unifier, report, at)
    _infer_and_compare(op, definition, visible, unifier, False, report, at)


def _check_body(
    label: str, body: Body, wanted: Interface, unifier: Unifier, report: Report, at: str
) -> None:
    if len(body.params) != len(wanted.params):
        what = f"`{label}` has {len(body.params)} parameters; expected {len(wanted.params)}."
        report.say(
            "B106",
            what,
            at=at,
            fix="Declare one parameter for each value that the operator binds.",
        )
    elif len(body.results) != wanted.results:
        what = f"`{label}` has {len(body.results)} results; expected {wanted.results}."
        report.say(
            "B107", what, at=at, fix="Return one result for each output of the operator."
        )
    for name, bound in zip(body.params, wanted.params, strict=False):
        if not unifies(body.vars[name].type, bound, unifier):
            report.say(
                "B503",
                f"type mismatch between parameter `{name}` of `{label}` and its value.",
                at=at,
                given=f"{name}: {body.vars[name].type}   bound: {bound}",
                fix=f"Declare it as {bound}.",
            )


# ---- types -----------------------------------------------------------------------------------


def check_types(
    op: Op,
    visible: ScopeChain,
    unifier: Unifier,
    types: bool | None,
    report: Report,
    at: str,
) -> None:
    """Infer the types of the outputs of an operator, and compare with the declared ones."""
    definition = OPS.get(op.type)
    if types is not False and not isinstance(definition, BlockOp):
        _infer_and_compare(op, definition, visible, unifier, types is True, report, at)


def _infer_and_compare(
    op: Op,
    definition: OpDef,
    visible: ScopeChain,
    unifier: Unifier,
    kernels: bool,
    report: Report,
    at: str,
) -> None:
    declared = {slot: visible.types(names) for slot, names in op.inputs.items()}
    input_types = resolve_types(declared, unifier)
    outer = dict(zip(op.captures(), visible.types(op.captures()), strict=True))
    context, wanted = InferenceContext(definition.type, unifier), tuple(op.outputs)
    try:
        if kernels:
            inferred = infer(definition, input_types, op.attrs, wanted, context, outer)
        else:
            inferred = infer_without_kernel(
                definition, input_types, op.attrs, wanted, context, outer
            )
    except OpDefinitionError as error:  # rules expect operands that the builder accepts
        what = f"invalid inputs or attributes of {op.type}: {error.what}"
        report.say("B502", what, at=at, given=_format_inputs(op, input_types))
        return
    except BracesError as error:
        given_text = error.given or _format_inputs(op, input_types)
        report.say("B502", error.what, at=at, given=given_text, fix=error.fix)
        return
    except Exception as error:  # inference of operators that own blocks
        what = f"invalid inputs or attributes of {op.type}: {error!r:.80}"
        report.say("B502", what, at=at, given=_format_inputs(op, input_types))
        return
    for slot in wanted if inferred else ():
        types = inferred.get(slot, ()) if inferred else ()
        _compare(op, slot, visible, types, unifier, report, at)


def _format_inputs(op: Op, types: Mapping[str, tuple[Type, ...]]) -> str:
    pairs = (
        f"{slot} = {name}: {type_}"
        for slot, names in op.inputs.items()
        for name, type_ in zip(names, types[slot], strict=True)
    )
    return "   ".join(pairs) or "no inputs"


def _compare(
    op: Op,
    slot: str,
    visible: ScopeChain,
    inferred: tuple[Type, ...],
    unifier: Unifier,
    report: Report,
    at: str,
) -> None:
    names = op.outputs[slot]
    if len(names) != len(inferred):
        what = (
            f"{op.type} returns {len(inferred)} variables in `{slot}`, "
            f"but {len(names)} are bound."
        )
        report.say("B501", what, at=at, fix="Bind one name for each variable.")
        return
    for name, declared, type_ in zip(names, visible.types(names), inferred, strict=True):
        if not unifies(declared, type_, unifier):
            report.say(
                "B501",
                f"declared type of `{name}` differs from the type that {op.type} infers.",
                at=at,
                given=f"declared: {declared}   inferred: {type_}",
                fix=f"Declare it as {type_}.",
            )
