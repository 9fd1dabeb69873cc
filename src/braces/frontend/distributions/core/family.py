"""Parametric families of distributions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any, ClassVar

import numpy as np

from braces.builder.append import handle_of
from braces.builder.builder import current_program
from braces.builder.var import Operand, Var, tensor_type
from braces.define.axes.shape_rules import broadcast_shapes
from braces.dims import Shape
from braces.errors import ProgramError, ShapeError
from braces.frontend.core import functions as ops
from braces.frontend.core.random_state import check_numbers, to_common_dtype
from braces.frontend.distributions.core.constraints import REALS, Support
from braces.frontend.distributions.core.distribution import Distribution, distribution
from braces.frontend.distributions.core.parameterization import (
    ClosedForms,
    DistributionParams,
    ValueForm,
)

ABOVE = (0.0, np.inf)
"""The open range of positive numbers, in the form of `check_numbers`."""


@distribution
class Family(Distribution):
    """A parametric family; the fields of the class are its parameters.

    Attributes:
        dtype: A real floating dtype; by default that of the parameters and values.
        forms: Its closed forms.
        support: Its support.
        ranges: Open ranges of the parameters, checked for numbers.
        axes: Number of trailing axes of a parameter that belong to one draw.
        event_axes: Number of axes of a draw.
        instead: An alternative to `rsample`; empty if `rsample` is supported.
    """

    dtype: object = field(default=None, kw_only=True)

    forms: ClassVar[ClosedForms]
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
        """Check the parameters for consistency."""

    @property
    def what(self) -> str:
        """The name in messages."""
        return type(self).__name__

    def parameters(self) -> dict[str, Any]:
        """Return the given parameters by name."""
        named = {parameter.name: getattr(self, parameter.name) for parameter in fields(self)}
        return {k: v for k, v in named.items() if k != "dtype" and v is not None}

    # ---- shapes ------------------------------------------------------------------------------

    def shapes(self) -> tuple[Shape, Shape]:
        """Return the batch shape, and the shape of the last axes that belong to one draw."""
        batches: list[Shape] = []
        events: list[Shape] = []
        for name, value in self.parameters().items():
            shape = tensor_type(value).shape if isinstance(value, Var) else np.shape(value)
            rank = len(shape) - self.axes.get(name, 0)
            if rank < 0:
                raise ShapeError(
                    f"{self.what}: expected `{name}` of rank {self.axes[name]} or more.",
                    given=f"{name}: {list(shape)}",
                    fix="The last axes of a parameter are the event axes.",
                )
            batches.append(shape[:rank])
            events.append(shape[rank:][-1:])
        unifier = current_program().current.unifier
        return broadcast_shapes(self.what, unifier, *batches), broadcast_shapes(
            self.what, unifier, *events
        )

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
        """True if `rsample` is supported."""
        return not self.instead

    # ---- operators ---------------------------------------------------------------------------

    def typed_params(self, **values: Operand) -> DistributionParams:
        """Return parameters and values as variables of one dtype, with derived parameters."""
        named_vars = to_common_dtype(self.what, self.dtype, **self.parameters(), **values)[1]
        return self.completed(DistributionParams(named_vars))

    def completed(self, params: DistributionParams) -> DistributionParams:
        """Add derived parameters."""
        return params

    def append_draws(self, sizes: Shape) -> Var:
        """See Distribution."""
        return self.forms.draw(self.typed_params(), sizes)

    def formed(self, what: str, *value: Operand) -> Var:
        """See Distribution."""
        form = getattr(self.forms, what)
        if form is None:
            raise self.without(what)
        params = self.typed_params(**dict(zip(("value",), value, strict=False)))
        if value:
            return self._of_value(what, form, params)
        return params.but(found=form(params)).found

    def _of_value(self, what: str, form: ValueForm, params: DistributionParams) -> Var:
        x = params.value
        if what == "cdf":
            return self.support.extend_cdf(params, x, form)
        if what == "icdf":
            outside = (x < 0.0) | (x > 1.0)
            return ops.where(outside, np.nan, form(params, ops.where(outside, 0.5, x)))
        outside = self.support.outside(params, x)
        if outside is None:
            return form(params, x)
        expanded = ops.expand_dims(outside, axis=-1) if self.event_axes else outside
        safe = ops.where(expanded, self.support.inner(params, x), x)
        return ops.where(outside, -np.inf, form(params, safe))

    def without_gradient(self) -> ProgramError:
        """See Distribution."""
        return ProgramError(
            f"{self.what} has no reparameterized samples, so rsample is not supported.",
            fix=f"Use {self.instead}.",
        )
