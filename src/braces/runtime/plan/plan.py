"""What one run computes: what passes make of a program for its fetches and updates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property

from braces.define.axes.axis_map import shape_of
from braces.dtypes import DType, ListType
from braces.errors import ProgramError, UnknownNameError, suggest
from braces.ir.plain_blocks.escaping_values import with_shown
from braces.ir.records import DATA, Body, ProgramDef, VarInfo
from braces.ir.walk import ancestors, dimensions
from braces.lower.xla.check_points import Site, find_sites
from braces.lower.xla.list_unification import united
from braces.lower.xla.narrow_dtypes import carried, narrow_of
from braces.passes.autodiff.drop_custom_gradients import without_gradients
from braces.passes.cleanup.dead_code import DCE
from braces.passes.core.context import Question, planning
from braces.passes.core.pipeline import Pass, optimised, run_pass
from braces.passes.core.random_effects import random_states
from braces.passes.registry import DEFAULT
from braces.passes.rows.mask_padding import mask_branches
from braces.target import Target

NO_SIZES: Mapping[str, int] = {}


@dataclass(frozen=True)
class Plan:
    """A program and what is fetched from it.

    Attributes:
        definition: The whole program.
        body: What passes made of it, with dtypes as runs have them; its results are the
            fetches, in order.
        updates: Persistable name to the variable of `body` with its next value.
        answers: What passes asked of sizes of a run, and were told.
        wanted: What the fetches are called in the program; passes may call them otherwise.
    """

    definition: ProgramDef
    body: Body
    updates: Mapping[str, str]
    answers: Mapping[Question, int] = field(default_factory=dict[Question, int])
    wanted: tuple[str, ...] = ()

    @staticmethod
    def of(
        definition: ProgramDef,
        fetches: Iterable[str],
        passes: tuple[Pass, ...] = DEFAULT,
        run_one: Callable[[Pass, ProgramDef], ProgramDef] = run_pass,
        target: Target | None = None,
        sizes: Mapping[str, int] = NO_SIZES,
        gradients: bool = False,
    ) -> Plan:
        """Let passes work on a program, and cut it down to what is wanted.

        Whatever passes there are, a run computes no more than its fetches and updates need: the
        last pass is elimination.

        Args:
            definition: The program.
            fetches: The variables that are fetched.
            passes: The passes.
            run_one: Gives what one of them makes.
            target: The machine that passes are told of.
            sizes: The named dimensions that they are told of.
            gradients: Whether what comes of it is differentiated, by JAX, so that gradients
                which users wrote are of use.

        Raises:
            UnknownNameError: A fetch does not exist.
            ProgramError: A fetch is a list; a pass failed, or made something that is not this
                program.
        """
        names = tuple(fetches)
        definition = definition.with_(main=with_shown(definition.main, names))
        for name in names:
            if name not in definition.main.vars:
                raise UnknownNameError(
                    f"There is no variable `{name}` to fetch in the main block.",
                    fix=suggest(name, definition.main.vars),
                )
            if isinstance(definition.main.vars[name].type, ListType):
                raise ProgramError(
                    f"`{name}` is a list, which lives within a run.",
                    given=f"{name}: {definition.main.vars[name].type}",
                    fix="Fetch its values as one array, br.list_stack(xs), or one, xs[i].",
                )
        if passes[-1:] != (DCE,):
            passes = (*passes, DCE)
        wanted = definition.with_(main=definition.main.with_(results=names))
        wanted = wanted if gradients else without_gradients(wanted)
        with planning(target, sizes) as answers:
            made = optimised(wanted, passes, run_one)
        asked = {question: told for question, told in answers.items() if question.names}
        return Plan(definition, carried(made.main), made.updates, asked, names)

    def fits(self, sizes: Mapping[str, int]) -> bool:
        """Whether passes would have made the same, had they been told of these sizes."""
        return all(question.answer(sizes) == told for question, told in self.answers.items())

    @property
    def fetches(self) -> tuple[str, ...]:
        """The variables of `body` that are fetched, in order."""
        return self.body.results

    @cached_property
    def reads(self) -> dict[str, VarInfo]:
        """What the run reads and does not compute."""
        bound = {name for op in self.body.ops for name in op.binds()}
        read = dict.fromkeys(name for op in self.body.ops for name in op.reads())
        read |= dict.fromkeys((*self.fetches, *self.updates.values()))
        infos = self.body.vars
        return {name: infos[name] for name in read if name not in bound}

    @cached_property
    def feeds(self) -> dict[str, VarInfo]:
        """The data that the run needs."""
        return {name: info for name, info in self.reads.items() if info.kind == DATA}

    @cached_property
    def fetched_feeds(self) -> set[str]:
        """The data that the fetches alone need."""
        return ancestors(self.body.ops, self.fetches) & self.feeds.keys()

    @cached_property
    def states(self) -> dict[str, VarInfo]:
        """The persistable variables that the run reads, those first that it replaces."""
        read = [name for name, info in self.reads.items() if info.persistable]
        kept = (name for name in read if name not in self.updates)
        return {name: self.reads[name] for name in (*self.replaced, *kept)}

    @cached_property
    def replaced(self) -> tuple[str, ...]:
        """The persistable variables that the run reads and gives new values."""
        return tuple(name for name in self.updates if name in self.reads)

    @cached_property
    def compiled(self) -> ProgramDef:
        """What is compiled: padding is left out of what mixes rows; lists that meet agree."""
        masked = mask_branches(ProgramDef(self.body, self.updates))
        return masked.with_(main=united(masked.main))

    @cached_property
    def interpreted(self) -> Body:
        """What is interpreted: the same, but only where rows stay at their places."""
        return mask_branches(ProgramDef(self.body, self.updates), interpreted=True).main

    @cached_property
    def sites(self) -> dict[str, Site]:
        """What may fail, by path."""
        return find_sites(self.body)

    @cached_property
    def learned(self) -> tuple[str, ...]:
        """The sizes that only a run tells."""
        return tuple(dict.fromkeys(s.length for s in self.sites.values() if s.length))

    @cached_property
    def telling(self) -> tuple[dict[str, VarInfo], dict[str, VarInfo]]:
        """Data, and what the run reads from the scope, with dimensions that passes asked of."""
        if not self.answers:
            return {}, {}
        asked = set[str]().union(*(question.names for question in self.answers))
        return _with_names(self.data, asked), _with_names(self.states, asked)

    @cached_property
    def random_states(self) -> set[str]:
        """The persistable variables that draws follow from."""
        return random_states(self.body)

    @cached_property
    def dtypes(self) -> dict[str, DType]:
        """The dtypes of the data that the run needs, as the program says them."""
        return {name: self.data[name].dtype for name in self.feeds}

    @cached_property
    def narrow(self) -> dict[str, DType]:
        """The dtypes of less than 8 bits of what goes in and comes out, by name."""
        return narrow_of(self.definition.main.vars)

    @cached_property
    def data(self) -> dict[str, VarInfo]:
        """All data variables of the program."""
        return declared_data(self.definition.main)


def _with_names(infos: Mapping[str, VarInfo], names: Set[str]) -> dict[str, VarInfo]:
    """The variables whose sizes have some of these names in them."""
    return {
        name: info
        for name, info in infos.items()
        if not names.isdisjoint(dimensions(shape_of(info.type)))
    }


def declared_data(body: Body) -> dict[str, VarInfo]:
    """The data variables of a block."""
    return {name: info for name, info in body.vars.items() if info.kind == DATA}
