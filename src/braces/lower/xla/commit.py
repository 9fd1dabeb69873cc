"""Commit of a run: its next values if the run was good, the old values otherwise.

If the selection stands at the end, the next value of a moment has two readers: the selection
and the update of its parameter. XLA then computes it twice from the old value, which it copies
first because the new value overwrites it. Therefore a value is selected where it is computed,
after the last operator that can fail. All later readers read the selected value:

    m = 0.9 * m0 + 0.1 * g                    m = where(good, 0.9 * m0 + 0.1 * g, m0)
    p = p0 - 0.001 * m                        p = where(good, p0 - 0.001 * m, p0)
    return where(good, m, m0),         ->     return m, p
           where(good, p, p0)

In a failed run the values on the right differ from those on the left, but they are discarded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from braces.define.decorator import OPS
from braces.dtypes import ListType
from braces.ir.records import Body, Op
from braces.ir.views import BlockView
from braces.lazy import jnp
from braces.lower.xla.lowering_hooks import LoweringHook, LoweringState

UpdatePlaces: TypeAlias = Mapping[str, Mapping[str, str]]
"""By the path of an operator: its next values, and the variables that they update."""


def find_early_updates(
    body: Body, updates: Mapping[str, str], failing: Sequence[str]
) -> UpdatePlaces:
    """Return the operators after the last possible failure that bind next values.

    Args:
        body: The main block.
        updates: Persistable name to the variable of the block with its next value.
        failing: The paths of operators that may fail.
    """
    wanted: dict[str, tuple[str, ...]] = {}
    for name, source in updates.items():
        wanted[source] = (*wanted.get(source, ()), name)
    ops = list(_walk_ops(body, wanted, frozenset(failing), ""))
    last = max((i for i, op in enumerate(ops) if op.may_fail), default=-1)
    places = {
        op.path: {source: names[0] for source, names in op.binds.items() if len(names) == 1}
        for op in ops[last + 1 :]
    }
    return {path: names for path, names in places.items() if names}


class _UpdateOp(NamedTuple):
    """An operator with the next values that it binds, and the variables that they update."""

    path: str
    may_fail: bool
    binds: Mapping[str, tuple[str, ...]]


def _walk_ops(
    body: Body, wanted: Mapping[str, tuple[str, ...]], failing: frozenset[str], path: str
) -> Iterator[_UpdateOp]:
    """Yield all operators in execution order, including those of plain blocks."""
    for op in body.ops:
        here = f"{path}/{op.name}".lstrip("/")
        binds = {name: wanted[name] for name in op.binds() if name in wanted}
        if OPS.get(op.type).transparent:
            view, inside = BlockView.of(op), dict[str, tuple[str, ...]]()
            for out in view.outputs:
                source = out.results[0]
                inside[source] = (*inside.get(source, ()), *binds.get(out.name, ()))
            yield from _walk_ops(view.body, inside, failing, f"{here}/body")
        else:
            yield _UpdateOp(here, here in failing or _may_report(op, body), binds)


def _may_report(op: Op, body: Body) -> bool:
    """Return whether an operator may report a status: of its loops, or the length of a list."""
    return bool(op.bodies()) or any(
        isinstance(body.vars[name].type, ListType) for name in op.binds()
    )


@dataclass
class Commits(LoweringHook):
    """Selects the next values of one run during lowering.

    Attributes:
        flags: The check points that decide whether the run was good.
        limits: The largest value of each flag in a good run.
        old_values: The old values, by name.
        places: The operators whose results are selected early; see `find_early_updates`.
    """

    flags: Sequence[str] = ()
    limits: Sequence[int] = ()
    old_values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    places: UpdatePlaces = field(default_factory=dict[str, Mapping[str, str]])
    _chosen: set[str] = field(default_factory=set[str])
    _good: Any = None

    def after(self, op: Op, path: str, block: LoweringState) -> None:
        """Select the next values that an operator has bound."""
        for source, name in self.places.get(path, {}).items():
            sites = block.record_checks().sites
            block.env[source] = self._choice(name, block.env[source], sites)
            self._chosen.add(name)

    def committed(self, after: Mapping[str, Any], sites: Mapping[str, Any]) -> list[Any]:
        """Return all next values; select those that are not selected yet."""
        return [
            value if name in self._chosen else self._choice(name, value, sites)
            for name, value in after.items()
        ]

    def status(self, sites: Mapping[str, Any]) -> Any:
        """Return the values of all flags."""
        return jnp.stack([sites[flag] for flag in self.flags])

    def _choice(self, name: str, value: Any, sites: Mapping[str, Any]) -> Any:
        if name not in self.old_values:
            return value
        if self._good is None:  # nothing can fail any more, so it is final
            limits = jnp.asarray(self.limits, "int32")
            self._good = jnp.all(self.status(sites) <= limits)
        return jnp.where(self._good, value, self.old_values[name])
