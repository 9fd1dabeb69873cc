"""Operators on images and signals: windows that slide, other sizes, regions."""

from __future__ import annotations

import numpy as np

from tests.exchange.onnx.versions.cases import Table, case, fixed


def numbers(*shape: int) -> np.ndarray:
    """Numbers that are not in order, and differ."""
    count = int(np.prod(shape))
    return ((np.arange(count) * 7919 % 31).astype("f4") / 8 - 2).reshape(shape)


IMAGE, LINE, SPACE = numbers(1, 2, 5, 6), numbers(1, 2, 7), numbers(1, 1, 3, 4, 3)
KERNEL, BIAS = numbers(3, 2, 3, 2), np.array([0.5, -1.0, 2.0], "f4")
SMALL = numbers(1, 1, 3, 4)
BACK = numbers(2, 3, 3, 2)
"""A kernel of a transposed convolution."""
FACTORS = fixed([1, 1, 2, 1.5], "f4")
SHRINKING = fixed([1, 1, 0.6, 0.5], "f4")
NO_REGION = fixed([], "f4")
ROIS = np.array([[0.0, 0, 3, 3], [1, 1, 5, 4]], "f4")
GRID = (numbers(1, 2, 3, 2) / 2).astype("f4")
THETA = np.array([[[1, 0.5, 0.25], [-0.5, 1, 0.0]]], "f4")
SOLID = np.concatenate([np.eye(3), np.full((3, 1), 0.25)], 1)[None].astype("f4")


def pools(*more: object, **attrs: object) -> tuple:
    """What slides over one, two and three axes."""
    return (
        case(IMAGE, kernel_shape=[2, 3], **attrs),
        case(LINE, kernel_shape=[2], strides=[2], **attrs),
        case(SPACE, kernel_shape=[2, 2, 2], **attrs),
        case(IMAGE, kernel_shape=[3, 3], pads=[1, 0, 1, 2], strides=[2, 1], **attrs),
        *(
            case(IMAGE, kernel_shape=[3, 2], strides=[2, 2], auto_pad=word, **attrs)
            for word in ("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
        ),
        *more,
    )


CEILED = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}
SPREAD = {"kernel_shape": [2, 2], "dilations": [2, 3]}
COUNTING = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}


def resizes() -> tuple:
    """Resize as of version 11."""
    ways = [
        {"mode": mode, "coordinate_transformation_mode": way}
        for mode in ("nearest", "linear", "cubic")
        for way in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
    ]
    rounding = [
        {"nearest_mode": word}
        for word in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    ]
    cubic = [{"mode": "cubic", "cubic_coeff_a": -0.5}, {"mode": "cubic", "exclude_outside": 1}]
    sizes, region = fixed([1, 1, 7, 3]), fixed([0, 0, 0.2, 0.1, 1, 1, 0.9, 1.3], "f4")
    cropped = {"coordinate_transformation_mode": "tf_crop_and_resize", "mode": "linear"}
    return (
        *(
            case(SMALL, NO_REGION, FACTORS, since=11, **way)
            for way in [*ways, *rounding, *cubic]
        ),
        case(SMALL, NO_REGION, SHRINKING, since=11),
        case(SMALL, NO_REGION, SHRINKING, mode="linear", since=11),
        case(SMALL, NO_REGION, NO_REGION, sizes, since=11),
        case(SMALL, NO_REGION, NO_REGION, sizes, mode="linear", since=11),
        case(SMALL, region, NO_REGION, sizes, extrapolation_value=9.0, since=11, **cropped),
        case(SMALL, None, FACTORS, since=13),
        case(SMALL, None, None, sizes, since=13),
        case(SMALL, None, None, fixed([6, 8]), axes=[2, 3], since=18),
        case(SMALL, None, SHRINKING, antialias=1, mode="linear", since=18),
        case(SMALL, None, SHRINKING, antialias=1, mode="cubic", since=18),
        *(
            case(SMALL, None, None, fixed([7, 7]), axes=[2, 3], since=18,
                 keep_aspect_ratio_policy=word)
            for word in ("stretch", "not_larger", "not_smaller")
        ),
        case(SMALL, None, FACTORS, coordinate_transformation_mode="half_pixel_symmetric",
             mode="linear", since=19),
    )  # fmt: skip


