"""Scikit-learn's handwritten digits, with a fixed split."""

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
    """Images with their labels.

    Attributes:
        pixels: f32[images, 8, 8], between 0 and 1.
        digits: i32[images], labels from 0 to 9.
    """

    pixels: Array
    digits: Array

    def __len__(self) -> int:
        return len(self.pixels)

    def part(self, indices: Any) -> Images:
        """Return a subset of the images."""
        return Images(self.pixels[indices], self.digits[indices])

    def batches(self, size: int, noise: float, rng: np.random.Generator) -> Iterator[Images]:
        """Yield shuffled, noisy batches of one epoch; an incomplete last batch is dropped."""
        order = rng.permutation(len(self))
        for start in range(0, len(self) - size + 1, size):
            batch = self.part(order[start : start + size])
            yield Images(batch.pixels + noise * _normal(rng, batch.pixels.shape), batch.digits)


def _normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


def load_images() -> tuple[Images, Images]:
    """Return 1,347 training images and 450 test images for the final accuracy.

    Raises:
        MissingPackageError: If scikit-learn is not installed.
    """
    loaded = sklearn_datasets.load_digits()
    pixels, digits = loaded.images, loaded.target
    images = Images((pixels / _BRIGHTEST).astype(np.float32), digits.astype(np.int32))
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(images))
    return images.part(order[:-TEST_IMAGES]), images.part(order[-TEST_IMAGES:])
