"""Data-dependent parts of torch programs: sizes from values, masks, branches and state."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional

pytestmark = pytest.mark.filterwarnings("ignore")  # torch warns of itself


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def draw(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape) + sum(shape)))


def arrays(values: Any) -> list[Any]:
    leaves = torch.utils._pytree.tree_leaves(values)
    return [torch.as_tensor(one).detach().resolve_conj() for one in leaves if one is not None]


def loaded(prog: br.Program, values: Any) -> br.Scope:
    scope = br.Scope()
    br.Executor().init(prog, scope, seed=0)
    scope.update(values)
    return scope


def agree(
    module: Any, args: Any, sizes: Any = None, others: Any = None, mode: str = "interpret"
) -> br.Program:
    """Hold outputs, and the gradients of the first one, against torch's."""
    prog, values = br.from_torch(torch.export.export(module, args, dynamic_shapes=sizes))
    results = list(prog.fetches)
    weights = [name for name in values if prog.var(name).info.kind == "parameter"]
    grads: list[Any] = []
    if weights:
        with prog:
            loss = br.mean(br.square(prog.var(results[0])))
            grads = br.gradients([loss], [prog.var(name) for name in weights])
    for given in (args, others or args):
        feed = {name: one.numpy() for name, one in zip(prog.feeds, given, strict=True)}
        scope = loaded(prog, values)
        found = br.Executor(mode=mode).run(prog, scope, feed=feed, fetch=[*results, *grads])
        wanted = module(*given)
        for at, theirs in enumerate(arrays(wanted)):
            close(found[at], theirs, f"output {at}")
        module.zero_grad()
        if weights:
            torch.utils._pytree.tree_leaves(wanted)[0].square().mean().backward()
        own = dict(module.named_parameters())
        for name, grad in zip(weights, found[len(results) :], strict=True):
            close(grad, own[name].grad, name)
    return prog


def close(found: Any, wanted: Any, what: str = "") -> None:
    wanted = wanted.numpy()
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype), what
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=2e-5, err_msg=what)


# ---- sizes that a run tells ------------------------------------------------------------------


def masks(x: Any, y: Any) -> Any:
    doubled = x.clone()
    doubled[doubled < 0] *= 2
    return (
        x[x > 0], x[x[:, 0] > 0], x[:, x[0] > 0], x[x[:, 0] > 0, 1], x.masked_select(y > 0),
        doubled, x.masked_scatter(x > 0, y), torch.index_put(x, (x[:, 0] > -9,), y),
        torch.where(x > 0), (x > 0).nonzero(), torch.argwhere(x > 9),
    )  # fmt: skip


def occurring(ids: Any, rows: Any, x: Any) -> Any:
    return (
        torch.unique(ids, return_inverse=True, return_counts=True), torch.unique(ids),
        torch.unique_consecutive(ids, return_inverse=True, return_counts=True),
        torch.unique(rows, dim=0, return_inverse=True), torch.bincount(ids, minlength=2),
        torch.bincount(ids, weights=x[:, 0]), torch.repeat_interleave(x, ids, dim=0),
    )  # fmt: skip


def counted(x: Any, count: Any) -> Any:
    n = count.item()
    torch._check(n >= 0)
    torch._check(n <= 4)
    return x[:n], torch.zeros(n, 2), torch.arange(n), torch.arange(0, n, 2), x.sum() * n


def put(x: Any, at: Any, source: Any) -> Any:
    ways = ("sum", "prod", "mean", "amax", "amin")
    columns = x.clone()
    columns[:, at[0]] += torch.cat([source, source[:1]])
    return (
        [x.scatter_reduce(0, at, source, way, include_self=own)
         for way in ways for own in (True, False)],
        x.scatter(1, at, source), x.scatter(1, at, source, reduce="multiply"), x.gather(1, at),
        x.index_reduce(0, at[:, 0], x[:3], "mean", include_self=False), columns,
        x.index_add(0, at[0], source, alpha=2.0), x.index_fill(0, at[0], 1.0), x.take(at),
        x.put(at, source, accumulate=True),
    )  # fmt: skip


def ordered(x: Any, bounds: Any) -> Any:
    return (
        x.kthvalue(2), x.median(1), x.median(), x.topk(2, largest=False), x.topk(2, 0),
        x.sort(0), x.cummax(1), x.cummin(0), x.logcumsumexp(1), x.aminmax(dim=1),
        torch.quantile(x, 0.3, dim=1), torch.searchsorted(bounds, x, right=True),
        torch.bucketize(x, bounds), x.argsort(1),
    )  # fmt: skip


