"""Evaluation programs: the inference form of a program, for the data of a run.

    data x: f32[n,2]   data y: i32[n]
    dropout … {training=true}                 dropout … {training=false}
    update fc.w = fc.w.next             ->    update accuracy/total = accuracy/total.next
    update accuracy/total = accuracy/total.next

A metric is updated if its data are fed: evaluating logits alone needs no labels. The same holds
for a copy made by `for_test`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from braces.builder.builder import Builder
from braces.builder.var import Var
from braces.ir.records import DATA, ProgramDef
from braces.ir.walk import ancestors
from braces.passes.training.inference_mode import cached_inference_form


class Evaluations:
    """Cache of the inference forms of the programs that an executor evaluates."""

    def __init__(self) -> None:
        self._data: WeakKeyDictionary[Builder, Mapping[str, set[str]]] = WeakKeyDictionary()
        self._fewer: WeakKeyDictionary[Builder, dict[frozenset[str], Builder]]
        self._fewer = WeakKeyDictionary()

    def find(self, program: Builder, feed: Any) -> Builder:
        """Return the inference form for these feeds.

        Args:
            program: The program.
            feed: By name, or by variable; the run refuses other types.

        Raises:
            VerifyError: If the program is not well formed.
        """
        return self._for_feed(cached_inference_form(program), feed)

    def fitted(self, program: Builder, feed: Any) -> Builder:
        """Return an unchanged copy by `for_test`, without metrics whose data are not fed.

        Any other program is returned unchanged.
        """
        test = program.original
        if test is program:
            return program
        fitted_form = self._for_feed(test, feed)
        return program if fitted_form is test else fitted_form

    def _for_feed(self, test: Builder, feed: Any) -> Builder:
        """Return the form without metrics whose data are not fed."""
        needed = self._data.get(test)
        if needed is None:
            needed = self._data[test] = _find_needed_data(test.definition)
        if not needed:
            return test
        feed_items = feed if isinstance(feed, Mapping) else {}
        fed = {key.name if isinstance(key, Var) else key for key in feed_items}
        left = frozenset(name for name, data in needed.items() if not data <= fed)
        return self._without(test, left) if left else test

    def _without(self, test: Builder, left: frozenset[str]) -> Builder:
        """Return the form without some updates."""
        known = self._fewer.setdefault(test, {})
        if left not in known:
            known[left] = test.like(_drop_updates(test.definition, left))
        return known[left]


def _find_needed_data(program: ProgramDef) -> dict[str, set[str]]:
    """Return the data that each update needs, by the name of the updated variable."""
    main = program.main
    data = {name for name, info in main.vars.items() if info.kind == DATA}
    needed_data = {
        name: ancestors(main.ops, [value]) & data for name, value in program.updates.items()
    }
    return {name: needed for name, needed in needed_data.items() if needed}


def _drop_updates(program: ProgramDef, left: Collection[str]) -> ProgramDef:
    remaining_updates = {
        name: value for name, value in program.updates.items() if name not in left
    }
    return program.with_(updates=remaining_updates)
