"""Image operations of dm-pix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dm_pix as pix
import jax
import jax.numpy as jnp
import numpy as np

from suites.jax.library_cases.case import Cases, LibraryCase

KEY = jax.random.PRNGKey(2)
_RANDOM = np.random.default_rng(2)
IMAGE = jnp.asarray(_RANDOM.uniform(0.1, 0.9, (8, 9, 3)), "float32")
OTHER = jnp.asarray(_RANDOM.uniform(0.1, 0.9, (8, 9, 3)), "float32")
ANGLE = jnp.asarray(0.4)
TURN = jnp.array([[0.9, 0.2, 0.0], [-0.1, 1.1, 0.0], [0.0, 0.0, 1.0]])


def _all(*functions: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *images: [function(*images) for function in functions]


def _random_colors(image: Any) -> Any:
    return (
        pix.random_brightness(KEY, image, 0.3),
        pix.random_contrast(KEY, image, 0.5, 1.5),
        pix.random_saturation(KEY, image, 0.5, 1.5),
        pix.random_hue(KEY, image, 0.2),
        pix.random_gamma(KEY, image, 0.7, 1.3),
    )


def _random_places(image: Any) -> Any:
    return (
        pix.random_crop(KEY, image, (5, 6, 3)),
        pix.random_flip_left_right(KEY, image),
        pix.random_flip_up_down(KEY, image),
    )


def _augmented(images: Any) -> Any:
    def augment(key: Any, image: Any) -> Any:
        image = pix.random_flip_left_right(key, image)
        image = pix.random_brightness(key, image, 0.2)
        return pix.random_crop(key, image, (6, 6, 3))

    return jax.vmap(augment)(jax.random.split(KEY, 2), images)


CASES: Cases = {
    "brightness, contrast, gamma and saturation": LibraryCase(
        _all(
            lambda x: pix.adjust_brightness(x, 0.2),
            lambda x: pix.adjust_contrast(x, 1.3),
            lambda x: pix.adjust_gamma(x, 1.4, gain=0.9),
            lambda x: pix.adjust_saturation(x, 0.7),
        ),
        (IMAGE,),
    ),
    "hue": LibraryCase(lambda x: pix.adjust_hue(x, 0.1), (IMAGE,)),
    "color spaces": LibraryCase(
        _all(
            pix.rgb_to_hsv, pix.hsv_to_rgb, pix.rgb_to_hsl, pix.hsl_to_rgb, pix.rgb_to_grayscale
        ),
        (IMAGE,),
    ),
    "flips, crops and padding": LibraryCase(
        _all(
            pix.flip_left_right,
            pix.flip_up_down,
            pix.rot90,
            lambda x: pix.rot90(x, 3),
            lambda x: pix.center_crop(x, 5, 6),
            lambda x: pix.pad_to_size(x, 12, 11),
            lambda x: pix.resize_with_crop_or_pad(x, 6, 12),
        ),
        (IMAGE,),
    ),
    "rotate": LibraryCase(pix.rotate, (IMAGE, ANGLE), 1e-3),
    "affine_transform": LibraryCase(
        lambda x, matrix: pix.affine_transform(x, matrix, mode="nearest"), (IMAGE, TURN), 1e-3
    ),
    "affine_transform of the nearest pixels": LibraryCase(
        lambda x, matrix: pix.affine_transform(x, matrix, order=0, mode="mirror"), (IMAGE, TURN)
    ),
    "elastic_deformation": LibraryCase(
        lambda x: pix.elastic_deformation(KEY, x, jnp.array([2.0]), jnp.array([1.5])),
        (IMAGE,),
        1e-3,
    ),
    "gaussian_blur": LibraryCase(lambda x: pix.gaussian_blur(x, 1.2, 3), (IMAGE,)),
    "solarize": LibraryCase(lambda x: pix.solarize(x, 0.6), (IMAGE,)),
    "metrics": LibraryCase(
        _all(pix.mae, pix.mse, pix.psnr, pix.rmse, pix.simse), (IMAGE, OTHER)
    ),
    "ssim": LibraryCase(lambda a, b: pix.ssim(a, b, filter_size=5), (IMAGE, OTHER), 1e-3),
    "depth, space and patches": LibraryCase(
        _all(
            lambda x: pix.space_to_depth(x[:, :8], 2),
            lambda x: pix.depth_to_space(jnp.tile(x, (1, 1, 4)), 2),
            lambda x: pix.extract_patches(
                x[None], (1, 3, 3, 1), (1, 2, 2, 1), (1, 1, 1, 1), padding="VALID"
            ),
        ),
        (IMAGE,),
    ),
    "interpolation": LibraryCase(
        lambda x, at: pix.flat_nd_linear_interpolate(x[..., 0], at),
        (IMAGE, jnp.array([[0.3, 2.7, 6.1], [1.4, 5.5, 7.9]])),
    ),
    "random colors": LibraryCase(_random_colors, (IMAGE,)),
    "random flips and crops": LibraryCase(_random_places, (IMAGE,)),
    "augmentation under vmap": LibraryCase(_augmented, (jnp.stack([IMAGE, OTHER]),)),
}
