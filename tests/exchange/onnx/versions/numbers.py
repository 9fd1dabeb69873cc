"""Operators that work number by number."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tests.exchange.onnx.versions.cases import Table, case, code_of, fixed

X = np.array([[-2.0, 0.5, 3.0], [1.0, -1.0, 2.5]], "f4")
POSITIVE = np.array([[2.0, 0.5, 3.0], [1.0, 4.0, 2.5]], "f4")
UNIT = np.array([[-0.75, 0.5, 0.0], [1.0, -1.0, 0.25]], "f4")
OPEN = np.array([[-0.75, 0.5, 0.0], [0.9, -0.9, 0.25]], "f4")
ABOVE = np.array([[1.0, 1.5, 2.0], [4.0, 10.0, 1.25]], "f4")
ROW = np.array([3.0, -2.0, 1.0], "f4")
COLUMN = np.array([[2.0], [-1.0]], "f4")
ODD = np.array([[np.nan, np.inf, -np.inf], [0.0, -0.0, 1.0]], "f4")
BITS = np.array([[5, 12, 255], [0, 1, 128]], "uint8")
FLAGS = np.array([[True, False, True], [False, False, True]])
OTHER = np.array([True, True, False])

UNARY = {
    **dict.fromkeys((
        "Abs", "Atan", "Asinh", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "Neg", "Relu",
        "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Tan", "Tanh", "Round",
        "HardSwish", "Mish",
    ), X),
    **dict.fromkeys(("Acos", "Asin"), UNIT), "Atanh": OPEN, "Acosh": ABOVE,
    **dict.fromkeys(("Log", "Reciprocal", "Sqrt"), POSITIVE),
    "Not": FLAGS,
}  # fmt: skip
NUMBERS = (
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Equal",
)
TWO = {name: (case(X, POSITIVE), case(X, ROW), case(COLUMN, ROW)) for name in NUMBERS}
LOGICAL = {
    name: (case(FLAGS, FLAGS[::-1].copy()), case(FLAGS, OTHER)) for name in ("And", "Or", "Xor")
}
BITWISE = {
    f"Bitwise{name}": (case(BITS, BITS[::-1].copy()), case(BITS, BITS[0]))
    for name in ("And", "Or", "Xor")
}
MANY = {
    name: (
        case(X, POSITIVE, UNIT),
        case(X),
        case(X, ROW, COLUMN, since=8),
    )
    for name in ("Max", "Mean", "Min", "Sum")
}
WITH_NUMBERS = {
    "Celu": {"alpha": 1.5}, "Elu": {"alpha": 1.5}, "HardSigmoid": {"alpha": 0.3, "beta": 0.4},
    "LeakyRelu": {"alpha": 0.2}, "Selu": {"alpha": 1.2, "gamma": 2.0},
    "Shrink": {"lambd": 1.0, "bias": 0.5}, "Swish": {"alpha": 1.5},
    "ThresholdedRelu": {"alpha": 0.5}, "Gelu": {"approximate": "tanh"},
}  # fmt: skip
CASTS = {
    6: ("float", "float16", "float64", "bool", "int8", "int16", "int32", "int64",
        "uint8", "uint16", "uint32", "uint64"),
    13: ("bfloat16",),
    19: ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
    21: ("int4", "uint4"), 23: ("float4_e2m1fn",), 24: ("float8_e8m0fnu",),
    25: ("int2", "uint2"),
}  # fmt: skip
"""Dtypes by the first version that casts to them."""
FLOATS_8 = np.array([[-2.0, 0.3, 700.0], [1.0, -1e6, 2.5]], "f4")
KINDS = {
    name: np.dtype(getattr(np, name, None) or getattr(ml_dtypes, name))
    for names in CASTS.values()
    for name in names
    if name != "float"
} | {"float": np.dtype("f4")}


def castable(name: str) -> np.ndarray:
    """Numbers that a dtype has; narrow integers are rounded by some and cut off by others."""
    x = POSITIVE if name.startswith("u") or "e8m0" in name else X
    if name.startswith(("int2", "uint2")):
        return np.clip(np.trunc(x), -2, 1)
    return np.trunc(x) if name.endswith("int4") else x


CASTED = [
    case(castable(name), to=code_of(KINDS[name]), since=since)
    for since, names in CASTS.items()
    for name in names
]


def powers_below(x: np.ndarray, like: np.ndarray) -> list[np.ndarray]:
    """The powers of two that are no larger."""
    return [np.exp2(np.floor(np.log2(x))).astype(like.dtype)]


TABLE: Table = {
    **{name: (case(x), case(x[1, 0])) for name, x in UNARY.items()},
    **TWO,
    **LOGICAL,
    **BITWISE,
    **MANY,
    **{name: (case(X), case(X, **attrs)) for name, attrs in WITH_NUMBERS.items()},
    "BitShift": (
        case(BITS, BITS % 8, direction="LEFT"),
        case(BITS, np.array([1, 2, 3], "uint8"), direction="RIGHT"),
    ),
    "BitwiseNot": (case(BITS),),
    "BitCast": (
        case(X, to=code_of("int32"), typed=False),
        case(np.array([[1, -1], [2, 300]], "int64"), to=code_of("float64"), typed=False),
        case(BITS, to=code_of("int8"), typed=False),
    ),
    "Cast": (
        *CASTED,
        case(FLOATS_8, to=code_of(KINDS["float8_e4m3fn"]), saturate=0, since=19),
        case(FLOATS_8, to=code_of(KINDS["float8_e5m2"]), since=19),
        case(
            np.abs(FLOATS_8),
            to=code_of(KINDS["float8_e8m0fnu"]),
            round_mode="nearest",
            since=24,
        ),
        case(
            np.abs(FLOATS_8), to=code_of(KINDS["float8_e8m0fnu"]), round_mode="down", since=24
        ),
    ),
    "CastLike": (
        case(np.ones((1, 2), "f4"), np.ones(1, "f8")),
        case(X, np.zeros(1, "f8")),
        case(X, np.zeros((2, 1), "i4")),
        case(FLOATS_8, np.zeros(1, KINDS["float8_e4m3fn"]), saturate=0, since=19),
        case(
            np.abs(FLOATS_8),
            np.ones(1, KINDS["float8_e8m0fnu"]),
            round_mode="down",
            since=24,
            want=powers_below,
        ),
    ),
    "Clip": (
        case(X, until=6),
        case(X, min=-1.0, until=6),
        case(X, max=2.0, until=6),
        case(X, min=-1.0, max=2.0, until=6),
        case(X, np.float32(-1), np.float32(2), since=11),
        case(X, since=11),
        case(X, None, np.float32(2), since=11),
        case(X, np.float32(-1), since=11),
        case(X, np.float32(2), np.float32(-1), since=11, typed=False),
    ),
    "IsInf": (
        case(ODD),
        case(ODD, detect_negative=0),
        case(ODD, detect_positive=0),
        case(ODD, detect_positive=0, detect_negative=0),
    ),
    "IsNaN": (case(ODD),),
    "Mod": (
        case(np.array([[-7, 5, 7]], "i4"), np.array([3, -3, -4], "i4"), typed=False),
        case(X, ROW, fmod=1, typed=False),
        case(np.array([-7, 5, 7], "i8"), np.array([3, -3, -4], "i8"), fmod=1),
    ),
    "PRelu": (
        case(X, np.array([0.5, -0.25, 2.0], "f4")),
        case(np.stack([X, -X]), np.array([[[0.5]], [[2.0]]], "f4")),
        case(X, fixed([0.25], "f4")),
    ),
    "Pow": (
        case(POSITIVE, np.float32(2)),
        case(POSITIVE, ROW),
        case(np.array([1, 2, 3], "i4"), np.array([3, 2, 2], "i8"), since=12, typed=False),
        case(POSITIVE, np.array([3, 2, 2], "i8"), since=12),
        case(np.array([1, 2, 3], "i8"), np.array([2.0, 0.5, 1.5], "f4"), since=12, typed=False),
    ),
    "Where": (
        case(FLAGS, X, POSITIVE),
        case(OTHER, COLUMN, ROW),
        case(np.bool_(True), X, ROW),
    ),
}
