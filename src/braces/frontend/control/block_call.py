"""Calls of plain blocks: the body of a block under new names, on other inputs.

    block() captures [x, layer/w] as layer       block() captures [x2, layer/w] as layer_1
      body {                                       body {
        layer/h = matmul(x=x, y=layer/w)             layer_1/h = matmul(x=x2, y=layer/w)
        layer/y = dropout(..., x=layer/h)            layer_1/y = dropout(..., x=layer_1/h)
      }                                            }

The copy differs from the original in these points:

- Persistable variables are shared. All other names bound in the body are new, so both calls can
  be read and differentiated side by side. Lists and data-dependent sizes are renamed too.
- Random operators get a new salt, and the iteration indices of the loops around the call.
- Sizes and types are inferred again from the inputs.
- A state that the block updates is read with its value at the start of the run. Its update
  continues from the value that the previous call left, so the operators between the state and
  its next value are duplicated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from braces.builder.append import as_var
from braces.builder.builder import Builder
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, check_visible, named_var, var_of
from braces.define.decorator import OPS
from braces.dims import Call, Dim, Size, of_atom, solved, solved_call, substitute
from braces.dtypes import ListType, Type
from braces.errors import BracesError, DTypeError, ProgramError, ShapeError
from braces.frontend.control.construct import literal_dtype
from braces.frontend.core.init import salt_of
from braces.frontend.core.random_state import iteration_indices
from braces.ir.records import Attr, Body, Op, Slots
from braces.ir.walk import (
    free_names,
    map_bodies,
    names_bound,
    relabel_body,
    resolve_body,
    with_captures,
)
from braces.passes.cleanup.prune import eliminate
from braces.passes.core.type_inference import infer_body


class BlockCall:
    """One call of a block.

    Attributes:
        program: The program that is built; the call goes into its current block.
        home: The table that contains the called block.
        names: New names of the variables, operators and inputs of the body.
    """

    def __init__(
        self,
        program: Builder,
        home: SymbolTable,
        body: Body,
        name: str,
        here: str,
        own: str | None = None,
    ) -> None:
        self.program = program
        self.home = home
        self.names: dict[str, str] = {}
        self._old = resolve_body(body, home.unifier.resolve)
        self._name = name
        self._here = here
        self._own = f"{name}/" if own is None else own
        self._trips = {table.trip_index for table in home.chain()}
        self._moved: dict[str, str] = {}
        self._before: dict[str, Var] = {}
        self._histories: dict[str, str] = {}
        self._sizes: dict[str, Size] = {}
        self._calls: dict[Call, Size] = {}
        self._fixed: tuple[int, Size] | None = None

    def body(self, values: Mapping[str, Any], moves: Mapping[str, str]) -> Body:
        """Return a copy of the body on these inputs.

        Args:
            values: Inputs by their names in the block; the others stay.
            moves: The persistable variables that the block updates, to their next values in it.
        """
        self.names = {name: self._fresh(name) for name in names_bound(self._old)}
        body, outer = self._moved_on(self._old, moves), dict[str, Type]()
        for name in free_names(body):
            if name not in self._trips:
                var = self._input(name, values)
                self.names[name] = var.name
                outer[var.name] = var.type
        outer |= {trip.name: trip.type for trip in iteration_indices()}
        here = self._copied(relabel_body(body, self.names))
        sizes = {name: size for name, size in self._sizes.items() if str(size) != name}
        calls = {call: size for call, size in self._calls.items() if of_atom(call) != size}
        if sizes or calls:
            here = resolve_body(here, lambda size: substitute(size, sizes, self._calls))
        return infer_body(here, (), outer, self.program.current.unifier)

    def finish(self, results: Sequence[str], moves: Mapping[str, str]) -> tuple[Var, ...]:
        """Return the results once the operator is appended; update the states."""
        table = self.program.current
        table.show(*(self._moved[state] for state in moves))
        for state in moves:
            self.program.update_again(state, self._moved[state])
        table.show(*(self.names[name] for name in results))
        return tuple(var_of(self.program, table, self.names[name]) for name in results)

    # ---- inputs ------------------------------------------------------------------------------

    def _input(self, name: str, values: Mapping[str, Any]) -> Var:
        """Return the variable that replaces a variable captured by the block."""
        if name in self._before:
            return self._before[name]
        before = named_var(self.program, name) if name in self.program.table.vars else None
        if name in values:
            declared = self.home.type_of(name)
            var = as_var(values[name], literal_dtype(declared))
            check_visible(self.program, var)
            self._match(name, declared, var)
            return var
        if before is not None:
            self._match(name, before.type, before)
            return before
        owner = self.program.current.table_of(name)
        if owner is None:
            raise ProgramError(
                f"the block `{self._name}` captures `{name}`, which is not visible here.",
                fix="Pass a value for it.",
            )
        var = var_of(self.program, owner, name)
        self._match(name, var.type, var)
        return var

    def _match(self, name: str, old_type: Type, var: Var) -> None:
        """Bind symbolic sizes by matching an input's original type with its new type."""
        new_type = var.type
        if isinstance(old_type, ListType) or isinstance(new_type, ListType):
            if old_type != new_type:
                raise ShapeError(
                    f"`{var.name}` has another type than `{name}`, which it replaces.",
                    given=f"expected {old_type}, got {new_type}",
                )
            return
        if old_type.dtype != new_type.dtype:
            raise DTypeError(
                f"dtype mismatch of `{var.name}` and the input `{name}` of the block.",
                given=f"{name}: {old_type}   {var.name}: {new_type}",
                fix=f"Convert it: br.cast(..., {str(old_type.dtype)!r}).",
            )
        for left, right in zip(old_type.shape, new_type.shape, strict=False):
            if isinstance(left, Dim) and old_type.rank == new_type.rank:
                self._learn_size(left, right, var)
            elif isinstance(left, int) and left != right:
                self._fixed = left, right

    def explain(self, problem: BracesError) -> None:
        """Extend the advice of an error if an input has another number of elements."""
        if self._fixed is None or not isinstance(problem, ShapeError):
            return
        built, now = self._fixed
        problem.fix = (
            f"The block `{self._name}` was built for the size {built}, and this call has {now}."
            " Name an axis whose size differs between calls: br.data(..., ['n', 't'])."
        )

    def _learn_size(self, before: Dim, after: Size, var: Var) -> None:
        """Bind a dimension from a size expression, such as `t - 1` of a sliced input.

        An expression that has no unique solution, as `min(t, 5)`, is bound itself.
        """
        if before.name is not None:
            return self._bind_size(before.name, after, var)
        solution = solved(before, after) if before != after else None
        if solution is not None:
            return self._bind_size(*solution, var)
        if (function := solved_call(before, after)) is not None:
            self._check_equal(*function, self._calls.setdefault(*function), var)

    def _bind_size(self, size: str, now: Size, var: Var) -> None:
        self._check_equal(size, now, self._sizes.setdefault(size, now), var)

    def _check_equal(self, size: object, now: Size, known: Size, var: Var) -> None:
        if self.program.current.unifier.unify(known, now) is None:
            raise ShapeError(
                f"the inputs of the block `{self._name}` have different values of the size "
                f"`{size}`.",
                given=f"{size}: {known} and, of {var.name}: {var.type}, {now}",
                fix="Pass all inputs that share this size.",
            )

    # ---- names -------------------------------------------------------------------------------

    def _fresh(self, name: str) -> str:
        names, old = self.program.current.names, self._own
        new_name = f"{self._here}/{name.removeprefix(old)}" if name.startswith(old) else name
        return names.unique(new_name) if new_name in names.taken else names.claim(new_name)

    def _moved_on(self, body: Body, moves: Mapping[str, str]) -> Body:
        """Return the body with updates that continue from the values of the previous call."""
        if not moves:
            return body
        if not self.program.current.runs_once:
            raise ProgramError(
                f"the block `{self._name}` updates `{next(iter(moves))}`, so it cannot be "
                "called in a loop or a branch.",
                fix="Call it outside; an update happens once per run.",
            )
        unique = self.program.current.names.unique
        before = {state: unique(state) for state in moves}  # its own name may be bound inside
        for state, name in before.items():
            self._before[name] = named_var(self.program, self.program.updates[state])
        after, depends = list[Op](), set(moves)
        for op in eliminate(body, list(moves.values())).ops:
            if not depends.isdisjoint(op.reads()):
                after.append(op)
                depends.update(op.binds())
        duplicated_vars = {name: body.vars[name] for op in after for name in op.binds()}
        twice = Body((), (), duplicated_vars, tuple(after))
        new_names = {name: self._fresh(name) for name in names_bound(twice)}
        self._moved = {state: new_names[value] for state, value in moves.items()}
        twice = relabel_body(twice, new_names | before)
        return body.with_(ops=(*body.ops, *twice.ops), vars={**body.vars, **twice.vars})

    # ---- the copy ----------------------------------------------------------------------------

    def _copied(self, body: Body) -> Body:
        return body.with_(ops=tuple(map(self._copied_op, body.ops)))

    def _copied_op(self, op: Op) -> Op:
        """Copy an operator with its own salt, list and data-dependent size."""
        roles, attrs = OPS.get(op.type).roles, dict(op.attrs)
        if "Salt" in roles:
            attrs[roles["Salt"]] = salt_of(f"{self._here}/{attrs[roles['Salt']]}")
        if "History" in roles:
            attrs[roles["History"]] = self._history(attrs[roles["History"]])
        if "Learned" in roles:
            self._renew(attrs[roles["Learned"]])
        op = op.with_(attrs=attrs, inputs=self._drawn_in(op))
        return with_captures(map_bodies(op, self._copied)) if op.bodies() else op

    def _history(self, attr: Attr) -> str:
        name = str(attr)
        if name not in self._histories:
            unique = self.program.current.names.unique
            self._histories[name] = self.names.get(name) or unique(name)
        return self._histories[name]

    def _renew(self, size: Attr) -> None:
        if isinstance(size, Dim) and size.name is not None:
            self._sizes[size.name] = Dim.named(
                self.program.current.names.unique_word(size.name)
            )

    def _drawn_in(self, op: Op) -> Slots:
        """Return the inputs of an operator; random ones get the iterations around the call."""
        base = OPS.get(op.type.partition(".")[0])
        slot = base.inputs[-1] if base.random else None
        if slot is None or not slot.many:
            return op.inputs
        inner = (name for name in op.inputs.get(slot.name, ()) if name not in self._trips)
        new_trips = (*(trip.name for trip in iteration_indices()), *inner)
        others = {name: names for name, names in op.inputs.items() if name != slot.name}
        return others | ({slot.name: new_trips} if new_trips else {})
