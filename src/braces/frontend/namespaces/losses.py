"""Losses whose names end in `_loss`, and the similarity that two of them use.

The everyday losses are in `br` itself: `br.softmax_cross_entropy`,
`br.softmax_cross_entropy_soft`, `br.sigmoid_binary_cross_entropy`, `br.squared_error` and
`br.absolute_error`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from braces.frontend.core.all_or_nothing import module_getattr
from braces.frontend.core.functions import cosine_similarity
from braces.frontend.losses.binary import (
    focal_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
)
from braces.frontend.losses.classification import multi_margin_loss, nll_loss
from braces.frontend.losses.margin import (
    circle_loss,
    cosine_embedding_loss,
    hinge_embedding_loss,
    hinge_loss,
    info_nce_loss,
    margin_ranking_loss,
    soft_margin_loss,
    triplet_margin_loss,
)
from braces.frontend.losses.regression import (
    gaussian_nll_loss,
    huber_loss,
    kl_div_loss,
    log_cosh_loss,
    poisson_nll_loss,
    smooth_l1_loss,
)
from braces.frontend.losses.segmentation import dice_loss, tversky_loss
from braces.frontend.sequence.ctc import ctc_loss

__all__ = [
    "circle_loss", "cosine_embedding_loss", "cosine_similarity", "ctc_loss", "dice_loss",
    "focal_loss", "gaussian_nll_loss", "hinge_embedding_loss", "hinge_loss", "huber_loss",
    "info_nce_loss", "kl_div_loss", "log_cosh_loss", "margin_ranking_loss", "multi_margin_loss",
    "multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss", "poisson_nll_loss",
    "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss", "tversky_loss",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = module_getattr("br.losses", __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
