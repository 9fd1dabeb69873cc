"""The modules of torch.nn, read without decomposition: values and gradients of parameters.

Modules of one kind are exported together, so that there is one program for each kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br

torch = pytest.importorskip("torch")
nn = torch.nn

pytestmark = pytest.mark.filterwarnings("ignore")  # torch warns of itself

Cases = list[tuple[Any, tuple[Any, ...]]]


class Several(nn.Module):
    """Modules beside each other, each with arguments of its own."""

    def __init__(self, cases: Cases) -> None:
        super().__init__()
        self.parts = nn.ModuleList(module for module, _ in cases)
        self.counts = [len(args) for _, args in cases]

    def forward(self, *args: Any) -> Any:
        made, left = [], iter(args)
        for part, count in zip(self.parts, self.counts, strict=True):
            made.append(part(*(next(left) for _ in range(count))))
        return made


def draw(*shape: int) -> Any:
    return torch.randn(*shape)


def whole(bound: int, *shape: int) -> Any:
    return torch.randint(0, bound, shape)


PLANES = {1: (2, 4, 9), 2: (2, 4, 8, 7), 3: (2, 4, 6, 5, 6)}


def of_rank(name: str, rank: int) -> Callable[..., Any]:
    return getattr(nn, f"{name}{rank}d")


def activations() -> Cases:
    names = (
        "ELU Hardshrink Hardsigmoid Hardtanh Hardswish LeakyReLU LogSigmoid PReLU ReLU ReLU6 "
        "SELU CELU GELU Sigmoid SiLU Mish Softplus Softshrink Softsign Tanh Tanhshrink GLU "
        "Identity"
    )
    made = [(getattr(nn, name)(), (draw(3, 6),)) for name in names.split()]
    along = [
        (getattr(nn, name)(dim=1), (draw(3, 6),))
        for name in ("Softmin", "Softmax", "LogSoftmax")
    ]
    return [
        *made,
        *along,
        (nn.Threshold(0.1, 2.0), (draw(3, 6),)),
        (nn.Softmax2d(), (draw(2, 3, 4, 5),)),
        (nn.GELU("tanh"), (draw(3, 6),)),
        (nn.PReLU(4), (draw(2, 4, 3),)),
        (nn.RReLU().eval(), (draw(3, 6),)),
    ]


def norms() -> Cases:
    made: Cases = [
        (nn.LayerNorm(6), (draw(3, 6),)),
        (nn.LayerNorm((8, 7), elementwise_affine=False), (draw(*PLANES[2]),)),
        (nn.GroupNorm(2, 4), (draw(*PLANES[2]),)),
        (nn.RMSNorm(6), (draw(3, 6),)),
        (nn.LocalResponseNorm(3), (draw(*PLANES[2]),)),
        (nn.LocalResponseNorm(2), (draw(*PLANES[1]),)),
    ]
    for rank, shape in PLANES.items():
        for name in ("BatchNorm", "InstanceNorm"):
            for training, tracked in ((True, True), (False, True), (True, False)):
                module = of_rank(name, rank)(4, affine=True, track_running_stats=tracked)
                made.append((module.train(training), (draw(*shape),)))
    return made


def convolutions() -> Cases:
    made: Cases = []
    for rank, shape in PLANES.items():
        conv, back = of_rank("Conv", rank), of_rank("ConvTranspose", rank)
        made += [
            (
                conv(4, 6, 3, stride=2, padding=1, groups=2, padding_mode="circular"),
                (draw(*shape),),
            ),
            (
                conv(4, 6, 3, padding="same", dilation=2, padding_mode="reflect"),
                (draw(*shape),),
            ),
            (back(4, 6, 3, 2, 1, 1, groups=2, dilation=2), (draw(*shape),)),
        ]
    return made


def pools() -> Cases:
    made: Cases = []
    for rank, shape in PLANES.items():
        x = draw(*shape)
        values, places = of_rank("MaxPool", rank)(2, return_indices=True)(
            draw(2, 4, *[6] * rank)
        )
        made += [
            (of_rank("MaxPool", rank)(3, 2, 1, ceil_mode=True), (x,)),
            (of_rank("MaxPool", rank)(2, return_indices=True), (x,)),
            (of_rank("MaxUnpool", rank)(2), (values, places)),
            (of_rank("AvgPool", rank)(3, 2, 1, ceil_mode=True, count_include_pad=False), (x,)),
            (of_rank("LPPool", rank)(2, 3, 2), (x.abs(),)),
            (of_rank("AdaptiveAvgPool", rank)(4), (x,)),
            (of_rank("AdaptiveMaxPool", rank)(4, return_indices=True), (x,)),
        ]
        if rank > 1:
            sums = of_rank("AvgPool", rank)(3, 2, 1, ceil_mode=True, divisor_override=5)
            made.append((sums, (x,)))
    return made


def margins() -> Cases:
    names = ("ReflectionPad", "ReplicationPad", "ZeroPad", "CircularPad")
    made: Cases = [
        (of_rank(name, rank)(2), (draw(*shape),))
        for rank, shape in PLANES.items()
        for name in names
    ]
    return [
        *made,
        *((of_rank("ConstantPad", r)(1, 3.5), (draw(*s),)) for r, s in PLANES.items()),
    ]


def images() -> Cases:
    modes = {1: "linear", 2: "bilinear", 3: "trilinear"}
    made: Cases = []
    for rank, shape in PLANES.items():
        for options in (
            {"scale_factor": 2, "mode": modes[rank]},
            {"scale_factor": 1.5, "mode": "nearest"},
            {"size": (11,) * rank, "mode": "nearest-exact"},
        ):
            made.append((nn.Upsample(**options), (draw(*shape),)))
    for options in (
        {"size": (11, 5), "mode": "bicubic"},
        {"scale_factor": 1.7, "mode": "bicubic", "align_corners": True},
        {"size": (4, 3), "mode": "area"},
    ):
        made.append((nn.Upsample(**options), (draw(*PLANES[2]),)))
    return [
        *made,
        (nn.UpsamplingBilinear2d(scale_factor=2), (draw(*PLANES[2]),)),
        (nn.PixelShuffle(2), (draw(2, 4, 6, 8),)),
        (nn.PixelUnshuffle(2), (draw(2, 4, 6, 8),)),
        (nn.ChannelShuffle(2), (draw(*PLANES[2]),)),
        (nn.Unfold((2, 3), padding=1, stride=2), (draw(2, 3, 5, 6),)),
        (nn.Fold((5, 6), (2, 3), padding=1, stride=2), (draw(2, 18, 9),)),
    ]


def tables() -> Cases:
    made: Cases = [
        (nn.Embedding(7, 4, padding_idx=1), (whole(7, 3, 2),)),
        (nn.Embedding(7, 4, scale_grad_by_freq=True), (whole(3, 3, 2),)),
        (nn.Bilinear(6, 5, 3), (draw(3, 6), draw(3, 5))),
        (nn.CosineSimilarity(dim=1), (draw(3, 6), draw(3, 6))),
        (nn.PairwiseDistance(p=1.0), (draw(3, 6), draw(3, 6))),
        (nn.Flatten(), (draw(2, 3, 4),)),
        (nn.Unflatten(1, (2, 3)), (draw(3, 6),)),
        (nn.utils.parametrizations.weight_norm(nn.Linear(6, 3)), (draw(3, 6),)),
    ]
    for mode in ("sum", "mean", "max"):
        starts = torch.tensor([0, 3, 3])
        made.append((nn.EmbeddingBag(7, 4, mode=mode), (whole(7, 3, 5),)))
        made.append((nn.EmbeddingBag(7, 4, mode=mode, padding_idx=2), (whole(7, 7), starts)))
    return made


def recurrent() -> Cases:
    made: Cases = []
    for name in ("RNN", "LSTM", "GRU"):
        layer = getattr(nn, name)
        made += [
            (layer(4, 5, 2, bidirectional=True), (draw(6, 2, 4),)),
            (layer(4, 5, bias=False, batch_first=True), (draw(2, 6, 4),)),
            (layer(4, 5), (draw(6, 4),)),
            (getattr(nn, f"{name}Cell")(4, 5), (draw(2, 4),)),
        ]
    projected = nn.LSTM(4, 5, 2, proj_size=3, bidirectional=True)
    return [
        *made,
        (projected, (draw(6, 2, 4),)),
        (nn.RNN(4, 5, nonlinearity="relu"), (draw(6, 2, 4),)),
    ]


class Masked(nn.MultiheadAttention):
    def forward(self, q: Any, k: Any, v: Any, mask: Any) -> Any:
        return super().forward(q, k, v, key_padding_mask=mask)


def attention() -> Cases:
    hidden = torch.tensor([[False] * 3 + [True], [False] * 4])
    given = draw(2, 3, 8), draw(2, 4, 8), draw(2, 4, 8), hidden
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True)
    return [
        (Masked(8, 2, batch_first=True), given),
        (Masked(8, 2, batch_first=True, add_bias_kv=True, add_zero_attn=True), given),
        (Masked(8, 2, batch_first=True, kdim=5, vdim=6),
         (given[0], draw(2, 4, 5), draw(2, 4, 6), hidden)),
        (nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True), given[:2]),
        (nn.TransformerEncoder(layer, 2).eval(), given[:1]),
    ]  # fmt: skip


def losses() -> Cases:
    a, b, ids = draw(4, 5).requires_grad_(), draw(4, 5), whole(5, 4)
    given = {
        "L1": (a, b), "MSE": (a, b), "CrossEntropy": (a, ids), "NLL": (a, ids),
        "PoissonNLL": (a, b.abs()), "KLDiv": (a.log_softmax(1), b.softmax(1)),
        "BCE": (a.sigmoid(), b.sigmoid()), "BCEWithLogits": (a, b.sigmoid()), "Huber": (a, b),
        "SmoothL1": (a, b), "SoftMargin": (a, b.sign()), "HingeEmbedding": (a, b.sign()),
        "MultiLabelMargin": (a, torch.tensor([[3, 0, -1, 1, 2]] * 4)),
        "MultiLabelSoftMargin": (a, (b > 0).float()), "MultiMargin": (a, ids),
    }  # fmt: skip
    made: Cases = [
        (getattr(nn, f"{name}Loss")(reduction=reduction), args)
        for name, args in given.items()
        for reduction in ("mean", "sum", "none")
    ]
    near = nn.TripletMarginWithDistanceLoss(distance_function=nn.PairwiseDistance(), swap=True)
    weighted = nn.CrossEntropyLoss(b[0].abs(), label_smoothing=0.1, ignore_index=1)
    planes = draw(2, 4, 3, 3).log_softmax(1), whole(4, 2, 3, 3)
    return [
        *made,
        (nn.MarginRankingLoss(0.1), (a[:, 0], b[:, 0], b[:, 1].sign())),
        (nn.CosineEmbeddingLoss(), (a, b, b[:, 1].sign())),
        (nn.TripletMarginLoss(), (a, b, draw(4, 5))),
        (near, (a, b, draw(4, 5))),
        (weighted, (a, ids)),
        (nn.NLLLoss(draw(4).abs(), ignore_index=1), planes),
    ]


KINDS = (
    activations, norms, convolutions, pools, margins, images, tables, recurrent, attention,
    losses,
)  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_modules_of_torch_give_the_same_values_and_gradients(kind: Callable[[], Cases]) -> None:
    torch.manual_seed(0)
    cases = kind()
    module = Several(cases)
    args = tuple(arg.detach() for _, given in cases for arg in given)
    prog, values = br.from_torch(torch.export.export(module, args))
    weights = [name for name in values if prog.var(name).info.kind == "parameter"]
    with prog:
        given = [prog.var(name) for name in prog.fetches]
        floats = [one for one in given if one.dtype.kind == "f"]
        loss = sum(br.mean(br.square(one)) for one in floats)
        grads = br.gradients([loss], [prog.var(name) for name in weights]) if weights else []
    scope, exe = br.Scope(), br.Executor(mode="interpret")
    exe.init(prog, scope, seed=0)
    scope.update(values)
    feed = {name: arg.numpy() for name, arg in zip(prog.feeds, args, strict=True)}
    found = exe.run(prog, scope, feed=feed, fetch=[*prog.fetches, *grads])
    wanted = torch.utils._pytree.tree_leaves(module(*args))
    for at, theirs in enumerate(wanted):
        close(found[at], theirs, f"output {at}")
    if weights:
        sum(one.square().mean() for one in wanted if one.is_floating_point()).backward()
    own = dict(module.named_parameters())
    for name, grad in zip(weights, found[len(wanted) :], strict=True):
        close(grad, own[name].grad, name, 2e-4)
    for name, buffer in module.named_buffers():  # torch has run once now, too
        close(scope.find_var(name).value, buffer, name)


def close(found: Any, wanted: Any, what: str, tolerance: float = 5e-5) -> None:
    wanted = wanted.detach().numpy()
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance, err_msg=what)


def test_modules_that_drop_numbers_draw_as_often_as_torch_says() -> None:
    torch.manual_seed(0)
    names = (
        "Dropout",
        "Dropout1d",
        "Dropout2d",
        "Dropout3d",
        "AlphaDropout",
        "FeatureAlphaDropout",
    )
    shapes = [(40, 50), (40, 50, 3), (40, 50, 3, 3), (40, 50, 3, 3, 3), (40, 50), (40, 50, 3)]
    cases: Cases = [
        (getattr(nn, n)(0.3), (torch.ones(s),)) for n, s in zip(names, shapes, strict=True)
    ]
    cases.append((nn.RReLU(), (-torch.ones(40, 50),)))
    cases.append((nn.FractionalMaxPool2d(2, output_size=3), (draw(2, 3, 7, 8),)))
    cases.append((nn.FractionalMaxPool3d(2, output_size=3), (draw(2, 3, 7, 8, 6),)))
    args = tuple(arg for _, given in cases for arg in given)
    prog, values = br.from_torch(torch.export.export(Several(cases), args))
    scope, exe = br.Scope(), br.Executor(mode="interpret")
    exe.init(prog, scope, seed=0)
    feed = {name: arg.numpy() for name, arg in zip(prog.feeds, args, strict=True)}
    found = exe.run(prog, scope, feed=feed, fetch=list(prog.fetches))
    assert not values
    for dropped in found[:4]:
        kept = dropped != 0
        np.testing.assert_allclose(dropped[kept], 1 / 0.7, rtol=1e-5)
        assert 0.6 < kept.mean() < 0.8
    for planes in found[1:4]:  # whole channels
        assert np.ptp(planes.reshape(40, 50, -1), axis=-1).max() == 0
    for changed in found[4:6]:
        assert len(np.unique(changed.round(4))) == 2
    assert -1 / 3 < found[6].min() < found[6].max() < -1 / 8
    for pooled, (_, (x,)) in zip(found[7:], cases[7:], strict=True):
        assert np.isin(pooled, x.numpy()).all()
        corner = tuple(slice(-2, None) for _ in x.shape[2:])
        last = (..., *(-1 for _ in x.shape[2:]))
        np.testing.assert_array_equal(
            pooled[last], x.numpy()[(..., *corner)].reshape(2, 3, -1).max(-1)
        )
