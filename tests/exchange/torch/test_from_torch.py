"""Modules of PyTorch as programs: outputs, losses, gradients and state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br

torch = pytest.importorskip("torch")
nn = torch.nn

pytestmark = pytest.mark.filterwarnings("ignore")  # torch warns of itself

MODES = ("compile", "interpret")


def exported(module: Any, args: Any, sizes: Any = None) -> Any:
    return torch.export.export(module, args, dynamic_shapes=sizes)


def close(found: Any, wanted: Any, tolerance: float = 2e-5) -> None:
    wanted = wanted.detach().numpy() if isinstance(wanted, torch.Tensor) else wanted
    assert np.shape(found) == np.shape(wanted)
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def loaded(prog: br.Program, values: Any) -> br.Scope:
    scope = br.Scope()
    br.Executor().init(prog, scope, seed=0)
    scope.update(values)
    return scope


def agree(
    module: Any, args: Any, sizes: Any = None, others: Any = None, mode: str = "compile"
) -> br.Program:
    """Hold outputs against torch, for other arguments than those of the export, too."""
    prog, values = br.from_torch(exported(module, args, sizes))
    scope, exe = loaded(prog, values), br.Executor(mode=mode)
    for given in (args, others or args):
        feed = {name: x.numpy() for name, x in zip(prog.feeds, given, strict=True)}
        found = exe.run(prog, scope, feed=feed, fetch=list(prog.fetches))
        wanted = torch.utils._pytree.tree_leaves(module(*given))
        for one_found, one_wanted in zip(found, wanted, strict=True):
            close(one_found, one_wanted)
    return prog


def gradients_agree(
    module: Any, args: Any, sizes: Any = None, mode: str = "compile", tolerance: float = 1e-4
) -> None:
    """Hold the mean square of the first output and its gradients against torch's."""
    program = exported(module, args, sizes)
    prog, values = br.from_torch(program)
    weights = [name for name in values if prog.var(name).info.kind == "parameter"]
    with prog:
        loss = br.mean(br.square(prog.var(prog.fetches[0])))
        grads = br.gradients([loss], [prog.var(name) for name in weights])
    feed = {name: x.numpy() for name, x in zip(prog.feeds, args, strict=True)}
    scope = loaded(prog, values)
    found = br.Executor(mode=mode).run(prog, scope, feed=feed, fetch=[loss, *grads])
    first = torch.utils._pytree.tree_leaves(module(*args))[0]
    wanted = first.square().mean()
    wanted.backward()
    close(found[0], wanted)
    own = dict(module.named_parameters())
    for name, grad in zip(weights, found[1:], strict=True):
        close(grad, own[name.lstrip("_")].grad, tolerance)


BATCH = "batch"


def batch_of(*axes: int) -> Any:
    """A symbolic first axis for each of so many arguments."""
    return tuple({0: torch.export.Dim(BATCH)} for _ in axes)


class Cnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3, padding=1, stride=2)
        self.bn = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 8, 3, groups=2, dilation=2, padding="same")
        self.head = nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        x = nn.functional.relu(self.bn(self.conv1(x)), inplace=True)
        x = nn.functional.max_pool2d(nn.functional.silu(self.conv2(x)), 2)
        x = nn.functional.adaptive_avg_pool2d(x, 1)
        return nn.functional.log_softmax(self.head(torch.flatten(x, 1)), dim=-1)


class Tagger(nn.Module):
    def __init__(self, kind: Any = nn.LSTM) -> None:
        super().__init__()
        self.words = nn.Embedding(11, 4, padding_idx=0)
        self.rnn = kind(4, 5, num_layers=2, bidirectional=True, batch_first=True)
        self.tags = nn.Linear(10, 3)

    def forward(self, ids: Any) -> Any:
        return self.tags(self.rnn(self.words(ids))[0])


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=True)

    def forward(self, x: Any, memory: Any) -> Any:
        mask = nn.Transformer.generate_square_subsequent_mask(5)
        return self.layer(x, memory, tgt_mask=mask, tgt_is_causal=True)


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.yes, self.no = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda x: self.yes(x), lambda x: self.no(x).tanh(), (x,))


class Looping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.step = nn.Linear(3, 3)

    def forward(self, x: Any, count: Any) -> Any:
        def going(i: Any, y: Any) -> Any:
            return i < count

        def body(i: Any, y: Any) -> Any:
            return i + 1, torch.tanh(self.step(y))

        start = torch.zeros((), dtype=torch.int64)
        return torch._higher_order_ops.while_loop(going, body, (start, x))[1]


def mlp() -> Any:
    return nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.LayerNorm(6), nn.Linear(6, 2))


def seeded(make: Any) -> Any:
    torch.manual_seed(0)
    return make()


@pytest.mark.parametrize("mode", MODES)
def test_a_perceptron_with_a_symbolic_batch_is_the_same(mode: str) -> None:
    module = seeded(mlp)
    sizes = batch_of(0)
    prog = agree(module, (torch.randn(3, 4),), sizes, (torch.randn(7, 4),), mode)
    assert str(prog.var(prog.feeds[0]).type) == "f32[batch,4]"
    gradients_agree(module, (torch.randn(3, 4),), sizes, mode)


def test_parameters_are_called_as_the_module_calls_them() -> None:
    prog, values = br.from_torch(exported(Cnn().eval(), (torch.randn(2, 3, 12, 12),)))
    assert list(values) == [name for name, _ in Cnn().named_parameters()] + [
        "bn.running_mean", "bn.running_var", "bn.num_batches_tracked",
    ]  # fmt: skip
    assert prog.var("bn.running_mean").info.kind == "state"
    assert prog.var("conv1.weight").info.kind == "parameter"


