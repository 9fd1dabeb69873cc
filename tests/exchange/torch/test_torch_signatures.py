"""Arguments of PyTorch's operators: keywords, scalars, empty arrays and tensors as numbers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.exchange.torch.reader import LAYOUT_ARGUMENTS, rule_of

torch = pytest.importorskip("torch")
F = torch.nn.functional

pytestmark = pytest.mark.filterwarnings("ignore")  # torch warns of itself


class Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def read(function: Callable[..., Any], *args: Any) -> tuple[br.Program, Any]:
    prog, _ = br.from_torch(torch.export.export(Function(function), args))
    return prog, {name: x.numpy() for name, x in zip(prog.feeds, args, strict=True)}


# ---- keywords --------------------------------------------------------------------------------


def schemas() -> Iterator[tuple[str, Any]]:
    """The operators of tensors that have a rule and return their results."""
    for schema in torch._C._jit_get_all_schemas():
        name = f"{schema.name.removeprefix('aten::')}.{schema.overload_name or 'default'}"
        kinds = [str(one.type) for one in (*schema.arguments, *schema.returns)]
        writes = any(argument.is_out for argument in schema.arguments)
        of_tensors = any("Tensor" in kind for kind in kinds) and not writes
        if of_tensors and schema.name.startswith("aten::") and rule_of(name):
            yield name, schema


def test_rules_accept_every_keyword_of_their_operators() -> None:
    missing, seen = list[str](), 0
    for name, schema in schemas():
        parameters = inspect.signature(rule_of(name)).parameters
        if any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
            continue
        seen += 1
        missing += [
            f"{name}: {argument.name}"
            for argument in schema.arguments
            if argument.kwarg_only
            and argument.name not in LAYOUT_ARGUMENTS
            and argument.name not in parameters
        ]
    assert not missing
    assert seen > 400


# ---- values ----------------------------------------------------------------------------------


def draw(*shape: int) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


INTEGERS = torch.zeros(2, 0, dtype=torch.int64)
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "variances with kept axes": (
        lambda x: (*torch.var_mean(x, 1, keepdim=True), torch.std(x, (0, 1), keepdim=True),
                   torch.var(x, 0, keepdim=True, correction=0), torch.std(x, 1),
                   *torch.std_mean(x, 0, unbiased=False, keepdim=True)),
        (draw(3, 4),),
    ),
    "ranges between tensors": (
        lambda a, b: (torch.linspace(a, b, 5), torch.linspace(a, 3, 1),
                      torch.linspace(2.0, b, 2), torch.linspace(a, b, 0),
                      torch.linspace(a, b, 7, dtype=torch.int64), torch.logspace(a, b, 4),
                      torch.linspace(a, b, 4, dtype=torch.complex64)),
        (torch.tensor(-2.5), torch.tensor(1.7)),
    ),
    "ranges of integers": (
        lambda x: (torch.linspace(-7, 9, 5, dtype=torch.int64) + x,
                   torch.linspace(0.7, 5.9, 4, dtype=torch.int32),
                   torch.linspace(-9.5, 3.5, 6, dtype=torch.int32)),
        (torch.tensor(1),),
    ),
    "masks of scalars": (
        lambda x, m: (torch.masked_select(x, m), torch.masked_select(x, ~m),
                      *torch.nonzero(m, as_tuple=True)),
        (draw(), torch.tensor(True)),
    ),
    "norms of scalars": (
        lambda x: (F.normalize(x, dim=0), torch.linalg.vector_norm(x, 3, dim=-1)),
        (draw(),),
    ),
    "no indices": (
        lambda x, at: (torch.gather(x, 0, at), torch.scatter(x, 0, at[0], x[:0]),
                       torch.scatter_add(x, 0, at[0], x[:0])),
        (draw(5), INTEGERS),
    ),
    "indices that broadcast": (
        lambda x, at, flat: (torch.take_along_dim(x, at, 1), torch.take_along_dim(x, flat),
                             torch.take_along_dim(x[:, :1], at, 0),
                             torch.take_along_dim(at, at[:1], 1)),
        (draw(3, 4), torch.tensor([[0, 2, 1, 2]]), torch.tensor([[0, 11], [5, 3]])),
    ),
    "complex activations": (F.silu, (torch.complex(draw(3), draw(3).flip(0)),)),
    "complex numbers": (
        lambda x, y: (torch.vdot(x, y), torch.linalg.vector_norm(x, 3), torch.sgn(x),
                      torch.var(x), torch.std(x, 0, correction=0), *torch.var_mean(x),
                      torch.exp2(x), torch.lerp(x, y, x), torch.lerp(x, y, 0.75j),
                      torch.logsumexp(x[0] * 9, 0), F.l1_loss(x, y), torch.dist(x, y)),
        (torch.complex(draw(3), draw(3).flip(0)), torch.complex(draw(3) * 2, draw(3) + 1)),
    ),
    "scaled terms": (
        lambda x: (torch.add(x, 2, alpha=3), torch.sub(x, 2, alpha=3),
                   torch.rsub(x, 2, alpha=3)),
        (draw(3),),
    ),
    "stable order": (
        lambda x: (torch.argsort(x, stable=True, dim=0, descending=True),
                   torch.argsort(x.round(), stable=True)),
        (draw(4, 6),),
    ),
    "Airy functions": (
        lambda x: torch.special.airy_ai(x * 12),
        (torch.cat([torch.linspace(-4, 10, 97, dtype=torch.float64),
                    torch.tensor([torch.inf, -torch.inf, torch.nan])]),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_torch(name: str) -> None:
    function, args = CASES[name]
    prog, feed = read(function, *args)
    wanted = torch.utils._pytree.tree_leaves(function(*args))
    for mode in ("interpret", "compile"):
        exe = br.Executor(mode=mode)
        found = exe.run(prog, br.Scope(), feed=feed, fetch=list(prog.fetches))
        for ours, theirs in zip(found, wanted, strict=True):
            array = theirs.resolve_conj().numpy()
            assert (ours.dtype, ours.shape) == (array.dtype, array.shape)
            close = 1e-6 if array.dtype.itemsize == 4 else 1e-12
            np.testing.assert_allclose(ours, array, rtol=close, atol=close)


def test_functions_of_complex_numbers_have_the_gradients_of_torch() -> None:
    def function(x: Any, y: Any) -> Any:
        size = torch.linalg.vector_norm(x) + torch.std(y) + F.l1_loss(x, y)
        terms = torch.sgn(x) + torch.vdot(x, y) + torch.lerp(x, y, 0.75j)
        return size + (terms.abs() ** 2).sum() + (x[:3] ** y[:3]).abs().sum()

    zero = torch.zeros(1, dtype=torch.complex128)
    x = torch.cat([torch.complex(draw(3), draw(3).flip(0)), zero])
    y = torch.cat([torch.complex(draw(3) / 2, draw(3) + 1), zero + 1])
    prog, feed = read(function, x, y)
    with prog:
        found = br.gradients([prog.var(prog.fetches[0])], [prog.var(n) for n in prog.feeds])
    tracked = [x.clone().requires_grad_(), y.clone().requires_grad_()]
    wanted = torch.autograd.grad(function(*tracked), tracked)
    for ours, theirs in zip(
        br.Executor().run(prog, br.Scope(), feed=feed, fetch=found), wanted, strict=True
    ):
        np.testing.assert_allclose(
            ours, theirs.conj().resolve_conj().numpy(), rtol=1e-10, atol=1e-10
        )


def test_complex_draws_have_the_moments_of_torch() -> None:
    def function(x: Any) -> Any:
        return torch.randn(20_000, dtype=x.dtype), x.new_empty(20_000).uniform_(-1, 3)

    prog, feed = read(function, torch.zeros(1, dtype=torch.complex64))
    scope = br.Executor().init(prog, br.Scope(), seed=0)
    normal, uniform = br.Executor().run(prog, scope, feed=feed, fetch=list(prog.fetches))
    for part in (normal.real, normal.imag):
        np.testing.assert_allclose([part.mean(), part.var()], [0, 0.5], atol=0.03)
    for part in (uniform.real, uniform.imag):
        np.testing.assert_allclose([part.mean(), part.var()], [1, 16 / 12], atol=0.06)


def test_strided_writes_have_the_slope_of_their_values() -> None:
    """PyTorch's own gradient is not; its tests expect a failure of it."""

    def written(x: Any, source: Any) -> Any:
        return torch.as_strided_scatter(x * 2, source, (2, 2), (1, 2), storage_offset=1)

    x, source, weights = draw(3, 3), draw(2, 2), draw(3, 3).T.contiguous()
    prog, feed = read(written, x, source)
    with prog:
        total = br.sum(prog.var(prog.fetches[0]) * weights.numpy())
        grads = br.gradients([total], [prog.var(name) for name in prog.feeds])
    found = br.Executor().run(prog, br.Scope(), feed=feed, fetch=grads)
    for at, given in enumerate((x, source)):
        for place in np.ndindex(*given.shape):
            ends = list[float]()
            for step in (0.5, -0.5):
                moved = [x.clone(), source.clone()]
                moved[at][place] += step
                ends.append(float((written(*moved) * weights).sum()))
            np.testing.assert_allclose(found[at][place], ends[0] - ends[1], atol=1e-10)
