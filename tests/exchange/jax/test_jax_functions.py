"""Public functions of JAX as programs; `python scripts/jax_functions.py` runs all of them."""

from __future__ import annotations

import importlib

import pytest

from jax_cases import MODULES, call_of, calls, functions, listed_as_refused, outcome
from jax_gradients import calls_at_kinks, gradient_outcome

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
"""The functions that `make check` runs."""


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


# ---- gradients -------------------------------------------------------------------------------

WITH_GRADIENTS = {
    "jax.numpy.linalg": ("inv", "matrix_power", "solve", "tensorsolve"),
    "jax.scipy.linalg": ("cholesky", "solve"),
    "jax.scipy.special": ("erfcx", "hyp1f1"),
    "jax.numpy.fft": ("irfft",),
    "jax.lax": ("custom_root", "custom_linear_solve"),
}
"""The functions that `make check` differentiates."""
AT_KINKS = {
    "jax.numpy": ("abs", "clip", "copysign", "hypot", "mod", "power"),
    "jax.nn": ("celu", "elu", "hard_tanh", "relu6", "selu"),
    "jax.lax": ("clamp", "integer_pow", "rem"),
    "jax.scipy.special": ("erfcx",),
}
"""The functions that `make check` differentiates at kinks."""


@pytest.mark.parametrize("module", WITH_GRADIENTS)
def test_gradients_are_those_of_jax(module: str) -> None:
    for name in WITH_GRADIENTS[module]:
        call = call_of(module, name)
        assert call is not None
        assert gradient_outcome(call) == "", name


@pytest.mark.thorough
@pytest.mark.parametrize("module", MODULES)
def test_gradients_of_all_functions_are_those_of_jax(module: str) -> None:
    wrong = {name: gradient_outcome(call) for name, call in calls(module).items()}
    assert {name: why for name, why in wrong.items() if why} == {}


@pytest.mark.parametrize("module", AT_KINKS)
def test_gradients_at_kinks_are_those_of_jax(module: str) -> None:
    for name in AT_KINKS[module]:
        for call in calls_at_kinks(module, name):
            assert gradient_outcome(call) == "", name


@pytest.mark.thorough
@pytest.mark.parametrize("module", ["jax.numpy", "jax.nn", "jax.lax", "jax.scipy.special"])
def test_gradients_of_all_functions_at_kinks_are_those_of_jax(module: str) -> None:
    names = functions(importlib.import_module(module))
    made = [(name, call) for name in names for call in calls_at_kinks(module, name)]
    wrong = [(name, why) for name, call in made if (why := gradient_outcome(call))]
    assert wrong == []
