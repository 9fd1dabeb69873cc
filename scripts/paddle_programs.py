"""Small Paddle programs for tests and fuzzing, with all constructs."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddle_writing import Written

RNG = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    """Random numbers from a fixed seed."""
    return RNG.normal(size=shape).astype(np.float32)


def number(p: Written, name: str, value: float, dtype: int = 3) -> str:
    """One number."""
    return p.op("fill_constant", {}, {"Out": name}, shape=[1], dtype=dtype, value=value)


def mlp() -> Written:
    """Two layers in the form of fluid: a bias along axis 1, a `scale` in front of a fetch."""
    p = Written()
    x = p.feed("x", -1, 3)
    p.op("mul", {"X": x, "Y": p.weight("fc_0.w_0", normal(3, 4))}, {"Out": "a"},
         x_num_col_dims=1, y_num_col_dims=1)  # fmt: skip
    bias = p.weight("fc_0.b_0", normal(4))
    p.op("elementwise_add", {"X": "a", "Y": bias}, {"Out": "b"}, axis=1)
    p.op("relu", {"X": "b"}, {"Out": "c"})
    p.op("dropout", {"X": "c"}, {"Out": "d", "Mask": "m"}, dropout_prob=0.25, is_test=True,
         dropout_implementation=b"downgrade_in_infer")  # fmt: skip
    p.op("matmul_v2", {"X": "d", "Y": p.weight("fc_1.w_0", normal(2, 4))}, {"Out": "e"},
         trans_x=False, trans_y=True)  # fmt: skip
    p.op("softmax", {"X": "e"}, {"Out": "f"}, axis=-1)
    p.op("scale", {"X": "f"}, {"Out": "save_infer_model/scale_0"}, scale=1.0, bias=0.0)
    p.fetch("save_infer_model/scale_0")
    return p


def image() -> Written:
    """A convolution, batch norm, pools, a resize, and computed shapes."""
    p = Written()
    x = p.feed("x", -1, 3, 6, 6)
    w = p.weight("conv.w", normal(4, 3, 3, 3))
    p.op("conv2d", {"Input": x, "Filter": w}, {"Output": "a"}, strides=[1, 1], paddings=[1, 1],
         dilations=[1, 1], groups=1)  # fmt: skip
    given = {"Scale": p.weight("bn.s", normal(4)), "Bias": p.weight("bn.b", normal(4))}
    given["Mean"] = p.weight("bn.mean", normal(4))
    given["Variance"] = p.weight("bn.var", normal(4) ** 2 + 1)
    made = {"Y": "b", "MeanOut": "bn.mean", "VarianceOut": "bn.var"}
    p.op("batch_norm", {"X": "a", **given}, made, is_test=True, epsilon=1e-5)
    p.op("hard_swish", {"X": "b"}, {"Out": "c"}, threshold=6.0, scale=6.0, offset=3.0)
    p.op("pool2d", {"X": "c"}, {"Out": "d"}, pooling_type=b"max", ksize=[2, 2], strides=[2, 2],
         paddings=[0, 0])  # fmt: skip
    p.op("nearest_interp_v2", {"X": "d"}, {"Out": "e"}, scale=[2.0, 2.0], align_corners=False,
         out_h=-1, out_w=-1)  # fmt: skip
    p.op("pool2d", {"X": "e"}, {"Out": "f"}, pooling_type=b"avg", ksize=[1, 1], adaptive=True)
    p.op("shape", {"Input": "f"}, {"Out": "s"})
    p.op(
        "slice", {"Input": "s"}, {"Out": "n"}, axes=[0], starts=[0], ends=[1], decrease_axis=[0]
    )
    p.op("fill_constant", {}, {"Out": "c4"}, shape=[1], dtype=2, value=4.0)
    p.op("reshape2", {"X": "f", "ShapeTensor": ["n", "c4"]}, {"Out": "g", "XShape": "g.x"},
         shape=[-1, 4])  # fmt: skip
    p.op("reduce_sum", {"X": "g"}, {"Out": "h"}, dim=[], reduce_all=False, keep_dim=False)
    p.var("h", 1)
    p.fetch("g", "h")
    return p


def growing() -> Written:
    """While i < n: x = tanh(x w), appended to a list; an array is created in the loop."""
    p = Written()
    x, n = p.feed("x", -1, 3), p.feed("n", 1, dtype="int64")
    w = p.weight("w", normal(3, 3))
    p.desc.blocks[0].vars.add(name="rows").type.type = 13
    p.op("assign_value", {}, {"Out": "late"}, shape=[1], dtype=5, fp32_values=[1.77113e27])
    p.op("less_than", {"X": number(p, "i", 0.0), "Y": n}, {"Out": "going"})
    with p.block() as body:
        p.op("matmul_v2", {"X": x, "Y": w}, {"Out": "product"})
        p.op("tanh", {"X": "product"}, {"Out": x})
        p.op("lod_array_length", {"X": "rows"}, {"Out": "count"})
        p.op("write_to_array", {"X": x, "I": "count"}, {"Out": "rows"})
        p.op("assign", {"X": "product"}, {"Out": "late"})
        p.op("increment", {"X": "i"}, {"Out": "i"}, step=1.0)
        p.op("less_than", {"X": "i", "Y": n}, {"Out": "going"})
    outs = {"Out": [x, "i", "going", "rows", "late"], "StepScopes": "scopes"}
    p.op("while", {"Condition": "going", "X": [x, w, n]}, outs, sub_block=body)
    p.op("scale", {"X": "i"}, {"Out": "last"}, scale=1.0, bias=-1.0)
    p.op("read_from_array", {"X": "rows", "I": "last"}, {"Out": "read"})
    p.op("slice", {"Input": "rows"}, {"Out": "second"}, axes=[0], starts=[1], ends=[2],
         decrease_axis=[0])  # fmt: skip
    p.op("tensor_array_to_tensor", {"X": "rows"}, {"Out": "all"}, axis=0, use_stack=True)
    p.fetch(x, "read", "second", "all", "late")
    return p


def branching() -> Written:
    """Two blocks with two results, selected by `select_input`; and a block of a Switch."""
    p = Written()
    x, c = p.feed("x", -1, 3), p.feed("c", 1, dtype="bool")
    p.op("scale", {"X": x}, {"Out": "kept"}, scale=1.0, bias=0.0)
    p.op("logical_not", {"X": c}, {"Out": "not"})
    for asked, kind, side in ((c, "exp", "yes"), ("not", "tanh", "no")):
        with p.block() as body:
            p.op(kind, {"X": x}, {"Out": f"{side}.t"})
            p.op("assign", {"X": f"{side}.t"}, {"Out": f"{side}.0"})
            p.op("scale", {"X": f"{side}.t"}, {"Out": f"{side}.1"}, scale=2.0, bias=0.0)
            p.desc.blocks[body.at].vars.add(name=f"{side}.t")
        made = {"Out": [f"{side}.0", f"{side}.1"]}
        p.op("conditional_block", {"Cond": asked, "Input": x}, made, sub_block=body,
             is_scalar_condition=True)  # fmt: skip
    with p.block() as body:
        p.op("square", {"X": x}, {"Out": "kept"})
    p.op("conditional_block", {"Cond": c}, {"Out": "kept"}, sub_block=body,
         is_scalar_condition=True)  # fmt: skip
    p.op("cast", {"X": c}, {"Out": "mask"}, in_dtype=0, out_dtype=2)
    for at in range(2):
        given = {"X": [f"no.{at}", f"yes.{at}"], "Mask": "mask"}
        p.op("select_input", given, {"Out": f"y{at}"})
    p.fetch("y0", "y1", "kept")
    return p


def tagger() -> Written:
    """A table, a GRU and a CRF over sequences, and their means."""
    p = Written()
    words = p.feed("words", -1, 1, dtype="int64", level=1)
    p.op("lookup_table", {"W": p.weight("emb", normal(7, 9)), "Ids": words}, {"Out": "e"},
         padding_idx=0)  # fmt: skip
    given = {"Weight": p.weight("gru.w", normal(3, 9)), "Bias": p.weight("gru.b", normal(1, 9))}
    p.op("gru", {"Input": "e", **given}, {"Hidden": "h", "BatchGate": "g"}, is_reverse=True,
         gate_activation=b"sigmoid", activation=b"tanh", origin_mode=False)  # fmt: skip
    p.op("mul", {"X": "h", "Y": p.weight("fc.w", normal(3, 4))}, {"Out": "s"})
    p.op("crf_decoding", {"Emission": "s", "Transition": p.weight("crf", normal(6, 4))},
         {"ViterbiPath": "path"})  # fmt: skip
    p.op("sequence_pool", {"X": "h"}, {"Out": "mean"}, pooltype=b"AVERAGE", pad_value=0.0)
    p.fetch("path", "mean")
    return p


PROGRAMS = (mlp, image, growing, branching, tagger)
