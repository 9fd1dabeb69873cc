"""Numbers of less than 8 bits, which runs have in arrays of 8 bits that hold the same numbers.

XLA has such dtypes for few operators and machines, and ends the process at some others. So what
runs is the program with other types: `int4` is `i8` from -8 to 7, `f4e2m1fn` is `f8e4m3fn` with
16 of its numbers. What makes numbers of such a dtype rounds to it (`rounds=` of `op`) and still
says which one; all else moves what it is given.

    data x: int4[b]                            data x: i8[b]
    c: int4[2] = constant() {value=…}    ->    c: i8[2] = constant() {value=…}
    y: int4[b] = cast(x=z) {dtype=int4}        y: i8[b] = cast(x=z) {dtype=int4}

What goes in is brought to it, and what comes out is brought back, where runs begin and end:
feeds, fetches and the values of scopes have the dtypes that the program says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from braces.define.decorator import OPS
from braces.dtypes import CARRIERS, DType, ListType, Type, carrier_of, is_narrow
from braces.ir.records import Attr, Body, Literal, Op, VarInfo
from braces.ir.walk import all_bodies, map_bodies


def carried(body: Body) -> Body:
    """A block in which all dtypes have 8 bits or more; itself where they have anyway."""
    infos = (info for inner, _ in all_bodies(body) for info in inner.vars.values())
    return body if all(_type(info.type) is info.type for info in infos) else _changed(body)


def _changed(body: Body) -> Body:
    infos = {name: _info(info) for name, info in body.vars.items()}
    return body.with_(vars=infos, ops=tuple(map(_op, body.ops)))


def _info(info: VarInfo) -> VarInfo:
    return info.with_(type=_type(info.type))


def _type(type_: Type) -> Type:
    tensor = type_.element if isinstance(type_, ListType) else type_
    if not is_narrow(tensor.dtype):
        return type_
    changed = tensor.with_dtype(CARRIERS[tensor.dtype])
    return ListType(changed) if isinstance(type_, ListType) else changed


def _op(op: Op) -> Op:
    inner = map_bodies(op, _changed)
    if OPS.get(op.type).rounds:
        return inner
    return inner.with_(attrs={name: _attr(value) for name, value in inner.attrs.items()})


def _attr(value: Attr) -> Attr:
    if isinstance(value, np.dtype):
        return carrier_of(value)
    if isinstance(value, Literal) and is_narrow(value.dtype):
        return Literal.of(value.array().astype(carrier_of(value.dtype)))
    return value


# ---- in and out ------------------------------------------------------------------------------


def narrow_of(infos: Mapping[str, VarInfo]) -> dict[str, DType]:
    """The dtypes of less than 8 bits among those of variables, by name."""
    arrays = (info for info in infos.values() if not isinstance(info.type, ListType))
    return {info.name: info.dtype for info in arrays if is_narrow(info.dtype)}


def taken_in(value: Any, dtype: DType) -> Any:
    """An array as runs have it."""
    return np.asarray(value).astype(carrier_of(dtype))


def given_back(
    names: Sequence[str], values: list[Any], dtypes: Mapping[str, DType]
) -> list[Any]:
    """Arrays that a run gave, with the dtypes that the program says."""
    if not dtypes:
        return values
    return [
        np.asarray(value).astype(dtypes[name]) if name in dtypes else value
        for name, value in zip(names, values, strict=True)
    ]
