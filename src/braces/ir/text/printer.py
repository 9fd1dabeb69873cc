"""Printer of the text form of programs: one operator per line, blocks between braces.

    program {
      data x: f32[b,8]
      parameter w: f32[8,4] trainable
      matmul_0: f32[b,4] = matmul(x=x, y=w)  # train.py:7
      loop_0: f32[b,4] = loop(sliced=matmul_0) {reverse=false} captures [w]  # train.py:8
        body (row: f32[4]) {
          multiply_0: f32[4] = multiply(x=row, y=w)  # train.py:9
          return multiply_0
        }
      update w = sub_0
    }

`braces.ir.text.parser` has the grammar and parses the text into the same records, bit by bit.
For reading only, long plain blocks can be folded, each into one line:

      layer_0 = block(…) { … 25 operators; return layer_0/y: f32[b,8], layer_0/z: f32[b] }
Fields of a later schema are shown as `unknown "base64"`. Information that follows from names is
omitted: the slots of outputs (`derived_outputs`) and the name of the operator (`derived_name`).
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from braces.dims import Dim
from braces.dtypes import DType, TensorType, short_name
from braces.errors import ProgramError
from braces.ir import limits
from braces.ir.files.bounded_read import stored_path
from braces.ir.records import (
    ARGUMENT,
    BLOCK,
    CAPTURES,
    VALUE,
    Attr,
    Body,
    Literal,
    Op,
    ProgramDef,
    Slots,
    Source,
    VarInfo,
)
from braces.ir.text.tokens import ELLIPSIS
from braces.ir.walk import all_ops
from braces.notebook import CELL, line_text

LONGEST_INLINE = 16
"""Largest number of elements of an array constant written out; longer ones are in base64."""
MOST_FOLDED = 3
"""Number of outputs that a folded block shows."""

_PAD = "  "
_SLOT_IN_NAME = re.compile(r".*\.([A-Za-z_]\w*)(?:\.\d+)?")
_PLAIN_FILE = re.compile(r'[^\s"]\S*')


def print_program(program: ProgramDef, fold: int | None = None) -> str:
    """Return the text of a program; `parse_program` reads it.

    Args:
        program: The program.
        fold: Plain blocks of more operators than this, nested ones included, are folded into
            one line each; the result cannot be parsed.
    """
    limits.check_nesting(program.main.ops)
    updates = [f"update {name} = {value}" for name, value in program.updates.items()]
    head = "program" + _unknown(program.unknown)
    return _text(_block(head, program.main, "", updates, fold))


def print_body(body: Body) -> str:
    """Return the text of a block; `parse_body` reads it."""
    limits.check_nesting(body.ops)
    return _text(_block("block", body, ""))


def _text(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"


# ---- names -----------------------------------------------------------------------------------


def derived_outputs(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the output slots of variables, derived from their names.

    Example:
        >>> derived_outputs(["tanh_0"])
        {'out': ('tanh_0',)}
        >>> derived_outputs(["loop_0.final.0", "loop_0.final.1", "loop_0.rows"])
        {'final': ('loop_0.final.0', 'loop_0.final.1'), 'rows': ('loop_0.rows',)}
    """
    slots: dict[str, list[str]] = {}
    for name in names:
        match = _SLOT_IN_NAME.fullmatch(name) if len(names) > 1 else None
        slots.setdefault(match.group(1) if match else "out", []).append(name)
    return {slot: tuple(slot_names) for slot, slot_names in slots.items()}


def derived_name(outputs: Slots) -> str:
    """Return the name of an operator, derived from its outputs; empty if there are none.

    Example:
        >>> derived_name({"final": ("loop_0.final.0", "loop_0.final.1")})
        'loop_0'
    """
    for slot, names in outputs.items():
        for name in names[:1]:
            for ending in (f".{slot}.0", f".{slot}", ".0"):
                if name.endswith(ending):
                    return name.removesuffix(ending)
            return name
    return ""


# ---- blocks and operators --------------------------------------------------------------------


