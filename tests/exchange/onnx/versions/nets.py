"""Recurrent layers, attention, quantized numbers, and draws."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tests.exchange.onnx.versions.cases import Table, case, code_of, fixed, model_of, versions
from tests.exchange.onnx.versions.judging import by_onnxruntime
from tests.exchange.onnx.versions.planes import numbers

STEPS, ROWS, FEATURES, SIZE = 3, 2, 2, 2
LENGTHS = np.array([3, 2], "i4")


def recurrent(op_type: str, gates: int, memories: int, *more: Any) -> tuple:
    """A layer with what may be left out, and with the batch first."""

    def arrays(directions: int) -> list[np.ndarray]:
        shapes = [
            (STEPS, ROWS, FEATURES), (directions, gates * SIZE, FEATURES),
            (directions, gates * SIZE, SIZE), (directions, 2 * gates * SIZE),
        ]  # fmt: skip
        return [numbers(*shape) / 2 for shape in shapes]

    x, w, r, b = arrays(1)
    start = [numbers(1, ROWS, SIZE)] * memories
    both = arrays(2)
    size: dict[str, Any] = {"hidden_size": SIZE, "outputs": 1 + memories}
    turned = np.swapaxes(x, 0, 1).copy()
    first = [np.swapaxes(one, 0, 1).copy() for one in start]
    two = [np.concatenate([one, -one]) for one in start]
    return (
        case(x, w, r, **size),
        case(x, w, r, b, LENGTHS, *start, **size),
        case(x, w, r, b, None, *start, direction="reverse", **size),
        case(*both, None, *two, direction="bidirectional", **size),
        case(*both, LENGTHS, *two, direction="bidirectional", **size),
        case(x, w, r, hidden_size=SIZE, outputs=[1]),
        case(x, w, r, b, clip=0.5, **size),
        case(
            turned,
            w,
            r,
            b,
            None,
            *first,
            layout=1,
            since=14,
            **size,
            want=rows_last(op_type),
        ),
        *(more_case(x, w, r, b, start, size) for more_case in more),
    )


def rows_last(op_type: str) -> Any:
    """What a layer gives whose first axis is that of rows, from one with steps first."""

    def wanted(x: Any, w: Any, r: Any, b: Any, _: None, *start: Any) -> list[Any]:
        turned = [np.swapaxes(one, 0, 1).copy() for one in (x, *start)]
        given = case(
            turned[0], w, r, b, None, *turned[1:], hidden_size=SIZE, outputs=len(turned)
        )
        (version,) = (one for one in versions() if (one.op_type, one.since) == (op_type, 7))
        out, *last = by_onnxruntime(model_of(version, op_type, given), 7)
        return [np.transpose(out, (2, 0, 1, 3)), *(np.swapaxes(one, 0, 1) for one in last)]

    return wanted


def with_functions(names: list[str], alpha: list[float], beta: list[float]) -> Any:
    """Other functions of gates, with numbers."""
    numbers = {"activation_alpha": alpha, "activation_beta": beta}
    attrs = {"activations": names} | {k: v for k, v in numbers.items() if v}
    return lambda x, w, r, b, start, size: case(x, w, r, b, **attrs, **size)


def after_reset(x: Any, w: Any, r: Any, b: Any, start: Any, size: Any) -> Any:
    """GRU as most libraries have it."""
    return case(x, w, r, b, linear_before_reset=1, **size)


def peeping(x: Any, w: Any, r: Any, b: Any, start: Any, size: Any) -> Any:
    """LSTM whose gates see the cell."""
    return case(x, w, r, b, None, *start, numbers(1, 3 * SIZE), **size)


def coupled(x: Any, w: Any, r: Any, b: Any, start: Any, size: Any) -> Any:
    """LSTM with one gate for two."""
    return case(x, w, r, b, input_forget=1, **size)


# ---- attention -------------------------------------------------------------------------------

Q, K, V = numbers(1, 2, 3, 4), numbers(1, 2, 5, 4), numbers(1, 2, 5, 3)
FLAT_Q, FLAT_K, FLAT_V = numbers(1, 3, 8), numbers(1, 5, 4), numbers(1, 5, 4)
PAST = numbers(1, 2, 2, 4), numbers(1, 2, 2, 3)
HEADS = {"q_num_heads": 4, "kv_num_heads": 2}
MASK = np.array([[1, 1, 0, 1, 1], [0, 1, 1, 1, 1], [1, 0, 1, 1, 0]], bool)

ATTENTION = (
    case(Q, K, V),
    case(Q, K, V, MASK),
    case(Q, K, V, np.where(MASK, 0.5, -1).astype("f4"), scale=0.3, softcap=2.0),
    case(Q, K, V, is_causal=1),
    case(Q, K, V, None, *PAST, outputs=3),
    case(Q, K, V, None, *PAST, outputs=4, qk_matmul_output_mode=1, softmax_precision=1),
    case(FLAT_Q, FLAT_K, FLAT_V, **HEADS),
    case(Q, K, V, None, None, None, np.array([3]), since=24),
    case(Q, K, V, left_window_size=1, right_window_size=1, since=25),
    case(Q, K, V, MASK, is_causal=1, left_window_size=0, since=25),
)


# ---- quantized numbers -----------------------------------------------------------------------

X = numbers(2, 4)
F8 = np.dtype(ml_dtypes.float8_e4m3fn)
INT4, UINT4 = np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.uint4)
POWERS = np.dtype(ml_dtypes.float8_e8m0fnu)
INT2, F4 = np.dtype(ml_dtypes.int2), np.dtype(ml_dtypes.float4_e2m1fn)
SCALE, COLUMNS = np.float32(0.0625), np.array([0.02, 0.05, 0.1, 0.2], "f4")
ZERO, ZEROS = np.uint8(100), np.array([100, 128, 0, 10], "uint8")
BYTES = np.array([[0, 3, 128, 255], [100, 7, 30, 4]], "uint8")
BLOCKS = np.array([[0.1, 0.05], [0.2, 0.02]], "f4")


def halved(x: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> list[np.ndarray]:
    """Numbers by a scale that is an integer."""
    return [np.clip(np.rint(x / scale) + zero, 0, 255).astype("uint8")]


QUANTIZED: Table = {
    "QuantizeLinear": (
        case(X, SCALE, np.uint8(0)),
        case(X, SCALE, ZERO),
        case(X, SCALE),
        case(X, SCALE, np.int8(-3), typed=False),
        case(X, COLUMNS, ZEROS, axis=1, since=13),
        case(X, COLUMNS[:2], ZEROS[:2], axis=0, since=13),
        case(X, COLUMNS, ZEROS, axis=-1, since=13),
        case(X, np.float32(1), np.zeros((), F8), since=19, typed=False),
        case(X * 1000, np.float32(1), np.zeros((), F8), saturate=0, since=19, typed=False),
        case(X, SCALE, np.uint16(1000), since=21, typed=False),
        case(X, np.float32(0.3), np.zeros((), INT4), since=21, typed=False),
        case(X, np.float32(0.3), output_dtype=code_of(UINT4), since=21, typed=False),
        case(X, BLOCKS, block_size=2, axis=1, since=21),
        case(X, np.float32(0.5), output_dtype=code_of(F4), since=23, typed=False),
        case(X, SCALE, ZERO, precision=1, since=23),
        case(X, np.int32(2), np.uint8(7), since=23, typed=False, want=halved),
        case(X, np.float32(1), np.zeros((), INT2), since=25, typed=False),
    ),
    "DequantizeLinear": (
        case(BYTES, SCALE, np.uint8(0)),
        case(BYTES, SCALE, ZERO),
        case(BYTES, SCALE),
        case(BYTES.astype("i4") - 50, SCALE, typed=False),
        case(BYTES.astype("i1"), SCALE, np.int8(-3), typed=False),
        case(BYTES, COLUMNS, ZEROS, axis=1, since=13),
        case(BYTES, COLUMNS[:2], ZEROS[:2], axis=0, since=13),
        case(BYTES, COLUMNS, axis=-1, since=13),
        case(X.astype(F8), SCALE, since=19, typed=False),
        case(X.astype(F8), np.float16(0.5), np.zeros((), F8), since=19, typed=False),
        case(BYTES.astype("uint16") * 9, SCALE, np.uint16(1000), since=21, typed=False),
        case(np.clip(X, -8, 7).astype(INT4), SCALE, np.ones((), INT4), since=21, typed=False),
        case(BYTES, BLOCKS, block_size=2, axis=1, since=21),
        case(BYTES, SCALE, ZERO, output_dtype=code_of("f2"), since=23),
        case(X.astype(F4), SCALE, since=23, typed=False),
        case(BYTES, SCALE.astype(POWERS), output_dtype=1, since=24, typed=False),
        case(np.clip(X, -2, 1).astype(INT2), SCALE, since=25, typed=False),
    ),
    "DynamicQuantizeLinear": (case(X, outputs=3), case(np.abs(X), outputs=3)),
    "MatMulInteger": (
        case(BYTES, BYTES.T.copy()),
        case(BYTES, BYTES.T.astype("i1"), ZERO, np.int8(3), typed=False),
        case(BYTES, BYTES.T.copy(), None, np.uint8(7)),
    ),
    "QLinearMatMul": (
        case(BYTES, SCALE, ZERO, BYTES.T.copy(), SCALE, ZERO, np.float32(1), np.uint8(50)),
        case(
            BYTES, SCALE, ZERO, BYTES.T.astype("i1"), SCALE, np.int8(3), np.float32(0.9),
            np.uint8(50), typed=False,
        ),
    ),
    "ConvInteger": (
        case(BYTES.reshape(1, 1, 2, 4), BYTES.reshape(2, 1, 2, 2)),
        case(
            BYTES.reshape(1, 1, 2, 4), BYTES.reshape(2, 1, 2, 2), ZERO, np.uint8(9),
            pads=[1, 0, 1, 1], strides=[1, 2], kernel_shape=[2, 2],
        ),
        case(
            BYTES.reshape(1, 2, 2, 2), BYTES.reshape(2, 1, 2, 2), ZERO, group=2,
            auto_pad="SAME_UPPER", dilations=[1, 1],
        ),
    ),
    "QLinearConv": (
        case(
            BYTES.reshape(1, 1, 2, 4), SCALE, ZERO, BYTES.reshape(2, 1, 2, 2), SCALE, ZERO,
            np.float32(1.5), np.uint8(50),
        ),
        case(
            BYTES.reshape(1, 1, 2, 4), SCALE, ZERO, BYTES.reshape(2, 1, 2, 2),
            COLUMNS[:2], ZEROS[:2], np.float32(1.5), np.uint8(50), np.array([300, -200], "i4"),
            pads=[1, 0, 1, 1], strides=[1, 2], kernel_shape=[2, 2], dilations=[1, 1],
        ),
        case(
            BYTES.reshape(1, 2, 2, 2), SCALE, ZERO, BYTES.reshape(2, 1, 2, 2), SCALE, ZERO,
            np.float32(1.5), np.uint8(50), group=2, auto_pad="SAME_LOWER",
        ),
    ),
}  # fmt: skip

# ---- draws -----------------------------------------------------------------------------------

F64 = code_of("f8")
CHANCES = np.array([[0.1, 0.9], [0.5, 0.0]], "f4")
DRAWS: Table = {
    "Bernoulli": (
        case(CHANCES, drawn=True),
        case(CHANCES, drawn=True, dtype=code_of("i4"), seed=1.0),
    ),
    "Dropout": (
        case(X),
        case(X, ratio=0.25, until=10),
        case(X, outputs=2, ratio=0.25, until=10),
        case(X, fixed(0.25, "f4"), since=12),
        case(X, fixed(0.25, "f4"), fixed(False, bool), outputs=2, since=12),
        case(X, fixed(0.25, "f4"), fixed(True, bool), outputs=2, seed=3, drawn=True, since=12),
        case(X, np.float32(0.25), fixed(True, bool), drawn=True, since=12),
        case(X, None, fixed(True, bool), drawn=True, since=12),
        case(X, np.float32(0.0), np.bool_(False), outputs=2, since=12),
    ),
    "Multinomial": (
        case(np.log(CHANCES + 0.1), drawn=True),
        case(np.log(CHANCES + 0.1), drawn=True, sample_size=4, dtype=code_of("i8"), seed=2.0),
    ),
    "RandomNormal": (
        case(shape=[2, 3], drawn=True),
        case(shape=[2, 3], mean=1.0, scale=2.0, dtype=F64, seed=1.0, drawn=True),
    ),
    "RandomUniform": (
        case(shape=[2, 3], drawn=True),
        case(shape=[2, 3], low=1.0, high=2.0, dtype=F64, seed=1.0, drawn=True),
    ),
    "RandomNormalLike": (
        case(X, drawn=True, typed=False),
        case(X, mean=1.0, scale=2.0, dtype=F64, seed=1.0, drawn=True),
    ),
    "RandomUniformLike": (
        case(X, drawn=True, typed=False),
        case(X, low=1.0, high=2.0, dtype=F64, seed=1.0, drawn=True),
    ),
}

TABLE: Table = {
    "RNN": recurrent(
        "RNN", 1, 1,
        with_functions(["Affine"], [0.5], [0.25]),
        with_functions(["LeakyRelu"], [0.5], []),
    ),
    "GRU": recurrent(
        "GRU", 3, 1,
        after_reset,
        with_functions(["HardSigmoid", "Softsign"], [0.3], [0.4]),
    ),
    "LSTM": recurrent(
        "LSTM", 4, 2,
        peeping,
        coupled,
        with_functions(["HardSigmoid", "ScaledTanh", "Elu"], [0.3, 1.2, 0.7], [0.4, 0.8]),
    ),
    "Attention": ATTENTION,
    "SwiGLU": (
        case(numbers(2, 3), numbers(2, 3) / 2),
        case(numbers(2, 3), numbers(2, 3) / 2, alpha=0.5),
    ),
    "RotaryEmbedding": (
        case(numbers(1, 2, 3, 4), numbers(3, 2), numbers(3, 2) / 2, np.array([[0, 2, 1]])),
        case(numbers(1, 2, 3, 4), numbers(1, 3, 2), numbers(1, 3, 2) / 2, interleaved=1),
        case(numbers(1, 3, 8), numbers(1, 3, 1), numbers(1, 3, 1) / 2, num_heads=2,
             rotary_embedding_dim=2),
    ),
    "CausalConvWithState": (
        case(numbers(1, 2, 5), numbers(2, 1, 3), outputs=2),
        case(numbers(1, 2, 5), numbers(2, 1, 3), BIAS2 := np.array([0.5, -1], "f4"), outputs=2),
        case(numbers(1, 2, 5), numbers(2, 1, 3), BIAS2, numbers(1, 2, 2), outputs=2,
             activation="silu"),
    ),
    "LinearAttention": (
        case(
            numbers(1, 3, 4) / 4, numbers(1, 3, 4) / 4, numbers(1, 3, 6) / 4, outputs=2,
            update_rule="linear", q_num_heads=2, kv_num_heads=2,
        ),
        case(
            numbers(1, 3, 4) / 4, numbers(1, 3, 4) / 4, numbers(1, 3, 6) / 4,
            numbers(1, 2, 2, 3) / 4, -np.abs(numbers(1, 3, 2)), np.abs(numbers(1, 3, 2)) / 4,
            outputs=2, q_num_heads=2, kv_num_heads=2, scale=0.5, chunk_size=2,
        ),
    ),
    **QUANTIZED,
    **DRAWS,
}  # fmt: skip
