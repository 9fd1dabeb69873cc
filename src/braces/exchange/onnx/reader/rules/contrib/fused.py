"""Rules of ONNX Runtime's fused operators, which its optimizers and exporters create."""

from __future__ import annotations

from collections.abc import Mapping

from braces.exchange.common.rules.elementwise import scale_by
from braces.exchange.common.values import symbolic_arithmetic as sizes
from braces.exchange.common.values.constants import Value
from braces.exchange.onnx.reader.graph.node import OnnxNode, Rule
from braces.exchange.onnx.reader.rules.nn.conv_pool import conv
from braces.exchange.onnx.reader.rules.nn.matmul_norm import gemm, layer_norm
from braces.exchange.onnx.reader.rules.tensor.arithmetic import ARITHMETIC
from braces.extend import functions as ops
from braces.extend.building import Var, call, emit
from braces.extend.types import Size, product

DOMAIN = "com.microsoft"
OLDEST_EPSILON = 1e-12
"""The default epsilon of skip layer norms."""


def single_output(value: object) -> Var:
    """Return the only array that a rule builds."""
    assert isinstance(value, Var), "expected one array"
    return value


# ---- products and activations ----------------------------------------------------------------


def fused_matmul(node: OnnxNode) -> Var:
    """Alpha A B, with optional transposes of matrices and of batch axes."""
    a, b = (_matrix(node, at, operand) for at, operand in enumerate("AB"))
    return scale_by(ops.matmul(a, b), node.attr("alpha", 1.0))


def _matrix(node: OnnxNode, at: int, which: str) -> Var:
    x = node.var(at)
    if node.flag(f"transBatch{which}"):
        x = ops.moveaxis(x, 0, -2)
    return ops.matrix_transpose(x) if node.flag(f"trans{which}") else x


def apply_activation(node: OnnxNode, out: Var, **numbers: float) -> Var:
    """Apply the activation that a node names."""
    name = node.attr("activation", "")
    if not name:
        return out
    if name not in ARITHMETIC:
        node.refuse(f"unknown activation {name!r:.40}")
    return single_output(ARITHMETIC[name](node.over(name, out, **numbers)))


def fused_gemm(node: OnnxNode) -> Var:
    """Alpha A B + beta C, with an activation."""
    names = ("alpha", "beta", "gamma")
    values = {name: node.attr(f"activation_{name}") for name in names}
    numbers = {name: value for name, value in values.items() if value is not None}
    return apply_activation(node, gemm(node), **numbers)


def fused_conv(node: OnnxNode) -> Var:
    """A convolution with an optional addend and an activation."""
    out = conv(node)
    if node.has(3):
        out = out + node.var(3)
    numbers = list(node.attr("activation_params") or ())
    name = node.attr("activation", "")
    if name == "Clip":
        low, high = numbers
        return ops.clip(out, min=low, max=high)
    return apply_activation(node, out, **dict(zip(("alpha", "beta"), numbers, strict=False)))


def gelu(node: OnnxNode) -> Var:
    """Exact GELU, with an optional bias."""
    return ops.gelu(_sum_inputs(node, 0, 1), approximate=False)


def fast_gelu(node: OnnxNode) -> Var:
    """GELU by the tanh approximation, with an optional bias."""
    return ops.gelu(_sum_inputs(node, 0, 1), approximate=True)


def quick_gelu(node: OnnxNode) -> Var:
    """X sigmoid(alpha x)."""
    x = node.var(0)
    return x * ops.sigmoid(x * node.attr("alpha", 1.702))


def split_gelu(node: OnnxNode) -> Var:
    """GEGLU: one half times the GELU of the other half, after a bias."""
    left, right = ops.split(_sum_inputs(node, 0, 1), sections=2, axis=-1)
    return left * ops.gelu(right, approximate=False)


def bias_add(node: OnnxNode) -> Var:
    """The sum of all inputs."""
    return _sum_inputs(node, 0, 1, 2)


def _sum_inputs(node: OnnxNode, *places: int) -> Var:
    """Return the sum of the inputs that are present."""
    first, *others = (var for at in places if (var := node.maybe(at)) is not None)
    for var in others:
        first = first + var
    return first


# ---- normalisations --------------------------------------------------------------------------


def simplified_layer_norm(node: OnnxNode) -> Value | tuple[Value, ...]:
    """RMS norm over the last axes."""
    x, scale, epsilon = node.var(0), node.var(1), node.attr("epsilon", 1e-5)
    axes = tuple(range(node.axis("axis", -1, x.ndim), x.ndim))
    out = call("rms_norm", x, scale, axis=axes, epsilon=epsilon)
    if not node.wants(1):
        return out
    square = ops.mean(ops.square(ops.cast(x, "float32")), axis=axes, keepdims=True)
    return out, ops.rsqrt(square + epsilon)


def skip_layer_norm(node: OnnxNode) -> tuple[Value, ...]:
    """Residual addition with a bias and layer norm; also returns the sum."""
    total, epsilon = _sum_inputs(node, 0, 1, 4), node.attr("epsilon", OLDEST_EPSILON)
    scale, shift = node.value(2), node.value(3)
    results = layer_norm(node.over("LayerNormalization", total, scale, shift, epsilon=epsilon))
    if isinstance(results, Var):
        return results, None, None, total
    return (*results, total)


def skip_simplified_layer_norm(node: OnnxNode) -> tuple[Value, ...]:
    """Residual addition with a bias and RMS norm; also returns the sum."""
    total = _sum_inputs(node, 0, 1, 3)
    epsilon = node.attr("epsilon", OLDEST_EPSILON)
    out = call("rms_norm", total, node.var(2), axis=-1, epsilon=epsilon)
    return out, None, None, total


