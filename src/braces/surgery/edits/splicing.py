"""Another program spliced in: its operators as a plain block at a place of this one.

    other: program {                     h: f32[b,8] = fc(...)
      data x: f32[n,8]                   teacher/y: f32[b,4] = block() as teacher
      parameter w: f32[8,4]        ->      body { … matmul(x=h, y=teacher/w) … }
      y: f32[n,4] = matmul(x=x, y=w)
    }

The block is built by `br.call`, which copies parameters, states and initial values. Feeds that
are not connected become data of the program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from braces.builder.builder import Builder
from braces.builder.user_functions import located
from braces.builder.var import Var, var_of
from braces.errors import (
    DuplicateNameError,
    ProgramError,
    UnknownNameError,
    suggest,
)
from braces.frontend.control.calls.program_call import call
from braces.frontend.core.pytree import tree_leaves
from braces.ir.places import Chain, Place
from braces.ir.records import DATA, Op, VarInfo
from braces.passes.core.rewrite import InsertionPoint, Replacement
from braces.surgery.edits.core.address import handles_at, operators_at
from braces.surgery.edits.core.change import EditResult
from braces.surgery.edits.core.derived import affected_by, refuse_derived
from braces.surgery.edits.core.session import with_definition
from braces.surgery.edits.core.walk import EditWalk
from braces.surgery.handles import Handle
from braces.surgery.substitution import old_type, type_error

P = TypeVar("P", bound=Builder)


def splice(
    program: P,
    other: Any,
    inputs: Mapping[str, Any] | None = None,
    *,
    name: str,
    outputs: Mapping[str, Any] | None = None,
    at: Any = None,
    share: bool = False,
    retype: bool = False,
    exact: bool = False,
) -> EditResult[P]:
    """Insert the operators of another program; see `Edits.splice`."""
    label = f"splice `{name}`"
    if not isinstance(other, Builder):
        raise ProgramError(
            f"expected a program, got {other!r:.80}.",
            at=label,
            fix="br.Program.load, br.from_onnx and `with br.Program() as other:` create one.",
        )
    feeds = {feed: _variable(program, at_) for feed, at_ in (inputs or {}).items()}
    replaced = {result: _variable(program, at_) for result, at_ in (outputs or {}).items()}
    refuse_derived(program, affected_by(replaced.values()), label, exact)
    splicing = _Splicing(other, name, label, feeds, replaced, share, retype)
    position = operators_at(program, at)[0] if at is not None else None
    new = splicing.apply(program, position)
    return EditResult(new, label, splicing.walk.variables, readers=splicing.walk.readers)


def _variable(program: Builder, at: Any) -> Handle:
    """Return the one variable that an argument denotes.

    Raises:
        ProgramError: If there are several.
    """
    variables = [var for handle in handles_at(program, at) for var in handle.outputs]
    if len(variables) != 1:
        raise ProgramError(
            f"expected one variable, got {len(variables)} for {at!r:.80}.",
            given=", ".join(f"`{var.path}`" for var in variables[:8]) or None,
            fix="Pass the path of one of them.",
        )
    return variables[0]


@dataclass
class _Splicing:
    """The insertion of one program.

    Attributes:
        other: The program that is inserted.
        name: The name of its block.
        label: The edit, for messages.
        inputs: The variables of its feeds.
        outputs: The variables whose readers read its results.
        share: Whether parameters that the program has already are shared.
        retype: Whether the types of results may differ.
        results: Names of the results after the walk.
        program: The program in which it is inserted.
    """

    other: Builder
    name: str
    label: str
    inputs: Mapping[str, Handle]
    outputs: Mapping[str, Handle]
    share: bool
    retype: bool
    results: list[str] = field(default_factory=list[str])
    walk: EditWalk = field(default_factory=lambda: EditWalk("", {}))
    program: Builder = field(default_factory=Builder)

    def apply(self, program: P, position: Handle | None) -> P:
        """Return the program with the block."""
        self._check_results()
        if position is not None:
            chain, before = position.chain, position.name
            self._check_order(chain, position.place.order[before] - 1)
            self.walk = EditWalk(self.label, {(chain, before): self._before})
        else:
            chain, after = self._position()
            if after is None:
                self.walk = EditWalk(self.label, {}, {chain: self._begin})
            else:
                self.walk = EditWalk(self.label, {(chain, after): self._after})
        if chain and not self.outputs:
            raise ProgramError(
                "the results of the spliced program would have no reader in an inner block.",
                at=self.label,
                fix='Pass the values that they replace: outputs={"y": "loop_0/body/act"}.',
            )
        self.program = program
        new = self.walk.apply(program)
        return new if self.outputs else _with_results(new, self.results)

    # ---- position ----------------------------------------------------------------------------

    def _position(self) -> tuple[Chain, str | None]:
        """Return the innermost block of the connected variables, and the last of their makers.

        Raises:
            ProgramError: If the blocks are not nested in each other.
        """
        handles = [*self.inputs.values(), *self.outputs.values()]
        chain = max((handle.chain for handle in handles), key=len, default=())
        for handle in handles:
            if chain[: len(handle.chain)] != handle.chain:
                raise ProgramError(
                    f"`{handle.path}` is not visible where the program is spliced in.",
                    at=self.label,
                    given=f"block `{'/'.join(f'{o}/{b}' for o, b in chain)}`",
                    fix="Connect variables of one block, or of the blocks around it.",
                )
        makers = [m for h in handles if (m := self._maker_in(h, chain)) is not None]
        last = max(makers, key=lambda maker: maker.place.order[maker.name], default=None)
        self._check_order(chain, -1 if last is None else last.place.order[last.name])
        return chain, None if last is None else last.name

    @staticmethod
    def _maker_in(handle: Handle, chain: Chain) -> Handle | None:
        maker = handle.maker
        return maker if maker is not None and maker.chain == chain == handle.chain else None

    def _check_order(self, chain: Chain, position: int) -> None:
        """Refuse readers of replaced variables before the block.

        Raises:
            ProgramError: If there is such a reader; the message names it.
        """
        for result, handle in self.outputs.items():
            for user in handle.users:
                if user.chain == chain and user.place.order[user.name] <= position:
                    raise ProgramError(
                        f"`{user.path}` reads `{handle.path}` before the inputs of "
                        f"`{self.name}` are computed.",
                        at=self.label,
                        given=f"outputs: {result} for `{handle.path}`",
                        fix="Connect inputs that do not depend on it, or pass at=.",
                    )

    # ---- building ----------------------------------------------------------------------------

    def _begin(self, point: InsertionPoint) -> None:
        point.names |= self._build(point)

    def _before(self, op: Op, point: InsertionPoint) -> Replacement:
        names = self._build(point)
        point.names |= names
        inputs = {s: tuple(names.get(n, n) for n in read) for s, read in op.inputs.items()}
        return op.with_(inputs=inputs) if names and not op.bodies() else op

    def _after(self, op: Op, point: InsertionPoint) -> Replacement:
        point.keep(op)
        return self._build(point)

    def _build(self, point: InsertionPoint) -> dict[str, str]:
        """Build the block; return the results by the names that they replace."""
        with point.building() as table:
            known = {info.name for info in point.program.persistable_infos}
            values = {feed: point.var(self._now(point, h)) for feed, h in self.inputs.items()}
            values |= self._new_feeds(point)
            with located(self.label):
                built = cast("Any", call)(
                    self.other, name=self.name, fetch=self._fetch, **values
                )
            if not self.share:
                self._refuse_shared(point, table.ops[-1:], known)
        results = dict(zip(self._names, tree_leaves(built), strict=True))
        self.results = [var.name for var in results.values()]
        return self._replaced(point, results)

    @staticmethod
    def _now(point: InsertionPoint, handle: Handle) -> str:
        return point.names.get(handle.name, handle.name)

    def _replaced(self, point: InsertionPoint, results: Mapping[str, Var]) -> dict[str, str]:
        names: dict[str, str] = {}
        for result, handle in self.outputs.items():
            old, var = self._now(point, handle), results[result]
            expected = old_type(point, old)
            if var.type != expected:
                if not self.retype:
                    raise type_error(handle.path, expected, var, self.label)
                self.walk.has_retyped(point, [var.name])
            names[handle.name] = var.name
        return names

    def _new_feeds(self, point: InsertionPoint) -> dict[str, Var]:
        """Declare the feeds that are not connected, as data of the program."""
        table = point.program.table
        variables: dict[str, Var] = {}
        for name, info in self.other.infos.items():
            if info.kind != DATA or name in self.inputs:
                continue
            existing = table.find_var(name)
            if existing is None:
                table.new_var(name, info.type, DATA, axes=info.axes)
            elif (existing.kind, existing.type) != (DATA, info.type):
                raise self._clash(existing, info)
            variables[name] = var_of(point.program, table, name)
        return variables

    def _refuse_shared(
        self, point: InsertionPoint, blocks: Sequence[Op], known: set[str]
    ) -> None:
        """Refuse parameters and states that the program had before.

        Raises:
            DuplicateNameError: If there is one; the message names the readers of both.
        """
        prefix = f"{point.table.prefixed(self.name)}/"
        read = (name for block in blocks for name in block.captures())
        name = next((n for n in read if n in known and n.startswith(prefix)), None)
        if name is None:
            return
        info, inner = point.info(name), name.removeprefix(prefix)
        raise DuplicateNameError(
            f"duplicate {info.kind} `{name}`: this program has one of this name already.",
            at=self.label,
            given=f"{info.type}, read by {_readers(self.program, name)}; and `{inner}` of the "
            f"spliced program, read by {_readers(self.other, inner)}",
            fix="Choose another name=, or pass share=True to use it for both.",
        )

    def _clash(self, existing: VarInfo, info: VarInfo) -> DuplicateNameError:
        return DuplicateNameError(
            f"the feed `{info.name}` of the spliced program has the name of another variable.",
            at=self.label,
            given=f"{existing.kind} {info.name}: {existing.type} here, {info.type} there",
            fix=f"Connect it: inputs={{{info.name!r}: ...}}.",
        )

    # ---- results -----------------------------------------------------------------------------

    @property
    def _names(self) -> Sequence[str]:
        return self._fetch or self.other.definition.main.results

    @property
    def _fetch(self) -> list[str] | None:
        """The variables to compute, if they are not results of the program."""
        results = self.other.definition.main.results
        wanted = list(self.outputs)
        return wanted if not set(wanted) <= set(results) else None

    def _check_results(self) -> None:
        known = self.other.infos
        for name in self.outputs:
            if name not in known:
                raise UnknownNameError(
                    f"the spliced program has no variable `{name}`.",
                    at=self.label,
                    fix=suggest(name, known),
                )


def _readers(program: Builder, name: str) -> str:
    """Return the paths of the operators that read a variable, for messages."""
    users = Place.main(program.definition).users(name)
    return ", ".join(f"`{place.path_of(op.name)}`" for place, op in users[:2]) or "no operator"


def _with_results(program: P, names: Sequence[str]) -> P:
    """Return a program with further results."""
    definition = program.definition
    results = tuple(dict.fromkeys((*definition.main.results, *names)))
    return with_definition(
        program, definition.with_(main=definition.main.with_(results=results))
    )
