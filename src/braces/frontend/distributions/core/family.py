"""Distributions that are told apart by parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any, ClassVar

import numpy as np

from braces.builder.append import handle_of
from braces.builder.builder import current_program
from braces.builder.var import Operand, Var, tensor_type
from braces.define.axes.shape_rules import broadcast
from braces.dims import Shape
from braces.errors import ProgramError, ShapeError
from braces.frontend.core import functions as ops
from braces.frontend.core.random_state import check_numbers, in_one_dtype
from braces.frontend.distributions.core.constraints import REALS, Support
from braces.frontend.distributions.core.distribution import Distribution, distribution
from braces.frontend.distributions.core.parameterization import FormOfValue, Forms, Given

ABOVE = (0.0, np.inf)
"""The range of what is above 0, as `check_numbers` takes it."""


@distribution
class Family(Distribution):
    """Distributions that are told apart by parameters, the fields of the class.

    Attributes:
        dtype: A real floating dtype; that of the parameters and values where it is not said.
        forms: What is known of it.
        support: Which values can be drawn.
        ranges: The ends between which numbers are that are parameters.
        axes: How many axes behind all others a parameter has for one draw.
        event_axes: How many axes a draw has.
        instead: What to use in place of `rsample`; nothing where there is one.
    """

    dtype: object = field(default=None, kw_only=True)

    forms: ClassVar[Forms]
    support: ClassVar[Support] = REALS
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {}
    axes: ClassVar[Mapping[str, int]] = {}
    event_axes: ClassVar[int] = 0
    instead: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for name, value in self.parameters().items():
            object.__setattr__(self, name, handle_of(value))
            low, high = self.ranges.get(name, (-np.inf, np.inf))
            if (low, high) != (-np.inf, np.inf):
                check_numbers(self.what, low, high, **{name: value})
        self.check()
        self.shapes()

    def check(self) -> None:
        """Refuse parameters that do not go together."""

    @property
    def what(self) -> str:
        """Its name, for messages."""
        return type(self).__name__

    def parameters(self) -> dict[str, Any]:
        """The parameters that are given, by name."""
        named = {one.name: getattr(self, one.name) for one in fields(self)}
        return {k: v for k, v in named.items() if k != "dtype" and v is not None}

    # ---- shapes ------------------------------------------------------------------------------

    def shapes(self) -> tuple[Shape, Shape]:
        """The shape of a batch, and that of the last axes that parameters have for one draw."""
        batches: list[Shape] = []
        events: list[Shape] = []
        for name, value in self.parameters().items():
            shape = tensor_type(value).shape if isinstance(value, Var) else np.shape(value)
            rank = len(shape) - self.axes.get(name, 0)
            if rank < 0:
                raise ShapeError(
                    f"{self.what} needs {name} with {self.axes[name]} axes or more.",
                    given=f"{name}: {list(shape)}",
                    fix="Its last axes are those of one draw.",
                )
            batches.append(shape[:rank])
            events.append(shape[rank:][-1:])
        unifier = current_program().current.unifier
        return broadcast(self.what, unifier, *batches), broadcast(self.what, unifier, *events)

    @property
    def batch_shape(self) -> Shape:
        """The shape that the parameters broadcast to."""
        return self.shapes()[0]

    @property
    def event_shape(self) -> Shape:
        """The shape of one draw."""
        return self.shapes()[1] if self.event_axes else ()

    @property
    def has_rsample(self) -> bool:
        """Whether `rsample` is there."""
        return not self.instead

    # ---- what is computed --------------------------------------------------------------------

    def given(self, **values: Operand) -> Given:
        """The parameters as variables, with what follows from them, beside values."""
        found = in_one_dtype(self.what, self.dtype, **self.parameters(), **values)[1]
        return self.completed(Given(found))

    def completed(self, given: Given) -> Given:
        """Parameters with those that follow from them."""
        return given

    def drawn(self, sizes: Shape) -> Var:
        """See Distribution."""
        return self.forms.draw(self.given(), sizes)

    def formed(self, what: str, *value: Operand) -> Var:
        """See Distribution."""
        form = getattr(self.forms, what)
        if form is None:
            raise self.without(what)
        given = self.given(**dict(zip(("value",), value, strict=False)))
        return (
            self._of_value(what, form, given) if value else given.but(found=form(given)).found
        )

    def _of_value(self, what: str, form: FormOfValue, given: Given) -> Var:
        x = given.value
        if what == "cdf":
            return self.support.cut(given, x, form)
        if what == "icdf":
            outside = (x < 0.0) | (x > 1.0)
            return ops.where(outside, np.nan, form(given, ops.where(outside, 0.5, x)))
        outside = self.support.outside(given, x)
        if outside is None:
            return form(given, x)
        rows = ops.expand_dims(outside, axis=-1) if self.event_axes else outside
        safe = ops.where(rows, self.support.inner(given, x), x)
        return ops.where(outside, -np.inf, form(given, safe))

    def without_gradient(self) -> ProgramError:
        """See Distribution."""
        return ProgramError(
            f"Draws of {self.what} do not move with its parameters.", fix=f"Use {self.instead}."
        )
