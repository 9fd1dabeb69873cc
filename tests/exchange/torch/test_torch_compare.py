"""`br.compare_values` with PyTorch modules and exported programs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from tests.surgery.programs import swapped

torch = pytest.importorskip("torch")
nn = torch.nn

pytestmark = pytest.mark.filterwarnings("ignore")  # torch warns of itself


class Network(nn.Module):
    """A recurrent layer, norm, a layer that is called twice, changes in place, attention."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(3, 4)
        self.norm = nn.BatchNorm1d(4)
        self.twice = nn.Linear(4, 4)
        self.attention = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)

    def forward(self, x: Any) -> Any:
        y = self.norm(self.rnn(x)[0][-1])
        y = nn.functional.relu_(self.twice(y))
        view = y[:, :2]
        y.mul_(2.0)
        return self.attention(self.twice(y).tanh_()[None]), {"sum": view.sum()}


class Branch(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda x: x.sin().tanh(), lambda x: x.cos(), (x,))


class Loop(nn.Module):
    def forward(self, x: Any) -> Any:
        def body(i: Any, x: Any) -> Any:
            return i + 1, torch.tanh(x * 1.1)

        start = torch.tensor(0)
        return torch._higher_order_ops.while_loop(lambda i, x: i < 3, body, (start, x))[1]


class Scan(nn.Module):
    def forward(self, x: Any) -> Any:
        def step(h: Any, row: Any) -> Any:
            h = torch.tanh(h * 0.5 + row)
            return h, h.sigmoid()

        return torch._higher_order_ops.scan(step, torch.zeros(4), x, dim=0)


def imported(module: Any, *args: Any) -> tuple[Any, br.Program, Mapping[str, Any], Any]:
    """Return an export, its program and values, and the feed of the example."""
    torch.manual_seed(0)
    exported = torch.export.export(module, args)
    prog, values = br.from_torch(exported)
    feed = dict(zip(prog.feeds, (arg.numpy() for arg in args), strict=True))
    return exported, prog, values, feed


CASES = {
    "network": (Network, (5, 3, 3), "l/loop_0/body", ""),
    "cond": (Branch, (4,), "cond/", "cond/true/"),
    "while": (Loop, (4,), "while_loop/", "while_loop/body/"),
    "scan": (Scan, (3, 4), "scan/", "scan/body/"),
}


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_modules_and_exports_agree_and_a_difference_is_found(name: str, train: bool) -> None:
    kind, shape, _, other_path = CASES[name]
    module = kind().train(train)
    exported, prog, values, feed = imported(module, torch.rand(*shape) + 0.1)
    state = {key: value.clone() for key, value in module.state_dict().items()}
    random = torch.get_rng_state()
    for model in (module, exported):
        same = br.compare_values(prog, model, values, feed)
        assert not same, same
        assert same.matched > 0.7 * same.computed
        found = br.compare_values(swapped(prog, "tanh", "cos"), model, values, feed)
        assert found.first is not None
        assert found.other is not None
        assert (found.first.system, found.first.type) == ("Braces", "cos")
        assert (found.other.system, found.other.type.rstrip("_")) == ("PyTorch", "tanh")
        assert found.other.path.startswith(other_path)
        assert "test_torch_compare.py" in found.other.source
        assert "test_torch_compare.py" in found.first.source
        if name in ("while", "scan"):
            assert (found.first.iteration, found.other.iteration) == ((0,), (0,))
    assert torch.equal(random, torch.get_rng_state())
    for key, value in module.state_dict().items():
        assert torch.equal(value, state[key]), key
        assert torch.equal(exported.state_dict[key], state[key]), key


class Loops(nn.Module):
    """Two calls of one function of control flow, with functions of several lines."""

    def forward(self, x: Any) -> Any:
        def more(i: Any, h: Any) -> Any:
            return i < 3

        def fall(i: Any, h: Any) -> Any:
            k = torch.tanh(h)
            return i + 1, torch.cos(k)

        def rise(i: Any, h: Any) -> Any:
            return i + 1, torch.sin(h)

        y = x * 2.0
        first = torch._higher_order_ops.while_loop(more, fall, (torch.tensor(0), y))
        second = torch._higher_order_ops.while_loop(more, rise, (torch.tensor(0), first[1]))
        return second[1]


