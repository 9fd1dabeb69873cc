"""Reductions, scans along axes, products and normalisations, losses."""

from __future__ import annotations

import numpy as np

from tests.exchange.onnx.versions.cases import Table, case, code_of, fixed

CUBE = (np.arange(24, dtype="f4") % 7 - 3).reshape(2, 3, 4)
POSITIVE = np.abs(CUBE) + 1
TIES = np.array([[2, 2, 1], [3, 1, 3]], "f4")
A = (np.arange(6, dtype="f4") - 2).reshape(2, 3)
B = (np.arange(12, dtype="f4") % 5 - 1).reshape(3, 4)
C = np.array([1.0, -2.0, 0.5, 3.0], "f4")
IMAGE = (np.arange(24, dtype="f4") % 7 - 3).reshape(2, 3, 2, 2)
FOUR = np.concatenate([IMAGE, -IMAGE[:, :1]], 1)
SCALE, SHIFT = np.array([1.0, 2.0, 0.5], "f4"), np.array([0.5, -1.0, 0.0], "f4")
MEAN, VARIANCE = np.array([0.25, -0.5, 1.0], "f4"), np.array([1.5, 0.5, 2.0], "f4")
EACH = (3, 2, 2)
SIGNAL = CUBE.reshape(1, 24, 1)
TARGET = np.array([2, 0], "i8")
WEIGHT = np.array([0.5, 1.0, 2.0], "f4")
DEEP_TARGET = np.array([[0, 2, 1, 0], [1, 1, 0, 2]], "i8")

REDUCTIONS = (
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
    "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare",
)  # fmt: skip


def reductions(op_type: str) -> tuple:
    """Axes as an attribute, and as an input."""
    x = POSITIVE if "Log" in op_type else CUBE
    since = 13 if op_type == "ReduceSum" else 18
    return (
        case(x),
        case(x, keepdims=0),
        case(x, axes=[1], until=since - 1),
        case(x, axes=[0, 2], keepdims=0, until=since - 1),
        case(x, axes=[-2], since=11, until=since - 1),
        case(x, fixed([1]), since=since),
        case(x, fixed([-1, 0]), keepdims=0, since=since),
        case(x, fixed([]), since=since),
        case(x, fixed([]), noop_with_empty_axes=1, since=since),
        case(x, noop_with_empty_axes=1, since=since),
        case(x[0, 0, 0]),
    )


def best(first: int) -> tuple:
    """Where the largest or smallest number is."""
    return (
        case(TIES),
        case(TIES, axis=1),
        case(TIES, axis=1, keepdims=0),
        case(TIES, axis=-1, since=11),
        case(TIES, axis=1, select_last_index=1, since=first),
    )


def soft() -> tuple:
    """Along an axis, or all axes from one on."""
    return (
        case(CUBE),
        case(CUBE, axis=1),
        case(CUBE, axis=2),
        case(CUBE, axis=0),
        case(CUBE, axis=-1, since=11),
        case(CUBE, axis=-2, since=11),
    )


def trained(
    x: np.ndarray, scale: np.ndarray, shift: np.ndarray, mean: np.ndarray, variance: np.ndarray
) -> list[np.ndarray]:
    """The normalisation of a batch by its own mean and variance, and what becomes of them."""
    mean_, variance_ = x.mean((0, 2, 3)), x.var((0, 2, 3))
    column = (slice(None), None, None)
    y = (x - mean_[column]) / np.sqrt(variance_[column] + 1e-5)
    y = y * scale[column] + shift[column]
    moved = mean * 0.9 + mean_ * 0.1, variance * 0.9 + variance_ * 0.1
    return [y, *moved, mean_, variance_]


def first_trained(*given: np.ndarray) -> list[np.ndarray]:
    """The same without the mean and variance of the batch."""
    return trained(*given)[:3]


def losses(op_type: str) -> tuple:
    """Of classes by their numbers."""
    x = np.log(POSITIVE / POSITIVE.sum(1, keepdims=True))
    more = (
        (case(A, TARGET, outputs=2), case(x, DEEP_TARGET, WEIGHT, outputs=2, reduction="none"))
        if op_type == "SoftmaxCrossEntropyLoss"
        else ()
    )
    return (
        case(A, TARGET),
        case(A, TARGET, WEIGHT),
        case(A, TARGET.astype("i4"), reduction="sum"),
        case(x, DEEP_TARGET, reduction="none"),
        case(x, DEEP_TARGET, WEIGHT, ignore_index=1),
        case(x, DEEP_TARGET, ignore_index=0, reduction="sum"),
        *more,
    )


