"""All that optax moves parameters by: ours by name, through `from_optax`, or why not."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from types import FunctionType
from typing import Any

import jax.numpy as jnp
import optax
import pytest
from optax import contrib

import braces as br
from tests.frontend.optimizer.steps import BATCHES, assert_same, by_optax, fit, train

pytestmark = pytest.mark.unoptimized

opt = br.optimizer
L = 0.1
MASK = {"w": True, "b": False}

NAMED: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("adabelief", "adadelta", "adagrad", "adam", "adamax", "adamw"), (L,)),
    **dict.fromkeys(("adan", "amsgrad", "fromage", "lamb", "lars", "lion", "nadam"), (L,)),
    **dict.fromkeys(("novograd", "optimistic_gradient_descent", "radam", "rmsprop"), (L,)),
    **dict.fromkeys(("rprop", "sgd", "signum", "sm3", "yogi"), (L,)),
    **dict.fromkeys(("ademamix", "muon", "prodigy"), (L,)),
    "adafactor": (L, 2),
    "clip_by_global_norm": (0.5,),
    "add_decayed_weights": (0.1,),
    "scale_by_learning_rate": (L,),
}
"""What has one name here and there, and the arguments that both take."""

PAIRS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "apply_if_finite": (
        lambda: opt.apply_if_finite(opt.adam(L), 2),
        lambda: optax.apply_if_finite(optax.adam(L), 2),
    ),
    "chain": (
        lambda: opt.chain(opt.clip_by_value(0.1), opt.adam(L)),
        lambda: optax.chain(optax.clip(0.1), optax.adam(L)),
    ),
    "clip": (
        lambda: opt.chain(opt.clip_by_value(0.1), opt.sgd(1.0)),
        lambda: optax.chain(optax.clip(0.1), optax.sgd(1.0)),
    ),
    "freeze": (
        lambda: opt.partition({1: opt.sgd(L), 2: None}, lambda p: p.ndim),
        lambda: optax.chain(optax.freeze(MASK), optax.sgd(L)),
    ),
    "multi_transform": (
        lambda: opt.partition({1: opt.sgd(L), 2: opt.adam(L)}, lambda p: p.ndim),
        lambda: optax.multi_transform(
            {1: optax.sgd(L), 2: optax.adam(L)}, {"w": 2, "b": 1}
        ),
    ),
    "noisy_sgd": (lambda: opt.noisy_sgd(L, seed=3), lambda: optax.noisy_sgd(L, key=3)),
    "optimistic_adam_v2": (
        lambda: opt.optimistic_adam(L), lambda: optax.optimistic_adam_v2(L),
    ),
    "schedule_free": (
        lambda: opt.schedule_free(opt.adam(L, b1=0.0)),
        lambda: contrib.schedule_free(optax.adam(L, b1=0.0), L),
    ),
}  # fmt: skip
"""What is another function here."""

ELSEWHERE = {
    "lbfgs": "test_lbfgs.py",
    "lookahead": "test_optimizer_wrappers.py",
    "scale_by_backtracking_linesearch": "test_lbfgs.py",
    "scale_by_muon": "muon, which is made of it",
    "scale_by_zoom_linesearch": "test_lbfgs.py",
    "partition": "test_optimizer_groups.py",
}
"""What other tests are about, or others of these."""


def flattened() -> Any:
    return optax.flatten(optax.adam(L))


THROUGH: dict[str, Callable[[], Any]] = {
    "adamaxw": lambda: optax.adamaxw(L, mask=MASK),
    "adaptive_grad_clip": lambda: optax.adaptive_grad_clip(0.1),
    "add_noise": lambda: optax.add_noise(0.01, 0.55, 3),
    "apply_every": lambda: optax.apply_every(2),
    "centralize": optax.centralize,
    "clip_by_block_rms": lambda: optax.clip_by_block_rms(0.1),
    "conditionally_mask": lambda: optax.conditionally_mask(optax.scale(L), lambda n: n < 1),
    "conditionally_transform": lambda: optax.conditionally_transform(
        optax.scale(L), lambda n: n < 1
    ),
    "ema": lambda: optax.ema(0.5),
    "flatten": flattened,
    "identity": optax.identity,
    "inject_hyperparams": lambda: optax.inject_hyperparams(optax.adam)(learning_rate=L),
    "keep_params_nonnegative": optax.keep_params_nonnegative,
    "masked": lambda: optax.masked(optax.sgd(L), MASK),
    "nadamw": lambda: optax.nadamw(L),
    "named_chain": lambda: optax.named_chain(("a", optax.clip(0.1)), ("b", optax.adam(L))),
    "normalize_by_update_norm": optax.normalize_by_update_norm,
    "polyak_sgd": optax.polyak_sgd,
    "scale": lambda: optax.scale(-L),
    "scale_by_adadelta": optax.scale_by_adadelta,
    "scale_by_adam": optax.scale_by_adam,
    "scale_by_adamax": optax.scale_by_adamax,
    "scale_by_adan": optax.scale_by_adan,
    "scale_by_amsgrad": optax.scale_by_amsgrad,
    "scale_by_belief": optax.scale_by_belief,
    "scale_by_distance_over_gradients": optax.scale_by_distance_over_gradients,
    "scale_by_factored_rms": lambda: optax.scale_by_factored_rms(min_dim_size_to_factor=2),
    "scale_by_lbfgs": optax.scale_by_lbfgs,
    "scale_by_lion": optax.scale_by_lion,
    "scale_by_novograd": optax.scale_by_novograd,
    "scale_by_optimistic_gradient": optax.scale_by_optimistic_gradient,
    "scale_by_param_block_norm": optax.scale_by_param_block_norm,
    "scale_by_param_block_rms": optax.scale_by_param_block_rms,
    "scale_by_polyak": optax.scale_by_polyak,
    "scale_by_radam": optax.scale_by_radam,
    "scale_by_rms": optax.scale_by_rms,
    "scale_by_rprop": lambda: optax.scale_by_rprop(L),
    "scale_by_rss": optax.scale_by_rss,
    "scale_by_schedule": lambda: optax.scale_by_schedule(
        optax.linear_schedule(-0.5, -0.25, 2)
    ),
    "scale_by_sign": optax.scale_by_sign,
    "scale_by_sm3": optax.scale_by_sm3,
    "scale_by_stddev": optax.scale_by_stddev,
    "scale_by_trust_ratio": optax.scale_by_trust_ratio,
    "scale_by_yogi": optax.scale_by_yogi,
    "selective_transform": lambda: optax.selective_transform(optax.sgd(L), freeze_mask=MASK),
    "set_to_zero": optax.set_to_zero,
    "sign_sgd": lambda: optax.sign_sgd(L),
    "snapshot": lambda: optax.chain(
        optax.snapshot("norm", optax.tree.norm),
        optax.sgd(L),
    ),
    "stateless": lambda: optax.stateless(lambda updates, params: params),
    "stateless_with_tree_map": lambda: optax.stateless_with_tree_map(lambda g, p: jnp.sign(g)),
    "trace": lambda: optax.trace(0.9),
    "with_extra_args_support": lambda: optax.with_extra_args_support(optax.adam(L)),
    "zero_nans": optax.zero_nans,
    "MultiSteps": lambda: optax.MultiSteps(optax.adam(L), 2).gradient_transformation(),
    # ---- contrib -----------------------------------------------------------------------------
    "acprop": lambda: contrib.acprop(L),
    "adopt": lambda: contrib.adopt(L),
    "cocob": contrib.cocob,
    "dadapt_adamw": contrib.dadapt_adamw,
    "dog": contrib.dog,
    "dowg": contrib.dowg,
    "galore": lambda: contrib.galore(L, rank=2, update_proj_gap=1),
    "madgrad": lambda: contrib.madgrad(L),
    "mechanize": lambda: contrib.mechanize(optax.adam(L)),
    "momo": contrib.momo,
    "momo_adam": contrib.momo_adam,
    "normalize": contrib.normalize,
    "reduce_on_plateau": lambda: optax.chain(optax.sgd(L), contrib.reduce_on_plateau()),
    "sam": lambda: contrib.sam(optax.sgd(L), optax.sgd(0.01)),
    "scale_by_acprop": contrib.scale_by_acprop,
    "scale_by_ademamix": contrib.scale_by_ademamix,
    "scale_by_adopt": contrib.scale_by_adopt,
    "scale_by_cocob": contrib.scale_by_cocob,
    "scale_by_galore": lambda: contrib.scale_by_galore(rank=2, update_proj_gap=1),
    "scale_by_madgrad": lambda: contrib.scale_by_madgrad(L),
    "scale_by_simplified_ademamix": contrib.scale_by_simplified_ademamix,
    "schedule_free_adamw": lambda: contrib.schedule_free_adamw(L),
    "schedule_free_sgd": lambda: contrib.schedule_free_sgd(L),
    "simplified_ademamix": lambda: contrib.simplified_ademamix(L),
    "split_real_and_imaginary": lambda: contrib.split_real_and_imaginary(optax.sgd(L)),
}  # fmt: skip

REASONS = {
    **dict.fromkeys(
        ("inject_stateful_hyperparams", "optimistic_adam"), "are deprecated: optax has others"
    ),
    **dict.fromkeys(
        ("differentially_private_aggregate", "dpsgd"),
        "take a gradient for each row of a batch, not one for each parameter",
    ),
    "measure_with_ema": "is for monitor, which keeps more after its first step than before",
    **dict.fromkeys(
        ("hutchinson_estimator_diag_hessian", "sophia"), "take products with the Hessian"
    ),
}
"""What there is no way to, and why."""


def offered() -> Iterator[str]:
    """The names of all functions that give a transformation."""
    for module in (optax, contrib):
        for name, given in vars(module).items():
            if not name.startswith("_") and isinstance(given, FunctionType | partial):
                gives = str(inspect.signature(given).return_annotation)
                yield from [name] if "GradientTransformation" in gives else []


def test_all_of_optax_is_in_the_table() -> None:
    tables = (NAMED, PAIRS, ELSEWHERE, THROUGH, REASONS)
    names = [name for table in tables for name in table]
    assert len(names) == len(set(names))
    without = set(names) - set(offered())
    assert without == {
        "MultiSteps", "dog", "dowg", "hutchinson_estimator_diag_hessian",
        "scale_by_factored_rms",
    }  # fmt: skip
    assert set(offered()) <= set(names)


def step_of(ours: Any, theirs: Callable[[], Any]) -> None:
    found = train(fit(ours), batches=BATCHES[:2])
    assert_same(found, by_optax(theirs, batches=BATCHES[:2]), 1e-6)


@pytest.mark.parametrize("name", NAMED)
def test_those_of_one_name_take_the_same_steps(name: str) -> None:
    given = NAMED[name]
    made, theirs = getattr(opt, name), getattr(optax, name, None) or getattr(contrib, name)
    after = opt.from_optax(optax.sgd(1.0))
    alone = any(leaf.rate is not None for leaf in made(*given).parts)
    step_of(
        made(*given) if alone else opt.chain(made(*given), after),
        lambda: theirs(*given) if alone else optax.chain(theirs(*given), optax.sgd(1.0)),
    )


@pytest.mark.parametrize("name", PAIRS)
def test_those_of_another_name_take_the_same_steps(name: str) -> None:
    ours, theirs = PAIRS[name]
    step_of(ours(), theirs)


@pytest.mark.parametrize("name", THROUGH)
def test_what_is_read_from_optax_takes_the_same_steps(name: str) -> None:
    made = THROUGH[name]
    step_of(opt.from_optax(made()), made)


# ---- defaults --------------------------------------------------------------------------------

RENAMED = {"epsilon": "eps", "epsilon_root": "eps_root", "epsilon_in_sqrt": "eps_in_sqrt"}
TWINS: dict[str, Callable[..., Any]] = {
    "momentum": optax.sgd, "optimistic_adam": optax.optimistic_adam_v2,
}  # fmt: skip
OWN_DEFAULTS = {
    ("adadelta", "learning_rate"): "1, as in the paper",
    ("adafactor", "learning_rate"): "required, in optax None",
    ("lbfgs", "linesearch"): "a flag, in optax a transformation",
    ("momentum", "momentum"): "0.9, in optax no momentum",
    ("noisy_sgd", "seed"): "0, in optax none",
}
"""Defaults that differ from those of optax, and why."""


def defaults(function: Callable[..., Any]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    return {one.name: one.default for one in parameters}


def test_defaults_are_those_of_optax() -> None:
    different: set[tuple[str, str]] = set()
    for name in opt.__all__:
        ours = getattr(opt, name)
        if ".algorithms." not in ours.__module__:
            continue
        twin = TWINS.get(name) or getattr(optax, name, None) or getattr(contrib, name)
        theirs = defaults(twin)
        for argument, default in defaults(ours).items():
            wanted = theirs.get(RENAMED.get(argument, argument), default)
            required = argument == "learning_rate" and wanted is inspect.Parameter.empty
            if wanted != default and not required:
                different.add((name, argument))
    assert different == set(OWN_DEFAULTS)