def frequencies(x: Any) -> Any:
    return (
        torch.fft.rfft(x, norm="ortho").abs(), torch.fft.irfftn(torch.fft.rfftn(x)),
        torch.fft.fft2(x).imag, torch.view_as_real(torch.fft.ifft(x).resolve_conj()),
        torch.stft(x, 4, 2, window=torch.hann_window(4), return_complex=True).angle(),
    )  # fmt: skip


def factored(x: Any, b: Any) -> Any:
    linalg, both = torch.linalg, x @ x.mT + 3 * torch.eye(3)
    q, r = linalg.qr(x)
    u, s, vh = linalg.svd(x, full_matrices=False)
    values, vectors = linalg.eigh(both)
    return (
        linalg.det(x), linalg.slogdet(x), linalg.inv(x), linalg.solve(x, b),
        linalg.solve(x, b[..., 0]), linalg.cholesky(both), linalg.svdvals(x), q @ r, values,
        (u * s[..., None, :]) @ vh, (vectors * values[..., None, :]) @ vectors.mT,
        linalg.solve_triangular(both.triu(), b, upper=True), linalg.eigvalsh(both),
        linalg.solve_triangular(both.tril(), b.mT, upper=False, left=False),
    )  # fmt: skip


def single(x: Any) -> Any:
    zero = torch.tensor(0)
    return (
        x + 1, x.max(), x.cumsum(0), x.softmax(0), x.sort(), x.gather(0, zero), x.topk(1),
        x.scatter(0, zero, 2.0), x.argmax(), x[None], x.unsqueeze(0),
    )  # fmt: skip


def read_between(x: Any, grid: Any) -> Any:
    return [
        F.grid_sample(x, grid, mode, margin, corners)
        for mode in ("bilinear", "nearest", "bicubic")
        for margin in ("zeros", "border", "reflection")
        for corners in (True, False)
    ]


def core_gradients(g: Any, x: Any, w: Any, scale: Any) -> Any:
    aten = torch.ops.aten
    made, mean, deviation = aten.native_layer_norm(x, [6], scale, scale, 1e-3)
    groups = aten.native_group_norm(x, None, None, 2, 3, 36, 3, 1e-2)
    places = aten.max_pool2d_with_indices(x, [2, 2], [2, 2])[1]
    ids = torch.tensor([[1, 0, 1], [3, 3, 1]])
    three, ones = [True, True, True], [1, 1]
    return (
        aten.convolution_backward(g, x, w, [2], ones, ones, ones, False, [0, 0], 1, three),
        aten.max_pool2d_with_indices_backward(
            x[..., ::2, ::2].contiguous(), x, [2, 2], [2, 2], [0, 0], [1, 1], False, places),
        aten.avg_pool2d_backward(
            x[..., ::2, ::2].contiguous(), x, [2, 2], [2, 2], [0, 0], False, True, None),
        aten._adaptive_avg_pool2d_backward(x[..., :3, :3].contiguous(), x),
        aten.native_layer_norm_backward(made, x, [6], mean, deviation, scale, scale, three),
        aten.native_group_norm_backward(
            made, x, groups[1], groups[2], None, 2, 3, 36, 3, [True, False, False])[0],
        aten.embedding_dense_backward(x[:, :, 0], ids, 4, 3, True),
    )  # fmt: skip


