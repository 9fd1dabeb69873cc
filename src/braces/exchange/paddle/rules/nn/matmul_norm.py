"""Rules of matrix products, embeddings and normalizations."""

from __future__ import annotations

from collections.abc import Mapping

from braces.exchange.common.rules.elementwise import cast_to_dtype, scale_by
from braces.exchange.paddle.graph.node import PaddleOp, Results, Rule
from braces.extend import functions as ops
from braces.extend.building import Var, call
from braces.extend.types import product


def mul(node: PaddleOp) -> Var:
    """A product of arrays that are flattened to matrices."""
    x, y = node.var("X"), node.var("Y")
    rows, columns = node.attr("x_num_col_dims", 1), node.attr("y_num_col_dims", 1)
    return flat_product(x, y, rows, columns)


def flat_product(x: Var, y: Var, rows: int, columns: int) -> Var:
    """Return the product of two arrays, each flattened to a matrix."""
    shape = (*x.shape[:rows], *y.shape[columns:])
    if x.ndim > rows + 1:
        x = ops.reshape(x, (*x.shape[:rows], product(x.shape[rows:])))
    if y.ndim > 2:
        y = ops.reshape(y, (product(y.shape[:columns]), product(y.shape[columns:])))
    matrix = ops.matmul(x, y)
    return matrix if matrix.ndim == len(shape) else ops.reshape(matrix, shape)


def matmul(node: PaddleOp) -> Var:
    """A scaled matrix product, with optional transposes."""
    x, y = node.var("X"), node.var("Y")
    x = _maybe_transpose(x, node.attr("transpose_X", node.attr("trans_x", False)))
    y = _maybe_transpose(y, node.attr("transpose_Y", node.attr("trans_y", False)))
    return scale_by(ops.matmul(x, y), node.attr("alpha", 1.0))


def _maybe_transpose(x: Var, is_transposed: bool) -> Var:
    return ops.swapaxes(x, -1, -2) if is_transposed and x.ndim > 1 else x


def dot(node: PaddleOp) -> Var:
    """The sum of products along the last axis."""
    return ops.sum(node.var("X") * node.var("Y"), axis=-1)


def addmm(node: PaddleOp) -> Var:
    """Alpha x y + beta input."""
    scaled_product = scale_by(ops.matmul(node.var("X"), node.var("Y")), node.attr("Alpha", 1.0))
    return scaled_product + scale_by(node.var("Input"), node.attr("Beta", 1.0))


def fc(node: PaddleOp) -> Var:
    """A dense layer with an optional bias and ReLU."""
    out = flat_product(node.var("Input"), node.var("W"), node.attr("in_num_col_dims", 1), 1)
    bias = node.maybe("Bias")
    if bias is not None:
        out = out + ops.reshape(bias, (product(bias.shape),))
    function = node.attr("activation_type", "")
    if function not in ("", "relu"):
        node.refuse(f"unsupported activation {function!r:.40}")
    return ops.relu(out) if function else out


def einsum(node: PaddleOp) -> Var:
    """An einsum."""
    return call(
        "einsum", *node.vars("Operands"), equation=node.attr("equation").replace(" ", "")
    )


# ---- tables ----------------------------------------------------------------------------------


def table(node: PaddleOp) -> Var:
    """Rows of a table; in the old form, indices have a trailing axis of size 1."""
    w, ids = node.var("W"), node.var("Ids")
    if node.type == "lookup_table":
        ids = ops.squeeze(ids, axis=ids.ndim - 1)
    rows = ops.take(w, ids, axis=0)
    padding = node.attr("padding_idx", -1)
    if padding == -1:
        return rows
    is_padding = ops.expand_dims(ops.equal(ids, padding), axis=ids.ndim)
    return ops.where(is_padding, ops.zeros_like(rows), rows)


# ---- normalisations --------------------------------------------------------------------------