def old_resizes(since: int, until: int) -> tuple:
    """Factors alone."""
    return tuple(
        case(SMALL, scales, mode=mode, since=since, until=until)
        for scales in (FACTORS, SHRINKING)
        for mode in ("nearest", "linear")
    )


def unpooled(x: np.ndarray, at: np.ndarray, shape: np.ndarray) -> list[np.ndarray]:
    """At places in the smallest array that pools so, as ONNX's own case has it."""
    made = np.zeros(16, "f4")
    made[at.ravel()] = x.ravel()
    return [np.pad(made.reshape(1, 1, 4, 4), [(0, n - 4 if n > 4 else 0) for n in shape])]


def samples() -> tuple:
    """GridSample, whose ways have other names since version 20."""
    old, new = ("bilinear", "nearest", "bicubic"), ("linear", "nearest", "cubic")
    return (
        case(IMAGE, GRID),
        *(case(IMAGE, GRID, mode=word, until=16) for word in old),
        *(case(IMAGE, GRID, mode=word, since=20) for word in new),
        case(IMAGE, GRID, padding_mode="border"),
        case(IMAGE, GRID, padding_mode="reflection", align_corners=1),
        case(IMAGE, GRID, padding_mode="zeros", align_corners=1),
        case(SPACE, numbers(1, 2, 2, 2, 3) / 2, since=20),
    )


