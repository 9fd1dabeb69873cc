"""Operators that give arrays other shapes, take parts of them, and put parts to places."""

from __future__ import annotations

import numpy as np
from onnx import helper

from tests.exchange.onnx.versions.cases import Table, case, code_of, fixed, text

X = np.array([[-2.0, 0.5, 3.0], [1.0, -1.0, 2.5]], "f4")
CUBE = (np.arange(24, dtype="f4") % 7 - 3).reshape(2, 3, 4)
ONES = CUBE.reshape(1, 2, 1, 12)
PLANE = (np.arange(32, dtype="f4") % 5 - 2).reshape(1, 8, 2, 2)
INDICES = np.array([[0, 1], [1, 0]], "i8")
BOXES = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 10, 1, 11], [0, 10.1, 1, 11.1]]], "f4")
SCORES = np.array([[[0.9, 0.75, 0.6, 0.95], [0.1, 0.8, 0.2, 0.3]]], "f4")
MIDDLES = np.array(
    [[[0.5, 0.5, 1, 1], [0.5, 0.6, 1, 1], [0.5, 10.5, 1, 1], [5, 5, 1, 1]]], "f4"
)


def scatters(op_type: str) -> tuple:
    """Updates at places, along an axis."""
    updates = np.array([[1.5, 2.5, 3.5]], "f4")
    places = np.array([[1, 0, 1]], "i8")
    reductions = [
        case(X, places, updates, reduction=word, since=since)
        for since, words in ((16, ("add", "mul", "none")), (18, ("max", "min")))
        for word in words
    ]
    return (
        case(X, places, updates),
        case(X, np.array([[2, 0]], "i4"), updates[:, :2].copy(), axis=1),
        case(X, np.array([[-1, 0]], "i8"), updates[:, :2].copy(), axis=-1, since=11),
        *(reductions if op_type == "ScatterElements" else ()),
    )


def scatters_nd() -> tuple:
    """Updates at places that several indices say."""
    places, updates = np.array([[0, 2], [1, 1]], "i8"), np.array([5.0, 2.0], "f4")
    return (
        case(X, places, updates),
        case(X, np.array([[1]], "i8"), X[:1]),
        *(
            case(X, places, updates, reduction=word, since=since)
            for since, words in ((16, ("add", "mul", "none")), (18, ("max", "min")))
            for word in words
        ),
    )


