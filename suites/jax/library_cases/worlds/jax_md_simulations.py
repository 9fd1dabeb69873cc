"""Energies, forces and simulations of jax-md, on particles in a periodic box."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax_md import energy, minimize, partition, quantity, simulate, smap, space

from suites.jax.library_cases.case import Cases, LibraryCase

KEY = jax.random.PRNGKey(41)
_RANDOM = np.random.default_rng(41)
BOX = 4.0
_GRID = np.stack(np.meshgrid(*[np.arange(2) * 1.3 + 0.5] * 3), -1).reshape(-1, 3)
PLACES = jnp.asarray(_GRID + _RANDOM.uniform(-0.1, 0.1, _GRID.shape), "float32")
SIGMA = jnp.asarray(1.1)
DISPLACEMENT, SHIFT = space.periodic(BOX)


def potential(pair: Callable[..., Any], **options: Any) -> LibraryCase:
    """An energy and its forces."""

    def function(places: Any, sigma: Any) -> Any:
        total = pair(DISPLACEMENT, **{name: sigma * value for name, value in options.items()})
        return total(places), quantity.force(total)(places)

    return LibraryCase(function, (PLACES, SIGMA), 1e-3)


def _listed() -> LibraryCase:
    neighbor_fn, total = energy.lennard_jones_neighbor_list(
        DISPLACEMENT, BOX, r_onset=1.2, r_cutoff=1.8, dr_threshold=0.2
    )
    neighbors = neighbor_fn.allocate(PLACES)

    def function(places: Any) -> Any:
        current = neighbors.update(places)
        value, slope = jax.value_and_grad(total)(places, current)
        return value, slope, current.idx, current.did_buffer_overflow

    return LibraryCase(function, (PLACES + 0.05,), 2e-3)


def _sparse() -> LibraryCase:
    neighbor_fn = partition.neighbor_list(
        DISPLACEMENT, BOX, 1.8, 0.2, format=partition.Sparse, disable_cell_list=True
    )
    neighbors = neighbor_fn.allocate(PLACES)

    def function(places: Any) -> Any:
        current = neighbors.update(places)
        at = current.idx
        difference = space.map_bond(DISPLACEMENT)(places[at[0] % 8], places[at[1] % 8])
        lengths = space.distance(difference)
        return lengths, at, partition.neighbor_list_mask(current)

    return LibraryCase(function, (PLACES,), 2e-3)


def simulation(build: Callable[..., Any], steps: int = 3, **given: Any) -> LibraryCase:
    """Some steps of a simulation."""

    def function(places: Any, sigma: Any) -> Any:
        start, apply = build(energy.soft_sphere_pair(DISPLACEMENT, sigma=sigma))
        state = start(KEY, places, **given)
        state = jax.lax.fori_loop(0, steps, lambda _, state: apply(state), state)
        return state.position, getattr(state, "momentum", None)

    return LibraryCase(function, (PLACES, SIGMA), 2e-3)


def _bonds(places: Any, sigma: Any) -> Any:
    bonds = jnp.array([[0, 1], [1, 2], [3, 4], [5, 7]])
    return energy.simple_spring_bond(DISPLACEMENT, bonds, length=sigma)(places)


def _geometry(places: Any, sigma: Any) -> Any:
    displacement, shift = space.periodic_general(jnp.diag(jnp.full(3, BOX)) * sigma)
    inner = places / BOX
    distance = space.map_product(space.metric(displacement))(inner, inner)
    moved = shift(inner, 0.1 * jnp.sin(places))
    pairs = space.map_product(DISPLACEMENT)(places, places)
    return distance + jnp.eye(8), moved, quantity.cosine_angles(pairs + 0.1)


def _mapped(places: Any, sigma: Any) -> Any:
    species = np.array([0, 1] * 4)
    strengths = jnp.array([[1.0, 1.5], [1.5, 0.5]]) * sigma
    pair = smap.pair(
        lambda dr, strength=1.0, **_: strength * jnp.exp(-dr), space.metric(DISPLACEMENT),
        species=species, strength=strengths,
    )  # fmt: skip
    return pair(places)


def _correlation(places: Any) -> Any:
    radii = jnp.linspace(0.3, 2.0, 5)
    return quantity.pair_correlation(DISPLACEMENT, radii, 0.1)(places)


def _fire(places: Any, sigma: Any) -> Any:
    start, apply = minimize.fire_descent(
        energy.soft_sphere_pair(DISPLACEMENT, sigma=sigma), SHIFT
    )
    return jax.lax.fori_loop(0, 4, lambda _, state: apply(state), start(places)).position


CASES: Cases = {
    "lennard_jones_pair": potential(energy.lennard_jones_pair, sigma=1.0),
    "soft_sphere_pair": potential(energy.soft_sphere_pair, sigma=1.2),
    "morse_pair": potential(energy.morse_pair, sigma=1.0, epsilon=0.5),
    "stillinger_weber": potential(
        lambda displacement, **_: energy.stillinger_weber(displacement)
    ),
    "lennard_jones_neighbor_list": _listed,
    "sparse neighbor list": _sparse,
    "simple_spring_bond": LibraryCase(_bonds, (PLACES, SIGMA)),
    "pairs of species": LibraryCase(_mapped, (PLACES, SIGMA)),
    "spaces and angles": LibraryCase(_geometry, (PLACES, SIGMA), 1e-3),
    "pair_correlation": LibraryCase(_correlation, (PLACES,), 1e-3),
    "fire_descent": LibraryCase(_fire, (PLACES, SIGMA), 1e-3),
    "nve": simulation(lambda e: simulate.nve(e, SHIFT, 0.01), kT=0.3),
    "nvt_nose_hoover": simulation(
        lambda e: simulate.nvt_nose_hoover(e, SHIFT, 0.01, 0.3, chain_length=2)
    ),
    "nvt_langevin": simulation(lambda e: simulate.nvt_langevin(e, SHIFT, 0.01, 0.3)),
    "brownian": simulation(lambda e: simulate.brownian(e, SHIFT, 0.01, 0.3)),
}
