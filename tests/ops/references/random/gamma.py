"""References of `braces.ops.random.gamma`: rejection by Marsaglia and Tsang, one by one."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.reference import Array, Reference, between
from tests.ops.references.random.stateless import normal, threefry, uniform


def keys_of(key: Array, count: int) -> Array:
    return np.stack(threefry(key, np.zeros(count), np.arange(count)), -1)


def one_gamma(key: Array, a: Any, log: bool) -> Any:
    dtype, boosted = a.dtype, a if a >= 1 else a + 1
    d = boosted - 1 / 3
    key, other = keys_of(key, 2)
    taken, cube = False, 0.0
    while not taken:
        key, of_x, of_u = keys_of(key, 3)
        v = -1.0
        while v <= 0:
            of_x, own = keys_of(of_x, 2)
            x = float(normal(own, (), dtype))
            v = 1 + x / 3 / np.sqrt(d)
        cube, u = v**3, float(uniform(of_u, (), dtype))
        bound = x * x / 2 + d * (1 - cube + np.log(cube))
        taken = u < 1 - 0.0331 * x**4 or np.log(max(u, 1e-300)) < bound
    rest = 0.0 if a >= 1 else np.log1p(-float(uniform(other, (), dtype))) / a
    found = np.log(d) + np.log(cube) + rest
    return found if log else np.exp(found)


def gamma_of_key(key: Array, a: Array, *, log: bool) -> Array:
    if key.ndim > 1:
        each = [gamma_of_key(*one, log=log) for one in zip(key, a, strict=True)]
        return np.stack(each) if each else a
    flat = a.reshape(-1)
    drawn = [one_gamma(k, x, log) for k, x in zip(keys_of(key, a.size), flat, strict=True)]
    return np.asarray(drawn).reshape(a.shape).astype(a.dtype)


REFERENCES = {
    "gamma_of_key": Reference(gamma_of_key, inputs={"a": between(0.4, 3)}, smooth=False),
}
