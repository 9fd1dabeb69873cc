"""Compiler options of `jax.jit`, limited to those of the installed XLA."""

from __future__ import annotations

from collections.abc import Mapping

from braces.lazy import jax
from braces.target import ROUNDED, XlaOptions

REMOVED: Mapping[str, tuple[int, ...]] = {"xla_cpu_use_fusion_emitters": (0, 11)}
"""Options that XLA no longer has, by the first version of JAX without them."""


def supported_options(options: XlaOptions) -> dict[str, bool | int]:
    """Return the options that the installed XLA has."""
    installed: tuple[int, ...] = jax.__version_info__
    return {
        name: value
        for name, value in options
        if name not in REMOVED or installed < REMOVED[name]
    }


def compiler_options(options: XlaOptions = ()) -> dict[str, bool | int]:
    """Return the `compiler_options` of `jax.jit`: `ROUNDED` and these, if supported."""
    return supported_options((*ROUNDED, *options))
