"""Closed forms of a distribution as functions of its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

from braces.builder.append import as_var
from braces.builder.var import Var
from braces.dims import Shape


class DistributionParams:
    """Parameters as variables of one dtype, by name."""

    def __init__(self, vars: Mapping[str, Var]) -> None:
        self.vars = vars

    def __getattr__(self, name: str) -> Var:
        return self.vars[name]

    def but(self, **vars: Var | float) -> DistributionParams:
        """Return a copy with other variables, or numbers of the same dtype."""
        dtype = next(iter(self.vars.values())).dtype
        return DistributionParams(
            {**self.vars, **{name: as_var(var, dtype) for name, var in vars.items()}}
        )


Form: TypeAlias = Callable[[DistributionParams], "Var | float"]
ValueForm: TypeAlias = Callable[[DistributionParams, Var], Var]


@dataclass(frozen=True)
class ClosedForms:
    """Closed forms of a distribution, as functions of its parameters.

    Attributes:
        draw: Random draws of a shape.
        log_prob: Log density of a value inside the support.
        mean: The mean.
        variance: The variance.
        mode: The value of largest density or probability.
        entropy: The entropy in nats.
        cdf: Cumulative distribution function of a value inside the support.
        icdf: Quantile of a number from 0 to 1.
    """

    draw: Callable[[DistributionParams, Shape], Var]
    log_prob: ValueForm
    mean: Form | None = None
    variance: Form | None = None
    mode: Form | None = None
    entropy: Form | None = None
    cdf: ValueForm | None = None
    icdf: ValueForm | None = None


def forms_of(
    known: ClosedForms, by: Callable[[DistributionParams], DistributionParams]
) -> ClosedForms:
    """Return the forms of a distribution that is a special case of another one.

    Args:
        known: The forms of the general distribution.
        by: Maps the parameters of the special one to those of the general one.
    """

    def reparameterized(form: Callable[..., Any]) -> Callable[..., Any]:
        def of_other(params: DistributionParams, *value: Any) -> Any:
            return form(by(params), *value)

        return of_other

    forms_by_name = {item.name: getattr(known, item.name) for item in fields(known)}
    return ClosedForms(
        **{name: form and reparameterized(form) for name, form in forms_by_name.items()}
    )