LINES = torch.tensor([[0, 1, 2], [2, 0, 1], [1, 0, 2]])
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "masks": (masks, (draw(4, 5), draw(4, 5) + 0.0)),
    "occurring": (
        occurring,
        (torch.tensor([2, 0, 1, 1]), torch.tensor([[3, 1], [2, 2], [3, 1]]), draw(4, 5)),
    ),
    "counted": (counted, (draw(4, 5), torch.tensor(3))),
    "put": (put, (draw(4, 3), LINES, draw(4, 3)[:3])),
    "ordered": (ordered, (draw(4, 5), torch.tensor([-1.0, 0.0, 0.5]))),
    "factored": (factored, (draw(2, 3, 3), draw(2, 3, 2))),
    "frequencies": (frequencies, (draw(4, 6),)),
    "single": (single, (torch.tensor(2.0),)),
    "grids": (read_between, (draw(1, 2, 4, 5), draw(1, 3, 3, 2))),
    "gradients of the core": (
        core_gradients, (draw(2, 2, 6, 6), draw(2, 3, 6, 6), draw(2, 3, 3, 3), draw(6)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_functions_of_torch_whose_sizes_follow_from_values_give_the_same(name: str) -> None:
    function, args = CASES[name]
    agree(Function(function), args)


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(3, 3)


class Chosen(Step):
    """Rows that a mask chooses twice, and a gradient through them."""

    def forward(self, x: Any) -> Any:
        mask = x[:, 0] > 0
        rows, others = self.line(x)[mask], x[mask]
        torch._check(rows.shape[0] == others.shape[0])
        return (rows * others).sum(0)


class Frozen(Step):
    """Numbers that are computed where torch keeps no gradient."""

    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            scale = self.line(x).tanh()
        return self.line(x) * scale + self.line(x).detach()


@pytest.mark.parametrize("mode", ["compile", "interpret"])
def test_gradients_go_through_rows_that_a_run_chooses(mode: str) -> None:
    sizes = ({0: torch.export.Dim("batch")},)
    agree(Chosen(), (draw(5, 3),), sizes, (draw(8, 3),), mode)


def test_what_torch_keeps_no_gradient_of_has_none() -> None:
    module = Frozen()
    exported = torch.export.export(module, (draw(5, 3),))
    before = str(exported.graph_module.code)
    agree(module, (draw(5, 3),))
    br.from_torch(exported)
    exported.graph_module.recompile()
    assert exported.graph_module.code == before


# ---- constructs ------------------------------------------------------------------------------


class Scanned(Step):
    def forward(self, xs: Any, h: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            after = torch.tanh(self.line(x) + h)
            return after, after * 2

        last, rows = torch._higher_order_ops.scan(step, h, xs)
        return rows, last


class Mapped(Step):
    def forward(self, xs: Any) -> Any:
        return torch._higher_order_ops.map(lambda x: torch.tanh(self.line(x)).sum(-1), xs)


class Associative(Step):
    def forward(self, xs: Any) -> Any:
        joined = torch._higher_order_ops.associative_scan
        return joined(lambda a, b: a * b + a, self.line(xs), 0, combine_mode="generic")


class BySize(Step):
    def forward(self, x: Any) -> Any:
        return torch.cond(
            x.shape[0] > 4, lambda x: self.line(x), lambda x: self.line(x) * 2, (x,)
        )


class Nested(Step):
    def forward(self, x: Any, count: Any) -> Any:
        def body(i: Any, y: Any) -> Any:
            yes, no = (lambda y: self.line(y) - 1), (lambda y: torch.tanh(self.line(y)) + 1)
            return i + 1, torch.cond(y.sum() > 0, yes, no, (y,))

        start = torch.zeros((), dtype=torch.int64)
        loop = torch._higher_order_ops.while_loop
        return loop(lambda i, y: i < count, body, (start, x))[1]

    def by_hand(self, x: Any, count: int) -> Any:
        for _ in range(count):
            x = self.line(x) - 1 if x.sum() > 0 else torch.tanh(self.line(x)) + 1
        return x


@pytest.mark.parametrize("mode", ["compile", "interpret"])
def test_scan_and_map_of_torch_are_loops_with_gradients(mode: str) -> None:
    time, batch = torch.export.Dim("time"), torch.export.Dim("batch")
    sizes = ({0: time, 1: batch}, {0: batch})
    prog = agree(
        Scanned(), (draw(5, 2, 3), draw(2, 3)), sizes, (draw(7, 4, 3), draw(4, 3)), mode
    )
    assert any(op.type == "loop" for op in prog.block(0).ops)
    agree(Mapped(), (draw(5, 2, 3),), ({0: time},), (draw(3, 2, 3),), mode)
    agree(Associative(), (draw(5, 3),), mode=mode)


def test_a_branch_on_a_size_is_taken_by_the_size_of_the_run() -> None:
    agree(BySize(), (draw(6, 3),), ({0: torch.export.Dim("batch")},), (draw(3, 3),))


def test_a_branch_in_a_loop_has_the_gradient_of_the_trips_that_ran() -> None:
    module, x = Nested(), draw(4, 3)
    exported = torch.export.export(module, (x, torch.tensor(3)))
    prog, values = br.from_torch(exported)
    with prog:
        loss = br.mean(br.square(prog.var(prog.fetches[0])))
        grads = br.gradients([loss], [prog.var("line.weight"), prog.var("line.bias")])
    feed = {"x": x.numpy(), "count": np.array(3)}
    found = br.Executor(mode="interpret").run(
        prog, loaded(prog, values), feed=feed, fetch=[prog.fetches[0], *grads]
    )
    wanted = module.by_hand(x, 3)
    close(found[0], wanted.detach())
    wanted.square().mean().backward()
    close(found[1], module.line.weight.grad)
    close(found[2], module.line.bias.grad)


# ---- state, structures and dtypes ------------------------------------------------------------


class Cached(Step):
    """A cache that grows by a row with each call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(2, 4, 3))
        self.register_buffer("at", torch.zeros(1, dtype=torch.int64), persistent=False)

    def forward(self, x: Any) -> Any:
        self.cache.index_copy_(1, self.at, self.line(x)[:, None])
        self.at += 1
        return self.cache.sum(1)


@pytest.mark.parametrize("mode", ["compile", "interpret"])
def test_buffers_that_a_module_writes_are_its_state_from_run_to_run(mode: str) -> None:
    module = Cached()
    prog, values = br.from_torch(torch.export.export(copy.deepcopy(module), (draw(2, 3),)))
    assert set(prog.updates) == {"cache", "at"}
    scope, exe = loaded(prog, values), br.Executor(mode=mode)
    for step in range(3):
        x = draw(2, 3) + step
        found = exe.run(prog, scope, feed={"x": x.numpy()}, fetch=list(prog.fetches))
        close(found[0], module(x).detach())
    close(scope.find_var("cache").value, module.cache.detach())
    assert scope.find_var("at").value.tolist() == [3]


class Structured(nn.Module):
    def forward(self, x: Any, *, scale: Any, flag: Any = None) -> Any:
        states = (x * scale["by"], x + 1)
        return {
            "logits": x.sum(),
            "states": states,
            "none": flag,
            "size": x.shape[0],
            "three": 3,
        }


def test_inputs_by_keyword_and_outputs_in_structures_keep_their_names() -> None:
    module, given = Structured(), {"scale": {"by": torch.tensor(2.0)}, "flag": None}
    sizes = {"x": {0: torch.export.Dim("batch")}, "scale": {"by": None}, "flag": None}
    exported = torch.export.export(module, (draw(4, 3),), given, dynamic_shapes=sizes)
    prog, _ = br.from_torch(exported)
    results = prog.fetches
    assert results == ("logits", "states.0", "states.1", "size", "three")
    feed = dict(zip(prog.feeds, [draw(5, 3).numpy(), np.float32(2.0)], strict=True))
    found = br.Executor(mode="interpret").run(prog, br.Scope(), feed=feed, fetch=list(results))
    for ours, theirs in zip(found, arrays(module(draw(5, 3), **given)), strict=True):
        close(ours, theirs)


@pytest.mark.parametrize("name", ["float64", "float16", "bfloat16"])
def test_modules_of_other_floats_keep_them(name: str) -> None:
    dtype = getattr(torch, name)
    module = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.GELU()).to(dtype)
    x = draw(2, 3).to(dtype)
    prog, values = br.from_torch(torch.export.export(module, (x,)))
    feed = {"input": x.double().numpy().astype(prog.var("input").dtype)}
    (found,) = br.Executor(mode="interpret").run(
        prog, loaded(prog, values), feed=feed, fetch=list(prog.fetches)
    )
    assert found.dtype.name == name
    wanted = module(x).detach().double().numpy()
    near = {"float64": 1e-12, "float16": 4e-3, "bfloat16": 3e-2}[name]
    np.testing.assert_allclose(found.astype("float64"), wanted, rtol=near, atol=near)


def test_errors_name_the_module_in_which_something_stands() -> None:
    class Inner(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.to_sparse()

    module = nn.Sequential(nn.Sequential(nn.ReLU(), Inner()))
    with pytest.raises(br.ProgramError) as caught:
        br.from_torch(torch.export.export(module, (draw(3, 3),)))
    told = str(caught.value)
    assert "in 0.1 (Inner) at" in told
    assert "test_torch_found.py:" in told
    assert "Use dense tensors" in told


def test_a_failure_of_torch_in_a_decomposition_is_told() -> None:
    exported = torch.export.export(nn.Linear(2, 3), (draw(1, 2),))

    def fails(table: Any) -> Any:
        raise RuntimeError("no decomposition\nof sparse tensors")

    exported.run_decompositions = fails
    with pytest.raises(br.ProgramError, match="cannot decompose") as caught:
        br.from_torch(exported)
    assert "RuntimeError: no decomposition" in str(caught.value)
