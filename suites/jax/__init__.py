"""JAX's own tests and harnesses, and libraries of JAX, through `br.from_jax`."""

from suites.jax.harnesses import GROUPS as HARNESSES
from suites.jax.libraries import GROUPS as LIBRARIES
from suites.jax.own_tests import GROUPS as OWN_TESTS

TITLE = "JAX's own tests"
PACKAGES = (
    "jax", "jaxlib", "numpy", "blackjax", "brax", "chex", "diffrax", "distrax", "dm-haiku",
    "dm-pix", "e3nn-jax", "equinox", "flax", "gymnax", "jax-md", "jaxopt", "jraph", "lineax",
    "mctx", "numpyro", "optax", "optimistix",
)  # fmt: skip
GROUPS = {**OWN_TESTS, **HARNESSES, **LIBRARIES}
