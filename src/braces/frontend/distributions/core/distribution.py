"""Base class of all distributions: draws, densities, moments."""

from __future__ import annotations

import inspect
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, cast, dataclass_transform

from braces.builder.var import Operand, Var
from braces.dims import Shape, Size
from braces.errors import ProgramError
from braces.frontend.control.block import compose_block
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import transactional
from braces.frontend.core.random_state import as_shape
from braces.hints.objects import Hinted

T = TypeVar("T")


@dataclass_transform(eq_default=False, frozen_default=True, field_specifiers=(field,))
def distribution(cls: type[T]) -> type[T]:
    """Decorate a distribution class: a dataclass of parameters; errors show the user's line.

    The docstring of a family gets the argument `dtype`, and the errors implied by `ranges`.
    """
    decorated = dataclass(frozen=True, eq=False)(cls)
    init = cast(Callable[..., None], vars(decorated)["__init__"])
    init.__name__ = decorated.__name__
    del init.__annotations__["return"]
    decorated.__init__ = transactional(init)
    ranges: Mapping[str, tuple[float, float]] | None = getattr(decorated, "ranges", None)
    if ranges is not None:
        names = [parameter.name for parameter in fields(cast(Any, decorated))]
        _complete_docstring(decorated, ranges, [name for name in names if name != "dtype"])
    return decorated


def _complete_docstring(
    cls: type[Any], ranges: Mapping[str, tuple[float, float]], names: Sequence[str]
) -> None:
    head, example, rest = (inspect.getdoc(cls) or "").partition("\n\nExample:")
    arguments, title, errors = head.partition("\n\nRaises:")
    if "\n    dtype: " not in arguments:
        arguments += f"\n    dtype: {DTYPE}"
    if not errors and set(ranges.values()) == {(0.0, math.inf)}:
        every = len(names) > 1 and set(names) == set(ranges)
        what = "a parameter" if every else " or ".join(f"`{name}`" for name in ranges)
        title = "\n\nRaises:"
        errors = f"\n    ProgramError: If {what} is a number that is not positive."
        if len(names) > 1:
            errors += "\n    ShapeError: If the parameters do not broadcast."
    cls.__doc__ = arguments + title + errors + example + rest


DTYPE = "A real floating dtype; by default that of the parameters and values."
"""Description of the argument `dtype` of families."""


MONTE_CARLO = {
    "mean": "Use the estimate br.mean(d.sample([1000]), axis=0).",
    "variance": "Use the estimate br.var(d.sample([1000]), axis=0).",
    "mode": "Maximize d.log_prob(x), with br.gradients(d.log_prob(x), x).",
    "entropy": "Use the estimate br.mean(-d.log_prob(d.sample([1000])), axis=0).",
    "cdf": "Use the estimate br.mean(br.cast(d.sample([1000]) <= x, 'float32'), axis=0).",
    "icdf": "Use the estimate br.quantile(d.sample([1000]), q, axis=0).",
}
"""Monte Carlo estimates for methods without a closed form."""


