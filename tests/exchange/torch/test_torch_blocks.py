"""Modules of PyTorch as plain blocks with the names of their paths."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import braces as br

torch = pytest.importorskip("torch")
nn = torch.nn

pytestmark = pytest.mark.filterwarnings("ignore")  # torch warns of itself

X = torch.tensor([[0.3, -0.6, 0.9], [1.2, 0.5, -0.4]])


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.gate = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return torch.tanh(self.up(x)) * self.gate(x)


class Network(nn.Module):
    """Modules in a list, one that is called twice, one that is shared, and names of outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Gated(), Gated()])
        self.output, self.logits = Gated(), nn.Sequential(nn.Tanh(), nn.Linear(3, 3), Gated())
        self.alias = self.layers[0].up

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = x + layer(x)
        x = self.output(self.output(x)) + self.alias(x)
        return {"output": x.sum(1), "logits": self.logits(x)}


def imported(module: Any, *args: Any, strict: bool = False) -> tuple[Any, Any]:
    prog, values = br.from_torch(torch.export.export(module, args, strict=strict))
    scope = br.Scope()
    scope.update({name: np.array(value) for name, value in values.items()})
    return prog, scope


def blocks(program: Any) -> list[str]:
    return re.findall(r"= block\(.* as (\S+)", str(program))


@pytest.mark.parametrize("strict", [False, True])
def test_modules_are_blocks_named_by_their_paths(strict: bool) -> None:
    torch.manual_seed(0)
    module = Network()
    prog, scope = imported(module, X, strict=strict)
    assert blocks(prog) == [
        "layers_0", "layers_1", "output_1", "output_2", "logits_1", "logits_1/2",
    ]  # fmt: skip
    assert {op.name for op in prog.find(type="tanh")} == {
        "layers_0/tanh", "layers_1/tanh_1", "output_1/tanh_2", "output_2/tanh_3",
        "logits_1/0", "logits_1/2/tanh_5",
    }  # fmt: skip
    assert {"layers_0/up", "alias", "logits_1/1"} <= {op.name for op in prog.find(type="add")}
    found = br.Executor(mode="interpret").run(prog, scope, {"x": X.numpy()}, prog.fetches)
    for name, value in zip(prog.fetches, found, strict=True):
        np.testing.assert_allclose(value, module(X)[name].detach().numpy(), atol=1e-6)


def test_parameters_keep_the_names_of_the_state_dict() -> None:
    module = Network()
    prog, _ = imported(module, X)
    shared = {"alias.weight", "alias.bias"}
    assert {p.name for p in prog.parameters} == set(module.state_dict()) - shared

    def scaled(x: Any, *, match: Any) -> Any:
        return x * br.parameter(f"scale_{match.path.rpartition('/')[2]}", [3])

    added = {p.name for p in prog.rewrite(br.tanh, scaled).parameters}
    names = ("tanh", "tanh_1", "tanh_2", "tanh_3", "tanh_5", "0")
    assert added - set(module.state_dict()) == {f"scale_{name}" for name in names}


def test_gradients_of_blocks_are_those_of_torch(mode: str) -> None:
    module = Network()
    prog, scope = imported(module, X)
    names = ["layers.0.up.weight", "output.gate.weight", "logits.2.up.bias"]
    with prog:
        loss = br.mean(br.square(prog.var("logits")))
        grads = br.gradients([loss], [prog.var(name) for name in names])
    found = br.Executor(mode=mode).run(prog, scope, {"x": X.numpy()}, grads)
    module(X)["logits"].square().mean().backward()
    own = dict(module.named_parameters())
    for name, grad in zip(names, found, strict=True):
        np.testing.assert_allclose(grad, own[name].grad.numpy(), atol=1e-6)


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.yes, self.no = Gated(), Gated()

    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda x: self.yes(x) + 1, lambda x: self.no(x), (x,))


@pytest.mark.parametrize("strict", [False, True])
def test_modules_in_branches(strict: bool) -> None:
    module = Branching()
    prog, scope = imported(module, X, strict=strict)
    assert ("yes" in " ".join(blocks(prog))) == strict  # PyTorch records them only there
    for x in (X, -X):
        found = br.Executor(mode="interpret").run(prog, scope, {"x": x.numpy()}, prog.fetches)
        np.testing.assert_allclose(found[0], module(x).detach().numpy(), atol=1e-6)
