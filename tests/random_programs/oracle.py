"""The meaning of a program, from its text, in plain Python and NumPy.

Nothing here is shared with the executor: loops are loops, branches are branches, a row-wise
branch picks rows with a mask, and every operator is the NumPy function of its name. Only where
rows stay at their places are masks put into it, for there what mixes rows leaves others out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import braces as br
from braces.extend.programs import Body, Literal, Op, ProgramDef, parse_program
from braces.passes.rows.mask_padding import mask_branches

Values = dict[str, Any]


class Refused(Exception):
    """What is read cannot be run.

    Attributes:
        error: What a run raises.
        said: Something that its message says.
    """

    def __init__(self, error: type[br.RunError], said: str) -> None:
        super().__init__(error, said)
        self.error = error
        self.said = said


def read(text: str, feeds: Mapping[str, Any], wanted: str) -> np.ndarray:
    """The value of a variable of the main block.

    Args:
        text: The text form of a program.
        feeds: Data and parameters by name.
        wanted: The variable.

    Raises:
        Refused: If a loop exceeds its bound, or a switch has no case for its index.
    """
    return Reading(parse_program(text).main, feeds).value(wanted)


class Reading:
    """A program's main block, to be read with values.

    Args:
        main: The block.
        feeds: Data and parameters by name.
        fixed: What `stop_gradient` gave in another reading, to be given again.

    Attributes:
        choices: All that was decided: conditions, cases, rows.
        stopped: What `stop_gradient` gave.
    """

    def __init__(
        self, main: Body, feeds: Mapping[str, Any], fixed: Sequence[Any] | None = None
    ) -> None:
        self.main = mask_branches(ProgramDef(main, {}), interpreted=True).main
        self.choices: list[bytes] = []
        self.stopped: list[Any] = []
        self.fixed = None if fixed is None else iter(fixed)
        self.sizes: dict[str, int] = {}
        self.feeds = {name: value for name, value in feeds.items() if name in main.vars}
        for name, value in self.feeds.items():
            shape: Any = getattr(main.vars[name].type, "shape", ())
            self.sizes |= {
                str(size): n
                for size, n in zip(shape, np.shape(value), strict=True)
                if not isinstance(size, int)
            }

    def value(self, wanted: str) -> np.ndarray:
        """The value of a variable."""
        values: Values = dict(self.feeds)
        with np.errstate(all="ignore"):
            self.block(self.main, values)
        return np.asarray(values[wanted])

    def size(self, size: Any) -> int:
        """A size, whatever dimensions it is made of."""
        if isinstance(size, int):
            return size
        known = {"floordiv": lambda a, b: a // b}
        return int(eval(str(size).replace("^", "**"), known, self.sizes))

    def block(self, body: Body, values: Values) -> list[Any]:
        """Bind every variable of a block; its results."""
        for op in body.ops:
            special = getattr(self, f"read_{op.type}", None)
            found = special(op, values) if special else self.plain(op, values)
            for slot, names in op.outputs.items():
                values.update(zip(names, found[slot], strict=True))
        return [values[name] for name in body.results]

    def inner(self, body: Body, values: Values, arguments: Sequence[Any]) -> list[Any]:
        """The results of a sub-block, which sees what is around it."""
        return self.block(body, {**values, **dict(zip(body.params, arguments, strict=True))})

    def plain(self, op: Op, values: Values) -> dict[str, list[Any]]:
        """An operator without blocks."""
        inputs = {slot: [values[n] for n in names] for slot, names in op.inputs.items()}
        arguments = {slot: given[0] for slot, given in inputs.items()}
        result = PLAIN[op.type](self, **arguments, **op.attrs)
        return {slot: [result] for slot in op.outputs}

    # ---- operators with blocks ---------------------------------------------------------------

    def read_loop(self, op: Op, values: Values) -> dict[str, list[Any]]:
        """A count or a condition, memories, slices, rows."""
        body, cond = op.attrs["body"], op.attrs["cond"]
        assert isinstance(body, Body)
        memories = [values[n] for n in op.inputs.get("init", ())]
        sliced = [values[n] for n in op.inputs.get("sliced", ())]
        count, trips, rows = len(memories), 0, list[list[Any]]()
        limit: Any = op.attrs["max_trips"]
        length = len(sliced[0]) if sliced else 0
        if not sliced and cond is None:
            length = self.size(op.attrs["length"])
        order = range(length)[::-1] if op.attrs["reverse"] else range(length)
        while trips < length if cond is None else self.holds(cond, values, memories):
            if trips == limit:
                raise Refused(br.TripLimitError, f"max_trips = {limit}")
            t = order[trips] if cond is None else trips
            found = self.inner(body, values, [np.int64(t), *memories, *(x[t] for x in sliced)])
            memories, trips = found[:count], trips + 1
            rows.append(found[count:])
        if op.attrs["reverse"]:
            rows.reverse()
        names = body.results[count:]
        stacked = [
            self.rows(body, n, [row[i] for row in rows], values) for i, n in enumerate(names)
        ]
        return {"final": memories, "stacked": stacked, "trips": [np.int64(trips)]}

    def holds(self, cond: Any, values: Values, memories: Sequence[Any]) -> bool:
        """The condition of a loop."""
        return bool(self.choose(self.inner(cond, values, memories)[0]))

    def choose(self, choice: Any) -> Any:
        """Note a decision."""
        self.choices.append(np.asarray(choice).tobytes())
        return choice

    def stop(self, x: Any) -> Any:
        """The value that does not move when inputs do."""
        self.stopped.append(x if self.fixed is None else next(self.fixed))
        return self.stopped[-1]

    def rows(self, body: Body, name: str, rows: list[Any], values: Values) -> np.ndarray:
        """Values of each step as one array."""
        if rows:
            return np.stack(rows)
        if name not in body.vars:
            return np.asarray(values[name])[None][:0]
        type_: Any = body.vars[name].type
        return np.zeros((0, *map(self.size, type_.shape)), type_.dtype)

    def read_switch(self, op: Op, values: Values) -> dict[str, list[Any]]:
        """One case, chosen by a number."""
        cases: Any = op.attrs["cases"]
        index = int(values[op.inputs["index"][0]])
        if not 0 <= self.choose(index) < len(cases):
            raise Refused(br.NoMatchError, op.name)
        return {"out": self.inner(cases[index], values, [])}

    def read_block(self, op: Op, values: Values) -> dict[str, list[Any]]:
        """What stands in it."""
        body = op.attrs["body"]
        assert isinstance(body, Body)
        return {"out": self.inner(body, values, [])}

    def read_custom_gradient(self, op: Op, values: Values) -> dict[str, list[Any]]:
        """The values as they are."""
        return {"out": [values[name] for name in op.inputs["values"]]}

    def read_case_of(self, op: Op, values: Values) -> dict[str, list[Any]]:
        """The position of an index among the cases, or their number."""
        cases: Any = op.attrs["cases"]
        index = self.choose(values[op.inputs["index"][0]])
        if index not in cases and not op.attrs["default"]:
            raise Refused(br.NoMatchError, op.name)
        position = cases.index(index) if index in cases else len(cases)
        return {"out": [np.asarray(position)]}

    def read_partition(self, op: Op, values: Values) -> dict[str, list[Any]]:
        """Each case on its own rows."""
        given = [values[n] for n in op.inputs.get("rows", ())]
        cases: Any = op.attrs["cases"]
        counts: Any = op.attrs["counts"]
        out: list[Any] = [None] * len(op.outputs["out"])
        for case, count, name in zip(cases, counts, op.inputs["masks"], strict=True):
            mask = self.choose(values[name])
            if not op.attrs["compact"]:
                return self.in_place(case, mask, given, values)
            self.sizes[str(count)] = selected = int(mask.sum())
            if not selected:
                continue
            valid = np.ones(selected, bool)
            found = self.inner(case, values, [valid, *(x[mask] for x in given)])
            for i, rows in enumerate(found):
                if out[i] is None:
                    out[i] = np.zeros((len(mask), *rows.shape[1:]))
                out[i][mask] = rows
        empty = np.zeros((len(values[op.inputs["masks"][0]]), 3))
        return {"out": [empty if rows is None else rows for rows in out], "sums": []}

    def in_place(
        self, case: Body, mask: Any, given: Sequence[Any], values: Values
    ) -> dict[str, list[Any]]:
        """A case on rows that stay at their places; what it is given of the others is NaN.

        Without rows nothing runs, and nothing can fail.
        """
        if not mask.any():
            types: Any = [case.vars[name].type for name in case.results]
            return {
                "out": [np.zeros((len(mask), *t.shape[1:]), t.dtype) for t in types],
                "sums": [],
            }
        shapes = [mask.reshape(-1, *[1] * (x.ndim - 1)) for x in given]
        poisoned = [np.where(m, x, np.nan) for m, x in zip(shapes, given, strict=True)]
        found = self.inner(case, values, [mask, *poisoned])
        return {
            "out": [
                np.where(mask.reshape(-1, *[1] * (x.ndim - 1)), x, np.zeros((), x.dtype))
                for x in found
            ],
            "sums": [],
        }

    def read_concat(self, op: Op, values: Values) -> dict[str, list[Any]]:
        """Several arrays, one behind the other."""
        several = [values[name] for name in op.inputs["xs"]]
        return {"out": [np.concatenate(several, op.attrs["axis"])]}

    def read_stack(self, op: Op, values: Values) -> dict[str, list[Any]]:
        """Several arrays, one beside the other."""
        return {"out": [np.stack([values[n] for n in op.inputs["xs"]], op.attrs["axis"])]}

    def read_einsum(self, op: Op, values: Values) -> dict[str, list[Any]]:
        """Products of several arrays, summed over axes."""
        return {"out": [np.einsum(op.attrs["equation"], *map(values.get, op.inputs["xs"]))]}


def _window(reading: Reading, x: Any, start: Any, size: Any, axis: int, from_end: bool) -> Any:
    first, many = reading.size(start), reading.size(size)
    if from_end:
        first = x.shape[axis] - many - first
    return x[(slice(None),) * axis + (slice(first, first + many),)]


def _index(reading: Reading, x: Any, index: Any) -> Any:
    del reading
    return x[tuple(_entry(entry) for entry in index)]


def _entry(entry: Any) -> Any:
    if entry == ":":
        return slice(None)
    return slice(*entry) if isinstance(entry, tuple) else entry


def _along(function: Any) -> Callable[..., Any]:
    """A cumulative function, from the end where it says `reverse`."""

    def computed(reading: Reading, x: Any, axis: int, reverse: bool) -> Any:
        del reading
        given = np.flip(x, axis) if reverse else x
        found = function(given, axis=axis)
        return np.flip(found, axis) if reverse else found

    return computed


def _softmax(reading: Reading, x: Any, axis: int) -> Any:
    del reading
    shifted = np.exp(x - np.max(x, axis, keepdims=True, initial=-np.inf))
    return shifted / np.sum(shifted, axis, keepdims=True)


def _sorted(reading: Reading, x: Any, axis: int, descending: bool) -> Any:
    assert not descending
    reading.choose(np.argsort(x, axis))
    return np.sort(x, axis)


def _cummax(reading: Reading, x: Any, axis: int, reverse: bool) -> Any:
    assert not reverse
    found = np.maximum.accumulate(x, axis=axis)
    reading.choose(found == x)
    return found


def _function(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda reading, **given: function(**given)


def _ufunc(function: Any) -> Callable[..., Any]:
    return lambda reading, x, y=None: function(x) if y is None else function(x, y)


def _constant(reading: Reading, value: Literal) -> np.ndarray:
    del reading
    return np.frombuffer(value.data, value.dtype).reshape(value.shape)


def _where(reading: Reading, condition: Any, x: Any, y: Any) -> Any:
    return np.where(reading.choose(condition), x, y)


PLAIN: dict[str, Callable[..., Any]] = {
    name: _ufunc(getattr(np, name))
    for name in [
        "add",
        "subtract",
        "multiply",
        "divide",
        "tanh",
        "sin",
        "cos",
        "exp",
        "sqrt",
        "greater",
        "less",
        "equal",
        "remainder",
        "matmul",
        "logical_and",
        "logical_or",
        "logical_not",
        "negative",
        "maximum",
        "minimum",
        "square",
    ]
} | {
    "constant": _constant,
    "where": _where,
    "getitem": _index,
    "identity": _function(lambda x: x),
    "cumsum": _along(np.cumsum),
    "cumprod": _along(np.cumprod),
    "cummax": _cummax,
    "flip": _function(lambda x, axis: np.flip(x, axis)),
    "roll": _function(lambda x, shift, axis: np.roll(x, shift, axis)),
    "softmax": _softmax,
    "log_softmax": lambda reading, x, axis: np.log(_softmax(reading, x, axis)),
    "sort": _sorted,
    "expand_dims": _function(lambda x, axis: np.expand_dims(x, axis)),
    "stop_gradient": lambda reading, x: reading.stop(x),
    "sum": _function(lambda x, axis, keepdims: np.sum(x, axis, keepdims=keepdims)),
    "cast": _function(lambda x, dtype: np.asarray(x).astype(dtype)),
    "reshape": lambda reading, x, shape: np.reshape(x, tuple(map(reading.size, shape))),
    "full": lambda reading, shape, value, dtype: np.full(
        tuple(map(reading.size, shape)), value, dtype
    ),
    "window": _window,
    "size": lambda reading, value, dtype: np.asarray(reading.size(value), dtype),
    "moveaxis": _function(lambda x, source, destination: np.moveaxis(x, source, destination)),
    "broadcast_to": lambda reading, x, shape: np.broadcast_to(
        x, tuple(map(reading.size, shape))
    ),
    "list_empty": _function(lambda dtype, shape, **rest: ((), shape, dtype)),
    "list_push": _function(lambda list, value, history: ((*list[0], value), *list[1:])),
    "list_stack": lambda reading, list, length, roomy: (
        np.stack(list[0]) if list[0] else np.zeros((0, *map(reading.size, list[1])), list[2])
    ),
}
