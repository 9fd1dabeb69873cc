"""Which plan of a program is for the sizes of a run.

Passes ask how much is taken by what they would do, and a program is planned before its sizes
are known. The first plan is for sizes that take little; a run that is larger has a plan that
was made for its sizes, and so have all others for which passes are told the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary, ref

from braces.lower.xla.concrete_attributes import Sizes, bind_sizes
from braces.runtime.backend.interface import Runnable
from braces.runtime.plan.plan import Plan
from braces.scope import Scope

MOST_SHAPES = 256
"""For so many sets of shapes it is kept which plan is theirs."""


class Fitting:
    """Remembers for shapes which plan is theirs, so that a run looks no further."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Runnable, Any] = WeakKeyDictionary()

    def find(
        self,
        first: Runnable,
        feeds: Mapping[str, Any],
        scope: Scope,
        others: Callable[[], Iterable[Runnable]],
        make: Callable[[Sizes], Runnable],
    ) -> Runnable:
        """The plan for the sizes of a run.

        Args:
            first: The plan that was made before sizes were known.
            feeds: The data of the run.
            scope: Where its persistable variables live.
            others: The plans that were made for sizes.
            make: Makes one more.
        """
        shapes = _shapes(first.plan, feeds, scope)
        known = self._known.setdefault(first, {})
        found = known[shapes]() if shapes in known else None
        if found is None:
            sizes = _sizes(first.plan, shapes)
            fitting = (one for one in (first, *others()) if one.plan.fits(sizes))
            found = next(fitting, None) or make(sizes)
            if len(known) >= MOST_SHAPES:
                known.clear()
            known[shapes] = ref(found)
        return found


def sizes_of(plan: Plan, feeds: Mapping[str, Any], scope: Scope) -> Sizes:
    """The dimensions of a run that passes asked of, as far as its shapes tell them."""
    return _sizes(plan, _shapes(plan, feeds, scope))


def _shapes(plan: Plan, feeds: Mapping[str, Any], scope: Scope) -> tuple[Any, ...]:
    """The shapes of what tells sizes; `None` for what is not there."""
    data, states = plan.telling
    values = [*map(feeds.get, data), *(scope.raws(states) if states else ())]
    return tuple(getattr(value, "shape", None) for value in values)


def _sizes(plan: Plan, shapes: tuple[Any, ...]) -> Sizes:
    """What shapes tell; those that are wrong are the affair of the run, which refuses them."""
    data, states = plan.telling
    sizes = Sizes()
    for info, shape in zip((*data.values(), *states.values()), shapes, strict=True):
        if shape is not None:
            bind_sizes(info.type, shape, sizes)
    return sizes