class Distribution(Hinted, ABC):
    """A distribution: draws, densities and moments, built from operators.

    Attributes:
        batch_shape: Shape of the array of distributions.
        event_shape: Shape of one draw.
        has_rsample: Whether samples have gradients with respect to the parameters.
    """

    @property
    @abstractmethod
    def batch_shape(self) -> Shape:
        """The shape that the parameters broadcast to."""

    @property
    @abstractmethod
    def event_shape(self) -> Shape:
        """The shape of one draw; `()` for numbers."""

    @property
    @abstractmethod
    def has_rsample(self) -> bool:
        """True if `rsample` is supported."""

    @abstractmethod
    def append_draws(self, sizes: Shape) -> Var:
        """Append draws of a shape, which includes `batch_shape`, to the open block."""

    @abstractmethod
    def formed(self, what: str, *value: Operand) -> Var:
        """Append the value of a method, with at most one argument, to the open block."""

    @abstractmethod
    def without_gradient(self) -> ProgramError:
        """Return the error for `rsample`, with its alternative."""

    def without(self, what: str) -> ProgramError:
        """Return the error for a method without a closed form, with its alternative."""
        name = type(self).__name__
        return ProgramError(f"the {what} of {name} has no closed form.", fix=MONTE_CARLO[what])

    # ---- draws -------------------------------------------------------------------------------

    @transactional
    def sample(self, shape: Sequence[Any] | Size = (), *, name: str = "") -> Var:
        """Draw without gradients.

        Args:
            shape: The leading axes of the result, before `batch_shape` and `event_shape`.
            name: The name of the block, which determines its random bits.
        """
        return self._block("sample", lambda: ops.stop_gradient(self._draws(shape)), name)

    @transactional
    def rsample(self, shape: Sequence[Any] | Size = (), *, name: str = "") -> Var:
        """Draw by reparameterization: gradients flow to the parameters.

        Args:
            shape: As for `sample`.
            name: The name of the block, which determines its random bits.

        Raises:
            ProgramError: If the distribution has no reparameterized samples.
        """
        if not self.has_rsample:
            raise self.without_gradient()
        return self._block("rsample", lambda: self._draws(shape), name)

    def _draws(self, shape: Sequence[Any] | Size) -> Var:
        return self.append_draws((*as_shape(shape), *self.batch_shape))

    # ---- functions of values -----------------------------------------------------------------

    @transactional
    def log_prob(self, value: Operand) -> Var:
        """The log density, or the log probability for discrete distributions.

        Args:
            value: [..., *batch_shape, *event_shape], or a broadcastable shape; values outside
                the support give -inf, with a gradient of 0.

        Returns:
            [..., *batch_shape].
        """
        return self._block("log_prob", lambda: self.formed("log_prob", value))

    @transactional
    def cdf(self, value: Operand) -> Var:
        """The cumulative distribution function: the probability of values up to `value`.

        Args:
            value: Numbers that broadcast with `batch_shape`.

        Raises:
            ProgramError: If no closed form exists.
        """
        return self._block("cdf", lambda: self.formed("cdf", value))

    @transactional
    def icdf(self, value: Operand) -> Var:
        """The quantile function, the inverse of `cdf`.

        Args:
            value: Probabilities that broadcast with `batch_shape`; numbers outside of [0, 1]
                give NaN.

        Raises:
            ProgramError: If no closed form exists.
        """
        return self._block("icdf", lambda: self.formed("icdf", value))

    # ---- moments -----------------------------------------------------------------------------

    @property
    @transactional
    def mean(self) -> Var:
        """The mean, [*batch_shape, *event_shape]; NaN or inf if undefined."""
        return self._require_whole("mean")

    @property
    @transactional
    def variance(self) -> Var:
        """The variance, [*batch_shape, *event_shape]; NaN or inf if undefined."""
        return self._require_whole("variance")

    @property
    @transactional
    def stddev(self) -> Var:
        """The square root of the variance."""
        return self._require_whole("stddev")

    @property
    @transactional
    def mode(self) -> Var:
        """The value of largest density or probability, [*batch_shape, *event_shape]."""
        return self._require_whole("mode")

    @transactional
    def entropy(self) -> Var:
        """The mean of `-log_prob`, [*batch_shape], in nats.

        Raises:
            ProgramError: If no closed form exists.
        """
        return self._block("entropy", lambda: self._expand_to("entropy", self.batch_shape))

    def _require_whole(self, what: str) -> Var:
        shape = (*self.batch_shape, *self.event_shape)
        return self._block(what, lambda: self._expand_to(what, shape))

    def _expand_to(self, what: str, shape: Shape) -> Var:
        moment = self.formed("variance" if what == "stddev" else what)
        return ops.broadcast_to(ops.sqrt(moment) if what == "stddev" else moment, shape)

    def _block(self, what: str, build: Callable[[], Var], name: str = "") -> Var:
        return compose_block(name or f"{snake(type(self).__name__)}_{what}", build)


def snake(name: str) -> str:
    """Convert a class name to snake case, for block names."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
