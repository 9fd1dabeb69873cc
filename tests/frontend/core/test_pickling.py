"""Public values can be pickled and copied, or the error names an alternative."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import optax
import pytest

import braces as br
from braces.errors import BracesError
from braces.extend.building import Builder
from braces.remote.protocol.handshake import NoRoomError

opt = br.optimizer

WAYS: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "oldest": lambda value: pickle.loads(pickle.dumps(value, 2)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}
way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def is_matrix(param: br.Var) -> bool:
    return param.ndim > 1


def group(param: br.Var) -> str:
    return "matrix" if param.ndim > 1 else "rest"


def halving(count: Any) -> Any:
    return 0.1 * 0.5**count


PLAIN = (
    "adabelief", "adadelta", "adafactor", "adagrad", "adam", "adamax", "adamw", "adan",
    "ademamix", "amsgrad", "fromage", "lamb", "lars", "lbfgs", "lion", "momentum", "muon",
    "nadam", "noisy_sgd", "novograd", "optimistic_adam", "optimistic_gradient_descent",
    "prodigy", "radam", "rmsprop", "rprop", "sgd", "signum", "sm3", "yogi",
)  # fmt: skip
MADE: dict[str, Callable[[], Any]] = {
    **{name: partial(getattr(opt, name), learning_rate=0.1) for name in PLAIN},
    "add_decayed_weights": lambda: opt.chain(
        opt.add_decayed_weights(0.1, mask=is_matrix), opt.sgd(0.1)
    ),
    "scale_by_learning_rate": lambda: opt.scale_by_learning_rate(0.1),
    "clip_by_global_norm": lambda: opt.chain(opt.clip_by_global_norm(1.0), opt.sgd(0.1)),
    "clip_by_value": lambda: opt.chain(opt.clip_by_value(1.0), opt.sgd(0.1)),
    "chain": lambda: opt.chain(opt.clip_by_value(1.0), opt.adam(0.1, name="a")),
    "partition": lambda: opt.partition(
        {"matrix": opt.adam(0.1), "rest": opt.sgd(opt.constant_schedule(0.1))}, group
    ),
    "apply_if_finite": lambda: opt.apply_if_finite(opt.sgd(0.1), 3),
    "dynamic_loss_scale": lambda: opt.dynamic_loss_scale(opt.adam(0.1)),
    "lookahead": lambda: opt.lookahead(opt.sgd(0.1), 5, 0.5),
    "multi_steps": lambda: opt.multi_steps(opt.adam(0.1), 4),
    "schedule_free": lambda: opt.schedule_free(opt.sgd(0.1)),
    "constant_schedule": lambda: opt.constant_schedule(0.1),
    "cosine_decay_schedule": lambda: opt.cosine_decay_schedule(0.1, 100),
    "exponential_decay": lambda: opt.exponential_decay(0.1, 10, 0.5),
    "join_schedules": lambda: opt.join_schedules(
        [opt.constant_schedule(0.1), opt.linear_schedule(0.1, 0.0, 5)], [3]
    ),
    "linear_schedule": lambda: opt.linear_schedule(0.1, 0.0, 10),
    "piecewise_constant_schedule": lambda: opt.piecewise_constant_schedule(0.1, {5: 0.5}),
    "polynomial_schedule": lambda: opt.polynomial_schedule(0.1, 0.0, 2.0, 10),
    "warmup_cosine_decay_schedule": lambda: opt.warmup_cosine_decay_schedule(0.0, 0.1, 5, 50),
    "Schedule": lambda: opt.Schedule(halving),
}
UNMADE = {"Optimizer", "ema", "from_optax"}
"""Not made by themselves, made into a program, and made of functions of optax's own."""


def test_all_optimizers_and_schedules_are_tried() -> None:
    assert set(opt.__all__) == MADE.keys() | UNMADE


def built(made: Any) -> str:
    """The text of a program with it."""
    with br.Program() as prog:
        w, b = br.parameter("w", [2, 3], init=1.0), br.parameter("b", [3], init=1.0)
        loss = br.sum(br.square(w)) + br.sum(br.square(b))
        if isinstance(made, opt.Schedule):
            made([0, 1, 7])
        else:
            made.minimize(loss)
    return br.fingerprint(prog)


@way
@pytest.mark.parametrize("name", MADE)
def test_an_optimizer_comes_back_the_same(name: str, way: Callable[[Any], Any]) -> None:
    made = MADE[name]()
    back = way(way(made))
    assert repr(back) == repr(made)
    assert type(back) is type(made)
    if way is WAYS["pickle"]:
        assert built(back) == built(made)


