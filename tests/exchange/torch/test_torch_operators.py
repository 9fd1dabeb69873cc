"""Operators of aten, as functions of torch export them, plain and brought to the core."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from aten import PAGE, core_of, page
from braces.exchange.torch.reader import rule_of

torch = pytest.importorskip("torch")
F = torch.nn.functional

pytestmark = pytest.mark.filterwarnings("ignore")  # torch warns of itself


class Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def draw(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def whole(*shape: int) -> Any:
    return torch.randint(0, 3, shape, generator=torch.Generator().manual_seed(0))


def put_in_place(x: Any) -> Any:
    y = x.clone()
    y[:, 0] = 1.0
    y[1:3, ::2] = 2.0
    y.add_(2)
    return y


def rows_apart(x: Any) -> Any:
    """Views of one memory: of a whole, of parts in other orders, written through, and grown."""
    y = x * 2
    part = y[1:]
    turned = part.T.as_strided((2, 3), (1, 2))
    over = y.as_strided((3, 2, 2), (4, 1, 1), 1)
    far, from_its_start = part.as_strided((2, 2), (1, 4)), part.as_strided((5,), (1,), 2)
    apart, channels = y.unbind()[1].as_strided((2,), (3,)), image_like(y).as_strided((5,), (2,))
    written = y.clone()
    written.as_strided((2, 2), (1, 2), 1).mul_(3)
    put = torch.as_strided_scatter(part, x[0, :2], (2,), (2,), 5)
    fewer, as_many = y.clone().resize_(2, 3), y.T.clone().resize_(2, 6)
    more = torch.where(torch.arange(20).reshape(4, 5) < 12, y.clone().resize_(4, 5), 0)
    numbers = part.stride(0) + part.storage_offset() + part.T.is_contiguous()
    return (turned, over, far, from_its_start, apart, channels, written, put, fewer, as_many,
            more, x + numbers, torch.as_strided_copy(y, (), (), 3))  # fmt: skip


def image_like(x: Any) -> Any:
    """Numbers whose channels lie next to each other."""
    return x.reshape(1, 2, 3, 2).contiguous(memory_format=torch.channels_last) + 1


LINES = torch.tensor([[0, 1, 2], [2, 0, 1], [1, 0, 2]])
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "index": (
        lambda x, i, j: (x[i], x[:, i, j], x[i, :, j], x[..., -1], x[:, 1:4:2], x[:, -2:]),
        (draw(5, 6, 7), whole(3), whole(3)),
    ),
    "put": (
        lambda x, i, v: torch.index_put(x, (i,), v, accumulate=True),
        (draw(5, 4), whole(3), draw(3, 4)),
    ),
    "memory": (rows_apart, (draw(3, 4),)),
    "put in place": (put_in_place, (draw(4, 5),)),
    "lines": (
        lambda x, i, s: (x.gather(1, i), x.scatter(1, i, s), x.scatter_add(1, i, s),
                         x.scatter_reduce(1, i, s, "amax"), F.one_hot(i, 4)),
        (draw(3, 4), LINES, draw(3, 3)),
    ),
    "attention": (
        lambda q, k, v, m: (F.scaled_dot_product_attention(q, k, v, is_causal=True),
                            F.scaled_dot_product_attention(q, k, v, m)),
        (draw(2, 3, 4, 8), draw(2, 3, 4, 8), draw(2, 3, 4, 8),
         torch.eye(4, dtype=torch.bool) & torch.tensor([True, False, True, True])),
    ),
    "losses": (
        lambda x, y, z: (F.cross_entropy(x, y, label_smoothing=0.1), F.smooth_l1_loss(x, z),
                         F.nll_loss(F.log_softmax(x, 1), y, reduction="sum"),
                         F.huber_loss(x, z), F.cross_entropy(x, F.softmax(z, 1)),
                         F.kl_div(F.log_softmax(x, 1), F.softmax(z, 1)),
                         F.binary_cross_entropy_with_logits(x, torch.sigmoid(z))),
        (draw(4, 5), whole(4), draw(5, 4).T),
    ),
    "reductions": (
        lambda x: (*x.max(1), x.amax((0, 1)), x.std(), x.var(1, unbiased=False), x.argmax(),
                   x.norm(), x.cumsum(1), (x > 0).sum(), (x > 0).any(1), *x.topk(2, 1),
                   *x.sort(1, descending=True), *torch.var_mean(x, 1)),
        (draw(4, 5),),
    ),
    "numbers": (
        lambda x, i: (x / i.add(1), i // 2, i % 2, 2**x, x.clamp(min=0), i / 2, i + 1.5,
                      torch.div(i - 1, 2, rounding_mode="trunc"), i & 1, ~(x > 0),
                      x.to(torch.float64) + 1, 1 - x, F.softplus(x), F.elu(x)),
        (draw(4, 5), whole(4, 5)),
    ),
    "windows": (
        lambda x, w: (F.conv2d(x, w, padding=1, stride=2), F.conv2d(x[0], w),
                      F.avg_pool2d(x, 3, 2, 1), F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
                      F.adaptive_avg_pool2d(x, (3, 2)), F.interpolate(x, scale_factor=2),
                      F.interpolate(x, size=(11, 9), mode="bilinear")),
        (draw(2, 4, 8, 7), draw(6, 4, 3, 3)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("core", [False, True], ids=["plain", "core"])
@pytest.mark.parametrize("name", CASES)
def test_functions_of_torch_give_the_same(name: str, core: bool) -> None:
    function, args = CASES[name]
    exported = torch.export.export(Function(function), args)
    prog, values = br.from_torch(exported.run_decompositions() if core else exported)
    scope = br.Scope()
    scope.update(values)
    feed = {name: x.numpy() for name, x in zip(prog.feeds, args, strict=True)}
    found = br.Executor(mode="interpret").run(prog, scope, feed=feed, fetch=list(prog.fetches))
    wanted = torch.utils._pytree.tree_leaves(function(*args))
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.dtype == theirs.numpy().dtype
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-4, atol=1e-4)


def test_all_that_cannot_be_read_is_said_at_once_with_its_lines() -> None:
    def strange(x: Any) -> Any:
        y = torch.as_strided(x, (2,), (1,)).sum()
        return y, x.to_sparse()

    exported = torch.export.export(Function(strange), (draw(3, 6)[:, ::2],))
    with pytest.raises(br.ProgramError, match="2 unsupported nodes") as caught:
        br.from_torch(exported)
    assert "test_torch_operators.py:" in str(caught.value)
    assert "_to_sparse" in str(caught.value)
    assert "the rest of its storage belongs to no tensor" in str(caught.value)
    assert "in the module (Function)" in str(caught.value)


@torch.library.custom_op("braces::spin", mutates_args=())
def spin(x: torch.Tensor) -> torch.Tensor:
    return x.flip(0)


@torch.library.custom_op("braces::turn", mutates_args=())
def turn(x: torch.Tensor) -> torch.Tensor:
    return x.flip(1)


for operator in (spin, turn):
    operator.register_fake(torch.empty_like)


class Spinning(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return spin(x)


class SpunTwice(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Spinning(), Spinning()])

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x).relu()
        return torch.cond(x.sum() > 0, lambda x: turn(x), lambda x: x.abs(), (x,))


def test_nodes_after_an_unread_node_are_checked_too() -> None:
    exported = torch.export.export(SpunTwice(), (draw(3, 3),))
    with pytest.raises(br.ProgramError, match="3 unsupported nodes") as caught:
        br.from_torch(exported)
    said = str(caught.value)
    assert "braces.spin.default, 2 times" in said
    assert "in layers.0 (Spinning) at" in said
    assert ", and 1 more" in said
    assert "braces.turn.default, 1 time" in said


def test_strides_that_a_run_tells_follow_from_sizes() -> None:
    def moved(x: Any) -> Any:
        return x * x.stride(0), torch.as_strided(x[1:], (3, x.shape[1]), (x.shape[1], 1), 0)

    wide, columns = draw(4, 5), torch.export.Dim("columns")
    exported = torch.export.export(Function(moved), (wide,), dynamic_shapes=(({1: columns},),))
    prog, _ = br.from_torch(exported)
    for x in (draw(4, 3), draw(4, 6)):
        feed = {prog.feeds[0]: x.numpy()}
        found = br.Executor(mode="interpret").run(
            prog, br.Scope(), feed=feed, fetch=list(prog.fetches)
        )
        for ours, theirs in zip(found, moved(x), strict=True):
            np.testing.assert_array_equal(ours, theirs.numpy())


def test_what_is_no_export_is_refused() -> None:
    with pytest.raises(br.ProgramError, match=r"torch\.export\.export"):
        br.from_torch(torch.nn.Linear(2, 3))


def test_weights_that_are_tied_are_one_parameter() -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = torch.nn.Embedding(7, 4)
            self.out = torch.nn.Linear(4, 7)
            self.out.weight = self.words.weight

        def forward(self, ids: Any) -> Any:
            return self.out(self.words(ids)), ids

    exported = torch.export.export(Tied(), (whole(2, 3),))
    prog, values = br.from_torch(exported)
    assert len(values) == 2
    assert len(prog.fetches) == 2


def test_the_core_of_torch_is_read() -> None:
    core = core_of(torch)
    assert len(core) > 180
    assert not {name for name in core if rule_of(name) is None}
    said = PAGE.read_text()
    if f"PyTorch {torch.__version__.partition('+')[0]} " in said:
        assert said == page(torch)


def test_the_code_of_the_page_about_torch_runs() -> None:
    page = (Path(__file__).parents[3] / "docs" / "guides" / "interchange.md").read_text()
    (section,) = re.findall(r"## PyTorch import\n(.*?)(?=\n## |\Z)", page, re.DOTALL)
    torch.manual_seed(0)
    exec("\n".join(re.findall(r"```py\n(.*?)```", section, re.DOTALL)), {})
