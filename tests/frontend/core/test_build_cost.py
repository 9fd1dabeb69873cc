"""The cost of building, in calls and bytes, independent of the load of the machine."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Generator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

import braces as br
from tests.plugins import rollback
from tests.support import call_counts

OURS = str(Path(br.__file__).parent)


@pytest.fixture(autouse=True)
def unwatched() -> Generator[None]:
    """What tests do at each moment beside is not counted."""
    with rollback.watching(rollback.PLAIN):
        yield


def calls_of(build: Callable[[], Any]) -> int:
    """How many functions of this package are called, once all that is made once is there."""
    build(), build()
    return call_counts.calls_of(build, OURS)


# A third of what they were before there was one door by which operators are appended.
OPERATORS: dict[str, tuple[int, Callable[[Any, Any], Any]]] = {
    "br.tanh(x)": (133 // 3, lambda x, y: br.tanh(x)),
    "x + y": (213 // 3, lambda x, y: x + y),
    "x * 2.0": (273 // 3, lambda x, y: x * 2.0),
    "x[:, :2]": (252 // 3, lambda x, y: x[:, :2]),
    # Types that follow from axes are worked out once for each kind of inputs.
    "br.einsum(...)": (48, lambda x, y: br.einsum("bi,bi->b", x, y)),
    "br.softmax(x)": (42, lambda x, y: br.softmax(x)),
    "br.squared_error(x, y)": (48, lambda x, y: br.squared_error(x, y, reduction="none")),
    "br.sum(x, axis=1)": (46, lambda x, y: br.sum(x, axis=1)),
}


@pytest.mark.parametrize("written", OPERATORS)
@pytest.mark.parametrize("rows", [4, "b"])
def test_an_operator_is_appended_with_few_calls(written: str, rows: int | str) -> None:
    most, build = OPERATORS[written]
    with br.Program():
        x, y = br.data("x", [rows, 8]), br.data("y", [rows, 8])
        assert calls_of(lambda: build(x, y)) <= most


def _block(x: Any) -> Any:
    with br.block("part"):
        inner = br.fc(x, 8)
    return br.tanh(inner)


def _recurrent(x: Any) -> Any:
    rnn = br.create_rnn()
    with rnn.stepnet() as net:
        memory = net.add_memory(init=br.zeros([8]))
        memory.update(br.tanh(memory + net.add_input(x)))
        net.add_output(memory.pre(1))
    return rnn()


LAYERS: dict[str, Callable[[Any], Any]] = {
    "operator": lambda x: x * 2.0,
    "fc": lambda x: br.fc(x, 8, act="relu"),
    "batch_norm": br.batch_norm,
    "dropout": lambda x: br.dropout(x, 0.5),
    "cond": lambda x: br.cond(br.sum(x) > 0.0, lambda: x * 2.0, lambda: x + 1.0),
    "while": lambda x: br.while_loop(lambda v: br.sum(v) > 1.0, lambda v: v * 0.5, x),
    "rnn": _recurrent,
    "block": _block,
}
EARLY, LATE, LOOKED_AT = 20, 300, 9


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_costs_the_same_however_many_there_are(layer: str) -> None:
    """Nothing is copied or gone through that grows with the program."""
    build, costs = LAYERS[layer], dict[int, tuple[float, float]]()
    with br.Program():
        x = br.data("x", ["b", 8])
        for i in range(LATE + 1):
            if i in (EARLY, LATE):
                costs[i] = _cost(build, x)
            x = build(x)
    (few, little), (many, much) = costs[EARLY], costs[LATE]
    assert many <= few + 2
    assert much <= 1.2 * little


def test_a_gradient_costs_what_it_reaches() -> None:
    """However much was built before, of the same inputs too."""
    costs = dict[int, int]()
    with br.Program():
        x = br.data("x", ["b", 8])

        def derived() -> Any:
            return br.gradients([br.sum(br.tanh(x * 2.0))], [x])

        for i in range(LATE + 1):
            derived()
            if i in (EARLY, LATE):
                costs[i] = calls_of(derived)
    assert costs[LATE] <= costs[EARLY] + 2


def _cost(build: Callable[[Any], Any], x: Any) -> tuple[float, float]:
    """Calls, and the most bytes that are held at a time; dicts grow now and then."""
    found = [_bytes(lambda: build(x)) for _ in range(LOOKED_AT)]
    return calls_of(lambda: build(x)), median(found)


def _bytes(build: Callable[[], Any]) -> int:
    tracemalloc.start()
    try:
        build()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
