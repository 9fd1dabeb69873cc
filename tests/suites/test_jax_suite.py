"""JAX's own tests as cases, with a small file of tests in their form."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("absl", reason="JAX's test utilities need absl-py")
pytestmark = [pytest.mark.unoptimized, pytest.mark.filterwarnings("ignore")]

TESTS = """
import jax, jax.numpy as jnp, numpy as np
from jax import lax
from jax._src import test_util as jtu
from jax.test_util import check_grads

class ToyTest(jtu.JaxTestCase):
    def test_equal(self):
        triple = jax.jit(lambda x, n: x * n, static_argnums=1)
        self.assertAllClose(triple(2.0, 3), 6.0, check_dtypes=False)
        self.assertAllClose(jax.grad(jnp.sin)(0.0), 1.0, check_dtypes=False)
        self.assertAllClose(jax.vmap(jnp.sin)(np.zeros(3, "f")), np.zeros(3, "f"))
        check_grads(jnp.cos, (np.ones(2, "f"),), 2)

    def test_operation(self):
        self._CheckAgainstNumpy(np.sin, jnp.sin, lambda: [np.ones(3, "f")])

    def test_refused(self):
        jax.jit(lambda x: jax.pure_callback(lambda x: x, x, x))(np.ones(2, "f"))

    def test_nothing(self):
        self.assertTrue(True)

    def test_traces(self):
        count = []
        jax.vmap(lambda x: count.append(1) or x)(np.ones(3, "f"))
        self.assertLen(count, 1)

    def test_other_forward(self):
        f = jax.custom_vjp(lambda x: x * x)
        f.defvjp(lambda x: (x, x), lambda x, g: (g * x,))
        jax.grad(lambda x: f(x) * 2)(3.0)
"""
VERDICTS = {
    "equal": {"equal"}, "operation": {"equal"}, "refused": {"refused"},
    "nothing": {"excluded"}, "traces": {"excluded"}, "other_forward": {"excluded"},
}  # fmt: skip


@pytest.mark.parametrize("name", VERDICTS)
def test_a_test_of_jax_has_its_verdict(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from suites.case import Excluded
    from suites.jax import own_tests

    (tmp_path / "lax_test.py").write_text(TESTS, "utf-8")
    monkeypatch.setenv("JAX_TESTS", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "lax_test", raising=False)
    own_tests._classes.cache_clear()
    assert f"lax_test.ToyTest.test_{name}" in set(own_tests.names(("lax_test",)))
    try:
        checks = list(own_tests.run(f"lax_test.ToyTest.test_{name}"))
        verdicts = {check.verdict for check in checks}
    except Excluded:
        checks, verdicts = [], {"excluded"}
    assert verdicts == VERDICTS[name], checks


def test_harnesses_of_jax_are_compared() -> None:
    from suites.jax import harnesses

    name = next(name for name in harnesses.names() if name.startswith("tanh"))
    assert {check.verdict for check in harnesses.run(name)} == {"equal"}