def _block(
    head: str,
    body: Body,
    pad: str,
    updates: Sequence[str] = (),
    fold: int | None = None,
) -> Iterator[str]:
    """Yield the lines of a block; `head` ends with `(` if parentheses must be shown."""
    arguments = _untyped(body, body.params, ARGUMENT)
    values = _untyped(body, (name for op in body.ops for name in op.binds()), VALUE)
    declared = [i for n, i in body.vars.items() if n not in arguments and n not in values]
    inside = pad + _PAD
    params = _join(_binding_text(name, arguments) for name in body.params)
    if params and not head.endswith("("):
        head += " ("
    yield f"{pad}{head}{params}) {{" if head.endswith("(") else f"{pad}{head} {{"
    if body.unknown:
        yield inside + _unknown(body.unknown).lstrip()
    yield from (inside + _declaration(info) for info in declared)
    for op in body.ops:
        yield from _op(op, values, inside, fold)
    if body.results:
        yield f"{inside}return {', '.join(body.results)}"
    yield from (inside + update for update in updates)
    yield f"{pad}}}"


def _untyped(body: Body, names: Iterable[str], kind: str) -> dict[str, VarInfo]:
    """Return the variables that are declared where they are bound, and nowhere else."""
    infos = {name: body.vars[name] for name in names if name in body.vars}
    return {
        name: info
        for name, info in infos.items()
        if info.kind == kind and not (info.trainable or info.axes or info.unknown)
    }


def _binding_text(name: str, untyped: dict[str, VarInfo]) -> str:
    """Return a bound name, with its type the first time."""
    info = untyped.pop(name, None)
    return name if info is None else f"{name}: {info.type}"


def _declaration(info: VarInfo) -> str:
    shown = f"{info.kind} {info.name}: {info.shown_type}"
    shown += " trainable" if info.trainable else ""
    return shown + _unknown(info.unknown)


def _op(op: Op, values: dict[str, VarInfo], pad: str, fold: int | None = None) -> Iterator[str]:
    if fold is not None and op.type == BLOCK and (count := _count(op)) > fold:
        yield pad + _folded_line(op, values, count)
        return
    clause = list(op.inputs)[-1:] == [CAPTURES] and op.captures()
    inputs = {s: n for s, n in op.inputs.items() if not (clause and s == CAPTURES)}
    nested = {n: v for n, v in op.attrs.items() if _has_body(v) and n != CAPTURES}
    line = f"{pad}{_outputs(op.outputs, values)}{op.type}({_join(map(_slot, inputs.items()))})"
    line += _braces({n: v for n, v in op.attrs.items() if n not in nested}, pad)
    line += f" {CAPTURES} [{', '.join(op.captures())}]" if clause else ""
    line += "" if op.name == derived_name(op.outputs) else f" as {op.name}"
    yield line + _unknown(op.unknown) + _comment(op.source)
    for name, value in nested.items():
        yield from _value_lines(name + " ", value, pad + _PAD, fold)


def _folded_line(op: Op, values: dict[str, VarInfo], count: int) -> str:
    """Return a plain block as one line, its name first."""
    names = [_binding_text(name, values) for name in op.binds()]
    shown, hidden_count = names[:MOST_FOLDED], len(names) - MOST_FOLDED
    if hidden_count > 0:
        shown.append(f"{ELLIPSIS} {hidden_count:,} more")
    returned = f"; return {_join(shown)}" if shown else ""
    within = f"{{ {ELLIPSIS} {count:,} operators{returned} }}"
    return f"{op.name} = {op.type}({ELLIPSIS}) {within}{_comment(op.source)}"


def _count(op: Op) -> int:
    """Return the number of operators in an operator, at any depth."""
    return sum(1 for body in op.bodies().values() for _ in all_ops(body))


def _unknown(data: bytes) -> str:
    return f" unknown {_base64(data)}" if data else ""


def _base64(data: bytes) -> str:
    return f'"{base64.b64encode(data).decode()}"'


def _outputs(outputs: Slots, values: dict[str, VarInfo]) -> str:
    """Return the outputs of an operator up to the equals sign."""
    if not outputs:
        return "do "
    names = [name for bound in outputs.values() for name in bound]
    if list(derived_outputs(names).items()) == list(outputs.items()):
        return _join(_binding_text(name, values) for name in names) + " = "
    shown = (
        f"{s}=[{_join(_binding_text(n, values) for n in bound)}]"
        for s, bound in outputs.items()
    )
    return _join(shown) + " = "


def _join(parts: Iterable[str]) -> str:
    return ", ".join(parts)


def _slot(item: tuple[str, Sequence[str]]) -> str:
    slot, names = item
    return f"{slot}={names[0]}" if len(names) == 1 else f"{slot}=[{', '.join(names)}]"


