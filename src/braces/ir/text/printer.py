"""The text form of programs: one operator a line, blocks between braces.

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

`braces.ir.text.parser` gives the grammar and reads it back: the same records, to the last bit.
For people who only read, long plain blocks are folded, each into one line:

      layer_0 = block(…) { … 25 operators; return layer_0/y: f32[b,8], layer_0/z: f32[b] }
Fields of a later schema are shown as `unknown "base64"`. What follows from names is not shown:
the slots of outputs (`derived_outputs`) and the name of the operator (`derived_name`).
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

LONGEST_INLINE = 16
"""Array constants of at most so many numbers are written out; longer ones in base64."""
MOST_FOLDED = 3
"""A folded block shows so many of its outputs."""

_PAD = "  "
_SLOT_IN_NAME = re.compile(r".*\.([A-Za-z_]\w*)(?:\.\d+)?")
_PLAIN_FILE = re.compile(r'[^\s"]\S*')


def print_program(program: ProgramDef, fold: int | None = None) -> str:
    """The text of a program; `parse_program` reads it.

    Args:
        program: The program.
        fold: Plain blocks of more operators than this, those in blocks inside included, are a
            line each; nothing reads that.
    """
    limits.check_nesting(program.main.ops)
    updates = [f"update {name} = {value}" for name, value in program.updates.items()]
    head = "program" + _unknown(program.unknown)
    return _text(_block(head, program.main, "", updates, fold))


def print_body(body: Body) -> str:
    """The text of a block; `parse_body` reads it."""
    limits.check_nesting(body.ops)
    return _text(_block("block", body, ""))


def _text(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"


# ---- what names tell -------------------------------------------------------------------------


def derived_outputs(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The output slots that variables lie in, by their names alone.

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
    return {slot: tuple(given) for slot, given in slots.items()}


def derived_name(outputs: Slots) -> str:
    """The name of an operator, by what it binds alone; empty where it binds nothing.

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
    """A block behind `head`, which ends with `(` where parentheses must be shown."""
    arguments = _untyped(body, body.params, ARGUMENT)
    values = _untyped(body, (name for op in body.ops for name in op.binds()), VALUE)
    declared = [i for n, i in body.vars.items() if n not in arguments and n not in values]
    inside = pad + _PAD
    params = _joined(_bound(name, arguments) for name in body.params)
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
    """The variables whose declaration is shown where they are bound, and nowhere else."""
    found = {name: body.vars[name] for name in names if name in body.vars}
    return {
        name: info
        for name, info in found.items()
        if info.kind == kind and not (info.trainable or info.axes or info.unknown)
    }


def _bound(name: str, untyped: dict[str, VarInfo]) -> str:
    """A name where it is bound, with its type the first time."""
    info = untyped.pop(name, None)
    return name if info is None else f"{name}: {info.type}"


def _declaration(info: VarInfo) -> str:
    shown = f"{info.kind} {info.name}: {info.shown_type}"
    shown += " trainable" if info.trainable else ""
    return shown + _unknown(info.unknown)


def _op(op: Op, values: dict[str, VarInfo], pad: str, fold: int | None = None) -> Iterator[str]:
    if fold is not None and op.type == BLOCK and (count := _count(op)) > fold:
        yield pad + _folded(op, values, count)
        return
    clause = list(op.inputs)[-1:] == [CAPTURES] and op.captures()
    inputs = {s: n for s, n in op.inputs.items() if not (clause and s == CAPTURES)}
    nested = {n: v for n, v in op.attrs.items() if _has_body(v) and n != CAPTURES}
    line = f"{pad}{_left(op.outputs, values)}{op.type}({_joined(map(_slot, inputs.items()))})"
    line += _braces({n: v for n, v in op.attrs.items() if n not in nested}, pad)
    line += f" {CAPTURES} [{', '.join(op.captures())}]" if clause else ""
    line += "" if op.name == derived_name(op.outputs) else f" as {op.name}"
    yield line + _unknown(op.unknown) + _comment(op.source)
    for name, value in nested.items():
        yield from _spread(name + " ", value, pad + _PAD, fold)


def _folded(op: Op, values: dict[str, VarInfo], count: int) -> str:
    """A plain block in a line, its name first."""
    names = [_bound(name, values) for name in op.binds()]
    shown, more = names[:MOST_FOLDED], len(names) - MOST_FOLDED
    if more > 0:
        shown.append(f"{ELLIPSIS} {more:,} more")
    given = f"; return {_joined(shown)}" if shown else ""
    within = f"{{ {ELLIPSIS} {count:,} operators{given} }}"
    return f"{op.name} = {op.type}({ELLIPSIS}) {within}{_comment(op.source)}"


