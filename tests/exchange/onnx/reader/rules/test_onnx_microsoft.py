"""ONNX Runtime's own operators, compared with ONNX Runtime."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import ProgramError
from tests.exchange.onnx.onnx_runtime import agree, by_us, model

pytestmark = pytest.mark.unoptimized

RNG = np.random.default_rng(11)


def f4(*shape: int) -> Any:
    return RNG.normal(size=shape).astype("f4")


@pytest.mark.parametrize(
    ("shapes", "attrs"),
    [
        ([(2, 3, 4), (2, 4, 5)], {"alpha": 0.5}),
        ([(2, 4, 3), (2, 5, 4)], {"transA": 1, "transB": 1}),
        ([(3, 2, 4), (2, 4, 5)], {"transBatchA": 1}),
    ],
)
def test_products_are_scaled_and_transposed(mode: str, shapes: Any, attrs: Any) -> None:
    agree(mode, "FusedMatMul", [f4(*shape) for shape in shapes], **attrs)


def test_products_and_convolutions_end_in_activations(mode: str) -> None:
    agree(
        mode, "FusedGemm", [f4(4, 3), f4(4, 5), f4(5)],
        transA=1, activation="LeakyRelu", activation_alpha=0.3,
    )  # fmt: skip
    x, w, b = f4(1, 3, 6, 6), f4(4, 3, 3, 3), f4(4)
    agree(mode, "FusedConv", [x, w, b, f4(1, 4, 4, 4)], activation="Relu")
    agree(mode, "FusedConv", [x, w, b], activation="Clip", activation_params=[-0.5, 1.0])
    agree(
        mode, "FusedConv", [x, w, b], activation="HardSigmoid", activation_params=[0.3, 0.4],
        pads=[1, 1, 1, 1],
    )  # fmt: skip


@pytest.mark.parametrize("op_type", ["Gelu", "FastGelu", "QuickGelu"])
def test_activations_of_one_array(mode: str, op_type: str) -> None:
    agree(mode, op_type, [f4(3, 4)], atol=1e-4)


@pytest.mark.parametrize("op_type", ["BiasGelu", "FastGelu"])
def test_activations_of_a_sum(mode: str, op_type: str) -> None:
    agree(mode, op_type, [f4(3, 4), f4(4)], atol=1e-4)


def test_layer_norms_of_sums_give_the_sum_too(mode: str) -> None:
    x, skip, scale, shift, bias = f4(2, 3, 8), f4(2, 3, 8), f4(8), f4(8), f4(8)
    agree(mode, "SkipLayerNormalization", [x, skip, scale, shift])
    agree(mode, "SkipLayerNormalization", [x, skip, scale, shift, bias], wanted=(0, 3))
    agree(mode, "SkipSimplifiedLayerNormalization", [x, skip, scale, bias], wanted=(0, 3))
    agree(mode, "SimplifiedLayerNormalization", [x, scale], domain="")


@pytest.mark.parametrize("mask", [None, np.array([[1, 1, 0], [1, 1, 1]], "i4")])
def test_words_places_and_segments_are_added(mode: str, mask: Any) -> None:
    ids, segments = RNG.integers(0, 9, (2, 3)).astype("i4"), np.array([[0, 1, 1]] * 2, "i4")
    tables = [f4(9, 8), f4(5, 8), f4(2, 8)]
    agree(
        mode, "EmbedLayerNormalization", [ids, segments, *tables, f4(8), f4(8), mask],
        outputs=2,
    )  # fmt: skip


QKV = [f4(2, 3, 8), f4(8, 24), f4(24)]
MASKS = [
    None,
    np.array([2, 3], "i4"),
    np.array([[1, 0, 1], [1, 1, 1]], "i4"),
    RNG.integers(0, 2, (2, 3, 3)).astype("i4"),
]


@pytest.mark.parametrize("at", range(len(MASKS)))
@pytest.mark.parametrize("causal", [0, 1])
def test_attention_of_one_product_has_masks(mode: str, at: int, causal: int) -> None:
    agree(mode, "Attention", [*QKV, MASKS[at]], num_heads=2, unidirectional=causal, atol=1e-4)


def test_attention_of_one_product_goes_on_from_before(mode: str) -> None:
    past = f4(2, 2, 2, 5, 4)
    agree(mode, "Attention", [*QKV, None, past], num_heads=2, outputs=2, atol=1e-4)
    agree(mode, "Attention", [*QKV, None, None, f4(1, 2, 3, 3)], num_heads=2, atol=1e-4)


def test_attention_of_a_product_of_integers(mode: str) -> None:
    x = RNG.integers(0, 256, (2, 3, 8)).astype("u1")
    w = RNG.integers(-64, 65, (8, 24)).astype("i1")  # as `i8` of test_onnx_quantized
    scales = [np.float32(0.02), np.float32(0.01)]
    given = [x, w, f4(24), *map(np.asarray, scales), None, np.uint8(120), np.int8(3)]
    given = [None if v is None else np.asarray(v) for v in given]
    agree(mode, "QAttention", given, num_heads=2, atol=1e-4)


def test_queries_keys_and_values_may_be_apart_or_packed(mode: str) -> None:
    q, k, v = f4(2, 3, 8), f4(2, 5, 8), f4(2, 5, 8)
    options: Any = {"num_heads": 2, "atol": 1e-4}
    agree(mode, "MultiHeadAttention", [q, k, v], **options)
    agree(mode, "MultiHeadAttention", [q, k, v, f4(24), None, f4(2, 2, 3, 5)], **options)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], "i4")
    agree(mode, "MultiHeadAttention", [q, k, v, None, mask], scale=0.3, **options)
    past = [f4(2, 2, 4, 4), f4(2, 2, 4, 4)]
    new = [f4(2, 1, 8) for _ in range(3)]
    agree(mode, "MultiHeadAttention", [*new, None, None, None, *past], outputs=3, **options)


@pytest.mark.parametrize(
    "rotary", [{}, {"do_rotary": 1}, {"do_rotary": 1, "rotary_interleaved": 1}]
)
def test_groups_of_queries_share_keys(mode: str, rotary: Any) -> None:
    angles = RNG.uniform(0, 6, (16, 8))
    tables = [np.cos(angles).astype("f4"), np.sin(angles).astype("f4")] if rotary else []
    options: Any = {"num_heads": 4, "kv_num_heads": 2, "outputs": 3, "atol": 1e-4, **rotary}
    whole = [np.array([2, 2], "i4"), np.array(3, "i4"), *tables]
    new = [f4(2, 3, 64), f4(2, 3, 32), f4(2, 3, 32)]
    empty = [f4(2, 2, 0, 16), f4(2, 2, 0, 16)]
    agree(mode, "GroupQueryAttention", [*new, *empty, *whole], **options)
    past = [f4(2, 2, 6, 16), f4(2, 2, 6, 16)]
    later = [np.array([6, 6], "i4"), np.array(7, "i4"), *tables]
    one = [f4(2, 1, 128), None, None]
    agree(mode, "GroupQueryAttention", [*one, *past, *later], local_window_size=4, **options)


def test_keys_in_a_buffer_that_has_room_are_refused(mode: str) -> None:
    past = [f4(2, 2, 6, 16), f4(2, 2, 6, 16)]
    given = [f4(2, 1, 128), None, None, *past, np.array([4, 4], "i4"), np.array(5, "i4")]
    with pytest.raises(br.errors.BracesError, match=r"shape|Sizes"):
        agree(mode, "GroupQueryAttention", given, num_heads=4, kv_num_heads=2, outputs=3)


@pytest.mark.parametrize("interleaved", [0, 1])
def test_pairs_are_turned_by_the_angles_of_their_places(mode: str, interleaved: int) -> None:
    angles = RNG.uniform(0, 6, (10, 4))
    tables = [np.cos(angles).astype("f4"), np.sin(angles).astype("f4")]
    places = RNG.integers(0, 10, (2, 3))
    options: Any = {"interleaved": interleaved}
    agree(mode, "RotaryEmbedding", [f4(2, 3, 16), places, *tables], **options)
    agree(mode, "RotaryEmbedding", [f4(2, 2, 3, 8), np.array([4]), *tables], **options)


@pytest.mark.parametrize(("bits", "zeros"), [(4, None), (4, "u1"), (4, "f4"), (8, "u1")])
def test_a_product_has_weights_of_few_bits(mode: str, bits: int, zeros: Any) -> None:
    rows, blocks, block = 6, 3, 16
    packed = RNG.integers(0, 256, (rows, blocks, block * bits // 8)).astype("u1")
    scales = RNG.uniform(0.01, 0.02, (rows, blocks)).astype("f4")
    wide = -(-blocks * bits // 8) if zeros == "u1" else blocks
    points = None if zeros is None else RNG.integers(0, 256, (rows, wide)).astype(zeros)
    points = points % 16 if zeros == "f4" else points
    agree(
        mode, "MatMulNBits", [f4(2, 5, 40), packed, scales, points],
        K=40, N=rows, bits=bits, block_size=block, weights=(1, 2, 3)[: 3 if zeros else 2],
        atol=1e-3,
    )  # fmt: skip


def test_rows_of_a_table_of_few_bits(mode: str) -> None:
    packed = RNG.integers(0, 256, (7, 16)).astype("u1")
    scales = RNG.uniform(0.01, 0.02, (7, 2)).astype("f4")
    zeros = RNG.integers(0, 256, (7, 1)).astype("u1")
    indices = np.array([[0, 6], [3, 3]])
    options: Any = {"block_size": 16, "bits": 4, "weights": (0, 2)}
    agree(mode, "GatherBlockQuantized", [packed, indices, scales], **options)
    options["weights"] = (0, 2, 3)
    agree(mode, "GatherBlockQuantized", [packed, indices, scales, zeros], **options)


def test_batches_and_lengths_may_have_names(mode: str) -> None:
    options: Any = {"named": {7: "batch", 3: "length", 5: "past"}, "num_heads": 2, "atol": 1e-4}
    bias, past = f4(24), f4(2, 7, 2, 5, 4)
    given = [f4(7, 3, 8), f4(8, 24), bias, None, past]
    agree(mode, "Attention", given, outputs=2, unidirectional=1, weights=(1, 2), **options)
    new, kept = [f4(7, 3, 8)] * 3, [f4(7, 2, 5, 4)] * 2
    agree(mode, "MultiHeadAttention", [*new, bias, None, None, *kept], outputs=3, **options)
    angles = RNG.uniform(0, 6, (16, 8))
    tables = [np.cos(angles).astype("f4"), np.sin(angles).astype("f4")]
    kept = [f4(7, 2, 5, 16)] * 2
    lengths = [np.full(7, 5, "i4"), np.array(6, "i4")]
    agree(
        mode, "GroupQueryAttention", [f4(7, 1, 96), None, None, *kept, *lengths, *tables],
        outputs=3, kv_num_heads=2, do_rotary=1, weights=(7, 8), **options,
    )  # fmt: skip
    del options["num_heads"]
    places = RNG.integers(0, 10, (7, 3))
    agree(mode, "RotaryEmbedding", [f4(7, 3, 32), places, *tables], weights=(2, 3), **options)
    ids = RNG.integers(0, 9, (7, 3)).astype("i4")
    tables = [f4(9, 8), f4(6, 8), f4(2, 8), f4(8), f4(8)]
    agree(
        mode, "EmbedLayerNormalization", [ids, ids % 2, *tables], outputs=2,
        weights=range(2, 7), **options,
    )  # fmt: skip
    codes = RNG.integers(0, 256, (6, 3, 8)).astype("u1")
    agree(
        mode, "MatMulNBits", [f4(7, 3, 48), codes, np.full((6, 3), 0.1, "f4")],
        K=48, N=6, bits=4, block_size=16, weights=(1, 2), **options,
    )  # fmt: skip


def test_what_runs_on_other_devices_only_is_read_too(mode: str) -> None:
    x, bias, skip = f4(2, 3, 4), f4(4), f4(2, 3, 4)
    (got,) = by_us(model("BiasAdd", [x, bias, skip]), {"x0": x, "x1": bias, "x2": skip}, mode)
    np.testing.assert_allclose(got, x + bias + skip, rtol=1e-6)
    (got,) = by_us(model("BiasSplitGelu", [x, bias]), {"x0": x, "x1": bias}, mode)
    left, right = np.split((x + bias).astype("f8"), 2, axis=-1)
    phi = np.vectorize(lambda v: (1 + math.erf(v / 2**0.5)) / 2)(right)
    np.testing.assert_allclose(got, left * right * phi, rtol=1e-4, atol=1e-6)


def test_the_error_of_an_unsupported_node_has_the_reason() -> None:
    x = f4(2, 3, 8)
    five = [x, f4(8, 24), f4(24)]
    with pytest.raises(ProgramError, match="cannot divide 8 features into 3 heads"):
        br.from_onnx(model("Attention", five, num_heads=3))
    with pytest.raises(ProgramError, match="unsupported attribute `do_rotary`"):
        br.from_onnx(model("Attention", five, num_heads=2, do_rotary=1))
    with pytest.raises(ProgramError, match="unknown activation 'Cubed'"):
        br.from_onnx(model("FusedGemm", [f4(2, 3), f4(3, 4)], activation="Cubed"))
