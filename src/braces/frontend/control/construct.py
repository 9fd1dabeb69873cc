"""Base classes of all `with` constructs: transactional sub-blocks, loop blocks, memories."""

from __future__ import annotations

from typing import Any, Self, cast

from braces.builder.append import as_var
from braces.builder.builder import Builder, current_program
from braces.builder.source_line import user_source, with_user_line
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, expose, var_of
from braces.dims import Dim
from braces.dtypes import DType, ListType, Type, unifies
from braces.errors import BracesError, DTypeError, ProgramError, ShapeError
from braces.hints.objects import Hinted
from braces.ir.limits import check_depth
from braces.keywords import hint_keywords
from braces.notebook import Offering
from braces.ops.common.rules import promote
from braces.ops.control.construct.build import LoopCarry
from braces.ops.lists.stack import INDEX_TYPE
from braces.passes.cleanup.loop_invariant_code_motion import move_before
from braces.report import count_text

MAX_DELAY = 1000
"""The largest delay `n` of `Memory.pre(n)`, in iterations."""


class SubBlock(Offering, Hinted):
    """A block between `with` and its end; an exception leaves the program as it was.

    Attributes:
        program: The program that is built.
        outer: The enclosing block.
        table: The block itself.
    """

    def __repr__(self) -> str:
        count = count_text(len(self.table.ops), "operator")
        return f"<{type(self).__name__}: {count}>"

    def __init__(self, what: str) -> None:
        self.what = what
        self.program: Builder = current_program()
        self.outer: SymbolTable = self.program.current
        self.table = SymbolTable(parent=self.outer)
        try:
            check_depth(sum(1 for _ in self.outer.chain()), ProgramError)
        except ProgramError as problem:
            raise add_location(problem, what) from None
        self.outputs: list[Var] = []
        self.open = False
        self._building: Any = None
        self._snapshot: Any = None

    def __enter__(self) -> Self:
        snapshot = self.program.snapshot()
        self.begin()
        self._snapshot = snapshot
        self._building = self.program.building(self.table)
        self._building.__enter__()
        self.open = True
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._building.__exit__(None, None, None)
        self.open = False
        snapshot, self._snapshot = self._snapshot, None
        if error is not None:
            self.program.restore(snapshot)
            return
        try:
            self.outputs = [expose(var) for var in self.outputs]
            self.close()
        except BracesError as problem:
            self.program.restore(snapshot)
            raise add_location(problem, self.what) from problem.__cause__

    def begin(self) -> None:
        """Prepare the block at the beginning of the `with`."""

    def close(self) -> None:
        """Finish the block at the end of the `with`."""

    def require_open(self, action: str) -> None:
        """Refuse a call from outside this block; plain blocks nested in it are inside."""
        table = self.program.current
        while table is not self.table and table.block and table.parent is not None:
            table = table.parent
        if not self.open or table is not self.table:
            raise add_location(
                ProgramError(
                    f"{action} must be called in the block of this {self.what}.",
                    fix=f"Call it in the `with` of this {self.what}, not in an inner block.",
                ),
                self.what,
            )

    def local(self, name: str) -> Var:
        """Return the handle of a variable of this block."""
        return var_of(self.program, self.table, name)

    def param(self, stem: str, type_: Type) -> Var:
        """Add a parameter that the construct binds before each run of the block."""
        return self.local(self.table.add_param(self.table.names.unique(stem), type_).name)

    def new_dim(self, stem: str) -> Dim:
        """Make a dimension whose name no visible dimension has."""
        return new_dim(self.table, stem)

    @with_user_line
    def add_output(self, *values: Any, **options: Any) -> None:
        """Append values to the outputs of the block."""
        self.require_open("add_output")
        if options:
            raise ProgramError(f"add_output has no option {', '.join(options)} here.")
        self.outputs.extend(as_var(value) for value in values)


def new_dim(table: SymbolTable, stem: str) -> Dim:
    """Make a dimension whose name no dimension visible in the block has."""
    types = [info.type for scope in table.chain() for info in scope.vars.values()]
    shapes = (t.element.shape if isinstance(t, ListType) else t.shape for t in types)
    used_dims = {size for shape in shapes for size in shape if isinstance(size, Dim)}
    while (dim := Dim.named(table.names.unique_word(stem))) in used_dims:
        pass
    return dim


def add_location(error: BracesError, what: str) -> BracesError:
    """Add the user's source line to an error."""
    source = user_source()
    error.located(what + (f", at {source}" if source else ""))
    return error


