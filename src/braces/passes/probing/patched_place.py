"""The place of a patch: an inner value with its type and the constructs around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from braces.dims import Shape, Size
from braces.dtypes import TensorType
from braces.errors import ProgramError, ShapeError
from braces.ir.places import Place
from braces.ir.records import ARGUMENT, DATA, VALUE, Op, ProgramDef
from braces.ir.views import LoopView
from braces.ir.walk import dimensions
from braces.passes.probing.entry import EntryStep, constructs, route
from braces.passes.probing.exposure import check_owners
from braces.passes.probing.lookup import find_variable


@dataclass(frozen=True)
class FedLayout:
    """The array of a patch in the main block.

    Attributes:
        type: The type of the data that are fed.
        steps: The constructs that it enters, outermost first.
    """

    type: TensorType
    steps: Sequence[EntryStep]


@dataclass(frozen=True)
class PatchedPlace:
    """An inner value that is replaced.

    Attributes:
        path: The path of the variable.
        block: Its block.
        name: Its name in the block.
        type: Its type there.
        op: The operator that binds it; `None` for a parameter of the block.
    """

    path: str
    block: Place
    name: str
    type: TensorType
    op: Op | None

    @staticmethod
    def of(program: ProgramDef, path: str, verb: str = "patch") -> PatchedPlace:
        """Find the value of a path.

        Args:
            program: The program.
            path: The path.
            verb: The action, for messages.

        Raises:
            UnknownNameError: If the variable does not exist.
            ProgramError: If no operator computes it, if it is a list, or if its block has no
                inputs.
        """
        block, name = find_variable(program, path, f"value to {verb}")
        path, info = block.path_of(name), block.body.vars[name]
        check_owners(verb, path, block)
        if not isinstance(info.type, TensorType):
            raise ProgramError(
                f"cannot {verb} the list `{path}`.",
                given=f"{name}: {info.type}",
                fix=f"{verb.capitalize()} a value of its elements.",
            )
        op = block.makers.get(name)
        if op is None and not (info.kind == ARGUMENT and block.body.ops):
            raise ProgramError(
                f"cannot {verb} `{path}`: no operator computes it.",
                given=f"{name}: {info.shown_type}, {info.kind}",
                fix="Feed other data."
                if info.kind == DATA
                else "Set its value in the scope, or patch the value that enters the block.",
            )
        return PatchedPlace(path, block, name, info.type, op)

    @property
    def anchor(self) -> str:
        """The operator at which the value is replaced: its own, or the first of the block."""
        return (self.block.body.ops[0] if self.op is None else self.op).name

    @property
    def at(self) -> str:
        """The place, for errors: the path, and the user's line."""
        op = self.block.owner if self.op is None else self.op
        return f"`{self.path}`" + (f", {op.source}" if op is not None and op.source else "")

    @cached_property
    def steps(self) -> list[EntryStep]:
        """The constructs around, outermost first."""
        return constructs(self.block)

    @cached_property
    def loops(self) -> int:
        """The number of loops around."""
        return sum(isinstance(step.view, LoopView) for step in self.steps)

    def layout(self, shape: Sequence[int]) -> FedLayout:
        """Return the layout of an array of this shape.

        The array has the shape of the value in its block, or broadcasts to it; or it has one
        more leading axis for each loop around. In row-wise branches, sizes are those of the
        whole batch.

        Raises:
            ShapeError: If the shape fits neither.
        """
        rank, loops = self.type.rank, self.loops
        stacked = loops > 0 and len(shape) == rank + loops
        if not stacked and len(shape) > rank:
            raise self.wrong_shape(f"[{','.join(map(str, shape))}]")
        part = tuple(shape)[loops:] if stacked else tuple(shape)
        inner = self.type.shape[rank - len(part) :]
        declared = tuple(1 if n == 1 else size for n, size in zip(part, inner, strict=True))
        batched = len(part) == rank and declared[:1] != (1,)
        full, steps = route(self.steps, declared, stacked=stacked, batched=batched)
        self._check_sizes(full, steps)
        return FedLayout(TensorType(self.type.dtype, full), steps)

    @cached_property
    def trips(self) -> tuple[Size | None, ...]:
        """The trip counts of the loops around, outermost first; `None` if data-dependent."""
        _, steps = route(self.steps, (), stacked=True, batched=False)
        return tuple(
            step.trips if step.counted else None for step in steps if step.trips is not None
        )

    def wrong_shape(self, passed: str, reason: str = "") -> ShapeError:
        """Return the error for an array that does not fit."""
        expected = self._outer_type(stacked=False)
        stacked = self._outer_type(stacked=True)
        each = f", or {stacked} with one value per iteration" if self.loops else ""
        return ShapeError(
            f"shape mismatch of the patch of `{self.path}`{reason}.",
            at=self.at,
            given=f"{self.name}: {self.type}   patch: {passed}",
            fix=f"Pass an array that broadcasts to {expected}{each}.",
        )

    def _outer_type(self, *, stacked: bool) -> TensorType:
        shape, _ = route(self.steps, self.type.shape, stacked=stacked, batched=True)
        return TensorType(self.type.dtype, shape)

    def _check_sizes(self, shape: Shape, steps: Sequence[EntryStep]) -> None:
        """Refuse sizes that a feed cannot have."""
        main = self.block
        while main.outer is not None:
            main = main.outer
        types = (info.type for info in main.body.vars.values() if info.kind != VALUE)
        shapes = [type_.shape for type_ in types if isinstance(type_, TensorType)]
        shapes += [
            (step.trips,) for step in steps if step.trips is not None and not step.counted
        ]
        unknown = dimensions(shape) - {n for known in shapes for n in dimensions(known)}
        if unknown:
            raise ProgramError(
                f"cannot patch `{self.path}`: the size `{min(unknown)}` is known only in the "
                "run.",
                at=self.at,
                given=f"{self.name}: {self.type}",
                fix="Pass a number or an array of size 1 along this axis, or a function.",
            )
