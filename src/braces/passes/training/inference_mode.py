"""Inference mode of a program: no updates, and operators in inference mode.

An operator that behaves differently in training has an attribute annotated `Training`. This
pass sets it to false, in every block, and removes operands that are read only in training.

    a: f32[4] = dropout(state=s, x=x) {             a: f32[4] = dropout(state=s, x=x) {
      rate=0.5, training=true, …}             ->      rate=0.5, training=false, …}
    update n = m

Only the updates of random states and of metrics are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from braces.builder.builder import Builder
from braces.define.decorator import OPS
from braces.ir.plain_blocks.escaping_values import with_exported
from braces.ir.records import DATA, Body, Op, ProgramDef
from braces.ir.walk import all_ops
from braces.passes.cleanup.dead_code import eliminate
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.random_effects import random_states
from braces.passes.core.rewrite import InsertionPoint, Replacement, rewrite
from braces.passes.training.replace_parameters import (
    replace_parameters,
    replacing_names,
)
from braces.passes.verifier.program import verified

P = TypeVar("P", bound=Builder)
_cached_forms: WeakKeyDictionary[Builder, tuple[Any, dict[Any, Any]]] = WeakKeyDictionary()
"""Cached inference forms of each program by the values of their parameters, with the version
that they belong to."""


def for_test(program: P, values: Any = None) -> P:
    """Return a copy of a program for inference. Copies of one program share compiled code.

    Dropout passes its input through, and normalization uses running statistics. No persistable
    variable changes except the counts of metrics, and `random_state` if inference draws too:
    each run draws new numbers. Gradients and losses stay as variables; prune to the targets.

    Args:
        program: The program.
        values: Replacements of parameters, for example their averages; see `substituted`.

    Raises:
        VerifyError: If the program is not well formed.
        BracesError: If a value cannot replace a parameter.
    """
    cached_form = cached_inference_form(program, values)
    test = program.like(cached_form.definition)
    test.startup = program.startup
    test.origin = cached_form, test.version
    return test


def cached_inference_form(program: P, values: Any = None) -> P:
    """Return the cached inference form of a program; callers must not modify it."""
    whole = program.definition
    names = None if values is None else replacing_names(whole.main, values)
    key = None if names is None else tuple(names.items())
    version, forms = _cached_forms.get(program, (None, {}))
    if version != program.version:
        forms = dict[Any, Any]()
        _cached_forms[program] = program.version, forms
    if key not in forms:
        replaced = whole if names is None else replace_parameters(whole, names)
        forms[key] = _build_inference_form(program, replaced)
    return forms[key]


def _build_inference_form(program: P, whole: ProgramDef) -> P:
    inference_form = program.like(verified(to_inference_mode(whole)))
    inference_form.startup = program.startup
    return inference_form


def to_inference_mode(program: ProgramDef) -> ProgramDef:
    """Return a program for inference."""
    inference_form = rewrite(program, _disable_training)
    random_updates = _random_updates(inference_form.main, program.updates)
    return inference_form.with_(
        updates=random_updates | _count_updates(inference_form.main, program.updates)
    )


def without_unfed_counts(program: ProgramDef, fed: Collection[str]) -> ProgramDef:
    """Return a program whose metrics are updated only if all of their data are fed.

    Args:
        program: The program.
        fed: The names of the data that a run has.
    """
    main = program.main
    counts = _count_updates(main, program.updates)
    removed_names = {
        name for name, value in counts.items() if not _data_of(main, [value]) <= {*fed}
    }
    remaining = {
        name: value for name, value in program.updates.items() if name not in removed_names
    }
    return program.with_(updates=remaining) if removed_names else program


def without_other_counts(program: ProgramDef, fetches: Sequence[str]) -> ProgramDef:
    """Return a program that updates only metrics whose data other results need."""
    main = with_exported(program.main, fetches)
    counts = _count_updates(main, program.updates)
    others = (value for name, value in program.updates.items() if name not in counts)
    return without_unfed_counts(program, _data_of(main, [*fetches, *others]))


def _data_of(main: Body, names: Sequence[str]) -> set[str]:
    """Return the data that variables depend on."""
    needed = eliminate(main, names)
    read_names = {*names, *(name for op in needed.ops for name in op.reads())}
    return {name for name in read_names if name in main.vars and main.vars[name].kind == DATA}


def _count_updates(main: Body, updates: Mapping[str, str]) -> dict[str, str]:
    """Return the updates of metric counts."""
    counted = {name for _, op in all_ops(main) if _is_count(op) for name in op.binds()}
    return {name: value for name, value in updates.items() if value in counted}


def _is_count(op: Op) -> bool:
    definition = OPS.find(op.type)
    return definition is not None and definition.counts


def _random_updates(main: Body, updates: Mapping[str, str]) -> dict[str, str]:
    """Return the updates of random states, apart from the update's own operator."""
    steps = {updates[name] for name in random_states(main, drawing=True) if name in updates}
    others = main.with_(ops=tuple(op for op in main.ops if steps.isdisjoint(op.binds())))
    drawn_from = random_states(others, drawing=True)
    return {name: value for name, value in updates.items() if name in drawn_from}


def _disable_training(op: Op, place: InsertionPoint) -> Replacement:
    definition = OPS.find(op.type)
    role = None if definition is None else definition.roles.get("Training")
    if definition is None or role is None or op.attrs.get(role) is False:
        return op
    note(place.where(op), "switched to inference mode")
    inputs = {slot: v for slot, v in op.inputs.items() if slot not in definition.training_only}
    return op.with_(inputs=inputs, attrs={**op.attrs, role: False})


FOR_TEST = Pass(
    "for_test", to_inference_mode, "Remove training behaviour and updates.", trusted=True
)
