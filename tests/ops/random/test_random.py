"""Draws: the bits that NumPy makes too, independence, distributions, dropout."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import braces as br
from braces.errors import BracesError, DTypeError, ProgramError, ShapeError
from braces.extend.building import apply, call
from braces.extend.operators import OPS
from tests.ops.cases import MODES, REFERENCES, Case, build, cases
from tests.ops.reference import is_float

STATE = np.array([7, 11], np.uint32)
RANDOM = [case for case in cases() if case.definition.random]
HALVES = [
    Case(op, f"state=u32[2] shape=(50,) salt=5 dtype={dtype}")
    for op in ("random_uniform", "random_normal", "random_truncated_normal")
    for dtype in ("f16", "bf16")
]


def draw(op: str, *inputs: Any, mode: str = "compile", state: Any = STATE, **attrs: Any) -> Any:
    """Build and run one operator; inputs are constants."""
    with br.Program() as program:
        out = call(op, br.data("state", [2], dtype="uint32"), *inputs, **attrs)
    feed = {"state": np.asarray(state, np.uint32)}
    return br.Executor(mode=mode).run(program, br.Scope(), feed=feed, fetch=[out])[0]


# ---- bits ------------------------------------------------------------------------------------


@pytest.mark.unoptimized  # the contract tests hold compiled draws against interpreted ones
@pytest.mark.parametrize("case", RANDOM + HALVES, ids=str)
def test_draws_are_those_of_numpy(case: Case, mode: str) -> None:
    built, sizes = build(case), case.sizes()
    values = case.values(sizes) | {"state": (STATE,)}
    got = built.run(br.Executor(mode=mode), built.feed(values, {}, sizes))["out.0"]
    (want,) = case.expected(values, sizes)["out"]
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    if not is_float(got.dtype):
        np.testing.assert_array_equal(got, want)
    else:
        tolerance = {8: 1e-12, 4: 2e-5, 2: 2e-2}[got.dtype.itemsize]
        np.testing.assert_allclose(got.astype(float), want.astype(float), tolerance, tolerance)


def test_a_known_draw_never_changes() -> None:
    """Salmon et al., 2011, have this Threefry-2x32 vector; JAX makes keys by it."""
    from tests.ops.references.random.stateless import threefry

    ones = np.full(2, 2**32 - 1, np.uint32)
    assert [hex(int(x)) for x in threefry(ones, *ones)] == ["0x1cb996fc", "0xbb002be7"]
    drawn = draw("random_randint", shape=(4,), low=0, high=1000, salt=1)
    again = REFERENCES["random_randint"].function(
        STATE, shape=(4,), low=0, high=1000, dtype=np.dtype("int64"), salt=1
    )
    np.testing.assert_array_equal(drawn, again)


def test_settings_of_jax_change_no_draw(mode: str) -> None:
    want = draw("random_normal", shape=(5,), salt=1, mode=mode)
    with jax.default_prng_impl("rbg"):
        got = draw("random_normal", shape=(5,), salt=1, mode=mode)
    np.testing.assert_array_equal(got, want)


def test_a_draw_depends_on_state_salt_and_trips() -> None:
    one, two = np.int32(1), np.int32(2)
    draws = [
        draw("random_uniform", shape=(8,), salt=1),
        draw("random_uniform", shape=(8,), salt=2),
        draw("random_uniform", shape=(8,), salt=1, state=[7, 12]),
        draw("random_uniform", shape=(8,), salt=1, state=[8, 11]),
        draw("random_uniform", one, shape=(8,), salt=1),
        draw("random_uniform", two, shape=(8,), salt=1),
        draw("random_uniform", one, two, shape=(8,), salt=1),
        draw("random_uniform", two, one, shape=(8,), salt=1),
    ]
    assert len({d.tobytes() for d in draws}) == len(draws)


def test_the_dtype_of_a_trip_makes_no_difference() -> None:
    draws = [
        draw("random_uniform", np.asarray(3, dtype), shape=(8,), salt=1)
        for dtype in ("int32", "int64", "uint8")
    ]
    np.testing.assert_array_equal(draws[0], draws[1])
    np.testing.assert_array_equal(draws[0], draws[2])


def test_the_next_state_counts_runs_and_starts_again(mode: str) -> None:
    np.testing.assert_array_equal(draw("next_random_state", mode=mode), [7, 12])
    last = draw("next_random_state", mode=mode, state=[7, 2**32 - 1])
    np.testing.assert_array_equal(last, [7, 0])


# ---- distributions ---------------------------------------------------------------------------


def test_uniform_numbers_stay_below_the_bound() -> None:
    """In [10, 11) a float32 has 20 bits; the largest draws would be rounded to 11."""
    drawn = draw("random_uniform", shape=(1_000_000,), low=10.0, high=11.0, salt=1)
    assert 10 <= drawn.min() < 10.00001
    assert 10.99999 < drawn.max() < 11
    assert (draw("random_uniform", shape=(4,), low=2.0, high=2.0, salt=1) == 2).all()


def test_truncated_numbers_stay_within_the_bounds() -> None:
    drawn = draw("random_truncated_normal", shape=(100_000,), mean=1.0, stddev=0.5, salt=1)
    assert 0 <= drawn.min() < 0.01
    assert 1.99 < drawn.max() <= 2


def test_sure_things_are_sure() -> None:
    assert draw("random_bernoulli", shape=(1000,), probability=1.0, salt=1).all()
    assert not draw("random_bernoulli", shape=(1000,), probability=0.0, salt=1).any()


def test_all_integers_of_a_range_are_equally_likely() -> None:
    drawn = draw("random_randint", shape=(60_000,), low=-2, high=4, dtype="int8", salt=1)
    values, counts = np.unique(drawn, return_counts=True)
    np.testing.assert_array_equal(values, [-2, -1, 0, 1, 2, 3])
    assert abs(counts - 10_000).max() < 500


def test_integers_span_the_whole_dtype() -> None:
    for dtype in ("int8", "uint16", "int32", "int64", "uint64"):
        limits = np.iinfo(dtype)
        drawn = draw(
            "random_randint", shape=(999,), low=int(max(limits.min, -(2**62))),
            high=int(min(limits.max, 2**62)), dtype=dtype, salt=1,
        )  # fmt: skip
        assert drawn.dtype == dtype
        assert drawn.std() > float(min(limits.max, 2**62)) / 4


def test_classes_come_as_often_as_softmax_says() -> None:
    logits = np.tile(np.log(np.array([0.1, 0.6, 0.3], np.float32)), (50_000, 1))
    drawn = draw("random_categorical", logits, salt=1)
    np.testing.assert_allclose(np.bincount(drawn) / 50_000, [0.1, 0.6, 0.3], atol=0.01)


def test_classes_ruled_out_never_come() -> None:
    logits = np.tile(np.array([-np.inf, 0.0], np.float16), (1000, 1))
    assert (draw("random_categorical", logits, salt=1) == 1).all()


@pytest.mark.parametrize("size", [0, 1, 2, 1000])
def test_a_permutation_has_each_number_once(mode: str, size: int) -> None:
    drawn = draw("random_permutation", size=size, salt=1, mode=mode)
    np.testing.assert_array_equal(np.sort(drawn), np.arange(size))


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3), (2, 3, 4)])
def test_orthogonal_matrices_are_orthogonal(mode: str, shape: tuple[int, ...]) -> None:
    drawn = draw(
        "random_orthogonal", shape=shape, scale=2.0, dtype="float64", salt=1, mode=mode
    )
    matrix = drawn.reshape(-1, shape[-1])
    product = matrix.T @ matrix if len(matrix) >= shape[-1] else matrix @ matrix.T
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-12)


@pytest.mark.parametrize("log", [False, True])
def test_gamma_variables_move_with_their_parameter_as_those_of_jax(log: bool) -> None:
    a = np.array([0.3, 1.5, 40.0], np.float32)
    draw = jax.random.loggamma if log else jax.random.gamma
    with br.Program() as program:
        var = br.data("a", [3])
        (grad,) = br.gradients([call("gamma_of_key", STATE, var, log=log)], [var])
    found = br.Executor().run(program, br.Scope(), feed={"a": a}, fetch=[grad])[0]
    wanted = jax.grad(lambda a: draw(STATE, a, dtype=a.dtype).sum())(a)
    np.testing.assert_allclose(found, wanted, 1e-4)


# ---- dropout ---------------------------------------------------------------------------------


def dropped(mode: str, x: Any, **attrs: Any) -> Any:
    """The value, its gradient, and the program."""
    with br.Program() as program:
        var = br.data("x", ["n"], dtype=x.dtype)
        state, trip = br.data("state", [2], dtype="uint32"), br.data("trip", [], dtype="int32")
        out = call("dropout", state, var, trip, salt=3, **attrs)
        (grad,) = br.gradients([out], [var])
    feed = {"x": x, "state": STATE, "trip": np.int32(5)}
    results = br.Executor(mode=mode).run(program, br.Scope(), feed=feed, fetch=[out, grad])
    return (*results, program)


def test_the_gradient_draws_the_same_mask_again(mode: str) -> None:
    out, grad, program = dropped(mode, np.arange(1, 1001, dtype=np.float32), rate=0.25)
    kept = out != 0
    assert 650 < kept.sum() < 850
    np.testing.assert_allclose(out[kept], np.arange(1, 1001)[kept] / 0.75, 1e-6)
    np.testing.assert_allclose(grad, kept / 0.75, 1e-6)
    forward, backward = (op for op in program.block(0).ops if op.type == "dropout")
    assert backward.inputs["state"] == forward.inputs["state"]
    assert backward.inputs["trips"] == forward.inputs["trips"]
    assert forward.outputs["out"][0] not in {n for o in program.block(0).ops for n in o.reads()}


def test_what_is_dropped_reaches_nothing(mode: str) -> None:
    out, grad, _ = dropped(mode, np.full(1000, np.nan, np.float32), rate=0.5)
    assert set(np.unique(out[~np.isnan(out)])) == {0.0}
    assert set(np.unique(grad)) == {0.0, 2.0}


@pytest.mark.parametrize(
    ("attrs", "factor"),
    [({"rate": 0.0}, 1), ({"rate": 1.0}, 0), ({"rate": 0.5, "training": False}, 1)],
)
def test_dropout_at_its_ends(mode: str, attrs: Any, factor: int) -> None:
    x = np.array([1.0, -2.0, np.inf], np.float32)
    out, grad, _ = dropped(mode, x, **attrs)
    np.testing.assert_array_equal(out, x if factor else np.zeros(3))
    np.testing.assert_array_equal(grad, np.full(3, factor))


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([[5]], "5 iterations do not match axis 0"),
        ([[3], [3]], "3 iterations do not match axis 1"),
        ([[3], [], [4], [2]], "2 iterations do not match axis 2"),
        ([[3, 4]], "expected a scalar or a vector"),
    ],
)
def test_trips_are_told_for_the_first_axes(shapes: list[list[int]], message: str) -> None:
    with br.Program():
        trips = [br.data(f"trips{i}", n, dtype="int64") for i, n in enumerate(shapes)]
        x = br.data("x", [3, 4])
        with pytest.raises(ShapeError, match=message):
            apply(
                "dropout",
                {"state": [STATE], "x": [x], "trips": trips},
                {"rate": 0.5, "salt": 1},
            )
        with pytest.raises(ShapeError, match=message):
            apply(
                "random_normal",
                {"state": [STATE], "trips": trips},
                {"shape": (3, 4), "salt": 1},
            )


DRAWN: dict[str, dict[str, Any]] = {
    "random_uniform": {"shape": (5,)},
    "random_normal": {"shape": (3, 7)},
    "random_truncated_normal": {"shape": (33,)},
    "random_orthogonal": {"shape": (4, 3)},
    "random_bernoulli": {"shape": (5,)},
    "random_randint": {"shape": (5,), "high": 1000},
    "random_permutation": {"size": 9},
    "random_categorical": {},
    "dropout": {"rate": 0.3},
}
"""What is drawn in one trip; what has no shape and no size draws for rows."""
ROUNDED = {"random_normal", "random_truncated_normal", "random_orthogonal"}
"""What makes more of its bits than numbers with them, and so may be rounded otherwise."""


def drawing(mode: str, outer: bool, inner: bool) -> Any:
    """Draws of all kinds in two loops, of which all trips are told, or one."""
    told = [n for n, whole in ((2, outer), (3, inner)) if whole]
    with br.Program() as prog:
        state, x = br.data("state", [2], dtype="uint32"), br.data("x", [*told, 6, 4])
        i = br.data("i", [2] if outer else [], dtype="int64")
        j = br.data("j", [3] if inner else [], dtype="int64")
        outs = list[Any]()
        for op, given in DRAWN.items():
            own = {"shape": (*told, *given["shape"])} if "shape" in given else {}
            rows = [] if given.keys() & {"shape", "size"} else [x]
            outs.append(call(op, state, *rows, i, j, salt=4, **{**given, **own}))
    exe, scope = br.Executor(mode=mode), br.Scope()

    def run(i: Any, j: Any, x: Any) -> list[Any]:
        return exe.run(prog, scope, feed={"state": STATE, "i": i, "j": j, "x": x}, fetch=outs)

    return run


def test_all_trips_at_once_draw_the_bits_of_each(mode: str) -> None:
    alone, by_outer, by_inner, whole = (
        drawing(mode, *told)
        for told in ((False, False), (True, False), (False, True), (True, True))
    )
    x = np.random.default_rng(0).normal(size=(2, 3, 6, 4)).astype(np.float32)
    outer, inner = np.arange(2), np.arange(3)
    each = [[alone(i, j, x[i, j]) for j in inner] for i in outer]
    found = [np.empty((2, 3, *one.shape), one.dtype) for one in each[0][0]]
    for i in outer:
        for out, drawn in zip(found, by_inner(i, inner, x[i]), strict=True):
            out[i] = drawn
    again = [
        np.stack(some, 1)
        for some in zip(*(by_outer(outer, j, x[:, j]) for j in inner), strict=True)
    ]
    for n, drawn in enumerate(whole(outer, inner, x)):
        wanted = [[each[i][j][n] for j in inner] for i in outer]
        for one in (drawn, found[n], again[n]):
            np.testing.assert_array_equal(one, wanted)


def test_classes_are_not_drawn_along_trips() -> None:
    with br.Program():
        slots = {"state": [STATE], "logits": [br.data("x", [3])], "trips": [np.arange(3)]}
        with pytest.raises(ShapeError, match="axis -1 is an iteration axis"):
            apply("random_categorical", slots, {"salt": 1})


def test_both_modes_drop_the_same() -> None:
    x = np.ones(100, np.float64)
    first, second = (dropped(mode, x, rate=0.5)[0] for mode in MODES)
    np.testing.assert_array_equal(first, second)


# ---- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "attrs", "error", "message"),
    [
        ("random_uniform", {"salt": -1}, ProgramError, "salt=-1"),
        ("random_uniform", {"salt": 2**32}, ProgramError, "salt=4294967296"),
        ("random_uniform", {"low": 1.0, "high": 0.0}, ProgramError, "low=1.0 exceeds high=0.0"),
        (
            "random_uniform",
            {"dtype": "int32"},
            DTypeError,
            "expected a real floating dtype, got int32",
        ),
        ("random_normal", {"dtype": "complex64"}, DTypeError, "got complex64"),
        ("random_normal", {"shape": (2, -1)}, ShapeError, "negative size in shape"),
        ("random_truncated_normal", {"low": 3.0}, ProgramError, "low=3.0 exceeds high=2.0"),
        ("random_bernoulli", {"probability": 1.5}, ProgramError, "probability=1.5"),
        ("random_bernoulli", {"probability": float("nan")}, ProgramError, "probability=nan"),
        ("random_randint", {"low": 3, "high": 3}, ProgramError, r"invalid range \[3, 3\)"),
        ("random_randint", {"high": 300, "dtype": "int8"}, ProgramError, "from -128 to 127"),
        (
            "random_randint",
            {"high": 3, "dtype": "float32"},
            DTypeError,
            "expected an integer dtype, got float32",
        ),
        ("random_orthogonal", {"shape": (3,)}, ShapeError, "expected rank 2 or more"),
    ],
)
def test_draws_that_make_no_sense_are_refused(
    op: str, attrs: Any, error: type[BracesError], message: str
) -> None:
    with br.Program(), pytest.raises(error, match=message):
        call(op, STATE, **({"shape": (2,), "salt": 1} | attrs))


def test_states_and_trips_must_be_what_they_are() -> None:
    for state in (STATE.astype(np.int32), np.zeros(3, np.uint32)):
        with (
            br.Program(),
            pytest.raises((DTypeError, ShapeError), match=r"random state u32\[2\]"),
        ):
            call("random_uniform", state, shape=(2,), salt=1)
    for trip in (np.float32(1), np.zeros((1, 1), np.int32)):
        with (
            br.Program(),
            pytest.raises((DTypeError, ShapeError), match="trips of random_uniform"),
        ):
            call("random_uniform", STATE, trip, shape=(2,), salt=1)
    for rate in (-0.1, 1.1):
        with br.Program(), pytest.raises(ProgramError, match=f"rate={rate}"):
            apply("dropout", {"state": [STATE], "x": [1.0]}, {"rate": rate, "salt": 1})
    nothing = np.zeros((2, 0), np.float32)
    with br.Program(), pytest.raises(ShapeError, match="at least one class"):
        call("random_categorical", STATE, nothing, salt=1)


def test_every_switch_between_training_and_test_has_the_same_name() -> None:
    switched = {
        d.type for d in OPS.definitions.values() for a in d.attrs if a.name == "training"
    }
    assert {"dropout", "batch_norm"} <= switched