def test_a_rate_may_be_a_schedule_or_an_own_function() -> None:
    for rate in (opt.cosine_decay_schedule(0.1, 100), opt.Schedule(halving)):
        made = opt.adam(rate, name="a")
        assert built(WAYS["pickle"](made)) == built(made)


LOCAL: dict[str, Callable[[], Any]] = {
    "mask": lambda: opt.adamw(0.1, mask=lambda param: param.ndim > 1),
    "rate": lambda: opt.sgd(lambda count: br.cast(count, "float32")),
    "course": lambda: opt.adam(opt.Schedule(lambda count: 0.1)),
    "optax": lambda: opt.from_optax(optax.adam(0.1)),
    "optax course": lambda: opt.Schedule(optax.constant_schedule(0.1)),
    "in a chain": lambda: opt.chain(
        opt.clip_by_value(1.0), opt.adamw(0.1, mask=lambda _: True)
    ),
    "groups": lambda: opt.partition({"a": opt.sgd(0.1)}, lambda _: "a"),
}


@pytest.mark.parametrize("name", LOCAL)
def test_a_function_that_cannot_be_imported_is_refused_with_the_way_out(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("braces.frontend.optimizer.core.recorded_call._BY_VALUE", ())
    made = LOCAL[name]()
    with pytest.raises(br.errors.ProgramError, match="top level of a module"):
        pickle.dumps(made)
    assert built(copy.deepcopy(made)) == built(made)


# ---- errors ----------------------------------------------------------------------------------


def kinds(kind: type[BracesError] = BracesError) -> Iterator[type[BracesError]]:
    yield kind
    for one in kind.__subclasses__():
        yield from kinds(one)


@way
@pytest.mark.parametrize("kind", sorted(set(kinds()), key=lambda kind: kind.__name__))
def test_an_error_comes_back_with_all_that_it_says(
    kind: type[BracesError], way: Callable[[Any], Any]
) -> None:
    error = kind.__new__(kind)
    BracesError.__init__(error, "What.", at="here", given="this", fix="Do that.")
    vars(error)["code"] = "B101"
    error.add_note("a note")
    back = way(error)
    assert type(back) is kind
    assert (str(back), vars(back)) == (str(error), vars(error))


def test_the_error_of_a_refused_program_comes_back() -> None:
    with pytest.raises(br.VerifyError) as found:
        br.verify(br.parse("program { data x: f32[2]  y: f32[3] = tanh(x=x) }"))
    back = pickle.loads(pickle.dumps(found.value))
    assert (str(back), back.code) == (str(found.value), found.value.code)
    assert str(pickle.loads(pickle.dumps(NoRoomError("full")))) == "full"


# ---- other values ----------------------------------------------------------------------------


def values() -> dict[str, Any]:
    """Public values of all kinds, and what is compared of them."""
    with br.Program() as prog:
        x = br.data("x", ["b", 3])
        loss = br.mean(br.fc(x, 2))
        opt.adam(0.1).minimize(loss)
    mesh = br.Mesh({"data": 1})
    passes = {name: getattr(br.passes, name) for name in br.passes.__all__}
    return {
        "program": prog,
        "definition": prog.definition,
        "type": loss.type,
        "dtype": br.bfloat16,
        "mesh": mesh,
        "layout": br.Layout(mesh, dims={"b": "data"}),
        "executor": br.Executor("interpret", max_executables=3),
        "default passes": br.passes.default,
        "fewer passes": br.passes.default.without("vectorize_before"),
        **{f"pass {n}": one for n, one in passes.items() if isinstance(one, br.passes.Pass)},
    }


VALUES = values()


@way
@pytest.mark.parametrize("name", VALUES)
def test_a_public_value_comes_back(name: str, way: Callable[[Any], Any]) -> None:
    value = VALUES[name]
    back = way(value)
    assert type(back) is type(value)
    if isinstance(value, Builder):
        assert br.fingerprint(back) == br.fingerprint(value)
    elif not isinstance(value, br.Executor):
        assert back == value or repr(back) == repr(value)


def test_the_error_of_pickling_a_scope_has_a_fix() -> None:
    with br.Program() as prog:
        br.parameter("w", [2], init=1.0)
    scope = br.Executor().init(prog, br.Scope())
    for attempt in WAYS.values():
        with pytest.raises(BracesError, match="Create another scope"):
            attempt(scope)
    np.testing.assert_array_equal(scope.var("w").value, [1.0, 1.0])
