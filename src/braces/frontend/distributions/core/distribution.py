"""What all distributions can do: draws, densities, moments."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast, dataclass_transform

from braces.builder.var import Operand, Var
from braces.dims import Shape, Size
from braces.errors import ProgramError
from braces.frontend.control.block import composed
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import building
from braces.frontend.core.random_state import sizes_of

T = TypeVar("T")


@dataclass_transform(eq_default=False, frozen_default=True, field_specifiers=(field,))
def distribution(cls: type[T]) -> type[T]:
    """A class whose fields are its parameters; errors are told by the user's line."""
    made = dataclass(frozen=True, eq=False)(cls)
    init = cast(Callable[..., None], vars(made)["__init__"])
    init.__name__ = made.__name__
    del init.__annotations__["return"]
    made.__init__ = building(init)
    return made


MONTE_CARLO = {
    "mean": "br.mean(d.sample([1000]), axis=0) is about that.",
    "variance": "br.var(d.sample([1000]), axis=0) is about that.",
    "mode": "br.gradients(d.log_prob(x), x) leads there.",
    "entropy": "br.mean(-d.log_prob(d.sample([1000])), axis=0) is about that.",
    "cdf": "br.mean(br.cast(d.sample([1000]) <= x, 'float32'), axis=0) is about that.",
    "icdf": "br.quantile(d.sample([1000]), q, axis=0) is about that.",
}
"""What to write in place of a form that there is not."""


class Distribution(ABC):
    """A distribution: draws, densities, moments, all made of operators.

    Attributes:
        batch_shape: How many distributions this is, as an array.
        event_shape: Of one draw.
        has_rsample: Whether samples have gradients with respect to the parameters.
    """

    @property
    @abstractmethod
    def batch_shape(self) -> Shape:
        """The shape that the parameters broadcast to."""

    @property
    @abstractmethod
    def event_shape(self) -> Shape:
        """The shape of one draw; `()` of a number."""

    @property
    @abstractmethod
    def has_rsample(self) -> bool:
        """Whether `rsample` is there."""

    @abstractmethod
    def drawn(self, sizes: Shape) -> Var:
        """Draws of a shape, `batch_shape` included; operators of the block that is open."""

    @abstractmethod
    def formed(self, what: str, *value: Operand) -> Var:
        """What a form gives: of a value or of none; operators of the block that is open."""

    @abstractmethod
    def without_gradient(self) -> ProgramError:
        """What to use in place of `rsample`."""

    def without(self, what: str) -> ProgramError:
        """What to write in place of a form that there is not."""
        name = type(self).__name__
        return ProgramError(f"There is no form of the {what} of {name}.", fix=MONTE_CARLO[what])

    # ---- draws -------------------------------------------------------------------------------

    @building
    def sample(self, shape: Sequence[Any] | Size = (), *, name: str = "") -> Var:
        """Draws without gradients.

        Args:
            shape: How many: what stands before `batch_shape` and `event_shape`.
            name: For the block, which draws from its name.
        """
        return self._block("sample", lambda: ops.stop_gradient(self._draws(shape)), name)

    @building
    def rsample(self, shape: Sequence[Any] | Size = (), *, name: str = "") -> Var:
        """Draws that move with the parameters: gradients go through to them.

        Args:
            shape: As that of `sample`.
            name: For the block, which draws from its name.

        Raises:
            ProgramError: Draws of this distribution do not move evenly.
        """
        if not self.has_rsample:
            raise self.without_gradient()
        return self._block("rsample", lambda: self._draws(shape), name)

    def _draws(self, shape: Sequence[Any] | Size) -> Var:
        return self.drawn((*sizes_of(shape), *self.batch_shape))

    # ---- of values ---------------------------------------------------------------------------

    @building
    def log_prob(self, value: Operand) -> Var:
        """The logarithm of the density, or of the probability where draws are discrete.

        Args:
            value: [..., *batch_shape, *event_shape], or what broadcasts; -inf is the result,
                with a gradient of 0, where a value cannot be drawn.

        Returns:
            [..., *batch_shape].
        """
        return self._block("log_prob", lambda: self.formed("log_prob", value))

    @building
    def cdf(self, value: Operand) -> Var:
        """The probability of `value` and all below.

        Args:
            value: Numbers, which broadcast with `batch_shape`.

        Raises:
            ProgramError: There is no form of it.
        """
        return self._block("cdf", lambda: self.formed("cdf", value))

    @building
    def icdf(self, value: Operand) -> Var:
        """The quantiles, of which `cdf` is `value`.

        Args:
            value: Probabilities, which broadcast with `batch_shape`; what is not from 0 to 1
                gives NaN.

        Raises:
            ProgramError: There is no form of it.
        """
        return self._block("icdf", lambda: self.formed("icdf", value))

    # ---- of the whole ------------------------------------------------------------------------

    @property
    def mean(self) -> Var:
        """The mean, [*batch_shape, *event_shape]; NaN or inf where there is none."""
        return self._whole("mean")

    @property
    def variance(self) -> Var:
        """The variance, [*batch_shape, *event_shape]; NaN or inf where there is none."""
        return self._whole("variance")

    @property
    def stddev(self) -> Var:
        """The square root of the variance."""
        return self._whole("stddev")

    @property
    def mode(self) -> Var:
        """Where density or probability is largest, [*batch_shape, *event_shape]."""
        return self._whole("mode")

    @building
    def entropy(self) -> Var:
        """The mean of `-log_prob`, [*batch_shape], in nats.

        Raises:
            ProgramError: There is no form of it.
        """
        return self._block("entropy", lambda: self._spread("entropy", self.batch_shape))

    @building
    def _whole(self, what: str) -> Var:
        shape = (*self.batch_shape, *self.event_shape)
        return self._block(what, lambda: self._spread(what, shape))

    def _spread(self, what: str, shape: Shape) -> Var:
        found = self.formed("variance" if what == "stddev" else what)
        return ops.broadcast_to(ops.sqrt(found) if what == "stddev" else found, shape)

    def _block(self, what: str, build: Callable[[], Var], name: str = "") -> Var:
        return composed(name or f"{snake(type(self).__name__)}_{what}", build)


def snake(name: str) -> str:
    """The name of a class as that of a block."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
