"""Decoding, against plain loops in NumPy and all sequences that there are."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br

pytestmark = pytest.mark.unoptimized

END, VOCABULARY, SIZE = 2, 5, 4


def weights(rng: np.random.Generator, vocabulary: int = VOCABULARY) -> Any:
    shapes = {"e": (vocabulary, SIZE), "u": (SIZE, SIZE), "w": (SIZE, vocabulary)}
    return {name: rng.normal(size=shape).astype("f4") for name, shape in shapes.items()}


def in_braces(given: Any) -> Any:
    """A step of a recurrent net with a state of rows, and one that all rows share."""
    e, u, w = (br.parameter(name, list(array.shape)) for name, array in given.items())

    def step(ids: Any, state: Any) -> Any:
        h = br.tanh(br.embedding(ids, e) + state["h"] @ u)
        logits = h @ w * br.cast(state["steps"], "float32")
        return logits, {"h": h, "steps": state["steps"] + 1}

    return step


def in_numpy(given: Any) -> Any:
    """The logarithms of probabilities after some ids."""

    def likely(h: Any, ids: Any) -> Any:
        for count, at in enumerate(ids):
            h = np.tanh(given["e"][at].astype("f8") + h @ given["u"])
            logits = h @ given["w"] * (count + 1)
        return logits - np.log(np.exp(logits).sum())

    return likely


def score(likely: Any, h: Any, start: int, ids: Any) -> float:
    return sum(likely(h, [start, *ids[:at]])[one] for at, one in enumerate(ids))


def ended(ids: Any) -> tuple[int, ...]:
    """Ids up to the end id."""
    found = list(ids)
    return tuple(found[: found.index(END) + 1] if END in found else found)


def padded(ids: Any, length: int) -> list[int]:
    return [*ids, *[END] * (length - len(ids))]


def searched(likely: Any, h: Any, start: int, beams: int, length: int, power: float) -> Any:
    """The best sequences of a row, with their scores."""
    live: Any = [((), 0.0)]
    for _ in range(length):
        grown = []
        for ids, total in live:
            if ids[-1:] == (END,):
                grown.append((ids, total))
                continue
            nexts = likely(h, [start, *ids])
            grown += [((*ids, one), total + nexts[one]) for one in range(len(nexts))]
        live = sorted(grown, key=lambda one: -one[1] / len(one[0]) ** power)[:beams]
    return [(ids, total / len(ids) ** power) for ids, total in live]


def program(given: Any, length: int, searches: Any) -> tuple[br.Program, list[Any]]:
    with br.Program() as prog:
        h = br.data("h", ["rows", SIZE])
        first = br.data("first", ["rows"], dtype="int64")
        state = {"h": h, "steps": br.constant(1, dtype="int32")}
        shared: Any = {"start": first, "end": END, "max_length": length}
        step = in_braces(given)
        return prog, [search(step, state, shared) for search in searches]


def run(mode: str, prog: br.Program, given: Any, feed: Any, fetch: Any) -> Any:
    scope, exe = br.Scope(), br.Executor(mode=mode)
    exe.init(prog, scope)
    scope.update(given)
    got = exe.run(prog, scope, feed, fetch=[var for found in fetch for var in found])
    return [got[at : at + 3] for at in range(0, len(got), 3)]


def fed(rng: np.random.Generator, rows: int, vocabulary: int = VOCABULARY) -> Any:
    first = rng.integers(0, vocabulary, size=rows)
    return {"h": rng.normal(size=(rows, SIZE)).astype("f4"), "first": first}


def test_greedy_takes_the_likeliest_and_stops_where_all_rows_ended(
    mode: str, rng: np.random.Generator, tmp_path: Path
) -> None:
    given, feed, length = weights(rng), fed(rng, 6), 7
    prog, (found,) = program(given, length, [lambda f, s, o: br.decoding.greedy(f, s, **o)])
    assert found.ids.type == br.dtypes.parse_type("i64[rows,7]")
    scope, exe = br.Scope(), br.Executor(mode=mode)
    exe.init(prog, scope)
    scope.update(given)
    got = exe.run(prog, scope, feed, fetch=list(found))
    likely = in_numpy(given)
    stops = set()
    for row, (ids, count, total) in enumerate(zip(*got, strict=True)):
        want: list[int] = []
        while len(want) < length and END not in want:
            want.append(int(np.argmax(likely(feed["h"][row], [feed["first"][row], *want]))))
        assert ids.tolist() == padded(want, length)
        assert count == len(want) - (END in want)
        wanted = score(likely, feed["h"][row], feed["first"][row], want)
        np.testing.assert_allclose(total, wanted, rtol=1e-4, atol=1e-5)
        stops.add(len(want))
    assert len(stops) > 1  # rows end at different steps
    none = exe.run(prog, scope, fed(rng, 0), fetch=list(found))
    assert [array.shape for array in none] == [(0, length), (0,), (0,)]
    br.save_model(tmp_path / "m", prog, scope, feeds=["h", "first"], fetches=list(found))
    model = br.load_model(tmp_path / "m")
    again = list(model.run(**feed).values()) if mode == "compile" else got
    for left, right in zip(again, got, strict=True):
        np.testing.assert_array_equal(left, right)


def test_wide_beams_find_the_best_of_all_sequences(mode: str, rng: np.random.Generator) -> None:
    given, feed, length = weights(rng, 3), fed(rng, 3, 3), 3
    every = sorted({ended(ids) for ids in itertools.product(range(3), repeat=length)})
    powers = (0.0, 0.8)
    prog, found = program(
        given,
        length,
        [
            lambda f, s, o, p=power: br.decoding.beam_search(f, s, 17, length_penalty=p, **o)
            for power in powers
        ],
    )
    got = run(mode, prog, given, feed, found)
    likely = in_numpy(given)
    for power, (ids, lengths, scores) in zip(powers, got, strict=True):
        for row in range(3):
            start, h = feed["first"][row], feed["h"][row]
            ranked = {one: score(likely, h, start, one) / len(one) ** power for one in every}
            best = sorted(every, key=lambda one: -ranked[one])
            assert [tuple(one) for one in ids[row][:15].tolist()] == [
                tuple(padded(one, length)) for one in best
            ]
            wanted = [ranked[one] for one in best]
            np.testing.assert_allclose(scores[row][:15], wanted, rtol=1e-4, atol=1e-5)
            assert np.isneginf(scores[row][15:]).all()
            assert lengths[row][:15].tolist() == [len(one) - (END in one) for one in best]


def test_narrow_beams_keep_what_a_plain_search_keeps(
    mode: str, rng: np.random.Generator
) -> None:
    given, feed, length = weights(rng), fed(rng, 4), 6
    options: Any = [(3, 0.0), (2, 1.0), (1, 0.0)]
    searches = [
        lambda f, s, o, b=beams, p=power: br.decoding.beam_search(
            f, s, b, length_penalty=p, **o
        )
        for beams, power in options
    ]
    searches.append(lambda f, s, o: br.decoding.greedy(f, s, **o))
    prog, found = program(given, length, searches)
    got = run(mode, prog, given, feed, found)
    likely = in_numpy(given)
    for (beams, power), (ids, _, scores) in zip(options, got, strict=False):
        for row in range(4):
            start, h = feed["first"][row], feed["h"][row]
            want = searched(likely, h, start, beams, length, power)
            assert ids[row].tolist() == [padded(one, length) for one, _ in want]
            wanted = [total for _, total in want]
            np.testing.assert_allclose(scores[row], wanted, rtol=1e-4, atol=1e-5)
    for left, right in zip(got[2], got[3], strict=True):  # one beam is greedy
        np.testing.assert_allclose(left[:, 0], right, rtol=1e-5)


def test_samples_are_of_the_likeliest_ids_with_their_probabilities(
    mode: str, rng: np.random.Generator
) -> None:
    rows = 4000
    likely = np.array([0.4, 0.3, 0.15, 0.1, 0.05])
    options: Any = {
        "plain": ({}, likely),
        "warm": ({"temperature": 0.5}, likely**2),
        "two": ({"top_k": 2}, likely * [1, 1, 0, 0, 0]),
        "half": ({"top_p": 0.6}, likely * [1, 1, 0, 0, 0]),
        "both": ({"top_k": 3, "top_p": 0.85}, likely * [1, 1, 1, 0, 0]),
        "first": ({"top_p": 1e-6}, likely * [1, 0, 0, 0, 0]),
        "fed": ({"temperature": "t", "top_p": "p"}, likely**0.5 * [1, 1, 1, 0, 0]),
    }
    order = np.array([3, 0, 4, 1, 2])
    with br.Program() as prog:
        logits = br.constant(np.log(likely)[order].astype("f4"))
        fed_options = {"t": br.data("t", []), "p": br.data("p", [])}
        found = []
        for given, _ in options.values():
            given = {k: fed_options.get(v, v) for k, v in given.items()}
            found.append(br.decoding.sample(
                lambda ids, n: (br.broadcast_to(logits, [n.shape[0], 5]), n),
                br.zeros([rows]), start=0, end=4, max_length=2, **given,
            ))  # fmt: skip
    feed = {"t": 2.0, "p": 0.65}
    got = run(mode, prog, {}, feed, found)
    for (name, (_, weight)), (ids, lengths, scores) in zip(options.items(), got, strict=True):
        want = (weight / weight.sum())[order]
        freely = ids[:, 0], ids[ids[:, 0] != 4][:, 1]
        for drawn in freely:
            counts = np.bincount(drawn, minlength=5) / len(drawn)
            assert not counts[want == 0].any(), name
            np.testing.assert_allclose(counts, want, atol=0.04, err_msg=name)
        assert (ids[ids[:, 0] == 4] == 4).all()
        np.testing.assert_array_equal(lengths, (ids != 4).sum(1))
        taken = np.log(likely[order])[ids]
        taken[:, 1] *= ids[:, 0] != 4
        np.testing.assert_allclose(scores, taken.sum(1), rtol=1e-4)


def test_beams_take_the_keys_and_values_of_what_came_before_along(
    mode: str, rng: np.random.Generator
) -> None:
    @br.shared
    def model(ids: Any, position: Any, cache: Any) -> Any:
        at = br.cast(br.arange(ids.shape[1]), "int32") + position
        h = br.embedding(ids, [7, 8], name="ids") + br.layers.positional_encoding(at, 8)
        h, cache = br.layers.transformer_encoder_layer(
            h, 2, causal=True, norm_first=True, cache=cache, name="layer"
        )
        return br.fc(h, 7, name="logits"), cache

    def step(ids: Any, cache: Any) -> Any:
        logits, cache = model(br.expand_dims(ids, axis=1), cache.position, cache)
        return logits[:, 0], cache

    with br.Program() as prog:
        first = br.data("first", ["rows"], dtype="int64")
        whole = br.data("whole", ["all", "t"], dtype="int64")
        none = br.layers.attention_cache(whole.shape[0], 6, heads=2, size=4)
        logits, _ = model(whole, none.position, none)
        empty = br.layers.attention_cache(first.shape[0], 6, heads=2, size=4)
        found = br.decoding.beam_search(step, empty, 3, start=first, end=0, max_length=6)
    assert all("model/" in one.name for one in prog.parameters)
    scope, exe = br.Scope(), br.Executor(mode=mode)
    exe.init(prog, scope, seed=2)
    for info in prog.parameters:
        shape = scope.var(info.name).value.shape
        scope.var(info.name).set((rng.normal(size=shape) * 0.5).astype("f4"))
    ids, lengths, scores = exe.run(prog, scope, {"first": [3, 1]}, fetch=list(found))
    begun = np.repeat([[3], [1]], 3, axis=0)
    fed = np.concatenate([begun, ids.reshape(6, 6)[:, :-1]], axis=1)
    (likely,) = exe.run(prog, scope, {"whole": fed}, fetch=[logits])
    likely = likely.astype("f8") - np.log(np.exp(likely.astype("f8")).sum(-1, keepdims=True))
    gained = np.take_along_axis(likely, ids.reshape(6, 6, 1), axis=-1)[..., 0]
    seen = np.arange(6) <= lengths.reshape(6, 1)
    np.testing.assert_allclose(scores.reshape(6), (gained * seen).sum(1), atol=2e-3)
    assert (np.diff(scores) <= 0).all()


BAD: list[tuple[Any, str]] = [
    ({"end": 9}, "end=9 of greedy is out of range for 5 ids"),
    ({"end": None}, "end=None"),
    ({"max_length": -1}, "non-negative max_length="),
    ({"start": 1.5}, "expected an integer or integer vector as start="),
    ({"start": 1, "init": None}, "no batch size"),
    ({"step": lambda ids, s: s}, "must return a pair"),
    ({"step": lambda ids, s: (br.zeros([3]), s)}, r"\[rows, vocabulary\]"),
    ({"step": lambda ids, s: (br.zeros([7, 5]), s)}, "batch size mismatch of logits and ids"),
    ({"step": lambda ids, s: (br.zeros([3, 5]), s[:, :2])}, "changes the type"),
    ({"init": {"a": br.zeros, "b": 1}}, "a"),
    ({"step": 3}, "expected a function as step"),
]


def test_what_does_not_fit_is_refused_by_the_users_line() -> None:
    for given, message in BAD:
        with br.Program() as prog:
            options: Any = {
                "step": lambda ids, s: (br.zeros([3, 5]), s), "init": br.zeros([3, 4]),
                "start": br.zeros([3], "int64"), "end": 2, "max_length": 4, **given,
            }  # fmt: skip
            with pytest.raises(br.BracesError, match=message) as caught:
                br.decoding.greedy(**options)
            assert "test_decoding.py:" in str(caught.value), message
        assert not prog.blocks[1:], message
    rest: Any = {"start": 0, "end": 0, "max_length": 1}
    with br.Program(), pytest.raises(br.ProgramError, match="positive temperature=, got 0"):
        br.decoding.sample(lambda i, s: (s, s), None, temperature=0, **rest)
    with br.Program(), pytest.raises(br.ProgramError, match="at least one beam, got 0"):
        br.decoding.beam_search(lambda i, s: (s, s), None, 0, **rest)


def test_a_captured_value_of_the_batch_belongs_into_the_state_of_beam_search() -> None:
    with br.Program():
        encoded = br.data("encoded", ["n", 8])

        def step(ids: br.Var, h: br.Var) -> Any:
            word = br.embedding(ids, [VOCABULARY, 8])
            return br.fc(br.concat([word, encoded], axis=1), VOCABULARY), h

        with pytest.raises(br.ShapeError, match=r"got 3\*n and n") as caught:
            br.decoding.beam_search(step, encoded, start=1, end=2, max_length=4, beams=3)
    assert "in the state (init=), which is repeated for the beams" in str(caught.value)


def shared_int32_step() -> tuple[Any, Any]:
    """A step whose block was built on int32 ids, and its state."""
    ids = br.data("ids", ["n"], dtype="int32")
    state = br.zeros([ids.shape[0], 9])
    step = br.shared(lambda last, h: (br.embedding(last, [9, 9], name="e") + h, h))
    step(ids, state)
    return step, state


DECODERS: dict[str, Any] = {
    "greedy": br.decoding.greedy,
    "sample": br.decoding.sample,
    "beam_search": lambda *given, **options: br.decoding.beam_search(*given, 2, **options),
}


@pytest.mark.parametrize("name", DECODERS)
def test_a_numpy_integer_starts_with_ids_of_its_dtype(name: str) -> None:
    with br.Program():
        step, state = shared_int32_step()
        found = DECODERS[name](step, state, start=np.int32(1), end=8, max_length=3)
    assert found.ids.dtype == br.int32


@pytest.mark.parametrize("first", [1, np.int64(1)])
@pytest.mark.parametrize("name", DECODERS)
def test_an_integer_of_another_dtype_than_the_step_names_start(name: str, first: Any) -> None:
    with br.Program() as prog:
        step, state = shared_int32_step()
        with pytest.raises(br.DTypeError, match="start=1") as caught:
            DECODERS[name](step, state, start=first, end=8, max_length=3)
        assert "Pass start=br.full([rows], 1, dtype='int32')." in str(caught.value)
        assert "ids: i32[n]" in str(caught.value)
        assert "test_decoding.py:" in str(caught.value)
        assert all(op.type != "while" for op in prog.block(0).ops)