def embed_layer_norm(node: OnnxNode) -> tuple[Value, ...]:
    """Sum of word, position and segment embeddings, with layer norm."""
    ids, segments, positions = node.var(0), node.maybe(1), node.maybe(8)
    length = ids.shape[1]
    if positions is None:
        positions = emit("arange", stop=length)
    total = ops.take(node.var(2), ids, axis=0) + ops.take(node.var(3), positions, axis=0)
    if segments is not None:
        total = total + ops.take(node.var(4), segments, axis=0)
    epsilon = node.attr("epsilon", OLDEST_EPSILON)
    out = call("layer_norm", total, node.maybe(5), node.maybe(6), axis=-1, epsilon=epsilon)
    mask = node.maybe(7)
    if mask is None:
        index = ops.zeros_like(ops.sum(ids, axis=1), dtype="int32")
    else:
        index = ops.cast(ops.sum(mask, axis=1), "int32")
    return out, index, total


# ---- sub-byte weights ------------------------------------------------------------------------


def unpack_bits(node: OnnxNode, x: Var, bits: int, wanted: Size) -> Var:
    """Unpack bytes of several numbers along the last axis, the lowest bits first."""
    if bits == 8:
        return x
    if bits not in (2, 4):
        node.refuse(f"unsupported weights of {bits} bits; expected 2, 4 or 8")
    mask = ops.full_like(x, 2**bits - 1)
    parts = [
        ops.bitwise_and(ops.bitwise_right_shift(x, ops.full_like(x, at)), mask)
        for at in range(0, 8, bits)
    ]
    count = sizes.times(x.shape[-1], len(parts))
    flat = ops.reshape(ops.stack(parts, axis=-1), (*x.shape[:-1], count))
    return flat if count == wanted else flat[..., :wanted]


def dequantize_blocks(
    node: OnnxNode, x: Var, scales: Var, zeros: Var | None, bits: int, block: int
) -> Var:
    """Dequantize unpacked integers in blocks along the last axis."""
    if zeros is None:
        zeros = ops.full_like(scales, 2 ** (bits - 1), dtype="uint8")
    elif zeros.dtype == x.dtype:
        zeros = unpack_bits(node, zeros, bits, scales.shape[-1])
    if zeros.dtype == x.dtype:
        return call("dequantize", x, scales, zeros, axis=-1, block=block)
    scaled_values = call("dequantize", x, scales, axis=-1, block=block)
    offsets = ops.repeat(scales * ops.cast(zeros, scales.dtype), block, axis=-1)
    return scaled_values - (
        offsets if offsets.shape == x.shape else offsets[..., : x.shape[-1]]
    )


def matmul_n_bits(node: OnnxNode) -> Var:
    """A product with sub-byte weights in blocks, each with a scale."""
    if node.has(4):
        node.refuse("unsupported input `g_idx`")
    a, b, bits = node.var(0), node.var(1), node.attr("bits", 4)
    rows, deep, block = node.attr("N"), node.attr("K"), node.attr("block_size")
    blocks = -(-deep // block)
    packed = ops.reshape(b, (rows, product(b.shape[1:])))
    weights = unpack_bits(node, packed, bits, deep)
    scales = ops.reshape(node.var(2), (rows, blocks))
    zeros = node.maybe(3)
    if zeros is not None:
        zeros_per_row = blocks if zeros.dtype != b.dtype else -(-blocks * bits // 8)
        zeros = ops.reshape(zeros, (rows, zeros_per_row))
    dequantized = dequantize_blocks(node, weights[..., :deep], scales, zeros, bits, block)
    out = ops.matmul(a, ops.transpose(dequantized))
    return out + node.var(5) if node.has(5) else out


def gather_block_quantized(node: OnnxNode) -> Var:
    """Rows of a sub-byte table, dequantized."""
    data, indices, scales, zeros = node.var(0), node.var(1), node.var(2), node.maybe(3)
    bits, block = node.attr("bits", 4), node.attr("block_size", 128)
    block_axis = node.axis("quantize_axis", 1, data.ndim)
    if block_axis != data.ndim - 1 or node.axis("gather_axis", 0, data.ndim) != 0:
        node.refuse("expected gather_axis=0 and quantize_axis=-1")
    x, factors = ops.take(data, indices, axis=0), ops.take(scales, indices, axis=0)
    points = None if zeros is None else ops.take(zeros, indices, axis=0)
    integers = unpack_bits(node, x, bits, sizes.times(x.shape[-1], 8 // bits))
    return dequantize_blocks(node, integers, factors, points, bits, block)


MICROSOFT: Mapping[str, Rule] = {
    "SimplifiedLayerNormalization": simplified_layer_norm,
    **{
        f"{DOMAIN}.{name}": rule
        for name, rule in {
            "BiasAdd": bias_add,
            "BiasGelu": gelu,
            "BiasSplitGelu": split_gelu,
            "EmbedLayerNormalization": embed_layer_norm,
            "FastGelu": fast_gelu,
            "FusedConv": fused_conv,
            "FusedGemm": fused_gemm,
            "FusedMatMul": fused_matmul,
            "GatherBlockQuantized": gather_block_quantized,
            "Gelu": gelu,
            "LayerNormalization": layer_norm,
            "MatMulNBits": matmul_n_bits,
            "QuickGelu": quick_gelu,
            "SimplifiedLayerNormalization": simplified_layer_norm,
            "SkipLayerNormalization": skip_layer_norm,
            "SkipSimplifiedLayerNormalization": skip_simplified_layer_norm,
        }.items()
    },
}
"""ONNX Runtime's exporters write simplified layer norms as if they were ONNX's own."""
