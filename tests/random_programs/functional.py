"""Random loops and branches in their functional forms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import braces as br
from tests.random_programs.expressions import MATRIX, Expressions, Place

Pack = Callable[[Sequence[Any]], Any]

_PACKS: list[Pack] = [
    tuple,
    list,
    lambda leaves: dict(zip("abcd", leaves, strict=False)),
    lambda leaves: (leaves[0], {"rest": list(leaves[1:])}),
    lambda leaves: leaves[0] if len(leaves) == 1 else [leaves[0], None, tuple(leaves[1:])],
]


def flat(tree: Any) -> list[Any]:
    """The leaves of nested tuples, lists and dicts, from left to right."""
    if tree is None:
        return []
    if isinstance(tree, dict):
        return flat(list(tree.values()))
    if isinstance(tree, tuple | list):
        return [leaf for one in tree for leaf in flat(one)]
    return [tree]


class Functional(Expressions, ABC):
    """Writes `br.while_loop`, `br.scan`, `br.cond` and `br.switch`."""

    x: br.Var

    @abstractmethod
    def statements(self, place: Place, count: int) -> None:
        """Write some statements."""

    @abstractmethod
    def limits(self) -> dict[str, int]:
        """Options of a while."""

    @abstractmethod
    def goes_on(
        self,
        place: Place,
        count: br.Var,
        memories: Sequence[tuple[str, Any]],
        flags: Sequence[Any],
    ) -> br.Var:
        """The condition of a while."""

    def pack(self) -> Pack:
        """A way to nest leaves, of which there is at least one."""
        return self.draw.choice(_PACKS)

    def kinds(self, place: Place, least: int, most: int) -> list[str]:
        """Some kinds that there are."""
        return [self.kind(place) for _ in range(self.draw.randint(least, most))]

    def picks(self, place: Place, kinds: Sequence[str]) -> list[br.Var]:
        """A variable of each kind."""
        return [self.pick(place, kind) for kind in kinds]

    def step(self, inner: Place, kinds: Sequence[str], carry: Sequence[Any]) -> list[br.Var]:
        """Write the body of a loop; the next carry."""
        inner.take(kinds, carry)
        self.statements(inner, self.draw.randint(1, 3))
        return [self.expression(inner, kind) for kind in kinds]

    # ---- loops -------------------------------------------------------------------------------

    def functional_while(self, place: Place) -> None:
        inner, pack, kinds = place.inside(True), self.pack(), self.kinds(place, 1, 3)

        def more(carry: Any) -> br.Var:
            count, *memories = flat(carry)
            return self.goes_on(place, count, list(zip(kinds, memories, strict=True)), [])

        def body(carry: Any) -> Any:
            count, *memories = flat(carry)
            inner.integers.append(count)
            return pack([count + 1, *self.step(inner, kinds, memories)])

        zero = self.draw.choice([br.constant(0, dtype="int32"), np.int32(0)])
        start = pack([zero, *self.picks(place, kinds)])
        count, *last = flat(br.while_loop(more, body, start, **self.limits()))
        place.integers.append(count)
        place.take(kinds, last)

    def functional_scan(self, place: Place) -> None:
        inner, pack, stack = place.inside(True), self.pack(), self.pack()
        kinds, given = self.kinds(place, 0, 2), self.draw.random() < 0.6 and not place.rows
        collected = self.kinds(place, 0 if kinds else 1, 2)

        def step(carry: Any, slices: Any) -> Any:
            inner.values[MATRIX] += flat(slices)
            after = self.step(inner, kinds, flat(carry))
            rows = self.picks(inner, collected)
            return pack(after) if kinds else None, stack(rows) if rows else None

        last, stacked = br.scan(
            step,
            pack(self.picks(place, kinds)) if kinds else None,
            pack([self.x]) if given else None,
            None if given else self.draw.choice([0, 1, 3]),
            reverse=self.draw.random() < 0.3,
        )
        place.take(kinds, flat(last))
        place.take(collected, [br.tanh(br.sum(rows, axis=0)) for rows in flat(stacked)])

    # ---- branches ----------------------------------------------------------------------------

    def function(self, place: Place, taken: Sequence[str], pack: Pack, made: Any) -> Any:
        """A case: a function of values of the kinds `taken`, to values of the kinds `made`."""

        def case(*operands: Any) -> Any:
            inner = place.inside()
            inner.take(taken, flat(operands))
            self.statements(inner, self.draw.randint(0, 2))
            return pack(self.picks(inner, made))

        return case

    def functional_cond(self, place: Place) -> None:
        if place.values[MATRIX] and self.draw.random() < 0.4:
            self.row_cond(place)
            return
        taken, made, pack = self.kinds(place, 0, 2), self.kinds(place, 1, 2), self.pack()
        sides = [self.function(place, taken, pack, made) for _ in range(2)]
        operands = self.picks(place, taken)
        place.take(made, flat(br.cond(self.condition(place), *sides, *operands)))

    def row_cond(self, place: Place) -> None:
        """Each function on its rows."""
        pack, made = self.pack(), [MATRIX] * self.draw.randint(1, 2)

        def side(operands: Any) -> Any:
            inner = place.selected(flat(operands))
            self.statements(inner, self.draw.randint(1, 2))
            return pack(self.picks(inner, made))

        operands = pack(self.picks(place, [MATRIX] * self.draw.randint(1, 2)))
        deciding = self.pick(place, MATRIX)[:, 0] > self.number() * 0.5
        place.take(made, flat(br.cond(deciding, side, side, operands)))

    def functional_switch(self, place: Place) -> None:
        taken, made, pack = self.kinds(place, 0, 1), self.kinds(place, 1, 2), self.pack()
        whole = self.draw.random() < 0.2  # all that the index can be
        numbers = list(range(4)) if whole else self.draw.sample(range(5), 2)
        listed = whole or self.draw.random() < 0.3
        functions = [self.function(place, taken, pack, made) for _ in numbers]
        default = None if whole or self.misses() else self.function(place, taken, pack, made)
        index = self.draw.choice(place.integers) % 4
        found = br.switch(
            index,
            functions if listed else dict(zip(numbers, functions, strict=True)),
            *self.picks(place, taken),
            default=default,
        )
        place.take(made, flat(found))

    def misses(self) -> bool:
        """Return whether a switch lacks the default that it may need."""
        return self.draw.random() < 0.06