def _comment(source: Source | None) -> str:
    if source is None or source.line < 0:
        return ""
    file = stored_path(source.file)
    if CELL.fullmatch(file):
        return f"  # {line_text(file, source.line)}"
    plain = _PLAIN_FILE.fullmatch(file) and file.isprintable()
    return f"  # {file if plain else quoted(file)}:{source.line}"


# ---- attributes ------------------------------------------------------------------------------


def _has_body(value: Attr) -> bool:
    return isinstance(value, Body) or (isinstance(value, tuple) and any(map(_has_body, value)))


def _braces(attrs: Mapping[str, Attr], pad: str) -> str:
    shown = [f"{n}={_text(_value_lines('', v, pad)).strip()}" for n, v in attrs.items()]
    return f" {{{', '.join(shown)}}}" if shown else ""


def _value_lines(head: str, value: Attr, pad: str, fold: int | None = None) -> Iterator[str]:
    """Yield the lines of a value, as many as its blocks need."""
    if isinstance(value, Body):
        yield from _block(head + "(", value, pad, fold=fold)
    elif isinstance(value, tuple) and _has_body(value):
        yield f"{pad}{head}["
        for item in value:
            *lines, last = _value_lines("", item, pad + _PAD, fold)
            yield from (*lines, last + ",")
        yield f"{pad}]"
    else:
        yield f"{pad}{head}{_plain(value)}"


_WORDS: dict[Any, str] = {None: "none", True: "true", False: "false"}


def _plain(value: object) -> str:
    """Return the text of a value without blocks."""
    match value:
        case None | True | False:
            return _WORDS[value]
        case int():
            return int.__repr__(value)
        case float():
            return float.__repr__(value)
        case str():
            return quoted(value)
        case tuple():
            return f"[{_join(map(_plain, cast('tuple[object, ...]', value)))}]"
        case np.dtype():
            return short_name(value)
        case Dim():
            return f"size({value})"
        case Literal():
            return _literal(value)
        case _:
            raise ProgramError(f"unsupported type {type(value).__name__} of an attribute.")


def quoted(text: str) -> str:
    r"""Return a string in quotes, on one line, with JSON's escapes.

    Example:
        >>> print(quoted('say "β"\n'))
        "say \"β\"\n"
    """
    if text.isprintable():
        return json.dumps(text, ensure_ascii=False)
    return (
        '"' + "".join(json.dumps(c, ensure_ascii=not c.isprintable())[1:-1] for c in text) + '"'
    )


# ---- array constants -------------------------------------------------------------------------


def part_type(dtype: DType) -> DType:
    """Return the dtype of the numbers written for one element: complex ones are pairs."""
    return {"c64": np.dtype("f4"), "c128": np.dtype("f8")}.get(short_name(dtype), dtype)


def part_shape(dtype: DType, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of the numbers written: complex ones are pairs."""
    return shape if part_type(dtype) == dtype else (*shape, 2)


def packed(dtype: DType, numbers: Sequence[float]) -> bytes:
    """Return numbers as the data of an array constant.

    Raises:
        OverflowError: If an integer is out of range.
    """
    with np.errstate(over="ignore"):
        return np.array(numbers, part_type(dtype)).tobytes()


def _literal(literal: Literal) -> str:
    type_text = str(TensorType(literal.dtype, literal.shape))
    numbers = _numbers(literal)
    if numbers is None:
        return f"{type_text} {_base64(literal.data)}"
    return f"{type_text} {_nested(numbers, part_shape(literal.dtype, literal.shape))}"


def _numbers(literal: Literal) -> list[str] | None:
    """Return the elements as texts, if they are few and texts represent them exactly."""
    part = part_type(literal.dtype)
    if len(literal.data) > LONGEST_INLINE * literal.dtype.itemsize or 0 in literal.shape[1:]:
        return None
    parts = list(np.frombuffer(literal.data, part))
    for texts in (
        [str(element) for element in parts],
        [repr(float(element)) for element in parts],
    ):
        if part.kind in "biu":
            return [text.lower() for text in texts]
        if packed(part, [float(text) for text in texts]) == literal.data:
            return texts
    return None


def _nested(numbers: Sequence[str], shape: tuple[int, ...]) -> str:
    if not shape:
        return numbers[0]
    step = len(numbers) // shape[0] if shape[0] else 1
    rows = (numbers[at : at + step] for at in range(0, len(numbers), step))
    return f"[{_join(_nested(row, shape[1:]) for row in rows)}]"