TABLE: Table = {
    "AffineGrid": (
        case(THETA, fixed([1, 1, 2, 3])),
        case(THETA, fixed([1, 1, 2, 3]), align_corners=1),
        case(SOLID, fixed([1, 1, 2, 3, 2])),
    ),
    "AveragePool": pools(
        case(IMAGE, **COUNTING),
        case(IMAGE, since=10, **CEILED),
        case(IMAGE, since=10, **(CEILED | COUNTING)),
        case(IMAGE, since=19, **SPREAD),
    ),
    "Col2Im": (
        case(numbers(1, 4, 5), fixed([2, 6]), fixed([2, 2])),
        case(numbers(1, 8, 12), fixed([4, 5]), fixed([2, 2])),
        case(numbers(1, 4, 4), fixed([4, 4]), fixed([2, 2]), strides=[2, 2], dilations=[1, 1]),
        case(numbers(1, 4, 16), fixed([4, 4]), fixed([2, 2]), dilations=[2] * 2, pads=[1] * 4),
    ),
    "Conv": (
        case(IMAGE, KERNEL),
        case(IMAGE, KERNEL, BIAS, kernel_shape=[3, 2], pads=[1, 0, 1, 2], strides=[2, 1]),
        case(IMAGE, KERNEL, dilations=[2, 3]),
        case(LINE, numbers(2, 1, 3), group=2),
        case(SPACE, numbers(2, 1, 2, 2, 2)),
        *(
            case(IMAGE, KERNEL, BIAS, auto_pad=word, strides=[2, 2])
            for word in ("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
        ),
    ),
    "ConvTranspose": (
        case(IMAGE, BACK),
        case(IMAGE, BACK, BIAS, kernel_shape=[3, 2], pads=[1, 0, 1, 1], strides=[2, 1]),
        case(IMAGE, BACK, dilations=[2, 1], strides=[2, 3], output_padding=[1, 0]),
        case(IMAGE, BACK, strides=[2, 2], output_shape=[10, 12]),
        case(LINE, numbers(2, 1, 3), group=2),
        *(
            case(IMAGE, BACK, auto_pad=word, strides=[2, 2], since=11)
            for word in ("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
        ),
        case(IMAGE, BACK, auto_pad="VALID", strides=[2, 2], until=1),
    ),
    "DeformConv": (
        case(IMAGE, KERNEL, numbers(1, 12, 3, 5) / 4),
        case(
            IMAGE, KERNEL, numbers(1, 24, 3, 3) / 4, BIAS, np.abs(numbers(1, 12, 3, 3)),
            offset_group=2, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1],
        ),
        case(IMAGE, numbers(2, 1, 2, 2), numbers(1, 8, 3, 4) / 4, group=2, dilations=[2, 2]),
    ),
    **{
        name: (case(IMAGE), case(LINE), case(SPACE))
        for name in ("GlobalAveragePool", "GlobalMaxPool")
    },
    "GlobalLpPool": (case(IMAGE), case(LINE, p=1), case(SPACE, p=3)),
    "GridSample": samples(),
    "LpPool": pools(
        case(IMAGE, kernel_shape=[2, 2], p=1),
        case(IMAGE, since=18, **CEILED),
        case(IMAGE, since=18, **SPREAD),
    ),
    "MaxPool": pools(
        case(IMAGE, kernel_shape=[2, 2], outputs=2, since=8),
        case(
            np.concatenate([IMAGE, -IMAGE]), kernel_shape=[2, 3], outputs=2, storage_order=1,
            since=8,
        ),
        case(IMAGE, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2], outputs=2, since=8),
        case(IMAGE, since=10, **CEILED),
        case(IMAGE, since=10, **SPREAD),
        case(IMAGE, since=10, outputs=2, **SPREAD),
    ),
    "MaxRoiPool": (
        case(IMAGE, np.array([[0, 0, 0, 3, 3], [0, 1, 1, 5, 4]], "f4"), pooled_shape=[2, 2]),
        case(
            IMAGE, np.array([[0, 2, 0, 8, 6]], "f4"), pooled_shape=[2, 3], spatial_scale=0.5,
        ),
    ),
    "MaxUnpool": (
        case(
            np.array([[[[1, 2], [3, 4]]]], "f4"), np.array([[[[5, 7], [13, 15]]]]),
            kernel_shape=[2, 2], strides=[2, 2],
        ),
        case(
            np.array([[[[1, 2], [3, 4]]]], "f4"), np.array([[[[5, 7], [13, 15]]]]),
            fixed([1, 1, 5, 5]), kernel_shape=[2, 2], strides=[2, 2], want=unpooled,
        ),
        case(
            np.array([[[[1, 2], [3, 4]]]], "f4"), np.array([[[[0, 2], [3, 8]]]]),
            kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1],
        ),
        case(np.array([[[1, 2]]], "f4"), np.array([[[1, 2]]]), kernel_shape=[2]),
    ),
    "Resize": (
        *old_resizes(10, 10),
        case(SMALL, FACTORS, since=10, until=10),
        *resizes(),
    ),
    "RoiAlign": (
        case(IMAGE, ROIS, np.zeros(2, "i8"), output_height=2, output_width=2, sampling_ratio=2),
        case(IMAGE, ROIS, np.zeros(2, "i8"), output_width=3, spatial_scale=0.5),
        case(IMAGE, ROIS, np.zeros(2, "i8")),
        case(IMAGE, ROIS[:1], np.zeros(1, "i8"), mode="max", output_height=2, sampling_ratio=1),
        case(
            IMAGE, ROIS, np.zeros(2, "i8"), since=16, output_height=2, output_width=2,
            coordinate_transformation_mode="output_half_pixel",
        ),
    ),
    "Upsample": (
        *(
            case(SMALL, scales=[1.0, 1.0, 2.0, 1.5], mode=mode, until=7)
            for mode in ("nearest", "linear")
        ),
        case(SMALL, scales=[1.0, 1.0, 2.0, 2.0], until=7),
        *old_resizes(9, 9)[:2],
        case(SMALL, FACTORS, since=9, until=9),
    ),
}  # fmt: skip
