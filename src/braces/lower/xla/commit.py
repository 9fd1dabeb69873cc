"""What a run commits: its next values where it was good, else the values that it had.

Chosen at the end, the next value of a moment has two readers, the choice and the step of its
parameter. XLA then computes it twice, both times from the old one, which it copies first, since
the new one is written over it. So a value is chosen where it is made, as soon as nothing can
fail any more, and all that reads it later reads what is kept:

    m = 0.9 * m0 + 0.1 * g                    m = where(good, 0.9 * m0 + 0.1 * g, m0)
    p = p0 - 0.001 * m                        p = where(good, p0 - 0.001 * m, p0)
    return where(good, m, m0),         ->     return m, p
           where(good, p, p0)

In the failed run, the last values differ from those on the left, and nobody sees them.
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

Places: TypeAlias = Mapping[str, Mapping[str, str]]
"""By the path of an operator: the names that it binds, and what they are the next values of."""


def early_places(body: Body, updates: Mapping[str, str], failing: Sequence[str]) -> Places:
    """Where next values are made after the last operator that can fail.

    Args:
        body: The main block.
        updates: Persistable name to the variable of the block with its next value.
        failing: The paths of what may fail.
    """
    wanted: dict[str, tuple[str, ...]] = {}
    for name, source in updates.items():
        wanted[source] = (*wanted.get(source, ()), name)
    made = list(_made(body, wanted, frozenset(failing), ""))
    last = max((i for i, one in enumerate(made) if one.may_fail), default=-1)
    found = {
        one.path: {source: names[0] for source, names in one.binds.items() if len(names) == 1}
        for one in made[last + 1 :]
    }
    return {path: names for path, names in found.items() if names}


class _Made(NamedTuple):
    """An operator by its path, and what it binds that is a next value, of what."""

    path: str
    may_fail: bool
    binds: Mapping[str, tuple[str, ...]]


def _made(
    body: Body, wanted: Mapping[str, tuple[str, ...]], failing: frozenset[str], path: str
) -> Iterator[_Made]:
    """All operators in the order in which they run, those of plain blocks among them."""
    for op in body.ops:
        here = f"{path}/{op.name}".lstrip("/")
        binds = {name: wanted[name] for name in op.binds() if name in wanted}
        if OPS.get(op.type).transparent:
            view, inside = BlockView.of(op), dict[str, tuple[str, ...]]()
            for out in view.outputs:
                source = out.results[0]
                inside[source] = (*inside.get(source, ()), *binds.get(out.name, ()))
            yield from _made(view.body, inside, failing, f"{here}/body")
        else:
            yield _Made(here, here in failing or _tells(op, body), binds)


def _tells(op: Op, body: Body) -> bool:
    """Whether an operator may tell something: of its loops, or how long a list is."""
    return bool(op.bodies()) or any(
        isinstance(body.vars[name].type, ListType) for name in op.binds()
    )


@dataclass
class Commits:
    """Chooses the next values of one run while it is lowered.

    Attributes:
        flags: The sites that say whether the run was good.
        limits: What each says at most where it was.
        before: The values that the run had, by their names.
        places: Where to choose already; see `early_places`.
    """

    flags: Sequence[str] = ()
    limits: Sequence[int] = ()
    before: Mapping[str, Any] = field(default_factory=dict[str, Any])
    places: Places = field(default_factory=dict[str, Mapping[str, str]])
    _chosen: set[str] = field(default_factory=set[str])
    _good: Any = None

    def choose(self, path: str, env: dict[str, Any], sites: Mapping[str, Any]) -> None:
        """Choose what the operator of this path has bound."""
        for source, name in self.places[path].items():
            env[source] = self._choice(name, env[source], sites)
            self._chosen.add(name)

    def committed(self, after: Mapping[str, Any], sites: Mapping[str, Any]) -> list[Any]:
        """All next values, those chosen that were not yet."""
        return [
            value if name in self._chosen else self._choice(name, value, sites)
            for name, value in after.items()
        ]

    def status(self, sites: Mapping[str, Any]) -> Any:
        """What all flags say."""
        return jnp.stack([sites[flag] for flag in self.flags])

    def _choice(self, name: str, value: Any, sites: Mapping[str, Any]) -> Any:
        if name not in self.before:
            return value
        if self._good is None:  # nothing can fail any more, so it stays what it is
            limits = jnp.asarray(self.limits, "int32")
            self._good = jnp.all(self.status(sites) <= limits)
        return jnp.where(self._good, value, self.before[name])