TABLE: Table = {
    **{name: reductions(name) for name in REDUCTIONS},
    **{name: soft() for name in ("Hardmax", "LogSoftmax", "Softmax")},
    "ArgMax": best(12),
    "ArgMin": best(12),
    "BatchNormalization": (
        case(IMAGE, SCALE, SHIFT, MEAN, VARIANCE),
        case(IMAGE, SCALE, SHIFT, MEAN, VARIANCE, epsilon=0.1, momentum=0.5),
        case(
            IMAGE, *(np.arange(12, dtype="f4").reshape(EACH) / n + 0.5 for n in (3, 4, 5, 6)),
            spatial=0, until=7,
        ),
        case(IMAGE, SCALE, SHIFT, MEAN, VARIANCE, spatial=1, until=7),
        case(A, SCALE, SHIFT, MEAN, VARIANCE),
        case(IMAGE, SCALE, SHIFT, MEAN, VARIANCE, outputs=5, until=9, want=trained),
        case(
            IMAGE, SCALE, SHIFT, MEAN, VARIANCE, outputs=3, training_mode=1, since=14,
            want=first_trained,
        ),
        case(IMAGE, SCALE, SHIFT, MEAN, VARIANCE, training_mode=1, since=14),
    ),
    "CumProd": (
        case(POSITIVE, fixed(1)),
        case(POSITIVE, fixed(-1), exclusive=1),
        case(POSITIVE, fixed(0), reverse=1),
        case(POSITIVE, fixed(2), reverse=1, exclusive=1),
    ),
    "CumSum": (
        case(CUBE, fixed(1)),
        case(CUBE, fixed(-1, "i4"), exclusive=1),
        case(CUBE, fixed(0), reverse=1),
        case(CUBE, fixed(2), reverse=1, exclusive=1),
    ),
    "Det": (case(np.array([[1.0, 2.0], [3.0, -4.0]], "f4")), case(np.stack([B[:, :3]] * 2))),
    "Einsum": (case(A, B, equation="ij,jk->ik"), case(CUBE, equation="...ij->...j")),
    "Gemm": (
        case(A, B, C),
        case(A.T.copy(), B.T.copy(), C, transA=1, transB=1),
        case(A, B, np.float32(2).reshape(1, 1), alpha=0.5, beta=2.0),
        case(A, B, np.array([[1.0], [2.0]], "f4"), beta=0.5),
        case(A, B, since=11),
    ),
    "GroupNormalization": (
        case(FOUR, np.array([2, 3], "f4"), np.array([1, 2], "f4"), num_groups=2, until=18),
        case(FOUR, *np.arange(8, dtype="f4").reshape(2, 4), num_groups=2, since=21),
        case(IMAGE, SCALE, SHIFT, num_groups=3, epsilon=0.1, since=21),
        case(IMAGE, SCALE, SHIFT, num_groups=3, stash_type=1, since=21),
        case(IMAGE, SCALE[:1], SHIFT[:1], num_groups=1, epsilon=0.1, until=18),
    ),
    "InstanceNormalization": (
        case(IMAGE, SCALE, SHIFT),
        case(IMAGE, SCALE, SHIFT, epsilon=0.1),
    ),
    "LRN": (
        case(IMAGE, size=3),
        case(IMAGE, size=3, alpha=0.1, beta=0.5, bias=2.0),
    ),
    "LayerNormalization": (
        case(CUBE, C, C + 1),
        case(CUBE, C),
        case(CUBE, B, axis=1, epsilon=0.1),
        case(CUBE, C, C, outputs=3, stash_type=1),
    ),
    "LpNormalization": (case(CUBE), case(CUBE, axis=1, p=1), case(CUBE, axis=0, p=2)),
    "MatMul": (
        case(A, B),
        case(A, B[:, 0].copy()),
        case(CUBE, B.T.copy()),
        case(A[0], B),
    ),
    "MeanVarianceNormalization": (case(IMAGE), case(IMAGE, axes=[1]), case(CUBE, axes=[0, 2])),
    "NegativeLogLikelihoodLoss": losses("NegativeLogLikelihoodLoss"),
    "RMSNormalization": (
        case(CUBE.astype("f2"), C.astype("f2"), typed=False),
        case(CUBE, C),
        case(CUBE, B, axis=1, epsilon=0.1),
        case(CUBE, C, stash_type=1),
    ),
    "SoftmaxCrossEntropyLoss": losses("SoftmaxCrossEntropyLoss"),
    "DFT": (
        case(CUBE[..., None], until=17),
        case(CUBE[..., None], axis=2, until=17),
        case(CUBE[..., None], fixed(5), axis=1, onesided=1, until=17),
        case(np.stack([CUBE, -CUBE], -1), axis=2, inverse=1, until=17),
        case(CUBE[..., None], since=20),
        case(CUBE[..., None], None, fixed(1), since=20),
        case(CUBE[..., None], fixed(5), fixed(2), onesided=1, since=20),
        case(np.stack([CUBE, -CUBE], -1), None, fixed(-2), inverse=1, since=20),
    ),
    "STFT": (
        case(SIGNAL, fixed(4), fixed(np.hanning(8), "f4")),
        case(SIGNAL, fixed(4), None, fixed(8)),
        case(SIGNAL, fixed(4), fixed(np.hanning(8), "f4"), fixed(8), onesided=0),
    ),
    "MelWeightMatrix": (
        case(fixed(4), fixed(16), fixed(8192), fixed(0.0, "f4"), fixed(4096.0, "f4")),
        case(
            fixed(4), fixed(16), fixed(8192), fixed(0.0, "f4"), fixed(4096.0, "f4"),
            output_datatype=code_of("f8"),
        ),
    ),
    **{
        f"{name}Window": (
            case(fixed(9)),
            case(fixed(9), periodic=0),
            case(fixed(9, "i4"), output_datatype=code_of("f8")),
        )
        for name in ("Blackman", "Hamming", "Hann")
    },
    "TfIdfVectorizer": (
        case(
            np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]], "i4"), mode="TF",
            min_gram_length=2, max_gram_length=2, max_skip_count=0, ngram_counts=[0, 4],
            ngram_indexes=[0, 1, 2, 3, 4, 5, 6], pool_int64s=[2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
        ),
        case(
            np.array([1, 1, 3, 3, 3, 7, 8, 6], "i8"), mode="TFIDF",
            min_gram_length=1, max_gram_length=2, max_skip_count=1, ngram_counts=[0, 4],
            ngram_indexes=[0, 1, 2, 3, 4, 5, 6], pool_int64s=[2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
            weights=[0.5, 1.0, 2.0, 1.0, 3.0, 1.0, 0.5],
        ),
    ),
}  # fmt: skip
