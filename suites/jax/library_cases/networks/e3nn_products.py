"""Equivariant operations of e3nn-jax."""

from __future__ import annotations

from typing import Any

import e3nn_jax as e3nn
import jax
import jax.numpy as jnp
import numpy as np
from e3nn_jax.flax import Linear, MultiLayerPerceptron

from suites.jax.library_cases.case import Cases, LibraryCase, initialized

KEY = jax.random.PRNGKey(11)
IRREPS = e3nn.Irreps("4x0e + 2x1o + 1x2e")
_RANDOM = np.random.default_rng(11)


def _values(*shape: int) -> Any:
    return jnp.asarray(_RANDOM.normal(size=shape), "float32")


X, Y, PLACES = _values(5, IRREPS.dim), _values(5, IRREPS.dim), _values(5, 3)
ANGLES = jnp.array([0.3, 1.1, -0.7])


def _of(x: Any) -> Any:
    return e3nn.IrrepsArray(IRREPS, x)


def _harmonics(x: Any) -> Any:
    return e3nn.spherical_harmonics("0e + 1o + 2e + 3o", e3nn.IrrepsArray("1o", x), True).array


def _linear() -> LibraryCase:
    layer = Linear("3x0e + 2x1o + 2e")
    weights = initialized(lambda: layer.init(KEY, _of(X)))
    return LibraryCase(lambda weights, x: layer.apply(weights, _of(x)).array, (weights, X))


def _gate(x: Any) -> Any:
    gated = e3nn.IrrepsArray("3x0e + 2x0o + 2x0e + 1o + 1x2e", x[:, :15])
    return e3nn.gate(gated, odd_gate_act=jnp.tanh).array


def _message_passing() -> LibraryCase:
    linear, radial = Linear("4x0e + 2x1o + 2e"), MultiLayerPerceptron((8, 6), jax.nn.silu)
    senders, receivers = jnp.array([0, 1, 2, 3, 4, 0]), jnp.array([1, 2, 3, 4, 0, 2])

    def layer(weights: Any, x: Any, places: Any) -> Any:
        difference = places[receivers] - places[senders]
        angular = e3nn.spherical_harmonics("0e + 1o", e3nn.IrrepsArray("1o", difference), True)
        length = jnp.linalg.norm(difference, axis=-1)
        basis = e3nn.bessel(length, 8, 4.0) * e3nn.poly_envelope(3, 3)(length / 4.0)[:, None]
        message = e3nn.tensor_product(_of(x)[senders], angular, filter_ir_out="0e + 1o + 2e")
        message = linear.apply(weights[0], message) * radial.apply(weights[1], basis).sum(
            -1, keepdims=True
        )
        return e3nn.scatter_sum(message, dst=receivers, output_size=5).array

    probe = e3nn.tensor_product(
        _of(X), e3nn.IrrepsArray("0e + 1o", X[:, :4]), filter_ir_out="0e + 1o + 2e"
    )
    weights = (
        initialized(lambda: linear.init(KEY, probe)),
        initialized(lambda: radial.init(KEY, X[:, :8])),
    )
    return LibraryCase(layer, (weights, X, PLACES))


def _sphere(x: Any) -> Any:
    coefficients = e3nn.IrrepsArray("0e + 1o + 2e", x[:, :9])
    signal = e3nn.to_s2grid(coefficients, 8, 9, quadrature="gausslegendre", p_val=1, p_arg=-1)
    signal = signal.apply(jax.nn.relu)
    return e3nn.from_s2grid(signal, e3nn.s2_irreps(2)).array


def _rotations(angles: Any, axis: Any) -> Any:
    matrix = e3nn.angles_to_matrix(*angles)
    turned = e3nn.axis_angle_to_matrix(axis[0], angles[0])
    quaternion = e3nn.matrix_to_quaternion(matrix @ turned)
    return matrix, quaternion, e3nn.matrix_to_angles(turned), e3nn.xyz_to_angles(axis)


def _radial(x: Any) -> Any:
    places = jnp.abs(x[:, 0])
    return (
        e3nn.soft_one_hot_linspace(
            places, start=0.0, end=3.0, number=4, basis="smooth_finite", cutoff=True
        ),
        e3nn.soft_one_hot_linspace(
            places, start=0.0, end=3.0, number=4, basis="gaussian", cutoff=False
        ),
        e3nn.soft_envelope(places, 3.0),
        e3nn.sus(x),
        e3nn.legendre(3, x[:, 0] / 4.0),
    )


def _gradient(x: Any) -> Any:
    def energy(place: Any) -> Any:
        harmonics = e3nn.spherical_harmonics("0e + 1o + 2e", place, False)
        return e3nn.dot(harmonics, harmonics) + e3nn.norm(place).array.sum()

    return jax.vmap(lambda x: e3nn.grad(energy)(e3nn.IrrepsArray("1o", x)).array)(x)


CASES: Cases = {
    "tensor_product": LibraryCase(
        lambda x, y: e3nn.tensor_product(_of(x), _of(y)).array, (X, Y)
    ),
    "elementwise_tensor_product": LibraryCase(
        lambda x, y: e3nn.elementwise_tensor_product(_of(x), _of(y)).array, (X, Y)
    ),
    "tensor_square": LibraryCase(lambda x: e3nn.tensor_square(_of(x)).array, (X,)),
    "spherical_harmonics": LibraryCase(_harmonics, (PLACES,)),
    "Linear": _linear,
    "gate": LibraryCase(_gate, (X,)),
    "norm_activation": LibraryCase(
        lambda x: e3nn.norm_activation(_of(x), [jax.nn.silu, jnp.tanh, jax.nn.sigmoid]).array,
        (X,),
    ),
    "message passing": _message_passing,
    "signals on the sphere": LibraryCase(_sphere, (X,)),
    "rotation by angles": LibraryCase(
        lambda x, angles: _of(x).transform_by_angles(*angles).array, (X, ANGLES)
    ),
    "rotation by a matrix": LibraryCase(
        lambda x, angles: _of(x).transform_by_matrix(e3nn.angles_to_matrix(*angles)).array,
        (X, ANGLES),
        1e-3,
    ),
    "conversions of rotations": LibraryCase(_rotations, (ANGLES, PLACES)),
    "radial functions": LibraryCase(_radial, (X,)),
    "grad": LibraryCase(_gradient, (PLACES,)),
    "cross, dot and norm": LibraryCase(
        lambda x, y: (
            e3nn.cross(e3nn.IrrepsArray("1o", x), e3nn.IrrepsArray("1o", y)).array,
            e3nn.dot(e3nn.IrrepsArray("1o", x), e3nn.IrrepsArray("1o", y)).array,
            e3nn.norm(e3nn.IrrepsArray("1o", x)).array,
        ),
        (PLACES, Y[:, :3]),
    ),
}