def outer_var(block: SubBlock, value: Any, action: str) -> Var:
    """Convert an operand of a construct, which must come from outside its block."""
    with block.program.building(block.outer):
        var = as_var(value)
    if var.program is not block.program:
        raise add_location(
            ProgramError(
                f"`{var.name}` belongs to another program.",
                fix="Use variables of one program.",
            ),
            block.what,
        )
    if var.table is block.table and move_before(block.table, var.name):
        return var
    if var.table not in block.outer.chain():
        raise add_location(
            ProgramError(
                f"{action}: expected a variable from outside the block, got `{var.name}`.",
                fix="Compute it before the `with`.",
            ),
            block.what,
        )
    return var


def _rebinding(symbol: str, method: str) -> Any:
    """Return an in-place operator, which notes that it assigns another variable to the name."""

    def in_place(self: Memory, other: Any) -> Any:
        result = getattr(Var, method)(self, other)
        self.rebound = f"`{symbol}` at {user_source()}"
        return result

    return in_place


class Memory(Var):
    """A carry of a loop: state that is passed from one iteration to the next.

    A memory can be used like a variable. `pre(n)` is its value n iterations ago. `update` sets
    its value of this iteration, exactly once, and `next` is that value. Before its update a
    bare memory means `pre(1)`. After its update a bare memory is ambiguous and refused.

    Example:
        >>> import braces as br
        >>> def counter(body: br.WhileBlock) -> br.Memory:
        ...     count = body.add_memory(init=br.constant(0))
        ...     count.update(count + 1)
        ...     return count
        >>> with br.Program():
        ...     loop = br.create_while()
        ...     with loop.block() as body:
        ...         count = counter(body)
        ...         body.set_condition(count.pre(1) < 3)
        ...     count
        <Memory memory_0: i64[]>
    """

    __slots__ = ("_next", "block", "inits", "position", "rebound", "shifts", "source")

    __iadd__ = _rebinding("+=", "__add__")
    __isub__ = _rebinding("-=", "__sub__")
    __imul__ = _rebinding("*=", "__mul__")
    __itruediv__ = _rebinding("/=", "__truediv__")
    __imatmul__ = _rebinding("@=", "__matmul__")
    __iand__ = _rebinding("&=", "__and__")
    __ior__ = _rebinding("|=", "__or__")

    def __dir__(self) -> list[str]:
        inner = {"block", "inits", "position", "rebound", "shifts", "source", "updated"}
        return [name for name in super().__dir__() if name not in inner]

    @hint_keywords
    def __init__(self, block: LoopBlock, var: Var, inits: tuple[Var, ...]) -> None:
        super().__init__(var.program, var.table, var.name)
        self.block = block
        self.inits = inits
        self._next: Var | None = None
        self.shifts: list[Var] = []
        self.position = 0
        self.rebound, self.source = "", user_source()

    @with_user_line
    def pre(self, n: int = 1) -> Var:
        """Return the value of `n` iterations ago; the initial value before the first one.

        Args:
            n: At least 1. Each further iteration is one more carry, so the limit is 1,000.
        """
        if not 1 <= n <= MAX_DELAY:
            what = f"pre({n!r}) is out of range; expected 1 to {MAX_DELAY}."
            fix = "Pass the value of this step to update; pre reads earlier steps."
            raise add_location(ProgramError(what, fix=fix), self.block.what)
        self.block.require_open("pre")
        while len(self.shifts) < n - 1:
            self.shifts.append(self.block.shift(self))
        return self.block.local(self.name) if n == 1 else self.shifts[n - 2]

    @property
    def next(self) -> Var:
        """The value of this iteration, set by `update`.

        Raises:
            ProgramError: If the value is not set yet.
        """
        if self._next is None:
            raise add_location(
                ProgramError(
                    f"memory `{self.name}` has no next value before its update.",
                    fix="Read next after update(...); pre(1) is the previous value.",
                ),
                self.block.what,
            )
        return self._next

    @property
    def updated(self) -> bool:
        """True once `update` was called."""
        return self._next is not None

    def read(self) -> Var:
        """Return the variable that a bare memory means: `pre(1)`.

        Raises:
            ProgramError: If the memory is already updated, so that a read is ambiguous.
        """
        if self.updated and self.block.open:
            raise add_location(
                ProgramError(
                    f"memory `{self.name}` is read after its update, which is ambiguous: the "
                    "old value or the new one.",
                    given=f"{self.name}: {self.type}",
                    fix="Let `h` be the result of add_memory: write h.pre(1) for the value "
                    "before the update, h.next for the value after it.",
                ),
                self.block.what,
            )
        return self.block.local(self.name)

    @with_user_line
    def update(self, value: Any) -> None:
        """Set the value of this iteration.

        Raises:
            ProgramError: If the value is already set.
            ShapeError: If the shape of the value differs from that of the initial value.
            DTypeError: If the dtype differs.
        """
        self.block.require_open("update")
        if self.updated:
            raise add_location(
                ProgramError(
                    f"memory `{self.name}` is updated twice.",
                    fix="Compute one value, with br.where or a branch, and update once.",
                ),
                self.block.what,
            )
        new = as_var(value, literal_dtype(self.type))
        if not types_agree(self.block, self.type, new.type):
            error = carry_mismatch(
                f"type mismatch in the update of memory `{self.name}`.",
                self.type,
                new.type,
                "update",
            )
            raise add_location(error, self.block.what)
        self._next = new
        self.table.journal.note(self._forget)

    def _forget(self) -> None:
        """Undo the update when the transaction is rolled back."""
        self._next = None


