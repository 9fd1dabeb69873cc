"""Entries of penzai."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from benchmarks.surgery_peers.common import NONE, X, load, ratio


class Penzai:
    """Penzai: trees of layers in JAX."""

    title, package = "penzai", "penzai"

    def __init__(self) -> None:
        self.jax, pz = load("jax"), load("penzai.pz")
        self.pz, jax, seen = pz, self.jax, list[Any]()
        self.seen = seen

        class Tanh(pz.nn.Layer):
            def __call__(self, x: Any, **_: Any) -> Any:
                return jax.numpy.tanh(x)

        class Scale(pz.nn.Layer):
            gain: Any

            def __call__(self, x: Any, **_: Any) -> Any:
                return x * self.gain

        class Save(pz.nn.Layer):
            def __call__(self, x: Any, **_: Any) -> Any:
                seen.append(x)
                return x

        class Loop(pz.nn.Layer):
            cell: Any

            def __call__(self, x: Any, **_: Any) -> Any:
                return jax.lax.scan(lambda h, _: (self.cell(h), None), x, None, length=3)[0]

        Scale.__annotations__, Loop.__annotations__ = {"gain": Any}, {"cell": Any}
        parts = [pz.pytree_dataclass(kind) for kind in (Tanh, Scale, Save, Loop)]
        self.tanh, self.scale, self.save, self.loop = parts
        self.model = pz.nn.Sequential([self.tanh(), self.loop(self.tanh())])
        self.x = jax.numpy.asarray(X)

    def layers(self) -> Any:
        """Return the selection of all `Tanh` layers."""
        return self.pz.select(self.model).at_instances_of(self.tanh)

    def find(self) -> str:
        """Find layers by class."""
        return f"`select(…).at_instances_of`: {self.layers().count()} of 2 layers"

    def pattern(self) -> str:
        """Look for patterns of operators."""
        return "yes" if hasattr(self.pz, "pattern") else "no: trees, not operators"

    commuted = elsewhere = lambda self: NONE

    def inside(self) -> str:
        """Replace layers, one of them in a loop."""
        zero = self.layers().apply(lambda _: self.scale(0.0))
        assert not np.any(zero(self.x))
        return f"layers: {self.layers().count()} of 2; operators: Python code"

    def parameters(self) -> str:
        """Insert a layer with a parameter at two places."""
        new = self.layers().apply(lambda _: self.scale(self.jax.numpy.ones(3)))
        return f"{len(self.jax.tree.leaves(new))} for 2 places"

    def gradients(self) -> str:
        """Differentiate after a replacement."""
        new = self.layers().apply(lambda _: self.scale(self.jax.numpy.ones(3)))
        gradient = self.jax.grad(lambda model: model(self.x).sum())(new)
        assert len(self.jax.tree.leaves(gradient)) == 2
        return "`jax.grad` of the new model"

    def step(self) -> str:
        """Insert a parameter into a model that optax trains."""
        jax, optax = self.jax, load("optax")
        ones, rule = jax.numpy.ones(3), optax.adam(0.1)
        model = self.pz.nn.Sequential([self.scale(ones), self.tanh()])
        state = rule.init(model)
        new = (
            self.pz.select(model)
            .at_instances_of(self.tanh)
            .apply(lambda layer: self.pz.nn.Sequential([layer, self.scale(ones)]))
        )
        gradient = jax.grad(lambda model: model(self.x).sum())(new)
        try:
            rule.update(gradient, state)
        except (TypeError, ValueError):
            return "the state of optax does not fit; it is made again by hand"
        return "yes"

    def failing(self) -> str:
        """Change a tree twice."""
        new = self.layers().apply(lambda _: self.scale(0.0))
        with contextlib.suppress(ZeroDivisionError):
            self.pz.select(new).at_instances_of(self.scale).apply(lambda _: 1 / 0)
        assert np.any(self.model(self.x))
        return "each returns a new tree"

    def near(self) -> str:
        """Look for reports."""
        return NONE

    def saving(self) -> Any:
        """Return the model with a layer that saves after each `Tanh`."""
        return self.layers().apply(lambda layer: self.pz.nn.Sequential([layer, self.save()]))

    def read(self) -> str:
        """Save the value of a layer outside of a loop."""
        self.saving()(self.x)
        assert np.allclose(self.seen[0], np.tanh(X), atol=1e-6)
        return "insert a layer that saves"

    def thrice(self) -> str:
        """Save the value of a layer in a loop."""
        self.seen.clear()
        self.saving()(self.x)
        traced = sum(isinstance(value, self.jax.core.Tracer) for value in self.seen[1:])
        return f"{len(self.seen) - 1 - traced} values in `scan`, a tracer only"

    def patch(self) -> str:
        """Replace the value of a layer."""
        assert not np.any(self.layers().apply(lambda _: self.scale(0.0))(self.x))
        return "replace the layer"

    def order(self) -> str:
        """Select in another order."""
        return "yes"

    def cut(self) -> str:
        """Cut a sequence of layers."""
        first, rest = (
            self.pz.nn.Sequential(s)
            for s in (self.model.sublayers[:1], self.model.sublayers[1:])
        )
        assert np.allclose(rest(first(self.x)), self.model(self.x))
        return "slices of `Sequential` only"

    def diff(self) -> str:
        """Look for a comparison of models."""
        return "yes" if hasattr(self.pz, "diff") else "no"

    def cost(self) -> str:
        """Measure a model with a layer that saves, compiled without it."""
        plain, probed = self.model, self.saving()
        return ratio(lambda: probed(self.x), lambda: plain(self.x), 50) + ", not compiled"
