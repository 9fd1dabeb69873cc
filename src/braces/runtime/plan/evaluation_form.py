"""Programs for evaluation: the inference form of a program, for the data that a run has.

    data x: f32[n,2]   data y: i32[n]
    dropout … {training=true}                 dropout … {training=false}
    update fc.w = fc.w.next             ->    update accuracy/total = accuracy/total.next
    update accuracy/total = accuracy/total.next

A metric counts where its data are fed: to evaluate logits alone, labels are not needed. The
same holds where a copy that `for_test` made is run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from braces.builder.builder import Builder
from braces.builder.var import Var
from braces.ir.records import DATA, ProgramDef
from braces.ir.walk import ancestors
from braces.passes.training.inference_mode import kept_for_test


class Evaluations:
    """The inference forms of the programs that an executor evaluates, made once each."""

    def __init__(self) -> None:
        self._data: WeakKeyDictionary[Builder, Mapping[str, set[str]]] = WeakKeyDictionary()
        self._fewer: WeakKeyDictionary[Builder, dict[frozenset[str], Builder]]
        self._fewer = WeakKeyDictionary()

    def find(self, program: Builder, feed: Any) -> Builder:
        """The form for what is fed.

        Args:
            program: The program.
            feed: By name, or by variable; the run refuses what is no dict.

        Raises:
            VerifyError: The program is not well formed.
        """
        return self._for_feed(kept_for_test(program), feed)

    def fitted(self, program: Builder, feed: Any) -> Builder:
        """An unchanged copy that `for_test` made, without the metrics whose data are not fed.

        Any other program is returned as it is.
        """
        test = program.original
        if test is program:
            return program
        found = self._for_feed(test, feed)
        return program if found is test else found

    def _for_feed(self, test: Builder, feed: Any) -> Builder:
        """The form without the metrics whose data are not fed."""
        needed = self._data.get(test)
        if needed is None:
            needed = self._data[test] = _data_of_updates(test.definition)
        if not needed:
            return test
        given = feed if isinstance(feed, Mapping) else {}
        fed = {key.name if isinstance(key, Var) else key for key in given}
        left = frozenset(name for name, data in needed.items() if not data <= fed)
        return self._without(test, left) if left else test

    def _without(self, test: Builder, left: frozenset[str]) -> Builder:
        """The same without some updates."""
        known = self._fewer.setdefault(test, {})
        if left not in known:
            known[left] = test.like(_with_fewer(test.definition, left))
        return known[left]


def _data_of_updates(program: ProgramDef) -> dict[str, set[str]]:
    """The data that each update needs, by the name of what is updated."""
    main = program.main
    data = {name for name, info in main.vars.items() if info.kind == DATA}
    found = {
        name: ancestors(main.ops, [value]) & data for name, value in program.updates.items()
    }
    return {name: needed for name, needed in found.items() if needed}


def _with_fewer(program: ProgramDef, left: Collection[str]) -> ProgramDef:
    kept = {name: value for name, value in program.updates.items() if name not in left}
    return program.with_(updates=kept)
