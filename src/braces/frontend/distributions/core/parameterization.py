"""What is known of a distribution, by its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

from braces.builder.append import as_var
from braces.builder.var import Var
from braces.dims import Shape


class Given:
    """Parameters as variables of one dtype, each by its name."""

    def __init__(self, vars: Mapping[str, Var]) -> None:
        self.vars = vars

    def __getattr__(self, name: str) -> Var:
        return self.vars[name]

    def but(self, **vars: Var | float) -> Given:
        """These, and others: variables, or numbers of the same dtype."""
        dtype = next(iter(self.vars.values())).dtype
        return Given({**self.vars, **{name: as_var(var, dtype) for name, var in vars.items()}})


Form: TypeAlias = Callable[[Given], "Var | float"]
FormOfValue: TypeAlias = Callable[[Given, Var], Var]


@dataclass(frozen=True)
class Forms:
    """What is known of a distribution, each by its parameters.

    Attributes:
        draw: Draws of a shape.
        log_prob: Of a value that can be drawn.
        mean: The mean.
        variance: The variance.
        mode: Where density or probability is largest.
        entropy: In nats.
        cdf: Of a value inside the support.
        icdf: Of a number from 0 to 1.
    """

    draw: Callable[[Given, Shape], Var]
    log_prob: FormOfValue
    mean: Form | None = None
    variance: Form | None = None
    mode: Form | None = None
    entropy: Form | None = None
    cdf: FormOfValue | None = None
    icdf: FormOfValue | None = None


def forms_of(known: Forms, by: Callable[[Given], Given]) -> Forms:
    """The forms of a distribution that is another one with certain parameters.

    Args:
        known: Those of the other one.
        by: From the parameters of this one to those of the other.
    """

    def moved(form: Callable[..., Any]) -> Callable[..., Any]:
        def of_other(given: Given, *value: Any) -> Any:
            return form(by(given), *value)

        return of_other

    found = {one.name: getattr(known, one.name) for one in fields(known)}
    return Forms(**{name: form and moved(form) for name, form in found.items()})