TENSORS = [
    helper.make_tensor("c", code_of(dtype), [2], np.array([1, 2], dtype))
    for dtype in ("f4", "f8", "f2", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")
]
SPARSE = helper.make_sparse_tensor(
    helper.make_tensor("values", 1, [2], [1.5, -2.0]),
    helper.make_tensor("indices", 7, [2], [1, 5]),
    [2, 3],
)
PLACED = helper.make_sparse_tensor(
    helper.make_tensor("values", 7, [2], [7, -2]),
    helper.make_tensor("indices", 7, [2, 2], [0, 1, 1, 2]),
    [2, 3],
)


def typed_tensor(code: int, numbers: list[float]) -> object:
    """A tensor of a dtype that later versions brought."""
    return helper.make_tensor("c", code, [len(numbers)], numbers)


NEW_CODES = {13: (16,), 19: (17, 18, 19, 20), 21: (21, 22), 23: (23,), 24: (24,), 25: (25, 26)}
"""Numbers of dtypes by the first version of operators of shapes that has them."""
NEW_TENSORS = [
    (since, typed_tensor(code, [1, 0.5 if code == 24 else 1]))
    for since, codes in NEW_CODES.items()
    for code in codes
]

TABLE: Table = {
    "CenterCropPad": (
        case(CUBE, fixed([4, 2, 4])),
        case(CUBE, fixed([1, 6]), axes=[1, 2]),
        case(CUBE, fixed([5]), axes=[-1]),
    ),
    "Compress": (
        case(X, fixed([True, False, True], bool), axis=1),
        case(X, fixed([True, False, True, True], bool)),
        case(X, np.array([False, True]), axis=0),
        case(X, fixed([True, False, True], bool), axis=-1, since=11),
    ),
    "Concat": (
        case(CUBE, CUBE[:, :1], axis=1),
        case(X, axis=0),
        case(CUBE, CUBE[..., :2], axis=-1, since=11),
    ),
    "Constant": (
        *(case(value=tensor) for tensor in TENSORS),
        case(value=helper.make_tensor("c", 1, [], [2.5])),
        case(value=helper.make_tensor("c", 1, [0, 3], [])),
        case(
            sparse_value=SPARSE, since=11, want=lambda: [np.float32([[0, 1.5, 0], [0, 0, -2]])]
        ),
        case(sparse_value=PLACED, since=11, want=lambda: [np.array([[0, 7, 0], [0, 0, -2]])]),
        case(value_float=2.5, since=12),
        case(value_floats=[2.5, -1.0], since=12),
        case(value_int=-3, since=12),
        case(value_ints=[3, 1], since=12),
        *(case(value=tensor, since=since) for since, tensor in NEW_TENSORS),
    ),
    "ConstantOfShape": (
        case(fixed([2, 3])),
        case(fixed([2, 3]), value=helper.make_tensor("v", 7, [1], [-4])),
        case(np.array([2, 3]), value=helper.make_tensor("v", 1, [1], [-4.5])),
        case(fixed([]), value=helper.make_tensor("v", 9, [1], [True])),
        case(fixed([0, 2]), value=helper.make_tensor("v", 11, [1], [1.5])),
        *(
            case(fixed([2]), value=helper.make_tensor("v", code, [1], [1]), since=since)
            for since, codes in {20: (16, 17, 18, 19, 20), **NEW_CODES}.items()
            if since >= 20
            for code in codes
        ),
    ),
    "DepthToSpace": (
        case(PLANE, blocksize=2),
        case(PLANE, blocksize=2, mode="DCR", since=11),
        case(PLANE, blocksize=2, mode="CRD", since=11),
    ),
    "Expand": (
        case(X, fixed([2, 1, 3])),
        case(X[:, :1], fixed([3, 1, 4])),
        case(X[:1], np.array([2, 3])),
    ),
    "EyeLike": (
        case(X),
        case(X, k=1),
        case(X, k=-1, dtype=code_of("i4")),
        case(X, dtype=code_of("f8")),
    ),
    "Flatten": (
        case(CUBE),
        case(CUBE, axis=0),
        case(CUBE, axis=3),
        case(CUBE, axis=-1, since=11),
    ),
    "Gather": (
        case(X, np.array([1, 0, 1])),
        case(X, np.array([[2, 0]], "i4"), axis=1),
        case(X, np.array(1)),
        case(X, np.array([-1, 0]), axis=-1, since=11),
    ),
    "GatherElements": (
        case(X, np.array([[1, 0, 1]])),
        case(X, np.array([[2, 0], [1, -1]], "i4"), axis=1),
        case(X, np.array([[2], [0]]), axis=-1),
    ),
    "GatherND": (
        case(X, INDICES),
        case(CUBE, np.array([[[1, -1]], [[0, 2]]])),
        case(X, np.array([[1]])),
        case(CUBE, np.array([[1], [2]]), batch_dims=1, since=12),
    ),
    "Identity": (
        case(X),
        case(np.float32(2.5)),
        text(
            """g (float[2] a, float[2] b) => (float[2] y) {
                s = SequenceConstruct(a, b)
                t = Identity(s)
                i = Constant<value = int64 {1}>()
                y = SequenceAt(t, i)
            }""",
            inputs={"a": X[0, :2], "b": X[1, :2]},
            since=14,
        ),
        text(
            """g (float[2] a) => (float[2] y) {
                o = Optional(a)
                p = Identity(o)
                y = OptionalGetElement(p)
            }""",
            inputs={"a": X[0, :2]},
            since=16,
        ),
    ),
    "NonMaxSuppression": (
        case(BOXES, SCORES, fixed([3]), fixed([0.5], "f4"), fixed([0.15], "f4")),
        case(BOXES, SCORES, fixed([2])),
        case(BOXES, SCORES),
        case(BOXES, SCORES, fixed(2), fixed(0.5, "f4")),
        case(MIDDLES, SCORES, fixed([3]), fixed([0.5], "f4"), center_point_box=1),
    ),
    "NonZero": (case(np.array([[1.0, 0.0, -2.0], [0.0, 0.0, 3.0]], "f4")), case(np.float32(3))),
    "OneHot": (
        case(np.array([0, 2, 1]), fixed(3), np.array([-1.0, 5.0], "f4")),
        case(np.array([0.0, 2.0], "f4"), fixed([3]), np.array([0, 1]), axis=0),
        case(np.array([[0, 7], [-1, 1]]), fixed(3), np.array([2, 3], "f4"), axis=1),
        case(np.array([[0, -3], [-4, 1]]), fixed(3), np.array([2, 3], "f4"), axis=-2, since=11),
    ),
    "Pad": (
        case(X, pads=[0, 1, 2, 0], until=2),
        case(X, pads=[1, 1, 0, -1], value=1.5, until=2),
        case(X, pads=[0, 1, 0, 2], mode="reflect", until=2),
        case(X, pads=[1, 1, 0, 2], mode="edge", until=2),
        case(X, fixed([0, 1, 2, 0]), since=11),
        case(X, fixed([0, 1, 2, 0]), np.float32(1.5), since=11),
        case(X, fixed([1, 1, 0, -1]), fixed(1.5, "f4"), mode="constant", since=11),
        case(X, fixed([0, 1, 0, 2]), mode="reflect", since=11),
        case(X, fixed([1, 1, 0, 2]), mode="edge", since=11),
        case(X, np.array([1, 1, 0, 2]), since=11),
        case(X, fixed([1, 2]), None, fixed([-1]), since=18),
        case(X, fixed([1, 2]), np.float32(4), fixed([0], "i4"), since=18),
        case(X, fixed([1, 4, 0, 2]), mode="wrap", since=19),
    ),
    "Range": (
        case(np.float32(1), np.float32(4), np.float32(0.5), typed=False),
        case(fixed(5), fixed(-2), fixed(-3)),
        case(fixed(1.0, "f4"), fixed(2.2, "f4"), fixed(0.1, "f4")),
        case(np.array(0, "i4"), np.array(5, "i4"), np.array(2, "i4")),
        case(np.float32(1), np.float32(4), np.float32(0.5), stash_type=1, since=27),
    ),
    "Reshape": (
        case(CUBE, fixed([4, -1])),
        case(CUBE, fixed([0, 2, 6])),
        case(CUBE, np.array([4, 6])),
        case(CUBE[:, :0], fixed([0, 4, 3]), allowzero=1, since=14),
        case(np.float32(3).reshape(1), fixed([])),
    ),
    "ReverseSequence": (
        case(CUBE, np.array([1, 2, 2])),
        case(CUBE, np.array([3, 2]), time_axis=1, batch_axis=0),
    ),
    "Scatter": scatters("Scatter"),
    "ScatterElements": scatters("ScatterElements"),
    "ScatterND": scatters_nd(),
    "Shape": (
        case(CUBE),
        case(np.float32(2)),
        case(CUBE, start=1, since=15),
        case(CUBE, start=-2, end=-1, since=15),
        case(CUBE, end=7, since=15),
        case(CUBE, start=2, end=1, since=15),
    ),
    "Size": (case(CUBE), case(np.float32(2)), case(CUBE[:0])),
    "Slice": (
        case(CUBE, starts=[0, 1], ends=[1, 3], until=1),
        case(CUBE, starts=[1, -3], ends=[100, -1], axes=[1, 2], until=1),
        case(CUBE, fixed([0, 1]), fixed([1, 3]), since=10),
        case(CUBE, fixed([1, -1], "i4"), fixed([100, -5], "i4"), fixed([1, 2], "i4"), since=10),
        case(CUBE, fixed([2, -1]), fixed([-9, 0]), fixed([1, 2]), fixed([-1, -2]), since=10),
        case(CUBE, np.array([1]), np.array([3]), fixed([2]), since=10),
        case(CUBE, fixed([0]), fixed([3]), None, fixed([2]), since=10),
        case(CUBE, fixed([1]), fixed([3]), fixed([-1]), since=11),
    ),
    "SpaceToDepth": (
        case(PLANE.reshape(1, 2, 4, 4), blocksize=2),
        case(PLANE.reshape(1, 2, 4, 4), blocksize=2, mode="DCR", since=28),
        case(PLANE.reshape(1, 2, 4, 4), blocksize=2, mode="CRD", since=28),
    ),
    "Split": (
        case(CUBE, outputs=2),
        case(CUBE, outputs=2, axis=2, split=[1, 3], until=11),
        case(CUBE, outputs=2, axis=-1, since=11, until=13),
        case(CUBE, fixed([1, 3]), outputs=2, axis=2, since=13),
        case(
            CUBE,
            outputs=3,
            axis=2,
            num_outputs=3,
            since=18,
            want=lambda x: np.split(x, [2, 4], 2),
        ),
        case(CUBE, outputs=2, axis=-1, num_outputs=2, since=18),
    ),
    "Squeeze": (
        case(ONES),
        case(ONES, axes=[0], until=11),
        case(ONES, axes=[0, 2], until=11),
        case(ONES, axes=[-2], since=11, until=11),
        case(ONES, fixed([0]), since=13),
        case(ONES, fixed([-2, 0]), since=13),
    ),
    "TensorScatter": (
        case(CUBE[None], X[None, :, :1, None] + np.zeros((1, 2, 1, 4), "f4"), np.array([1])),
        case(CUBE, CUBE[:, :1] * 2),
        case(CUBE, CUBE[:, :2] * 2, np.array([2, 1]), mode="circular"),
        case(CUBE, CUBE[..., :1] * 2, np.array([2, 1]), axis=2),
    ),
    "Tile": (case(X, fixed([2, 1])), case(X, fixed([1, 3]))),
    "TopK": (
        case(CUBE, outputs=2, k=2, until=1),
        case(CUBE, outputs=2, k=1, axis=1, until=1),
        case(CUBE, fixed([2]), outputs=2, since=10),
        case(CUBE, fixed([3]), outputs=2, axis=1, since=10),
        case(CUBE, fixed([2]), outputs=2, largest=0, since=11),
        case(CUBE, fixed([3]), outputs=2, axis=-2, sorted=1, since=11),
        case(CUBE, np.array([2]), outputs=2, axis=1, since=10),
    ),
    "Transpose": (case(CUBE), case(CUBE, perm=[1, 2, 0]), case(np.float32(1))),
    "Trilu": (
        case(CUBE),
        case(CUBE, upper=0),
        case(CUBE, fixed(1)),
        case(CUBE, fixed(-1), upper=0),
    ),
    "Unique": (
        case(np.array([2.0, 1.0, 1.0, 3.0, 4.0, 3.0], "f4"), outputs=4),
        case(np.array([2.0, 1.0, 1.0, 3.0, 4.0, 3.0], "f4"), outputs=4, sorted=0),
        case(np.array([[1, 0, 0], [1, 0, 0], [2, 3, 4]], "f4"), outputs=4, axis=0),
        case(np.array([[1, 0, 0], [1, 0, 0], [2, 3, 4]], "f4"), axis=-1),
    ),
    "Unsqueeze": (
        case(X, axes=[0, 3], until=11),
        case(X, axes=[1], until=11),
        case(X, axes=[-1], since=11, until=11),
        case(X, fixed([0, 3]), since=13),
        case(X, fixed([-1]), since=13),
    ),
}
