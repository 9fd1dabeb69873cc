"""Values of a probe beside those that the interpreter keeps for each iteration and branch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

import braces as br
from braces.extend.programs import Op, ProgramDef
from braces.ir.paths import VARIABLE, everything, find_path
from braces.ir.places import Place
from braces.ir.views import LoopView, PartitionView, view_of
from braces.passes.probing.probe import Probe

Array = np.ndarray[Any, Any]
INTERPRETER = br.Executor(mode="interpret", passes=())


@dataclass
class Comparison:
    """Compares the values of one probed variable, element by element."""

    scopes: Mapping[str, br.Scope]
    name: str
    elements: Iterator[tuple[Array, Array | None]]
    compared: int = 0

    def check(
        self, here: str, owners: tuple[tuple[Op, str], ...], value: Any, ran: Any
    ) -> None:
        self._check(here, owners, value, ran, None)

    def _check(self, here: str, owners: Any, value: Any, ran: Any, rows: Any) -> None:
        """Compare the values of one run of a block.

        `rows` are the rows of the block among which the value has only those.
        """
        if not owners:
            kept = np.asarray(self.scopes[here].var(self.name).value)
            kept = kept if rows is None else kept[rows]
            mask = np.asarray(True if ran is None else ran)
            seen = np.broadcast_to(
                mask.reshape(mask.shape + (1,) * (kept.ndim - mask.ndim)), kept.shape
            )
            near(value[seen], kept[seen])
            assert not value[~seen].any()
            self.compared += int(np.count_nonzero(seen))
            return
        (op, label), *inner = owners
        view, path = view_of(op), f"{here}/{op.name}/{label}".lstrip("/")
        if isinstance(view, LoopView):
            self._check_loop(view, path, inner, value, ran, rows)
        elif isinstance(view, PartitionView):
            self._check_rows(view, here, path, inner, value, ran, rows)
        elif (one := path if path.endswith("]") else f"{path}[0]") in self.scopes:
            self._check(one, inner, value, ran, rows)
        else:
            assert ran is not None
            assert not np.any(ran)
            assert not np.any(value)

    def _check_loop(
        self, view: LoopView, path: str, inner: Any, value: Any, ran: Any, rows: Any
    ) -> None:
        runs = [
            f"{path}[{k}]" for k in range(len(self.scopes)) if f"{path}[{k}]" in self.scopes
        ]
        listed = value is None  # a list has the values of all iterations of all loops around
        for k, one in enumerate(runs):
            if listed and any(map(is_data_dependent, inner)):
                self._check(one, inner, None, None, rows)
            elif listed:
                self._check(one, inner, *next(self.elements), rows)
            else:
                at = len(runs) - 1 - k if view.reverse else k
                mask = ran if ran is None or not ran.ndim else ran[at]
                self._check(one, inner, value[at], mask, rows)
        # a loop of which only a scanned input is probed does not run
        assert listed or not runs or len(value) == len(runs)

    def _check_rows(
        self,
        view: PartitionView,
        here: str,
        path: str,
        inner: Any,
        value: Any,
        ran: Any,
        rows: Any,
    ) -> None:
        case = view.cases[int(path[path.rindex("[") + 1 : -1])]
        axis = sum(isinstance(view_of(op), LoopView) for op, _ in inner)
        mask = np.asarray(self._find(here, case.mask))
        chosen = mask if rows is None else mask[rows]
        first, ran_first = np.moveaxis(value, axis, 0), np.moveaxis(ran, axis, 0)
        assert not first[~chosen].any()
        assert not ran_first[~chosen].any()
        value = np.moveaxis(first[chosen], 0, axis)
        ran = np.moveaxis(ran_first[chosen], 0, axis)
        assert ran.all() or any("cases" in label for _, label in inner)
        places = np.nonzero(mask)[0] if rows is None else rows[chosen]
        if view.compact:  # the case has its own rows only, without padding
            places = np.arange(len(places))
        if path in self.scopes:
            self._check(path, inner, value, ran, places)
        else:
            assert not mask.any()

    def _find(self, here: str, name: str) -> Any:
        found = self.scopes[here].find_var(name)
        assert found is not None
        return found.value


def is_data_dependent(owner: tuple[Op, str]) -> bool:
    view = view_of(owner[0])
    return isinstance(view, LoopView) and not view.counted


def near(value: Array, kept: Array) -> None:
    if value.dtype.kind in "fc":
        np.testing.assert_allclose(value, kept, rtol=2e-4, atol=2e-5)
    else:
        np.testing.assert_array_equal(value, kept)


def inner_paths(prog: br.Program) -> list[str]:
    """The paths of all variables of inner blocks."""
    found = everything(Place.main(prog.definition), VARIABLE)
    return [one.path for one in found if one.place.outer is not None]


def check_probes(
    prog: br.Program,
    paths: Iterable[str],
    scope: br.Scope,
    feed: Mapping[str, Any],
    exe: br.Executor,
) -> tuple[int, list[str]]:
    """Compare probes, all in one program, with the scopes of the run.

    Returns:
        The number of elements compared, and the messages of the probes that were refused.
    """
    probed = prog
    probes, refused = list[Probe[br.Program]](), list[str]()
    for path in paths:
        try:
            probes.append(one := probed.probe(path))
            probed = one.program
        except br.ProgramError as error:
            refused.append(f"{path}: {error}")
    br.verify(probed)
    needed = [
        (one.value, *([] if one.ran is None else [one.ran]), *one.trips) for one in probes
    ]
    names = [[var.name for var in group] for group in needed]
    fetch = list(chain(*names))
    kept = INTERPRETER.run(probed, scope, feed, fetch=fetch, keep_scopes=True, seed=1)
    scopes, count = INTERPRETER.step_scopes, 0
    values = iter(kept if exe is INTERPRETER else exe.run(probed, scope, feed, fetch, seed=1))
    for one, group in zip(probes, names, strict=True):
        value, *rest = (next(values) for _ in group)
        ran = rest.pop(0) if one.ran is not None else None
        count += check_values(prog.definition, one.path, scopes, value, ran, rest)
    return count, refused


def names_of(probe: Probe[br.Program]) -> list[str]:
    mask = [] if probe.ran is None else [probe.ran]
    return [var.name for var in (probe.value, *mask, *probe.trips)]


def check_values(
    definition: ProgramDef,
    path: str,
    scopes: Mapping[str, br.Scope],
    value: Any,
    ran: Any,
    trips: list[Array],
) -> int:
    """Compare the values of a probe with scopes; return the number of elements."""
    found = find_path(definition, path, VARIABLE)
    assert found is not None
    owners, block = list[tuple[Op, str]](), found.place
    while block.outer is not None and block.owner is not None:
        owners.insert(0, (block.owner, block.label))
        block = block.outer
    elements = iter(list[tuple[Array, Array | None]]())
    if any(map(is_data_dependent, owners)):
        assert all(len(value) == count.sum() for count in trips[:1])
        masks = [None] * len(value) if ran is None else ran
        elements = iter(list(zip(value, masks, strict=True)))
        value = ran = None
    one = Comparison(scopes, found.name, elements)
    try:
        one.check("", tuple(owners), value, ran)
    except (AssertionError, IndexError, ValueError) as error:
        raise AssertionError(f"{path}: {error}") from error
    assert next(elements, None) is None
    return one.compared
