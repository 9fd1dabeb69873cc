"""The inference form of a program: without updates, and without what only training does.

An operator that behaves differently in training says so with an attribute that is annotated
`Training`; this pass sets it to false, in every block, and leaves away what is read in training
alone.

    a: f32[4] = dropout(state=s, x=x) {             a: f32[4] = dropout(state=s, x=x) {
      rate=0.5, training=true, …}             ->      rate=0.5, training=false, …}
    update n = m

Of the updates only those stay from which draws go on, and those of metrics.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from braces.builder.builder import Builder
from braces.define.decorator import OPS
from braces.ir.plain_blocks.escaping_values import with_shown
from braces.ir.records import DATA, Body, Op, ProgramDef
from braces.ir.walk import all_ops
from braces.passes.cleanup.dead_code import eliminate
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.random_effects import random_states
from braces.passes.core.rewrite import Change, Place, rewrite
from braces.passes.training.replace_parameters import substituted
from braces.passes.verify.program import verified

P = TypeVar("P", bound=Builder)
_kept: WeakKeyDictionary[Builder, tuple[Any, Any]] = WeakKeyDictionary()
"""By program: a version of it, and its inference form."""


def for_test(program: P, values: Any = None) -> P:
    """A copy of a program for inference.

    Dropout passes its input through, normalisation uses running statistics, and no persistable
    variable changes but what metrics count, and `random_state`, where something is drawn in
    inference too: each run draws anew. Gradients and losses stay as variables; prune to what is
    wanted.

    Args:
        program: The program.
        values: What stands in the place of parameters, as averages of them; see `substituted`.

    Raises:
        VerifyError: The program is not well formed.
        BracesError: A value cannot stand in the place of a parameter.
    """
    if values is not None:
        return _inferring(program, substituted(program.definition, values))
    kept = kept_for_test(program)
    test = program.like(kept.definition)
    test.startup = program.startup
    test.origin = kept, test.version
    return test


def kept_for_test(program: P) -> P:
    """The inference form of a program as it is now, made once; nobody else may change it."""
    version, kept = _kept.get(program, (None, program))
    if version != program.version:
        kept = _inferring(program, program.definition)
        _kept[program] = program.version, kept
    return kept


def _inferring(program: P, whole: ProgramDef) -> P:
    test = program.like(verified(calmed(whole)))
    test.startup = program.startup
    return test


def calmed(program: ProgramDef) -> ProgramDef:
    """A program for inference."""
    inferring = rewrite(program, _for_inference)
    kept = _random_updates(inferring.main, program.updates)
    return inferring.with_(updates=kept | _counts(inferring.main, program.updates))


def without_unfed_counts(program: ProgramDef, fed: Collection[str]) -> ProgramDef:
    """A program whose metrics count only where all of their data are fed.

    Args:
        program: The program.
        fed: The names of the data that a run has.
    """
    main = program.main
    counts = _counts(main, program.updates)
    left = {name for name, value in counts.items() if not _data_of(main, [value]) <= {*fed}}
    kept = {name: value for name, value in program.updates.items() if name not in left}
    return program.with_(updates=kept) if left else program


def without_other_counts(program: ProgramDef, fetches: Sequence[str]) -> ProgramDef:
    """A program whose metrics count only where fetches and other updates need their data."""
    main = with_shown(program.main, fetches)
    counts = _counts(main, program.updates)
    others = (value for name, value in program.updates.items() if name not in counts)
    return without_unfed_counts(program, _data_of(main, [*fetches, *others]))


def _data_of(main: Body, names: Sequence[str]) -> set[str]:
    """The data that variables are computed from."""
    needed = eliminate(main, names)
    read = {*names, *(name for op in needed.ops for name in op.reads())}
    return {name for name in read if name in main.vars and main.vars[name].kind == DATA}


def _counts(main: Body, updates: Mapping[str, str]) -> dict[str, str]:
    """The updates of what metrics count."""
    counted = {name for _, op in all_ops(main) if _is_count(op) for name in op.binds()}
    return {name: value for name, value in updates.items() if value in counted}


def _is_count(op: Op) -> bool:
    definition = OPS.find(op.type)
    return definition is not None and definition.counts


def _random_updates(main: Body, updates: Mapping[str, str]) -> dict[str, str]:
    """The updates of the states that draws follow from, beside the update's own operator."""
    steps = {updates[name] for name in random_states(main, drawing=True) if name in updates}
    others = main.with_(ops=tuple(op for op in main.ops if steps.isdisjoint(op.binds())))
    drawn_from = random_states(others, drawing=True)
    return {name: value for name, value in updates.items() if name in drawn_from}


def _for_inference(op: Op, place: Place) -> Change:
    definition = OPS.find(op.type)
    role = None if definition is None else definition.roles.get("Training")
    if definition is None or role is None or op.attrs.get(role) is False:
        return op
    note(place.where(op), "is out of training")
    inputs = {slot: v for slot, v in op.inputs.items() if slot not in definition.training_only}
    return op.with_(inputs=inputs, attrs={**op.attrs, role: False})


FOR_TEST = Pass("for_test", calmed, "Remove training behaviour and updates.", trusted=True)
