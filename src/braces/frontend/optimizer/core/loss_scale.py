"""Dynamic loss scaling, which keeps gradients in the range of float16.

loss_scale/scale         the factor of the loss, and the divisor of gradients
loss_scale/good_steps    the steps since it changed
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from braces.builder.var import Var, expose
from braces.dtypes import FLOAT32, INT32, TensorType
from braces.frontend.control.block import block
from braces.frontend.optimizer.core.state import free_name, new_state
from braces.jaxpr.trace import trace
from braces.lazy import jnp


@dataclass(frozen=True)
class LossScale:
    """Settings of dynamic loss scaling; the arguments of `dynamic_loss_scale`."""

    name: str
    chosen: bool
    init_scale: float
    growth_interval: int
    growth_factor: float
    backoff_factor: float

    def begin(self, loss: Var) -> ScaledLoss:
        """Return the scaled loss; its states are declared in the current program."""
        name = free_name(loss.program, self.name, chosen=self.chosen)
        scale = new_state(f"{name}/scale", TensorType(FLOAT32, ()), self.init_scale)
        good_steps = new_state(f"{name}/good_steps", TensorType(INT32, ()), 0.0)
        return ScaledLoss(self, name, loss * scale, scale, good_steps)


@dataclass(frozen=True, eq=False)
class ScaledLoss:
    """A scaled loss.

    Attributes:
        how: The settings.
        name: Prefix of the names of its states.
        loss: The loss times the scale.
        scale: The current scale.
        good: Number of finite steps since the scale changed.
    """

    how: LossScale
    name: str
    loss: Var
    scale: Var
    good: Var

    def unscaled(self, pairs: Mapping[Var, Var]) -> dict[Var, Var]:
        """Return the gradients of the original loss; the scale is updated from them."""
        program = self.loss.program
        with block(self.name.removeprefix(program.current.names.prefix)):
            arguments = self.scale, self.good, list(pairs.values())
            results = trace("The scale of the loss", self._next_scale, *arguments).build(
                *arguments
            )
            scale, good, grads = results
            program.update(self.scale.name, scale.name)
            program.update(self.good.name, good.name)
        return {param: expose(grad) for param, grad in zip(pairs, grads, strict=True)}

    def _next_scale(self, scale: Any, good: Any, grads: list[Any]) -> Any:
        """Return the next scale, the next count of finite steps, and the unscaled gradients."""
        numpy: Any = jnp  # its type annotations are incomplete
        how = self.how
        finite = numpy.all(numpy.stack([numpy.isfinite(grad).all() for grad in grads]))
        good = numpy.where(finite, good + 1, 0)
        grows, larger = good == how.growth_interval, scale * how.growth_factor
        grown_scale = numpy.where(grows & numpy.isfinite(larger), larger, scale)
        new_scale = numpy.where(finite, grown_scale, scale * how.backoff_factor)
        unscaled = [(grad / scale).astype(grad.dtype) for grad in grads]
        new_count = numpy.where(grows, 0, good).astype("int32")
        return new_scale.astype("float32"), new_count, unscaled
