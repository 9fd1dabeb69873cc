"""Scikit-learn's handwritten digits, divided once and for all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from braces.lazy import sklearn_datasets

Array: TypeAlias = "np.ndarray[Any, Any]"

TEST_IMAGES = 450
_SPLIT_SEED = 0
_BRIGHTEST = 16.0


@dataclass(frozen=True)
class Images:
    """Images with what they show.

    Attributes:
        pixels: f32[images, 8, 8], between 0 and 1.
        digits: i32[images], from 0 to 9.
    """

    pixels: Array
    digits: Array

    def __len__(self) -> int:
        return len(self.pixels)

    def part(self, chosen: Any) -> Images:
        """Some of the images."""
        return Images(self.pixels[chosen], self.digits[chosen])

    def batches(self, size: int, noise: float, rng: np.random.Generator) -> Iterator[Images]:
        """All images once, shuffled, with noise on the pixels, less a short last batch."""
        order = rng.permutation(len(self))
        for start in range(0, len(self) - size + 1, size):
            batch = self.part(order[start : start + size])
            yield Images(batch.pixels + noise * _normal(rng, batch.pixels.shape), batch.digits)


def _normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


def load_images() -> tuple[Images, Images]:
    """1,347 images to learn from, and 450 that only the last accuracy is measured on.

    Raises:
        MissingPackageError: Scikit-learn is not installed.
    """
    loaded = sklearn_datasets.load_digits()
    pixels, digits = loaded.images, loaded.target
    images = Images((pixels / _BRIGHTEST).astype(np.float32), digits.astype(np.int32))
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(images))
    return images.part(order[:-TEST_IMAGES]), images.part(order[-TEST_IMAGES:])