@pytest.mark.parametrize("mode", MODES)
def test_a_convolutional_net_in_evaluation_is_the_same(mode: str) -> None:
    module = seeded(Cnn).eval()
    given, others = torch.randn(2, 3, 12, 12), torch.randn(4, 3, 12, 12)
    prog = agree(module, (given,), batch_of(0), (others,), mode)
    assert not prog.updates
    gradients_agree(module, (given,), batch_of(0), mode)


@pytest.mark.parametrize("mode", MODES)
def test_batch_norm_that_trains_moves_its_statistics_as_torch_does(mode: str) -> None:
    module = seeded(Cnn)
    x = torch.randn(4, 3, 12, 12)
    prog, values = br.from_torch(exported(module, (x,), batch_of(0)))
    assert set(prog.updates) == {f"bn.{n}" for n in (
        "running_mean", "running_var", "num_batches_tracked")}  # fmt: skip
    scope, exe = loaded(prog, values), br.Executor(mode=mode)
    for _ in range(2):
        found = exe.run(prog, scope, feed={"x": x.numpy()}, fetch=list(prog.fetches))
        close(found[0], module(x))
    for name, buffer in module.named_buffers():
        close(scope.find_var(name).value, buffer)
    gradients_agree(seeded(Cnn), (x,), batch_of(0), mode)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_taggers_of_both_directions_are_loops(kind: Any) -> None:
    module = seeded(lambda: Tagger(kind))
    ids = torch.tensor([[1, 2, 0, 4, 9, 0], [3, 3, 5, 7, 10, 1]])
    sizes = ({0: torch.export.Dim.AUTO},)
    prog = agree(module, (ids,), sizes, (ids.repeat(2, 1),))
    assert len(prog.find(type="loop")) == 4
    gradients_agree(module, (ids,), sizes)


def test_a_tagger_is_the_same_interpreted() -> None:
    module = seeded(Tagger)
    gradients_agree(module, (torch.tensor([[1, 2, 0], [3, 3, 5]]),), mode="interpret")


@pytest.mark.parametrize("mode", MODES)
def test_a_transformer_encoder_is_the_same(mode: str) -> None:
    def encoder() -> Any:
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    module, x = seeded(encoder), torch.randn(3, 5, 8)
    agree(module, (x,), batch_of(0), (torch.randn(6, 5, 8),), mode)
    gradients_agree(module, (x,), batch_of(0), mode)


def test_a_transformer_decoder_with_a_causal_mask_is_the_same() -> None:
    module = seeded(Decoder)
    args = torch.randn(3, 5, 8), torch.randn(3, 4, 8)
    agree(module, args, batch_of(0, 0))
    gradients_agree(module, args, batch_of(0, 0))


@pytest.mark.parametrize("mode", MODES)
def test_a_branch_of_torch_is_a_switch(mode: str) -> None:
    module = seeded(Branching)
    x = torch.rand(4, 3)
    prog = agree(module, (x,), batch_of(0), (-torch.rand(6, 3),), mode)
    assert any(op.type == "switch" for op in prog.block(0).ops)
    with prog:
        loss = br.mean(br.square(prog.var(prog.fetches[0])))
        grads = br.gradients([loss], [prog.var("yes.weight"), prog.var("no.weight")])
    _, values = br.from_torch(exported(module, (x,), batch_of(0)))
    found = br.Executor(mode=mode).run(
        prog, loaded(prog, values), feed={"x": x.numpy()}, fetch=grads
    )
    module(x).square().mean().backward()
    close(found[0], module.yes.weight.grad)
    close(found[1], np.zeros((3, 3), "float32"))


@pytest.mark.parametrize("mode", MODES)
def test_a_loop_of_torch_is_a_loop_with_a_gradient(mode: str) -> None:
    module = seeded(Looping)
    x, count = torch.randn(4, 3), torch.tensor(3)
    sizes = ({0: torch.export.Dim(BATCH)}, None)
    prog = agree(module, (x, count), sizes, (torch.randn(2, 3), torch.tensor(5)), mode)
    assert any(op.type == "loop" for op in prog.block(0).ops)
    with prog:
        loss = br.mean(br.square(prog.var(prog.fetches[0])))
        grads = br.gradients([loss], [prog.var("step.weight")])
    _, values = br.from_torch(exported(module, (x, count), sizes))
    feed = {"x": x.numpy(), "count": count.numpy()}
    (found,) = br.Executor(mode=mode).run(prog, loaded(prog, values), feed=feed, fetch=grads)
    y = x
    for _ in range(3):
        y = torch.tanh(module.step(y))
    y.square().mean().backward()
    close(found, module.step.weight.grad)


class Giving(nn.Module):
    """What gives several results, in a structure that is said."""

    def __init__(self, structure: Any) -> None:
        super().__init__()
        self.line, self.structure = nn.Linear(3, 2), structure

    def forward(self, x: Any, output_2: Any) -> Any:
        """Three results, of which the last is an input."""
        return self.structure(self.line(x), x + output_2, x)


@pytest.mark.parametrize(
    ("structure", "names"),
    [
        (lambda a, b, c: a, ["output"]),
        (lambda a, b, c: (a, [b, c]), ["output", "output_1", "output_2_0"]),
        (lambda a, b, c: {"logits": a, "states": (b, c)}, ["logits", "states.0", "states.1"]),
        (lambda a, b, c: (b, b), ["output", "output_1"]),
    ],
)
def test_results_are_called_by_their_keys_or_places(structure: Any, names: list[str]) -> None:
    x = torch.ones(2, 3)
    prog = agree(Giving(structure), (x, 2 * x), mode="interpret")
    assert list(prog.fetches) == names
