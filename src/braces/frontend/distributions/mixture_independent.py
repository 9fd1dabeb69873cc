"""Distributions built from others: reinterpreted batch axes, and mixtures."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from braces.builder.append import as_var
from braces.builder.builder import current_program
from braces.builder.var import Operand, Var
from braces.define.axes.shape_rules import broadcast_shapes
from braces.dims import Shape
from braces.errors import ProgramError, ShapeError
from braces.frontend.core import functions as ops
from braces.frontend.distributions.categorical import Categorical, one_hot
from braces.frontend.distributions.core.distribution import Distribution, distribution

SUMMED = ("log_prob", "entropy")
EACH = ("mean", "variance", "mode")


def sum_last_axes(x: Var, axes: int) -> Var:
    """Sum over the last axes."""
    return ops.sum(x, axis=tuple(range(-axes, 0))) if axes else x


@distribution
class Independent(Distribution):
    """A distribution with its last batch axes reinterpreted as event axes.

        log_prob(x) = sum over these axes of base.log_prob(x)

    Args:
        base: The distribution.
        reinterpreted_batch_ndims: Number of reinterpreted axes.

    Raises:
        ProgramError: If `base` is not a distribution.
        ShapeError: If `base` has fewer batch axes.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     d = br.distributions.Independent(
        ...         br.distributions.Normal(br.data("x", ["batch", 4]), 1.0), 1
        ...     )
        ...     print(d.batch_shape, d.event_shape, d.log_prob(br.zeros([4])).type)
        (batch,) (4,) f32[batch]
    """

    base: Distribution
    reinterpreted_batch_ndims: int

    def __post_init__(self) -> None:
        check_distribution("Independent", self.base)
        axes, rank = self.reinterpreted_batch_ndims, len(self.base.batch_shape)
        if not 0 <= axes <= rank:
            raise ShapeError(
                f"independent cannot reinterpret {axes} of {rank} batch axes.",
                given=f"batch_shape: {list(self.base.batch_shape)}",
            )

    @property
    def _remaining_axes(self) -> int:
        """Number of remaining batch axes."""
        return len(self.base.batch_shape) - self.reinterpreted_batch_ndims

    @property
    def batch_shape(self) -> Shape:
        """The remaining batch axes."""
        return self.base.batch_shape[: self._remaining_axes]

    @property
    def event_shape(self) -> Shape:
        """The reinterpreted axes, and the event axes of `base`."""
        return (*self.base.batch_shape[self._remaining_axes :], *self.base.event_shape)

    @property
    def has_rsample(self) -> bool:
        """True if `base` supports it."""
        return self.base.has_rsample

    def append_draws(self, sizes: Shape) -> Var:
        """See Distribution."""
        return self.base.append_draws((*sizes, *self.base.batch_shape[self._remaining_axes :]))

    def formed(self, what: str, *value: Operand) -> Var:
        """See Distribution."""
        if what in EACH:
            return self.base.formed(what)
        if what not in SUMMED:
            raise self.without(what)
        total = self.base.formed(what, *value)
        if what == "entropy":
            total = ops.broadcast_to(total, self.base.batch_shape)
        return sum_last_axes(total, self.reinterpreted_batch_ndims)

    def without_gradient(self) -> ProgramError:
        """See Distribution."""
        return self.base.without_gradient()


def check_distribution(what: str, value: object) -> None:
    """Check that an argument is a distribution."""
    if not isinstance(value, Distribution):
        raise ProgramError(
            f"{what}: expected a distribution, got {value!r:.80}.",
            fix="Pass a distribution, such as br.distributions.Normal(0.0, 1.0).",
        )


# ---- mixtures --------------------------------------------------------------------------------


@distribution
class MixtureSameFamily(Distribution):
    """Mixture of distributions of one family.

        P(x) = sum over k of mixture.probs[k] component[k].P(x)

    Args:
        mixture_distribution: The mixture weights: `Categorical` with n classes.
        component_distribution: The components: n along the last batch axis.

    Raises:
        ProgramError: If the first argument is not a `Categorical`, or the second is not a
            distribution.
        ShapeError: If the batch shapes do not match.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     which = br.distributions.Categorical(logits=br.data("x", ["batch", 3]))
        ...     normal = br.distributions.Normal([-1.0, 0.0, 1.0], 0.1)
        ...     d = br.distributions.MixtureSameFamily(which, normal)
        ...     print(d.sample([5]).type, d.log_prob(0.5).type)
        f32[5,batch] f32[batch]
    """

    mixture_distribution: Categorical
    component_distribution: Distribution

    def __post_init__(self) -> None:
        check_distribution("MixtureSameFamily", self.component_distribution)
        if not isinstance(cast(object, self.mixture_distribution), Categorical):
            raise ProgramError(
                "MixtureSameFamily: expected a Categorical as `mixture_distribution`.",
                fix="Pass br.distributions.Categorical(logits=...).",
            )
        self._shapes()

    def _shapes(self) -> Shape:
        """Return the batch shape, including the axis of the components."""
        batch, classes = self.mixture_distribution.shapes()
        unifier = current_program().current.unifier
        components = self.component_distribution.batch_shape
        if components[-1:] != classes:
            raise ShapeError(
                "MixtureSameFamily: expected one component for each class.",
                given=f"classes: {classes[0]}   batch_shape: {list(components)}",
                fix="The last batch axis of the components must have the number of classes.",
            )
        return broadcast_shapes("MixtureSameFamily", unifier, (*batch, *classes), components)

    @property
    def batch_shape(self) -> Shape:
        """The common batch shape, without the axis of the components."""
        return self._shapes()[:-1]

    @property
    def event_shape(self) -> Shape:
        """The event shape of the components."""
        return self.component_distribution.event_shape

    @property
    def has_rsample(self) -> bool:
        """False: the choice of the component is not reparameterized."""
        return False

    def without_gradient(self) -> ProgramError:
        """See Distribution."""
        return ProgramError(
            "MixtureSameFamily has no reparameterized samples, so rsample is not supported.",
            fix="Sum over the components, with rsample of each component.",
        )

    @property
    def _events(self) -> int:
        return len(self.event_shape)

    def append_draws(self, sizes: Shape) -> Var:
        """See Distribution."""
        count = self._shapes()[-1]
        draws = self.component_distribution.append_draws((*sizes, count))
        params = self.mixture_distribution.typed_params()
        one_hot_choice = self._wide(
            one_hot(self.mixture_distribution.append_draws(sizes), params.probs)
        )
        selected = ops.where(one_hot_choice > 0.0, draws, ops.zeros_like(draws))
        return ops.sum(selected, axis=-1 - self._events)

    def _wide(self, weights: Var) -> Var:
        """Append axes of size 1 for the event axes."""
        return ops.reshape(weights, (*weights.shape, *[1] * self._events))

    def formed(self, what: str, *value: Operand) -> Var:
        """See Distribution."""
        form = self._forms().get(what)
        if form is None:
            raise self.without(what)
        return form(*value)

    def _forms(self) -> dict[str, Callable[..., Var]]:
        return {
            "log_prob": self._log_prob,
            "mean": self._mean,
            "variance": self._variance,
            "cdf": self._cdf,
        }

    def _log_prob(self, value: Operand) -> Var:
        logs = self.mixture_distribution.typed_params().log_probs
        component_logs = self.component_distribution.formed("log_prob", self._beside(value))
        return ops.logsumexp(logs + component_logs, axis=-1)

    def _beside(self, value: Operand) -> Var:
        """Add the axis of the components to a value."""
        x = as_var(value, self.mixture_distribution.typed_params().probs.dtype)
        return ops.expand_dims(x, axis=-1 - self._events)

    def _cdf(self, value: Operand) -> Var:
        probs = self.mixture_distribution.typed_params().probs
        component_cdfs = self.component_distribution.formed("cdf", self._beside(value))
        return ops.sum(probs * component_cdfs, axis=-1)

    def _mean(self) -> Var:
        weights = self._wide(self.mixture_distribution.typed_params().probs)
        return ops.sum(weights * self._each("mean"), axis=-1 - self._events)

    def _each(self, what: str) -> Var:
        """Return a moment of each component."""
        components = self.component_distribution
        return ops.broadcast_to(
            components.formed(what), (*components.batch_shape, *components.event_shape)
        )

    def _variance(self) -> Var:
        """Return the mean variance plus the variance of the means."""
        weights, axis = (
            self._wide(self.mixture_distribution.typed_params().probs),
            -1 - self._events,
        )
        means = self._each("mean")
        deviations = means - ops.sum(weights * means, axis=axis, keepdims=True)
        return ops.sum(weights * (self._each("variance") + ops.square(deviations)), axis=axis)