def batch_norm(node: PaddleOp) -> Results:
    """Batch norm with running statistics, or with those of the batch."""
    x, last = node.var("X"), node.attr("data_layout", "NCHW") == "NHWC"
    fixed = node.attr("is_test", False) or node.attr("use_global_stats", False)
    out, mean, variance = call(
        "batch_norm", x, node.var("Mean"), node.var("Variance"),
        node.maybe("Scale"), node.maybe("Bias"), training=not fixed,
        axis=x.ndim - 1 if last else 1, momentum=node.attr("momentum", 0.9),
        epsilon=node.attr("epsilon", 1e-5),
    )  # fmt: skip
    return {"Y": cast_to_dtype(out, x.dtype), "MeanOut": mean, "VarianceOut": variance}


def layer_norm(node: PaddleOp) -> Var:
    """Layer norm over the axes from one on."""
    x, first = node.var("X"), node.attr("begin_norm_axis", 1)
    axes, shape = tuple(range(first, x.ndim)), tuple(x.shape[first:])
    scale, shift = (
        ops.reshape(node.var(slot), shape) if node.has(slot) else None
        for slot in ("Scale", "Bias")
    )
    return call("layer_norm", x, scale, shift, axis=axes, epsilon=node.attr("epsilon", 1e-5))


def instance_norm(node: PaddleOp) -> Var:
    """Instance norm."""
    x = node.var("X")
    scale, shift = node.maybe("Scale"), node.maybe("Bias")
    epsilon = node.attr("epsilon", 1e-5)
    return call("group_norm", x, scale, shift, groups=x.shape[1], epsilon=epsilon)


def group_norm(node: PaddleOp) -> Var:
    """Group norm."""
    x, last = node.var("X"), node.attr("data_layout", "NCHW") == "NHWC"
    x = ops.moveaxis(x, -1, 1) if last else x
    normed = call(
        "group_norm", x, node.maybe("Scale"), node.maybe("Bias"),
        groups=node.attr("groups", 1), epsilon=node.attr("epsilon", 1e-5),
    )  # fmt: skip
    return ops.moveaxis(normed, 1, -1) if last else normed


def spectral_norm(node: PaddleOp) -> Var:
    """A weight divided by its largest singular value, which power iterations estimate.

    The gradient is that of these values, which Paddle's is not.
    """
    weight, axis, epsilon = node.var("Weight"), node.attr("dim", 0), node.attr("eps", 1e-12)
    rows = ops.moveaxis(weight, axis, 0)
    matrix = ops.reshape(rows, (rows.shape[0], product(rows.shape[1:])))
    u, v = node.var("U"), node.var("V")
    for _ in range(node.attr("power_iters", 1)):
        v = _unit(ops.matmul(u, matrix), epsilon)
        u = _unit(ops.matmul(matrix, v), epsilon)
    return weight / ops.matmul(u, ops.matmul(matrix, v))


def _unit(vector: Var, epsilon: float) -> Var:
    return vector / (ops.norm(vector) + epsilon)


def affine_channel(node: PaddleOp) -> Var:
    """A scale and shift per channel."""
    x = node.var("X")
    shape = (x.shape[1], *[1] * (x.ndim - 2))
    scale, shift = (ops.reshape(node.var(slot), shape) for slot in ("Scale", "Bias"))
    return x * scale + shift


LAYERS: Mapping[str, Rule] = {
    **dict.fromkeys(("matmul", "matmul_v2", "bmm"), matmul),
    **dict.fromkeys(("lookup_table", "lookup_table_v2"), table),
    **dict.fromkeys(("batch_norm", "sync_batch_norm"), batch_norm),
    "addmm": addmm,
    "affine_channel": affine_channel,
    "dot": dot,
    "einsum": einsum,
    "fc": fc,
    "group_norm": group_norm,
    "instance_norm": instance_norm,
    "layer_norm": layer_norm,
    "mul": mul,
    "spectral_norm": spectral_norm,
}
