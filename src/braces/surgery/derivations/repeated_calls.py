"""Recorded calls of `gradients`, `jvp` and `minimize`, repeated on another forward part.

The values of the derived part get their old names. Operators that read them follow the call
that computes the last of these, and so do their updates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast

from braces.builder.builder import Builder
from braces.builder.var import Var, main_var
from braces.errors import BracesError, DuplicateNameError, GradientError, ProgramError
from braces.ir.plain_blocks.escaping_values import plain_blocks
from braces.ir.records import DATA, Body, Derivation, Op, ProgramDef
from braces.ir.walk import all_bodies, names_bound
from braces.passes.autodiff.forward_mode import jvp
from braces.passes.autodiff.reverse_mode import gradients
from braces.surgery.derivations.forward_part import ForwardPart
from braces.surgery.derivations.optimizers import rebuilt_optimizer
from braces.surgery.derivations.renaming import renamed, renamed_program

P = TypeVar("P", bound=Builder)


def repeat_calls(part: ForwardPart[P], rewritten: P, renamed: Mapping[str, str]) -> P:
    """Return a rewritten forward part with its derivatives, its steps and their readers.

    Args:
        part: The forward part before it was rewritten.
        rewritten: The same afterwards.
        renamed: Variables of the main block that stand for others, by the names of these.

    Raises:
        BracesError: If a call fails, or a derivative that is read does not exist any more.
    """
    return _Repetition(part, rewritten, renamed).run()


class _Repetition:
    """The calls of a program while they are repeated.

    Attributes:
        program: The program so far.
        waiting: Operators that read values of calls to come.
        expected: The old names of the results of the calls so far.
        now: Names of variables, by those under which a call is repeated.
    """

    def __init__(
        self, part: ForwardPart[Any], rewritten: Any, renamed: Mapping[str, str]
    ) -> None:
        self.part = part
        self.renamed = renamed
        self.whole: ProgramDef = rewritten.definition
        main = self.whole.main
        self.waiting = _reading(main.ops, part.outside)
        late = {name for op in self.waiting for name in op.binds()} | part.outside.keys()
        clash = next(
            (n for n in part.outside if n in main.vars and main.vars[n].kind != DATA), ""
        )
        if clash:
            raise DuplicateNameError(
                f"duplicate variable `{clash}`: the replacement declares it, and it is the "
                "name of a derivative or of a state of the optimizer.",
                fix="Choose another name in the replacement.",
            )
        self.late = {name: info for name, info in main.vars.items() if name in late}
        body = main.with_(
            ops=tuple(op for op in main.ops if not {*op.binds()} & late),
            vars={name: info for name, info in main.vars.items() if name not in late},
            results=tuple(name for name in main.results if name not in late),
        )
        updates = {n: v for n, v in self.whole.updates.items() if v not in late}
        self.program = rewritten.like(self.whole.with_(main=body, updates=updates))
        self.program.startup = rewritten.startup
        self.now: Mapping[str, str] = {}
        self.expected = set[str]()
        self.steps = {v for r in part.records for v in (*r.updates.values(), *r.states)}
        self._reserve()

    def _reserve(self) -> None:
        """Take the names that values and operators of the derived part are going to have."""
        later = Body((), (), {}, tuple(self.waiting))
        names = {*self.late, *self.part.outside, *(op.name for op in self.waiting)} - self.steps
        for block, _ in all_bodies(later):
            names |= {*block.vars, *(op.name for op in block.ops)}
        self.program.table.names.take(names)
        self.program.table.names.blocks.update(dict.fromkeys(plain_blocks(later)))

    def run(self) -> Any:
        """Return the program."""
        for record in self.part.records:
            self._append_ready()
            self._repeat_with_names(record)
        self._append_ready()
        if self.waiting:
            raise self._missing(self.waiting[0])
        program = self.program
        updates = dict(program.updates)
        updates |= {n: v for n, v in self.whole.updates.items() if n not in updates}
        definition = program.definition
        main = definition.main.with_(results=tuple(self.whole.main.results))
        new = program.like(definition.with_(main=main, updates=updates))
        new.startup = program.startup
        return new

    def _append_ready(self) -> None:
        """Append the waiting operators whose operands exist."""
        table, rest = self.program.table, list[Op]()
        for op in self.waiting:
            if all(table.find_var(name) is not None for name in op.reads()):
                table.vars |= {name: self.late[name] for name in op.binds()}
                table.ops.append(op)
            else:
                rest.append(op)
        table.touch()
        self.waiting = rest

    def _repeat_with_names(self, record: Derivation) -> None:
        """Repeat a call under the names of its time: new names follow from them."""
        record = self._current(record)
        for name in (*record.targets, *filter(None, record.seeds)):
            if self.program.table.find_var(name) is None:
                raise self._no_target(name, record)
        earlier = self._earlier_names(record)
        self.now = self._rename(earlier, recorded=True)
        with self.program.transaction():
            renamed = self._repeat(_at_the_time(record, earlier))
        self._rename(renamed, recorded=False)
        self._rename(self.now, recorded=True)
        self.now = {}
        self._rename_steps(record)
        self.expected.update(record.results)

    def _earlier_names(self, record: Derivation) -> dict[str, str]:
        """Return the earlier names of variables after which a call names its states."""
        if not record.updates:
            return {}
        table = self.program.table
        blocks = {op.name for op in table.ops if op.bodies()}
        known = {*record.states, *table.vars} - blocks
        return {name: old for name, old in record.earlier.items() if name in known}

    def _rename_steps(self, record: Derivation) -> None:
        """Give the block of an optimizer, and values named after it, the names of today."""
        if not record.earlier:
            return
        steps = self._steps(record)
        free = record.earlier.keys() - {*names_bound(self.program.definition.main)}
        names = {old: new for new, old in record.earlier.items() if new in free}
        inner = {n for n in names for step in steps if n.startswith(f"{step}/")}
        inner &= self.program.table.vars.keys()
        self._rename({name: names[name] for name in inner}, recorded=True)
        self._rename_blocks({name: names[name] for name in steps if name in names})

    def _steps(self, record: Derivation) -> set[str]:
        """Return the names of the blocks that compute the next values of a call."""
        values = {self.program.updates.get(name) for name in record.updates}
        ops = self.program.table.ops
        return {op.name for op in ops if op.bodies() and not values.isdisjoint(op.binds())}

    def _rename_blocks(self, names: Mapping[str, str]) -> None:
        """Rename operators of the main block that have blocks, and record their names."""
        if not names:
            return
        definition = self.program.definition
        ops = (op.with_(name=names.get(op.name, op.name)) for op in definition.main.ops)
        *others, last = definition.derivations
        last = last.with_(earlier={**last.earlier, **_inverse(names)})
        main = definition.main.with_(ops=tuple(ops))
        startup = self.program.startup
        self.program = self.program.like(
            definition.with_(main=main, derivations=(*others, last))
        )
        self.program.startup = startup
        self._reserve()

    def _repeat(self, record: Derivation) -> dict[str, str]:
        """Repeat a call; return the old names of its values by their new ones."""
        program = self.program
        targets = [main_var(program, name) for name in record.targets]
        known = [name for name in record.inputs if program.table.find_var(name) is not None]
        inputs = [main_var(program, name) for name in known]
        with program:
            if record.function == "minimize":
                return self._minimize(record, targets[0], inputs)
            seeds = [main_var(program, name) if name else None for name in record.seeds]
            if record.function == "jvp":
                results = jvp(targets, inputs, cast("Any", seeds))
                return self._pairs(zip(record.results, results, strict=True))
            results = dict(zip(known, gradients(targets, inputs, seeds), strict=True))
        pairs = zip(record.results, map(results.get, record.inputs), strict=True)
        return self._pairs(pairs)

    def _current(self, record: Derivation) -> Derivation:
        """Return a record with the variables that targets, inputs and seeds are now.

        A derivative by a variable that still exists remains one by this variable.
        """

        def now(name: str) -> str:
            return self.renamed.get(name, name)

        exists = self.program.table.find_var
        return record.with_(
            targets=tuple(map(now, record.targets)),
            inputs=tuple(n if exists(n) is not None else now(n) for n in record.inputs),
            seeds=tuple(map(now, record.seeds)),
        )

    def _no_target(self, name: str, record: Derivation) -> BracesError:
        if name in self.late:
            gone = self.expected.difference(self.program.table.vars)
            reader = next((op for op in self.waiting if not gone.isdisjoint(op.reads())), None)
            if reader is not None:
                return self._missing(reader)
            return ProgramError(
                f"`{name}` depends on its own derivative, so {record.function} cannot be "
                "repeated.",
                fix="Rewrite before the call, or pass exact=True.",
            )
        return ProgramError(
            f"`{name}` does not exist after the rewriting, so {record.function} cannot be "
            "repeated.",
            fix="Leave the operator that computes it.",
        )

    def _minimize(self, record: Derivation, loss: Var, inputs: list[Var]) -> dict[str, str]:
        optimizer = rebuilt_optimizer(record.optimizer, record.live, self.program)
        pairs = optimizer.minimize(loss, None if record.every else inputs)
        grads = {param.name: grad for param, grad in pairs.items()}
        old = zip(record.results, map(grads.get, record.inputs), strict=True)
        names = self._pairs(old)
        wanted = {name for op in self.waiting for name in op.reads()} | {
            *self.whole.main.results
        }
        for persistable, value in record.updates.items():
            new = self.program.updates.get(persistable)
            if value in wanted and new is not None and new != value:
                names[new] = value
        return names

    def _pairs(self, pairs: Iterable[tuple[str, Var | None]]) -> dict[str, str]:
        names: dict[str, str] = {}
        for old, new in pairs:
            if not old or new is None:
                continue
            other = names.setdefault(new.name, old)
            if self.now.get(new.name) == old:
                continue
            fixed = old not in self.part.outside and new.name != old
            if fixed or other != old or list(names.values()).count(old) > 1:
                raise GradientError(
                    f"the derivatives `{other}` and `{old}` cannot keep their names: they were "
                    "one variable, or have become one.",
                    fix="Rewrite before the call of gradients.",
                )
        return {new: old for new, old in names.items() if new != old}

    def _rename(self, names: Mapping[str, str], *, recorded: bool) -> dict[str, str]:
        """Rename variables, and others that have their new names; return the way back."""
        if not names:
            return {}
        bound = {*names_bound(self.program.definition.main)}
        taken = (name for name in {*names.values()} & bound if name not in names)
        unique = self.program.table.names.unique
        names = {**names, **{name: unique(name) for name in taken}}
        self.program = renamed_program(self.program, names, recorded=recorded)
        self._reserve()
        return _inverse(names)

    def _missing(self, op: Op) -> BracesError:
        table = self.program.table
        absent = [name for name in op.reads() if table.find_var(name) is None]
        name = next((name for name in absent if name in self.expected), absent[0])
        return GradientError(
            f"`{name}`, which `{op.name}` reads, does not exist after the rewriting: nothing "
            "depends on its parameter any more.",
            given=op.describe(),
        )


def _at_the_time(record: Derivation, names: Mapping[str, str]) -> Derivation:
    """Return a record with earlier names of what a call reads and updates."""
    return record.with_(
        targets=renamed(record.targets, names),
        inputs=renamed(record.inputs, names),
        seeds=renamed(record.seeds, names),
        updates={names.get(n, n): value for n, value in record.updates.items()},
    )


def _inverse(names: Mapping[str, str]) -> dict[str, str]:
    return {new: old for old, new in names.items()}


def _reading(ops: Iterable[Op], names: Iterable[str]) -> list[Op]:
    """Return the operators that depend on some variables, in order."""
    reached, readers = set(names), list[Op]()
    for op in ops:
        if not reached.isdisjoint(op.reads()):
            reached.update(op.binds())
            readers.append(op)
    return readers