def carry_mismatch(problem: str, init: Type, new: Type, giver: str) -> BracesError:
    """Return the error of a memory or carry whose next value has another type.

    Args:
        problem: One sentence that states the problem.
        init: The type of the initial value.
        new: The type of the next value.
        giver: The name of the next value.
    """
    types = f"init: {init}   {giver}: {new}"
    if isinstance(init, ListType) or isinstance(new, ListType):
        fix = "Keep the type of the initial value in each iteration."
        return ShapeError(problem, given=types, fix=fix)
    if init.dtype == new.dtype:
        fix = "Keep the shape of the initial value in each iteration; use br.reshape."
        return ShapeError(problem, given=types, fix=fix)
    return DTypeError(problem, given=types, fix=_dtype_fix(init.dtype, new.dtype))


def _dtype_fix(before: DType, after: DType) -> str:
    """Return the advice for two dtypes: first the conversion that loses nothing."""
    common = _common_dtype(before, after)
    if common == before:
        return f"Cast the next value: br.cast(value, {before.name!r})."
    both = "" if common == after else ", and the next value too"
    return (
        f"Cast the initial value: br.cast(init, {common.name!r}){both}. A cast of the next "
        f"value to {before.name} would lose precision or range."
    )


def _common_dtype(before: DType, after: DType) -> DType:
    """Return the promoted dtype; the second one if there is none."""
    try:
        return promote(before, after)
    except DTypeError:
        return after


def literal_dtype(type_: Type) -> DType | None:
    """Return the dtype that numbers take in expressions with a variable; `None` for a list."""
    return None if isinstance(type_, ListType) else type_.dtype


def types_agree(block: SubBlock, left: Any, right: Any) -> bool:
    """Return whether two types are equal after unifying unnamed dimensions."""
    return unifies(left, right, block.table.unifier)


class LoopBlock(SubBlock):
    """The body of a loop: a sub-block with memories and an iteration index."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.memories: list[Memory] = []
        self.step: Var = self.param("step", INDEX_TYPE)
        self.table.trip_index = self.step.name

    @with_user_line
    def add_memory(self, init: Any) -> Memory:
        """Add a carry: state that is passed from one iteration to the next.

        A bare memory `h` means `h.pre(1)` until its update. From the update on a bare `h` is an
        error: write `h.pre(1)` for the old value, `h.next` for the new one.

        Args:
            init: The value before the first iteration; a tuple `(t-1, t-2, …)` for `pre(n)`.
        """
        self.require_open("add_memory")
        initial = cast("tuple[Any, ...]", init) if isinstance(init, tuple) else (init,)
        inits = tuple(outer_var(self, value, "add_memory(init=)") for value in initial)
        for other in inits[1:]:
            if not types_agree(self, inits[0].type, other.type):
                raise add_location(
                    ShapeError(
                        "the initial values of one memory have different types.",
                        given=f"{inits[0].type} and {other.type}",
                    ),
                    self.what,
                )
        memory = Memory(self, self.param("memory", inits[0].type), inits)
        self.memories.append(memory)
        return memory

    def shift(self, memory: Memory) -> Var:
        """Add a carry for one more delay of a memory."""
        return self.param("past", memory.type)

    def carried(self) -> list[LoopCarry]:
        """Return the carries of all memories, delays included.

        Raises:
            ProgramError: If a memory is not updated.
        """
        carries: list[LoopCarry] = []
        for memory in self.memories:
            if not memory.updated:
                raise _without_update(memory)
            memory.position = len(carries)
            chain = [memory, *memory.shifts]
            after = expose(memory.next).name
            for depth, var in enumerate(chain):
                init = memory.inits[min(depth, len(memory.inits) - 1)]
                later = after if depth == 0 else chain[depth - 1].name
                carries.append(LoopCarry(init, var.name, later))
        return carries


def _without_update(memory: Memory) -> ProgramError:
    """Return the error of a memory that is never updated."""
    what, fix = f"memory `{memory.name}` is never updated", "update(memory) keeps the value."
    if memory.rebound:
        what += f": {memory.rebound} assigns a new variable to the Python name"
        fix = "in-place operators do not update: in place of `h += x` write `h.update(h + x)`."
    origin = f", of add_memory at {memory.source}" if memory.source else ""
    return ProgramError(
        f"{what}.",
        given=f"{memory.name}: {memory.type}{origin}",
        fix=f"Call update(...) once in the block; {fix}",
    )
