"""Losses that are scaled while gradients are made, so that these stay in the range of float16.

loss_scale/scale         what the loss is multiplied by, and gradients are divided by
loss_scale/good_steps    the steps since it changed
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from braces.builder.var import Var, shown
from braces.dtypes import FLOAT32, INT32, TensorType
from braces.frontend.control.block import block
from braces.frontend.optimizer.core.state import free_name, new_state
from braces.jaxpr.trace import trace
from braces.lazy import jnp


@dataclass(frozen=True)
class LossScale:
    """How a loss is scaled; the arguments of `dynamic_loss_scale`."""

    name: str
    chosen: bool
    init_scale: float
    growth_interval: int
    growth_factor: float
    backoff_factor: float

    def begin(self, loss: Var) -> Scaled:
        """The loss, scaled; what it needs is made where the program begins."""
        name = free_name(loss.program, self.name, chosen=self.chosen)
        scale = new_state(f"{name}/scale", TensorType(FLOAT32, ()), self.init_scale)
        good = new_state(f"{name}/good_steps", TensorType(INT32, ()), 0.0)
        return Scaled(self, name, loss * scale, scale, good)


@dataclass(frozen=True, eq=False)
class Scaled:
    """A loss that is scaled.

    Attributes:
        how: How.
        name: What it keeps is called so.
        loss: The scaled one.
        scale: By what.
        good: The good steps since that changed.
    """

    how: LossScale
    name: str
    loss: Var
    scale: Var
    good: Var

    def unscaled(self, pairs: Mapping[Var, Var]) -> dict[Var, Var]:
        """The gradients of the loss itself; the scale moves by them."""
        program = self.loss.program
        with block(self.name.removeprefix(program.current.names.prefix)):
            given = self.scale, self.good, list(pairs.values())
            made = trace("The scale of the loss", self._moved, *given).build(*given)
            scale, good, grads = made
            program.update(self.scale.name, scale.name)
            program.update(self.good.name, good.name)
        return {param: shown(grad) for param, grad in zip(pairs, grads, strict=True)}

    def _moved(self, scale: Any, good: Any, grads: list[Any]) -> Any:
        """The next scale and count of good steps, and gradients."""
        numpy: Any = jnp  # its own types are not all known
        how = self.how
        finite = numpy.all(numpy.stack([numpy.isfinite(grad).all() for grad in grads]))
        good = numpy.where(finite, good + 1, 0)
        grows, larger = good == how.growth_interval, scale * how.growth_factor
        grown = numpy.where(grows & numpy.isfinite(larger), larger, scale)
        after = numpy.where(finite, grown, scale * how.backoff_factor)
        plain = [(grad / scale).astype(grad.dtype) for grad in grads]
        counted = numpy.where(grows, 0, good).astype("int32")
        return after.astype("float32"), counted, plain