def _count(op: Op) -> int:
    """The operators in an operator, at any depth."""
    return sum(1 for body in op.bodies().values() for _ in all_ops(body))


def _unknown(data: bytes) -> str:
    return f" unknown {_base64(data)}" if data else ""


def _base64(data: bytes) -> str:
    return f'"{base64.b64encode(data).decode()}"'


def _left(outputs: Slots, values: dict[str, VarInfo]) -> str:
    """What an operator binds, as far as the equals sign."""
    if not outputs:
        return "do "
    names = [name for bound in outputs.values() for name in bound]
    if list(derived_outputs(names).items()) == list(outputs.items()):
        return _joined(_bound(name, values) for name in names) + " = "
    shown = (
        f"{s}=[{_joined(_bound(n, values) for n in bound)}]" for s, bound in outputs.items()
    )
    return _joined(shown) + " = "


def _joined(parts: Iterable[str]) -> str:
    return ", ".join(parts)


def _slot(item: tuple[str, Sequence[str]]) -> str:
    slot, names = item
    return f"{slot}={names[0]}" if len(names) == 1 else f"{slot}=[{', '.join(names)}]"


def _comment(source: Source | None) -> str:
    if source is None or source.line < 0:
        return ""
    file = stored_path(source.file)
    plain = _PLAIN_FILE.fullmatch(file) and file.isprintable()
    return f"  # {file if plain else quoted(file)}:{source.line}"


# ---- attributes ------------------------------------------------------------------------------


def _has_body(value: Attr) -> bool:
    return isinstance(value, Body) or (isinstance(value, tuple) and any(map(_has_body, value)))


def _braces(attrs: Mapping[str, Attr], pad: str) -> str:
    shown = [f"{n}={_text(_spread('', v, pad)).strip()}" for n, v in attrs.items()]
    return f" {{{', '.join(shown)}}}" if shown else ""


def _spread(head: str, value: Attr, pad: str, fold: int | None = None) -> Iterator[str]:
    """A value over as many lines as its blocks need."""
    if isinstance(value, Body):
        yield from _block(head + "(", value, pad, fold=fold)
    elif isinstance(value, tuple) and _has_body(value):
        yield f"{pad}{head}["
        for one in value:
            *lines, last = _spread("", one, pad + _PAD, fold)
            yield from (*lines, last + ",")
        yield f"{pad}]"
    else:
        yield f"{pad}{head}{_plain(value)}"


_WORDS: dict[Any, str] = {None: "none", True: "true", False: "false"}


def _plain(value: object) -> str:
    """The text of a value without blocks."""
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
            return f"[{_joined(map(_plain, cast('tuple[object, ...]', value)))}]"
        case np.dtype():
            return short_name(value)
        case Dim():
            return f"size({value})"
        case Literal():
            return _literal(value)
        case _:
            raise ProgramError(f"A {type(value).__name__} has no text form.")


def quoted(text: str) -> str:
    r"""A string between quotes, on one line, with JSON's escapes.

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
    """The dtype of the numbers that are written for one element: complex ones are pairs."""
    return {"c64": np.dtype("f4"), "c128": np.dtype("f8")}.get(short_name(dtype), dtype)


def part_shape(dtype: DType, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the numbers that are written: complex ones are pairs."""
    return shape if part_type(dtype) == dtype else (*shape, 2)


def packed(dtype: DType, numbers: Sequence[float]) -> bytes:
    """Numbers as the data of an array constant.

    Raises:
        OverflowError: An integer does not fit.
    """
    with np.errstate(over="ignore"):
        return np.array(numbers, part_type(dtype)).tobytes()


def _literal(given: Literal) -> str:
    shown = str(TensorType(given.dtype, given.shape))
    numbers = _numbers(given)
    if numbers is None:
        return f"{shown} {_base64(given.data)}"
    return f"{shown} {_nested(numbers, part_shape(given.dtype, given.shape))}"


def _numbers(given: Literal) -> list[str] | None:
    """The elements as texts, where there are few and texts say them exactly."""
    part = part_type(given.dtype)
    if len(given.data) > LONGEST_INLINE * given.dtype.itemsize or 0 in given.shape[1:]:
        return None
    parts = list(np.frombuffer(given.data, part))
    for texts in ([str(one) for one in parts], [repr(float(one)) for one in parts]):
        if part.kind in "biu":
            return [text.lower() for text in texts]
        if packed(part, [float(text) for text in texts]) == given.data:
            return texts
    return None


def _nested(numbers: Sequence[str], shape: tuple[int, ...]) -> str:
    if not shape:
        return numbers[0]
    step = len(numbers) // shape[0] if shape[0] else 1
    rows = (numbers[at : at + step] for at in range(0, len(numbers), step))
    return f"[{_joined(_nested(row, shape[1:]) for row in rows)}]"
