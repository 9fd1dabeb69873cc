"""Plan of a run: the program after passes, for its fetches and updates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property

from braces.define.axes.axis_map import shape_of
from braces.dtypes import DType, ListType
from braces.errors import ProgramError
from braces.ir.records import DATA, Body, ProgramDef, VarInfo
from braces.ir.walk import ancestors, dimensions, names_bound_by
from braces.lower.xla.check_points import CheckPoint, find_check_points
from braces.lower.xla.list_unification import unify_lists
from braces.lower.xla.narrow_dtypes import find_narrow_dtypes, to_carrier_dtypes
from braces.passes.autodiff.drop_custom_gradients import drop_custom_gradients
from braces.passes.cleanup.dead_code import DCE
from braces.passes.core.context import SizeQuery, planning
from braces.passes.core.pipeline import Pass, run_pass, run_passes
from braces.passes.core.random_effects import random_states
from braces.passes.probing.probe import with_fetched
from braces.passes.registry import DEFAULT
from braces.passes.rows.mask_padding import mask_branches
from braces.target import Target

NO_SIZES: Mapping[str, int] = {}


@dataclass(frozen=True)
class Plan:
    """A program with its fetches, after passes.

    Attributes:
        definition: The original program.
        body: The main block after passes, with the dtypes of runs; its results are the fetches,
            in order.
        updates: Persistable name to the variable of `body` with its next value.
        answers: The queries of passes about sizes of a run, with the answers.
        wanted: The names of the fetches in the program; passes may rename them.
    """

    definition: ProgramDef
    body: Body
    updates: Mapping[str, str]
    answers: Mapping[SizeQuery, int] = field(default_factory=dict[SizeQuery, int])
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
        """Run passes on a program, and prune it to its fetches and updates.

        With any passes, a run computes only the dependencies of its fetches and updates: the
        last pass is dead code elimination.

        Args:
            definition: The program.
            fetches: The variables that are fetched, or paths of variables of inner blocks.
            passes: The passes.
            run_one: Runs a single pass.
            target: The target, for passes.
            sizes: The named dimensions, for passes.
            gradients: Whether JAX will differentiate the result, so that custom gradients are
                kept.

        Raises:
            UnknownNameError: If a fetch does not exist.
            ProgramError: If a fetch is a list, or a pass failed or returned a different
                program.
        """
        definition, names = with_fetched(definition, tuple(fetches))
        for name in names:
            if isinstance(definition.main.vars[name].type, ListType):
                raise ProgramError(
                    f"cannot fetch the list `{name}`.",
                    given=f"{name}: {definition.main.vars[name].type}",
                    fix="Fetch one array, br.lists.stack(xs), or one value, xs[i].",
                )
        if passes[-1:] != (DCE,):
            passes = (*passes, DCE)
        wanted = definition.with_(main=definition.main.with_(results=names))
        wanted = wanted if gradients else drop_custom_gradients(wanted)
        with planning(target, sizes) as answers:
            optimized = run_passes(wanted, passes, run_one)
        size_answers = {
            question: answer for question, answer in answers.items() if question.names
        }
        return Plan(
            definition,
            to_carrier_dtypes(optimized.main),
            optimized.updates,
            size_answers,
            names,
        )

    def fits(self, sizes: Mapping[str, int]) -> bool:
        """Return whether passes would have built the same plan for these sizes."""
        return all(
            question.answer(sizes) == expected for question, expected in self.answers.items()
        )

    @property
    def fetches(self) -> tuple[str, ...]:
        """The variables of `body` that are fetched, in order."""
        return self.body.results

    @cached_property
    def reads(self) -> dict[str, VarInfo]:
        """The variables that the run reads and does not compute."""
        bound = names_bound_by(self.body.ops)
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
        """The persistable variables that the run reads; replaced ones come first."""
        read = [name for name, info in self.reads.items() if info.persistable]
        unchanged = (name for name in read if name not in self.updates)
        return {name: self.reads[name] for name in (*self.replaced, *unchanged)}

    @cached_property
    def replaced(self) -> tuple[str, ...]:
        """The persistable variables that the run reads and updates."""
        return tuple(name for name in self.updates if name in self.reads)

    @cached_property
    def compiled(self) -> ProgramDef:
        """The program to compile: padding is masked, and lists that meet share a history."""
        masked = mask_branches(ProgramDef(self.body, self.updates))
        return masked.with_(main=unify_lists(masked.main))

    @cached_property
    def interpreted(self) -> Body:
        """The block to interpret: padding is masked only where rows keep their positions."""
        return mask_branches(ProgramDef(self.body, self.updates), interpreted=True).main

    @cached_property
    def sites(self) -> dict[str, CheckPoint]:
        """The check points, by path."""
        return find_check_points(self.body)

    @cached_property
    def learned(self) -> tuple[str, ...]:
        """The data-dependent sizes."""
        return tuple(dict.fromkeys(s.length for s in self.sites.values() if s.length))

    @cached_property
    def telling(self) -> tuple[dict[str, VarInfo], dict[str, VarInfo]]:
        """Data and states with dimensions that passes query."""
        if not self.answers:
            return {}, {}
        dim_names = set[str]().union(*(question.names for question in self.answers))
        return _select_by_dims(self.data, dim_names), _select_by_dims(self.states, dim_names)

    @cached_property
    def random_states(self) -> set[str]:
        """The persistable variables of random states."""
        return random_states(self.body)

    @cached_property
    def dtypes(self) -> dict[str, DType]:
        """The dtypes of the data that the run needs, as declared."""
        return {name: self.data[name].dtype for name in self.feeds}

    @cached_property
    def narrow(self) -> dict[str, DType]:
        """The dtypes of less than 8 bits of inputs and outputs, by name."""
        return find_narrow_dtypes(self.definition.main.vars)

    @cached_property
    def data(self) -> dict[str, VarInfo]:
        """All data variables of the program."""
        return declared_data(self.definition.main)


def _select_by_dims(infos: Mapping[str, VarInfo], names: Set[str]) -> dict[str, VarInfo]:
    """Select the variables whose sizes contain some of these names."""
    return {
        name: info
        for name, info in infos.items()
        if not names.isdisjoint(dimensions(shape_of(info.type)))
    }


def declared_data(body: Body) -> dict[str, VarInfo]:
    """Return the data variables of a block."""
    return {name: info for name, info in body.vars.items() if info.kind == DATA}
