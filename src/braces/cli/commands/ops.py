"""`braces ops [NAME]`: the list of operators, or the documentation of one."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import Any

from braces.cli.common.command import YES, Command, declare
from braces.cli.common.function_help import describe_lines, find_function, plain, spelling_of
from braces.cli.common.terminal import Style
from braces.define.decorator import OPS, AttrSpec, OpDef, Slot
from braces.frontend.core.functions import FUNCTIONS
from braces.report import columns


def _arguments(parser: ArgumentParser) -> None:
    usage = "name NAME  an operator, layer or function to describe"
    declare(parser, usage, name={"nargs": "?"})
    declare(parser, "--json  print JSON")


def _run(options: Namespace) -> int:
    function = None
    if options.name and OPS.find(options.name) is None:
        function = find_function(options.name)
    if function is None:
        return _operators(options)
    lines = describe_lines(function, Style(sys.stdout))
    print(json.dumps(plain(function), indent=2) if options.json else "\n".join(lines))
    return YES


def _operators(options: Namespace) -> int:
    ops = [OPS.get(options.name)] if options.name else _all_ops()
    style = Style(sys.stdout)
    if options.json:
        data = [_op_data(definition) for definition in ops]
        print(json.dumps(data[0] if options.name else data, indent=2))
    elif options.name:
        print("\n".join(_describe_op(ops[0], style)))
    else:
        print("\n".join(_list_ops(ops, style)))
    return YES


def _all_ops() -> list[OpDef]:
    return sorted(OPS.definitions.values(), key=lambda definition: definition.type)


# ---- as text ---------------------------------------------------------------------------------


def _list_ops(ops: list[OpDef], style: Style) -> Iterator[str]:
    rows = [
        [definition.type, _function_mark(definition), _first_line(definition)]
        for definition in ops
    ]
    for line in columns(rows):
        name, _, remainder = line.partition(" ")
        yield f"{style.bold(name)} {remainder}"
    yield ""
    yield style.dim(
        f"{len(ops)} operators; `braces ops NAME` describes one. Operators with `·` have no "
        "function in `br`."
    )


def _function_mark(definition: OpDef) -> str:
    return " " if spelling_of(definition.type) else "·"


def _first_line(definition: OpDef) -> str:
    return definition.doc.partition("\n")[0]


def _describe_op(definition: OpDef, style: Style) -> Iterator[str]:
    yield style.bold(signature(definition))
    yield ""
    yield definition.doc
    yield ""
    yield style.dim(", ".join(_traits(definition)))
    function = spelling_of(definition.type)
    if function is None:
        yield style.dim(
            "Not a function of `br`: constructs, layers and other operators append it."
        )
    elif definition.type not in FUNCTIONS:
        yield style.dim(f"`braces ops {function}` describes the function of this name.")
    if definition.examples:
        yield ""
        yield style.bold("Examples")
        yield from (f"  {definition.type} {example}" for example in definition.examples)


def signature(definition: OpDef) -> str:
    """Return the signature of an operator: inputs, then attributes, then outputs.

    Example:
        >>> from braces.define.decorator import OPS
        >>> signature(OPS.get("softmax"))
        'softmax(x, *, axis: Axis = -1) -> out'
    """
    inputs = [_slot_text(slot) for slot in definition.inputs]
    attrs = [_attr_text(spec) for spec in definition.attrs]
    arguments = [*inputs, *(["*"] if attrs else []), *attrs]
    outputs = ", ".join(_slot_text(slot) for slot in definition.outputs)
    return f"{definition.type}({', '.join(arguments)}) -> {outputs}"


def _slot_text(slot: Slot) -> str:
    if slot.many:
        return f"{slot.name}…"
    return f"{slot.name}?" if slot.optional else slot.name


def _attr_text(spec: AttrSpec) -> str:
    return f"{spec.name}: {spec.kind}" + ("" if spec.required else f" = {spec.default!r}")


def _traits(definition: OpDef) -> Iterator[str]:
    yield f"version {definition.version}"
    yield f"gradient: {_gradient_kind(definition)}"
    if definition.random:
        yield "draws random numbers"
    if definition.check is not None:
        yield f"run-time error: {definition.check.error.__name__}"


def _gradient_kind(definition: OpDef) -> str:
    if not definition.differentiable:
        return "none"
    if definition.gradient_rule is not None or definition.owns_blocks:
        return "a program"
    return "a kernel" if definition.vjp_rule is not None else "derived"


# ---- as data ---------------------------------------------------------------------------------


def _op_data(definition: OpDef) -> dict[str, Any]:
    return {
        "type": definition.type,
        "inputs": [_slot_data(slot) for slot in definition.inputs],
        "attributes": [_attr_data(spec) for spec in definition.attrs],
        "outputs": [_slot_data(slot) for slot in definition.outputs],
        "version": definition.version,
        "gradient": _gradient_kind(definition),
        "random": definition.random,
        "function": spelling_of(definition.type),
        "examples": list(definition.examples),
        "doc": definition.doc,
    }


def _slot_data(slot: Slot) -> dict[str, Any]:
    return {"name": slot.name, "many": slot.many, "optional": slot.optional}


def _attr_data(spec: AttrSpec) -> dict[str, Any]:
    data: dict[str, Any] = {"name": spec.name, "kind": spec.kind, "required": spec.required}
    return data if spec.required else {**data, "default": repr(spec.default)}


COMMAND = Command(
    "ops", "list the operators, or describe one", "braces ops softmax", _arguments, _run
)
