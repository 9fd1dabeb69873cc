"""JAX's own tests and harnesses, and libraries of JAX, through `br.from_jax`."""

from suites.jax.harnesses import GROUPS as HARNESSES
from suites.jax.libraries import GROUPS as LIBRARIES
from suites.jax.own_tests import GROUPS as OWN_TESTS

TITLE = "JAX's own tests"
PACKAGES = ("jax", "jaxlib", "numpy")
GROUPS = {**OWN_TESTS, **HARNESSES, **LIBRARIES}
