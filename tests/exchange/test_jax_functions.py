"""Public functions of JAX as programs; `python scripts/jax_functions.py` runs all of them."""

from __future__ import annotations

import importlib

import pytest
from jax_cases import MODULES, call_of, calls, functions, listed_as_refused, outcome

pytestmark = pytest.mark.unoptimized

SHARE = {
    "jax.numpy": ("bitwise_count", "intersect1d", "nanquantile", "polyfit", "searchsorted"),
    "jax.numpy.linalg": ("lstsq", "slogdet"),
    "jax.numpy.fft": ("hfft", "irfftn"),
    "jax.lax": (
        "conv_general_dilated",
        "custom_linear_solve",
        "igamma_grad_a",
        "reduce_xor",
        "scatter_mul",
    ),
    "jax.random": ("beta", "loggamma"),
    "jax.scipy.special": ("betainc", "exp1", "i1", "polygamma"),
}
"""What of them is run in `make check`."""


@pytest.mark.parametrize("module", SHARE)
def test_functions_give_what_jax_gives(module: str) -> None:
    for name in SHARE[module]:
        call = call_of(module, name)
        assert call is not None
        assert outcome(call) == "", name


@pytest.mark.parametrize("module", MODULES)
def test_the_page_lists_functions_of_modules(module: str) -> None:
    known = functions(importlib.import_module(module))
    assert listed_as_refused(module) <= set(known)


@pytest.mark.thorough
@pytest.mark.parametrize("module", MODULES)
def test_the_page_lists_what_is_refused(module: str) -> None:
    wrong = {name for name, call in calls(module).items() if outcome(call)}
    assert wrong == listed_as_refused(module)
