"""Images: resizing, sampling, regions, windows and rearranged pixels.

Layers on images, such as `br.conv2d` and `br.max_pool2d`, are in `br` and `br.layers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from braces.frontend.array_api.meshgrid import rot90
from braces.frontend.core.all_or_nothing import module_getattr
from braces.frontend.core.functions import (
    col2im,
    grid_sample,
    im2col,
    non_max_suppression,
    resize,
    roi_align,
    roi_pool,
)
from braces.frontend.nn.pooling import pixel_shuffle, pixel_unshuffle, upsample

__all__ = [
    "col2im", "grid_sample", "im2col", "non_max_suppression", "pixel_shuffle",
    "pixel_unshuffle", "resize", "roi_align", "roi_pool", "rot90", "upsample",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = module_getattr("br.image", __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
