"""Entries of torch.fx."""

from __future__ import annotations

import logging
from typing import Any

from benchmarks.surgery_peers.common import X, load, ratio


class TorchFx:
    """`torch.fx`: graphs of symbolic traces and exports."""

    title, package = "torch.fx", "torch"

    def __init__(self) -> None:
        self.torch = torch = load("torch")
        self.rewriter = load("torch.fx.subgraph_rewriter")
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.x = torch.tensor(X)

        class Loop(torch.nn.Module):
            def forward(self, x: Any) -> Any:
                def body(i: Any, x: Any) -> Any:
                    return i + 1, torch.tanh(x) * 2

                start = (torch.tensor(0), torch.tanh(x) * 2)
                return torch._higher_order_ops.while_loop(lambda i, x: i < 3, body, start)[1]

        self.loop = torch.export.export(Loop(), (self.x,)).module()
        self.trace: Any = torch.fx.symbolic_trace

    def count(self, function: Any, before: Any = None, after: Any = None) -> int:
        """Return the number of matches in a function, of a GELU by default."""
        torch, graph = self.torch, self.trace(function)

        def gelu(x: Any) -> Any:
            return x * 0.5 * (1 + torch.erf(x))

        def relu(x: Any) -> Any:
            return torch.relu(x)

        return len(self.rewriter.replace_pattern(graph, before or gelu, after or relu))

    def find(self) -> str:
        """Find by target."""
        tanh = self.torch.ops.aten.tanh.default
        nodes = self.loop.graph.find_nodes(op="call_function", target=tanh)
        return f"`graph.find_nodes`: {len(nodes)} of 2"

    def pattern(self) -> str:
        """Match the same expression."""
        found = self.count(lambda x: x * 0.5 * (1 + self.torch.erf(x)))
        return f"`replace_pattern`: {found}"

    def commuted(self) -> str:
        """Match the expression with commuted operands."""
        found = self.count(lambda x: 0.5 * x * (self.torch.erf(x) + 1))
        return f"{found} matches"

    def inside(self) -> str:
        """Match in the body of a `while_loop`."""
        aten = self.torch.ops.aten

        def before(x: Any) -> Any:
            return aten.mul.Tensor(aten.tanh.default(x), 2)

        matches = self.rewriter.replace_pattern(
            self.loop, before, lambda x: aten.sigmoid.default(x)
        )
        return f"{len(matches)} of 2 (`while_loop`)"

    def elsewhere(self) -> str:
        """Match where an inner value has another reader."""

        def shared(x: Any) -> Any:
            t = self.torch.tanh(x)
            return t * 2, t

        found = self.count(shared, lambda x: self.torch.tanh(x) * 2)
        return f"{found} matches, without a message"

    def parameters(self) -> str:
        """Insert a module with a parameter at two places."""
        torch = self.torch

        class After(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.gain = torch.nn.Parameter(torch.ones(3))

            def forward(self, x: Any) -> Any:
                return torch.sigmoid(x) * self.gain

        class Before(torch.nn.Module):
            def forward(self, x: Any) -> Any:
                return torch.tanh(x)

        class Model(torch.nn.Module):
            def forward(self, x: Any) -> Any:
                return torch.tanh(torch.tanh(x) + 1)

        graph = self.trace(Model())
        matches = self.rewriter.replace_pattern(graph, Before(), After())
        return f"{len(dict(graph.named_parameters()))} for {len(matches)} places: shared"

    def gradients(self) -> str:
        """Replace an operator in a graph that has its gradient."""
        torch, aten = self.torch, self.torch.ops.aten

        def step(x: Any) -> Any:
            y = torch.tanh(x)
            return torch.autograd.grad(y.sum(), x)[0]

        x = self.x.clone().requires_grad_()
        graph = load("torch.fx.experimental.proxy_tensor").make_fx(step)(x)
        self.rewriter.replace_pattern(
            graph, lambda x: aten.tanh.default(x), lambda x: aten.sigmoid.default(x)
        )
        s = torch.sigmoid(self.x)
        right = torch.allclose(graph(x), s * (1 - s))
        return "autograd of the new graph; a traced gradient " + (
            "follows" if right else "is silently stale"
        )

    def step(self) -> str:
        """Insert a parameter into a graph that an optimizer trains."""
        torch = self.torch
        layers = torch.nn.Linear(3, 3, bias=False), torch.nn.Tanh()
        graph = self.trace(torch.nn.Sequential(*layers))
        optimizer = torch.optim.SGD(graph.parameters(), lr=0.1)
        graph.gain = torch.nn.Parameter(torch.ones(3))
        (tanh,) = graph.graph.find_nodes(op="call_module", target="1")
        with graph.graph.inserting_after(tanh):
            gain = graph.graph.get_attr("gain")
        with graph.graph.inserting_after(gain):
            product = graph.graph.call_function(torch.mul, (tanh, gain))
        tanh.replace_all_uses_with(product, delete_user_cb=lambda user: user is not product)
        graph.recompile()
        before = [p.detach().clone() for p in graph.parameters()]
        graph(self.x).sum().backward()
        optimizer.step()
        pairs = zip(before, graph.parameters(), strict=True)
        trained = sum(not torch.equal(old, new) for old, new in pairs)
        return f"{trained} of 2 are trained; the optimizer is made again by hand"

    def failing(self) -> str:
        """Replace a pattern, and erase a node that is read."""
        torch, graph = self.torch, self.trace(lambda x: self.torch.tanh(x) * 2)
        self.rewriter.replace_pattern(graph, lambda x: torch.tanh(x), lambda x: torch.relu(x))
        try:
            graph.graph.erase_node(
                graph.graph.find_nodes(op="call_function", target=torch.relu)[0]
            )
        except RuntimeError:
            stays = torch.equal(graph(self.x), torch.relu(self.x) * 2)
        else:
            return "no error"
        return "the first stays" if stays else "none happens"

    def near(self) -> str:
        """Look for the reason in the log."""
        records = list[str]()
        handler = logging.Handler()
        handler.emit = lambda record: records.append(record.getMessage())
        logger = logging.getLogger("torch.fx.passes.utils.matcher_utils")
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        self.commuted()
        logger.removeHandler(handler)
        return "debug log" if records else "no"

    def recorded(self, graph: Any, *args: Any) -> dict[str, Any]:
        """Run a graph, and return the value of each node."""
        values = dict[str, Any]()
        base = self.torch.fx.Interpreter

        class Recorder(base):
            def run_node(self, n: Any) -> Any:
                values[n.name] = super().run_node(n)
                return values[n.name]

        Recorder(graph).run(*args)
        return values

    def read(self) -> str:
        """Read the value of a node."""
        values = self.recorded(self.trace(lambda x: self.torch.tanh(x) * 2), self.x)
        assert self.torch.allclose(values["tanh"], self.torch.tanh(self.x))
        return "a subclass of `Interpreter`"

    def thrice(self) -> str:
        """Read a value in a loop."""

        def unrolled(x: Any) -> Any:
            for _ in range(3):
                x = self.torch.tanh(x) * 2
            return x

        flat = [name for name in self.recorded(self.trace(unrolled), self.x) if "tanh" in name]
        fresh = TorchFx().loop
        looped = [name for name in self.recorded(fresh, self.x) if "tanh" in name]
        return f"unrolled: {len(flat)} values; body of `while_loop`: {len(looped) - 1}"

    def patch(self) -> str:
        """Replace the value of a node."""
        base, torch = self.torch.fx.Interpreter, self.torch

        class Patch(base):
            def run_node(self, n: Any) -> Any:
                value = super().run_node(n)
                return torch.zeros_like(value) if n.name == "tanh" else value

        y = Patch(self.trace(lambda x: torch.tanh(x) + 1)).run(self.x)
        assert torch.equal(y, torch.ones_like(y))
        return "a subclass of `Interpreter`"

    def order(self) -> str:
        """Read a late value before an early one."""
        values = self.recorded(self.trace(lambda x: self.torch.tanh(x).sin()), self.x)
        assert list(values).index("sin") > list(values).index("tanh")
        return "yes"

    def cut(self) -> str:
        """Split a graph."""
        torch = self.torch
        split = load("torch.fx.passes.split_module").split_module
        graph = self.trace(lambda x: torch.tanh(x).sin())
        parts = split(graph, None, lambda node: int(node.name == "sin"))
        assert torch.allclose(parts(self.x), torch.tanh(self.x).sin())
        return f"`split_module`: {len(list(parts.children()))} parts"

    def diff(self) -> str:
        """Look for a comparison of graphs."""
        return "yes" if hasattr(self.torch.fx, "diff") else "no"

    def cost(self) -> str:
        """Measure an interpreter that records against the graph itself."""
        layers = [self.torch.nn.Linear(64, 64) for _ in range(10)]
        graph, x = self.trace(self.torch.nn.Sequential(*layers)), self.torch.randn(64, 64)
        return ratio(lambda: self.recorded(graph, x), lambda: graph(x))
