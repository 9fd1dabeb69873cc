"""Narrow dtypes: numbers of less than 8 bits are stored in arrays of 8 bits.

XLA supports such dtypes for few operators and machines, and aborts the process for some others.
So a run uses the program with other types: `int4` is `i8` from -8 to 7, `f4e2m1fn` is
`f8e4m3fn` with 16 of its numbers. Operators that create numbers of a narrow dtype round to it
(`rounds=` of `op`) and keep it as attribute; all others move their operands.

    data x: int4[b]                            data x: i8[b]
    c: int4[2] = constant() {value=…}    ->    c: i8[2] = constant() {value=…}
    y: int4[b] = cast(x=z) {dtype=int4}        y: i8[b] = cast(x=z) {dtype=int4}

Values are converted at the start and the end of a run: feeds, fetches and the values of scopes
have the dtypes of the program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from braces.define.decorator import OPS
from braces.dtypes import CARRIERS, DType, ListType, Type, carrier_of, is_narrow
from braces.ir.records import Attr, Body, Literal, Op, VarInfo
from braces.ir.walk import all_bodies, map_bodies


def to_carrier_dtypes(body: Body) -> Body:
    """Return a block whose dtypes have 8 bits or more; itself if they do already."""
    infos = (info for inner, _ in all_bodies(body) for info in inner.vars.values())
    return (
        body
        if all(_carrier_type(info.type) is info.type for info in infos)
        else _carry_block(body)
    )


def _carry_block(body: Body) -> Body:
    infos = {name: _carry_info(info) for name, info in body.vars.items()}
    return body.with_(vars=infos, ops=tuple(map(_carry_op, body.ops)))


def _carry_info(info: VarInfo) -> VarInfo:
    return info.with_(type=_carrier_type(info.type))


def _carrier_type(type_: Type) -> Type:
    tensor = type_.element if isinstance(type_, ListType) else type_
    if not is_narrow(tensor.dtype):
        return type_
    changed = tensor.with_dtype(CARRIERS[tensor.dtype])
    return ListType(changed) if isinstance(type_, ListType) else changed


def _carry_op(op: Op) -> Op:
    inner = map_bodies(op, _carry_block)
    if OPS.get(op.type).rounds:
        return inner
    return inner.with_(attrs={name: _carry_attr(value) for name, value in inner.attrs.items()})


def _carry_attr(value: Attr) -> Attr:
    if isinstance(value, np.dtype):
        return carrier_of(value)
    if isinstance(value, Literal) and is_narrow(value.dtype):
        return Literal.of(value.array().astype(carrier_of(value.dtype)))
    return value


# ---- conversion of inputs and outputs --------------------------------------------------------


def find_narrow_dtypes(infos: Mapping[str, VarInfo]) -> dict[str, DType]:
    """Return the dtypes of less than 8 bits among those of variables, by name."""
    arrays = (info for info in infos.values() if not isinstance(info.type, ListType))
    return {info.name: info.dtype for info in arrays if is_narrow(info.dtype)}


def to_carrier(value: Any, dtype: DType) -> Any:
    """Return an array in its carrier dtype, for a run."""
    return np.asarray(value).astype(carrier_of(dtype))


def from_carriers(
    names: Sequence[str], values: list[Any], dtypes: Mapping[str, DType]
) -> list[Any]:
    """Return the arrays of a run in the dtypes of the program."""
    if not dtypes:
        return values
    return [
        np.asarray(value).astype(dtypes[name]) if name in dtypes else value
        for name, value in zip(names, values, strict=True)
    ]
