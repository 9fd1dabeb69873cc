"""Places whose derivative exists already: a rewriting there would leave it as it is.

    y: f32[n,4] = matmul(x=x, y=w)          a replacement of `y` or `z` by other values
    z: f32[n,4] = tanh(x=y)                 leaves the gradient of the old ones behind
    loss: f32[] = sum(x=z)
    … the gradient of `loss` by `w`, and its use in an update

Three facts of a program show that an operator has been differentiated: it is between a
trainable parameter with an update and a result; a derivative of its type reads its inputs and
outputs; or a loop in the other direction has its history. Operators between two such ones have
been differentiated, too. Calls of `br.gradients` and `br.jvp` on the program are recorded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self

from braces.builder.builder import Builder
from braces.ir.records import CUSTOM_GRADIENT, PARAMETER, Body, Derivation, Op, ProgramDef
from braces.ir.views import CustomGradientView, LoopView, view_of
from braces.ir.walk import all_ops, ancestors, descendants
from braces.passes.core.rewrite import InsertionPoint


@dataclass(frozen=True)
class DerivedPlaces:
    """Operators whose values a derivative relies on.

    Attributes:
        main: Names of operators of the main block, with the name of the derivative.
        custom: Paths of operators between the inputs and the values of a user-written gradient,
            with its name.
    """

    main: Mapping[str, str] = field(default_factory=dict[str, str])
    custom: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(cls, program: Builder) -> Self:
        """Find the operators of a program."""
        definition = program.definition
        records = [each for each in definition.derivations if each.remains_in(definition)]
        return cls.of_definition(definition, records)

    @classmethod
    def of_definition(
        cls,
        program: ProgramDef,
        derivations: Iterable[Derivation],
        outside: Collection[str] = (),
    ) -> Self:
        """Find the operators of a definition.

        Args:
            program: The definition.
            derivations: The derivatives that were built.
            outside: Data that stands for derivatives; updates by it do not count.
        """
        custom = dict[str, str]()
        for path, body in _bodies(program.main):
            custom |= dict(_custom_places(path, body))
        return cls(_differentiated(program, derivations, outside), custom)

    def reason(self, op: Op, place: InsertionPoint) -> tuple[str, str] | None:
        """Return the kind of derivative that relies on an operator, and its name."""
        while (path := place.where(op)) not in self.custom:
            if place.outer is None or place.owner is None:
                break
            op, place = place.owner, place.outer
        if path in self.custom:
            return "custom", self.custom[path]
        return ("built", self.main[op.name]) if op.name in self.main else None


def _bodies(main: Body) -> Iterator[tuple[str, Body]]:
    yield "", main
    for path, op in all_ops(main):
        for label, body in op.bodies().items():
            yield f"{path}/{op.name}/{label}".lstrip("/"), body


def _custom_places(path: str, body: Body) -> Iterator[tuple[str, str]]:
    """Yield the operators of a block that a user-written gradient stands for, and its own."""
    for op in body.ops:
        if op.type != CUSTOM_GRADIENT:
            continue
        view = CustomGradientView.of(op)
        name = f"{path}/{op.name}".lstrip("/")
        yield name, name
        sources = {way.source for way in view.ways}
        for inner in between(body.ops, sources, [item.value for item in view.passed]):
            yield f"{path}/{inner.name}".lstrip("/"), name


def between(ops: Iterable[Op], sources: set[str], targets: Iterable[str]) -> Iterator[Op]:
    """Yield the operators on a way from sources to targets."""
    ops, moved = list(ops), set(sources)
    needed = ancestors(ops, targets)
    for op in ops:
        if not moved.isdisjoint(op.reads()) and not needed.isdisjoint(op.binds()):
            moved.update(op.binds())
            yield op


def _differentiated(
    definition: ProgramDef, derivations: Iterable[Derivation], outside: Collection[str]
) -> dict[str, str]:
    main = definition.main
    places: dict[str, str] = {}
    updates = definition.updates
    if outside:
        later = descendants(main.ops, outside)
        updates = {n: value for n, value in updates.items() if value not in later}
    trained = {n for n in updates if main.vars[n].kind == PARAMETER}
    if trained:
        targets = main.results or tuple(n for op in main.ops for n in op.binds())
        ops = between(main.ops, trained, targets)
        places |= dict.fromkeys(
            (op.name for op in ops), main.results[0] if main.results else ""
        )
    marked = {op.name: name for op, name in _with_derivative(main.ops)}
    for record in derivations:
        ops = between(main.ops, set(record.inputs), record.targets)
        places |= {op.name: record.targets[0] for op in ops}
    return _closed(main.ops, marked) | places


def _closed(ops: tuple[Op, ...], marked: dict[str, str]) -> dict[str, str]:
    """Add the operators between those that have a derivative."""
    if not marked:
        return marked
    bound = {name for op in ops if op.name in marked for name in op.binds()}
    read = {name for op in ops if op.name in marked for name in op.reads()}
    name = next(iter(marked.values()))
    return {op.name: name for op in between(ops, bound, read)} | marked


def _with_derivative(ops: tuple[Op, ...]) -> Iterator[tuple[Op, str]]:
    """Yield operators of a block that have a derivative in it, and the name of that."""
    plain = {op.type for op in ops if "." not in op.type}
    originals: dict[tuple[str, str], list[Op]] = {}
    for op in ops:
        for name in (*op.reads(), *op.binds()):
            originals.setdefault((op.type, name), []).append(op)
    loops = {op.name: op for op in ops if op.bodies()}
    for op in ops:
        view = view_of(op)
        if isinstance(view, LoopView) and view.history in loops and view.history != op.name:
            yield loops[view.history], op.name
        base, dot, _ = op.type.rpartition(".")
        if dot and base in plain:
            for name in op.reads():
                for original in originals.get((base, name), ()):
                    if _derives(op, original):
                        yield original, op.name


def _derives(derivative: Op, original: Op) -> bool:
    """Return whether all that a derivative reads of an operator is this one's."""
    slots = {**original.outputs, **original.inputs}
    shared = [slot for slot in derivative.inputs if slot in slots]
    return bool(shared) and all(derivative.inputs[s] == slots[s] for s in shared)