def line_of(text: str) -> str:
    """Return the end of the source of a line of this file."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return f"{Path(__file__).name}:{1 + next(n for n, x in enumerate(lines) if text in x)}"


@pytest.mark.parametrize("strict", [False, True])
def test_operators_in_functions_of_control_flow_have_lines_of_the_user(strict: bool) -> None:
    exported = torch.export.export(Loops(), (torch.rand(4),), strict=strict)
    prog, values = br.from_torch(exported)
    feed = {prog.feeds[0]: np.full(4, 0.5, "float32")}
    for kind, own, call in (
        ("tanh", "k = torch.tanh(h)", "(more, fall, "),
        ("sin", "i + 1, torch.sin(h)", "(more, rise, "),
    ):
        (place,) = prog.find(type=kind)
        known = own if strict else call  # other exports keep no lines in functions
        assert str(place.source).endswith(line_of(known))
        wrong = prog.replace(place, br.exp)
        for model, line in ((Loops(), own), (exported, known)):
            found = br.compare_values(wrong, model, values, feed)
            assert found.first is not None
            assert found.other is not None
            assert found.first.source.endswith(line_of(known))
            assert found.other.source.endswith(line_of(line))


def test_buffers_that_a_training_module_changes_are_results() -> None:
    module = nn.BatchNorm1d(3)
    _, prog, values, feed = imported(module, torch.randn(4, 3))
    assert "running_mean" in prog.updates
    assert not br.compare_values(prog, module, values, feed)
    changed = {**values, "running_mean": np.array([3, 5, 7], "f")}
    found = br.compare_values(prog, module, changed, feed)
    assert [result.name for result in found.results] == ["next value of running_mean"]
    assert found.inputs == ("running_mean",)


class Shared(nn.Module):
    """A layer in a loop of Python, so that its operators have iterations."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

    def forward(self, x: Any, scale: Any = None, *, shift: Any = None) -> Any:
        h = torch.zeros(4) if shift is None else shift
        for row in x:
            h = self.cell(h + row)
        return h if scale is None else h * scale


def test_calls_of_a_module_are_its_iterations() -> None:
    module = Shared()
    _, prog, values, feed = imported(module, torch.randn(3, 4))
    text = str(prog)
    last = text.rindex("= tanh(")
    wrong = br.parse(f"{text[:last]}= cos({text[last + 7 :]}")
    found = br.compare_values(wrong, module, values, feed)
    assert found.other is not None
    assert (found.other.path, found.other.iteration) == ("cell.1/tanh", (2,))


def test_arguments_go_by_name_or_are_given() -> None:
    module, x, shift = Shared(), torch.randn(3, 4), torch.randn(4)
    exported = torch.export.export(module, (x,), {"shift": shift})
    prog, values = br.from_torch(exported)
    feed = {"x": x.numpy(), "shift": shift.numpy()}
    for model in (module, exported):
        assert not br.compare_values(prog, model, values, feed)
    assert br.compare_values(prog, module, values, feed, args=(x,))
    assert not br.compare_values(prog, exported, values, feed, args=(x, shift))
    function = br.parse("program { data x: f32[n,4]  y: f32[n,4] = tanh(x=x)  return y }")
    assert not br.compare_values(function, torch.tanh, feed={"x": x.numpy()}, args=(x,))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64", "int64", "complex64"])
def test_dtypes(dtype: str) -> None:
    class Twice(nn.Module):
        def forward(self, x: Any) -> Any:
            return (x + x, x * x)

    module = Twice()
    x = (torch.randn(3, 4) * 5).to(getattr(torch, dtype))
    prog, values = br.from_torch(torch.export.export(module, (x,)))
    array = x.float().numpy() if dtype == "bfloat16" else x.numpy()
    feed = {"x": array.astype(prog.infos["x"].type.dtype)}
    assert not br.compare_values(prog, module, values, feed)
    found = br.compare_values(swapped(prog, "multiply", "subtract"), module, values, feed)
    assert found.other is not None
    assert found.other.type == "mul"


def test_modules_that_pytorch_cannot_run_are_refused() -> None:
    module = nn.Linear(4, 2)
    exported, prog, values, feed = imported(module, torch.randn(3, 4))
    with pytest.raises(br.FeedError, match="missing feeds: input"):
        br.compare_values(prog, module, values, ({"input": feed["input"]}, {}))
    with pytest.raises(br.ProgramError, match=r"(?s)cannot run the module.*RuntimeError: mat1"):
        br.compare_values(prog, nn.Linear(3, 2), values, feed)
    with pytest.raises(br.FeedError, match="expected 1 inputs of the export, got 2"):
        br.compare_values(prog, exported, values, feed, args=(1, 2))
    assert not module._forward_hooks
    assert torch.backends.mha.get_fastpath_enabled()


def test_a_module_can_be_exported_and_compiled_after_a_comparison() -> None:
    module = Branch()
    _, prog, values, feed = imported(module, torch.rand(4))
    assert not br.compare_values(prog, module, values, feed)
    torch.export.export(module, (torch.rand(4),))
    assert module(torch.rand(4)).shape == (4,)
