"""Selection of the plan of a program by the sizes of a run.

Some passes decide by cost, but a program is planned before its sizes are known. The first plan
assumes small sizes. A larger run has a plan for its own sizes, which all runs share whose sizes
give the same answers to the passes.
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
"""The number of shape sets whose plan is cached."""


class PlanByShape:
    """Cache from shapes to plans."""

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
        """Return the plan for the sizes of a run.

        Args:
            first: The plan for unknown sizes.
            feeds: The data of the run.
            scope: The scope of its persistable variables.
            others: Returns the plans for known sizes.
            make: Creates a plan for sizes.
        """
        shapes = _get_shapes(first.plan, feeds, scope)
        known = self._known.setdefault(first, {})
        runnable = known[shapes]() if shapes in known else None
        if runnable is None:
            sizes = _bind_shapes(first.plan, shapes)
            fitting = (
                candidate for candidate in (first, *others()) if candidate.plan.fits(sizes)
            )
            runnable = next(fitting, None) or make(sizes)
            if len(known) >= MOST_SHAPES:
                known.clear()
            known[shapes] = ref(runnable)
        return runnable


def bind_asked_sizes(plan: Plan, feeds: Mapping[str, Any], scope: Scope) -> Sizes:
    """Return the dimensions of a run that passes query, as far as shapes determine them."""
    return _bind_shapes(plan, _get_shapes(plan, feeds, scope))


def _get_shapes(plan: Plan, feeds: Mapping[str, Any], scope: Scope) -> tuple[Any, ...]:
    """Return the shapes of values that determine sizes; `None` for missing ones."""
    data, states = plan.telling
    values = [*map(feeds.get, data), *(scope.raws(states) if states else ())]
    return tuple(getattr(value, "shape", None) for value in values)


def _bind_shapes(plan: Plan, shapes: tuple[Any, ...]) -> Sizes:
    """Return the sizes from shapes; wrong shapes are ignored, and refused by the run."""
    data, states = plan.telling
    sizes = Sizes()
    for info, shape in zip((*data.values(), *states.values()), shapes, strict=True):
        if shape is not None:
            bind_sizes(info.type, shape, sizes)
    return sizes
