"""Entries of nnsight."""

from __future__ import annotations

from typing import Any

from benchmarks.surgery_peers.common import NONE, X, load, ratio


class NnSight:
    """nnsight: activations of PyTorch modules."""

    title, package = "nnsight", "nnsight"

    def __init__(self) -> None:
        self.torch = torch = load("torch")

        class Cell(torch.nn.Module):
            def forward(self, x: Any) -> Any:
                return torch.tanh(x) * 2

        class Model(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.first, self.cell = torch.nn.Linear(3, 3), Cell()
                self.last = torch.nn.Linear(3, 1)

            def forward(self, x: Any) -> Any:
                x = self.first(x)
                for _ in range(3):
                    x = self.cell(x)
                return self.last(x)

        torch.manual_seed(0)
        self.module = Model()
        self.model, self.x = load("nnsight").NNsight(self.module), torch.tensor(X)
        self.calls: list[Any] = []
        hook = self.module.cell.register_forward_hook(lambda *a: self.calls.append(a[2]))
        self.module(self.x)
        hook.remove()

    def find(self) -> str:
        """Find modules by path."""
        assert self.model.cell is not None
        return "attribute path of a module"

    def pattern(self) -> str:
        """Look for patterns of operators."""
        return "yes" if hasattr(load("nnsight"), "pattern") else "no: modules only"

    commuted = inside = elsewhere = parameters = step = failing = near = lambda self: NONE

    def gradients(self) -> str:
        """Differentiate by autograd."""
        self.module(self.x).sum().backward()
        assert self.module.first.weight.grad is not None
        return "autograd"

    def read(self) -> str:
        """Read the output of a module."""
        with self.model.trace(self.x):
            value = self.model.first.output.save()
        assert self.torch.equal(value, self.module.first(self.x))
        return "`.output.save()`"

    def thrice(self) -> str:
        """Read the output of a module that runs three times."""
        with self.model.trace(self.x):
            value = self.model.cell.output.save()
        which = [at for at, call in enumerate(self.calls) if self.torch.equal(value, call)]
        with self.model.trace(self.x) as tracer:
            values = list().save()  # nnsight adds the method
            with tracer.iter[:]:
                values.append(self.model.cell.output)
        same = sum(map(self.torch.equal, values, self.calls))
        return f"`.output` is call {which[0] + 1} of 3; `tracer.iter[:]`: {same} of 3"

    def patch(self) -> str:
        """Change the output of a module."""
        with self.model.trace(self.x):
            self.model.first.output[:] = 0.0
            value = self.model.last.output.save()
        assert self.torch.allclose(value, self.module.last.bias.expand(2, 1))
        return "assign to `.output[:]`"

    def order(self) -> str:
        """Read a late value before an early one."""
        try:
            with self.model.trace(self.x):
                self.model.last.output.save()
                self.model.first.output.save()
        except Exception as error:
            return f"no: `{type(error).__name__}`"
        return "yes"

    def cut(self) -> str:
        """Stop after a module."""
        with self.model.trace(self.x) as tracer:
            value = self.model.first.output.save()
            tracer.stop()
        assert value.shape == (2, 3)
        return "`tracer.stop()`: first part only"

    def diff(self) -> str:
        """Look for a comparison of models."""
        return "yes" if hasattr(load("nnsight"), "diff") else "no"

    def cost(self) -> str:
        """Measure a trace against a call."""

        def traced() -> None:
            with self.model.trace(self.x):
                self.model.first.output.save()

        return ratio(traced, lambda: self.module(self.x))
