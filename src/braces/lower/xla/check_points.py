"""Check points: operators that may fail in a run, or report a data-dependent size.

A kernel may reject a size that was only assumed, as `topk` of two among one assumed row. Such
an operator is lowered to zeros and a failure code, so the run still reports the real size:

    r: f32[m] = list_stack(list=l) {length=size(m)}       # m is assumed to be 1
    values, indices = topk(x=r) {k=2}                      # zeros; fails if m really is 1

The run is then repeated with the real size. If the kernel rejects that size too, the failure is
the operator's own error.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from braces.define.core.check_code import add_operands
from braces.define.decorator import OPS, OpDef
from braces.dims import Dim, substitute
from braces.dtypes import TensorType, Type
from braces.errors import BracesError
from braces.ir.records import Body, Op, VarInfo
from braces.lazy import jnp
from braces.lower.xla.concrete_attributes import Sizes, size_number

NO_SIZES: Mapping[str, int] = {}
NO_INFOS: Mapping[str, VarInfo] = {}
UNFIT_CODE = 2**31 - 1
"""The failure code of an operator whose kernel rejects the sizes of a run."""


@dataclass
class CheckPoint:
    """An operator that may fail, with its path.

    Attributes:
        refusal: The error of its kernel for the assumed sizes, if the kernel rejects them.
        operands: The slots and types of what it reads.
    """

    path: str
    op: Op
    definition: OpDef
    refusal: BracesError | None = None
    operands: tuple[tuple[str, Type], ...] = ()

    @cached_property
    def history(self) -> str | None:
        """The list history that begins here, whose length the check point reports."""
        roles = self.definition.roles
        return str(self.op.attrs[roles["History"]]) if "Capacity" in roles else None

    @cached_property
    def length(self) -> str | None:
        """The dimension whose size the check point reports."""
        role = self.definition.roles.get("Learned")
        length = None if role is None else self.op.attrs[role]
        return length.name if isinstance(length, Dim) else None

    def count(self, code: int, limit: int, assumed: int) -> int:
        """Return the reported size; codes beyond the limit encode a size that differs."""
        if code > limit:
            return code - limit - 1
        return code if limit else assumed

    def failure(self, code: int, sizes: Mapping[str, int] = NO_SIZES) -> BracesError:
        """Return the error for a failure code; `sizes` are those of the run, if known."""
        if code == UNFIT_CODE and self.refusal is not None:
            return copy(self.refusal)
        error = self.definition.failure(self.op.attrs, code)
        operands = [
            (slot, type_.with_shape(tuple(substitute(size, sizes) for size in type_.shape)))
            for slot, type_ in self.operands
            if isinstance(type_, TensorType)
        ]
        return add_operands(error, operands)


def find_check_points(
    body: Body, path: str = "", outer: Mapping[str, VarInfo] = NO_INFOS
) -> dict[str, CheckPoint]:
    """Return the check points of a block and its sub-blocks, by path.

    Args:
        body: The block.
        path: Its path.
        outer: The variables of the enclosing blocks.
    """
    sites: dict[str, CheckPoint] = {}
    infos = ChainMap({**body.vars}, {**outer})
    for op in body.ops:
        definition = OPS.get(op.type)
        here = f"{path}/{op.name}".lstrip("/")
        if definition.may_fail(op.attrs) or "Capacity" in definition.roles:
            operands = [(s, infos[n].type) for s, names in op.inputs.items() for n in names]
            sites[here] = CheckPoint(here, op, definition, operands=tuple(operands))
        for label, sub_block in op.bodies().items():
            sites |= find_check_points(sub_block, f"{here}/{label}", infos)
    return sites


def list_histories(sites: Iterable[CheckPoint]) -> list[str]:
    """Return the list histories that begin at these check points."""
    return list(dict.fromkeys(site.history for site in sites if site.history))


# ---- kernels that reject an assumed size -----------------------------------------------------


class UnfitError(Exception):
    """Kernels reject the sizes that were assumed for a run.

    Attributes:
        sites: Their check points, by path, with the errors of the kernels.
    """

    def __init__(self, sites: dict[str, CheckPoint]) -> None:
        super().__init__()
        self.sites = sites


def may_be_unfit(op: Op, body: Body) -> bool:
    """Return whether zeros can replace the outputs of an operator: arrays, and no sizes."""
    tensors = all(isinstance(body.vars[name].type, TensorType) for name in op.binds())
    return tensors and OPS.get(op.type).learn_rule is None


def zero_outputs(op: Op, body: Body, sizes: Sizes) -> dict[str, tuple[Any, ...]]:
    """Return zeros of the declared types, for each output slot."""
    return {
        slot: tuple(_zeros(body.vars[name].type, sizes) for name in names)
        for slot, names in op.outputs.items()
    }


def _zeros(type_: Any, sizes: Mapping[str, int]) -> Any:
    """Return zeros; a negative size counts as 0."""
    shape = [max(0, size_number(size, sizes)) for size in type_.shape]
    return jnp.zeros(shape, type_.dtype)


def without_traces(error: BracesError) -> BracesError:
    """Return the error without its traceback and causes, which hold tracers."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
