"""Sites: operators of a block that may fail in a run, or tell it a size.

A kernel may not accept a size that was only assumed, as `topk` of two among one assumed row.
Such an operator is lowered to zeros and a failure, so that the run still tells the real size:

    r: f32[m] = list_stack(list=l) {length=size(m)}       # m is assumed to be 1
    values, indices = topk(x=r) {k=2}                      # zeros; fails if m really is 1

The run is then repeated with the real size. If that size is unfit too, the failure is the
operator's own error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from braces.define.decorator import OPS, OpDef
from braces.dims import Dim
from braces.dtypes import TensorType
from braces.errors import BracesError
from braces.ir.records import Body, Op
from braces.lazy import jnp
from braces.lower.xla.concrete_attributes import Sizes, size_number

UNFIT = 2**31 - 1
"""The code of an operator whose kernel does not accept the sizes of a run."""


@dataclass
class Site:
    """An operator that may fail, by its path.

    Attributes:
        refusal: The error of its kernel for the assumed sizes, if it does not accept them.
    """

    path: str
    op: Op
    definition: OpDef
    refusal: BracesError | None = None

    @cached_property
    def history(self) -> str | None:
        """The history that begins here, whose need of room it says."""
        roles = self.definition.roles
        return str(self.op.attrs[roles["History"]]) if "Capacity" in roles else None

    @cached_property
    def length(self) -> str | None:
        """The dimension of which it says the size."""
        role = self.definition.roles.get("Learned")
        length = None if role is None else self.op.attrs[role]
        return length.name if isinstance(length, Dim) else None

    def count(self, told: int, limit: int, assumed: int) -> int:
        """The size that it told: beyond the limit where it was not as assumed."""
        if told > limit:
            return told - limit - 1
        return told if limit else assumed

    def failure(self, code: int) -> BracesError:
        """The error for a code that the operator told."""
        if code == UNFIT and self.refusal is not None:
            return copy(self.refusal)
        return self.definition.failure(self.op.attrs, code)


def find_sites(body: Body, path: str = "") -> dict[str, Site]:
    """All operators of a block and its sub-blocks that may fail."""
    found: dict[str, Site] = {}
    for op in body.ops:
        definition = OPS.get(op.type)
        here = f"{path}/{op.name}".lstrip("/")
        if definition.may_fail(op.attrs) or "Capacity" in definition.roles:
            found[here] = Site(here, op, definition)
        for label, sub_block in op.bodies().items():
            found |= find_sites(sub_block, f"{here}/{label}")
    return found


def histories(sites: Iterable[Site]) -> list[str]:
    """The histories that begin at some of these operators."""
    return list(dict.fromkeys(site.history for site in sites if site.history))


# ---- kernels that do not accept an assumed size ----------------------------------------------


class UnfitError(Exception):
    """Kernels do not accept the sizes that a run was taken to have.

    Attributes:
        sites: Their operators, by path, with the errors of the kernels.
    """

    def __init__(self, sites: dict[str, Site]) -> None:
        super().__init__()
        self.sites = sites


def may_be_unfit(op: Op, body: Body) -> bool:
    """Whether zeros can stand for the outputs of an operator: it gives arrays, and no size."""
    tensors = all(isinstance(body.vars[name].type, TensorType) for name in op.binds())
    return tensors and OPS.get(op.type).learn_rule is None


def placeholders(op: Op, body: Body, sizes: Sizes) -> dict[str, tuple[Any, ...]]:
    """Zeros of the declared types, for each output slot."""
    return {
        slot: tuple(_zeros(body.vars[name].type, sizes) for name in names)
        for slot, names in op.outputs.items()
    }


def _zeros(type_: Any, sizes: Mapping[str, int]) -> Any:
    """Zeros; a size that would be negative is 0."""
    shape = [max(0, size_number(size, sizes)) for size in type_.shape]
    return jnp.zeros(shape, type_.dtype)


def without_traces(error: BracesError) -> BracesError:
    """The error without the frames in which it was raised, which hold traced values."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
