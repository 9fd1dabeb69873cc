"""The public `Program`: building, inspection, text and file formats, copies and analyses."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from braces.builder import builder
from braces.builder.checked_calls import checked_call
from braces.builder.var import Var, main_var
from braces.errors import UnknownNameError
from braces.hints.objects import Hinted
from braces.ir import serde
from braces.ir.records import DATA, PARAMETER, ProgramDef
from braces.ir.text import printer
from braces.ir.text.parser import parse_program
from braces.ir.walk import all_bodies
from braces.keywords import hint_methods
from braces.passes.autodiff.common import Named
from braces.passes.core.untrusted_input import complete_and_verify, op_modules, op_versions
from braces.passes.training.freeze import freeze_parameters
from braces.passes.training.inference_mode import for_test, without_other_counts
from braces.program.block import Block
from braces.program.debuggable import Debuggable
from braces.program.editable import Editable
from braces.program.inner_values import InnerValues
from braces.program.page_values import collect_page_values
from braces.program.reports import Reports
from braces.program.variables import Parameters, Variables
from braces.runtime.inputs.fetches import read_fetch
from braces.runtime.pure_function import PureFunction
from braces.scope import Scope
from braces.surgery.handles import Handle, Selection
from braces.surgery.highlight import highlight_marks
from braces.surgery.matches.match_report import RewriteReport
from braces.surgery.matches.rewriting import rewrite
from braces.viewer.dot import program_dot
from braces.viewer.html import program_html


@hint_methods
class Program(Debuggable, InnerValues, Editable, Reports, Hinted):
    """A neural-network program as data.

    Inside `with program:`, operators are appended to it. The blocks nest, and each thread has
    its own. An exception that leaves the `with` block restores the program as it was before.

    Attributes:
        updates: Persistable name to the variable that holds its next value.
        results: The default fetches: the `return` of a program in text form, to which
            `minimize` adds its loss. `braces run` and the `train` of a model fetch them.
        report: The report of the rewriting that returned this program, or `None`.

    Example:
        >>> with Program() as prog:
        ...     pass
        >>> len(prog.blocks)
        1
    """

    report: RewriteReport | None = None
    _internal = (
        *("adopt", "at", "building", "built", "current", "derivations", "derived", "infos"),
        *("like", "lineage", "main_place", "origin", "original", "persistable_infos"),
        *("restore", "snapshot", "source", "table", "transaction", "update_again", "version"),
    )

    # ---- blocks ------------------------------------------------------------------------------

    @property
    def blocks(self) -> list[Block]:
        """All blocks, the main one first, then nested ones in program order."""
        blocks: dict[int, Block] = {}
        for body, parent in all_bodies(self.definition.main):
            blocks[id(body)] = Block(body, blocks[id(parent)] if parent is not None else None)
        return list(blocks.values())

    def block(self, index: int) -> Block:
        """Return the block of this index; 0 is the main one."""
        blocks = self.blocks
        if not -len(blocks) <= index < len(blocks):
            raise UnknownNameError(
                f"block index {index} is out of range for {len(blocks)} blocks.",
                fix="Use an index of `prog.blocks`.",
            )
        return blocks[index]

    def var(self, name: str) -> Var:
        """Return the variable of this name in the main block, as an operand to build with.

        Raises:
            UnknownNameError: If the variable does not exist.

        Example:
            >>> import braces as br
            >>> prog = br.parse("program { data x: f32[3]  y: f32[3] = tanh(x=x) }")
            >>> with prog:
            ...     loss = br.sum(prog.var("y"))
            ...     (grad,) = br.gradients(loss, prog.var("x"))
            >>> grad.type
            f32[3]
        """
        return main_var(self, name)

    @property
    def vars(self) -> Mapping[str, Var]:
        """The variables of the main block by name, as operands to build with.

        Example:
            >>> import braces as br
            >>> prog = br.parse("program { data x: f32[3]  y: f32[3] = tanh(x=x) }")
            >>> prog.vars
            {'x': 'f32[3]', 'y': 'f32[3]'}
            >>> with prog:
            ...     z = prog.vars["x"] * prog.vars["y"]
            >>> z.type
            f32[3]
        """
        return Variables(self)

    @property
    def parameters(self) -> list[Var]:
        """The parameters, trainable or frozen, in order of definition.

        Example:
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     loss = br.mean(br.fc(br.data("x", ["n", 2]), 1, name="out") ** 2)
            ...     loss += 1e-4 * sum(br.sum(w**2) for w in prog.parameters)
            >>> [(w.name, str(w.type), w.trainable) for w in prog.parameters]
            [('out.w', 'f32[2,1]', True), ('out.b', 'f32[1]', True)]
        """
        return Parameters(var for var in self.persistables if var.kind == PARAMETER)

    @property
    def persistables(self) -> list[Var]:
        """All persistable variables, which outlive a run, in order of definition."""
        return [main_var(self, info.name) for info in self.persistable_infos]

    @property
    def feeds(self) -> tuple[str, ...]:
        """Names of the data variables that a run is fed, in the order of declaration."""
        return tuple(name for name, info in self.infos.items() if info.kind == DATA)

    @property
    def fetches(self) -> tuple[str, ...]:
        """Names of the default fetches: those of `results`."""
        return self.definition.main.results

    # ---- text, bytes, files, pictures --------------------------------------------------------

    def __str__(self) -> str:
        return printer.print_program(self.definition)

    def __repr__(self) -> str:
        main = self.definition.main
        return (
            f"<Program: {len(self.blocks)} blocks, {len(main.ops)} ops, {len(main.vars)} vars>"
        )

    def _repr_html_(self) -> str:
        return program_html(self, embed=True)

    def to_html(
        self,
        path: str | os.PathLike[str],
        *,
        scope: Scope | None = None,
        feed: Mapping[str, Any] | None = None,
        loss: Named | None = None,
        highlight: Selection | Handle | None = None,
    ) -> None:
        """Write a self-contained HTML page that shows the nested blocks.

        The page needs no network and no other file. Edges are laid out by elkjs if
        `pip install "braces[pictures]"` has installed it; without it the page shows the blocks
        as nested lists.

        Args:
            path: The file; an existing one is replaced.
            scope: The values of the variables. The page has a histogram of each, with its mean
                and range, and marks numbers that are not finite.
            feed: Data as for `exe.run`. The program runs once, without its updates, and the
                page also has histograms of the gradients by its trainable parameters.
            loss: The value to differentiate; by default the results of the program, which
                include the loss of `minimize`.
            highlight: Operators, variables or blocks of `find`, which the page highlights and
                lists; the blocks around the first 50 are open.

        Raises:
            UnknownNameError: If `highlight` has a handle of a removed operator or variable.
            ProgramError: If `feed` or `loss` is given without `scope`, or the loss is missing.
            BracesError: If the run fails; as for `exe.run`.

        Example:
            >>> import tempfile
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     loss = br.mean(br.fc(br.data("x", ["n", 2]), 1) ** 2)
            ...     pairs = br.optimizer.sgd(0.1).minimize(loss)
            >>> scope = br.Scope()
            >>> _ = br.Executor().init(prog, scope)
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     prog.to_html(folder + "/page.html", scope=scope, feed={"x": [[1.0, 2.0]]})
        """
        values = collect_page_values(self, scope, feed, loss)
        marks = highlight_marks(self.main_place, highlight)
        serde.write_atomically(path, program_html(self, values=values, marks=marks).encode())

    def to_dot(self) -> str:
        """Return the program in Graphviz's DOT language."""
        return program_dot(self)

    def to_bytes(self) -> bytes:
        """Serialize the program and its startup program as one protobuf `ProgramDesc`."""
        startup = self._startup.definition if self._startup else None
        if startup is not None and startup.empty:  # accessed, but never built
            startup = None
        return serde.program_to_bytes(self.definition, startup, op_versions(), op_modules())

    @staticmethod
    def from_bytes(data: bytes) -> Program:
        """Read a program from the bytes of `to_bytes`.

        Raises:
            FileFormatError: If the bytes are not a program, or the format is newer.
            VerifyError: If the program is not well formed.
        """
        main, startup = serde.program_from_bytes(data, op_versions())
        return _build_verified(main, startup)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the program to a file atomically."""
        serde.write_atomically(path, self.to_bytes())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Program:
        """Read a program from a file that `save` wrote.

        Raises:
            FileFormatError: If the file is not a program, or the format is newer.
            VerifyError: If the program is not well formed.
            OSError: If the file does not exist, or it cannot be read.
        """
        return Program.from_bytes(serde.read_bounded(path))

    def for_test(self, values: Any = None) -> Program:
        """Return a copy for inference: no dropout, running statistics, no training updates.

        Only the updates of the random state and of metrics remain.

        Args:
            values: Substitutes for parameters: a mapping from parameters, or their names, to
                variables that depend on parameters and states alone. `br.optimizer.ema` builds
                such. A string is the prefix of their names: `prog.for_test(values="ema")`.

        Raises:
            ProgramError: If a value depends on data, or no variable has this prefix.
            ShapeError: If the type of a value differs from that of its parameter.
            UnknownNameError: If a variable does not exist.

        Example:
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     w = br.parameter("w", [2], init=[1.0, -3.0])
            ...     y = br.data("x", []) * w
            ...     rounded = br.sign(w)
            >>> scope, exe = br.Scope(), br.Executor()
            >>> _ = exe.init(prog, scope)
            >>> exe.run(prog.for_test(values={w: rounded}), scope, {"x": 5.0}, y)
            array([ 5., -5.], dtype=float32)
        """
        return for_test(self, values)

    def frozen(self, *which: Any) -> Program:
        """Return a copy in which some parameters and their optimizer states are not updated.

        Runs of both programs share a scope. To unfreeze the parameters, continue with this
        program. Operators needed only for frozen parameters are pruned. To train few of many
        parameters, select them with `br.prune(prog, [loss, *pairs])`.

        Args:
            *which: Variables, their names, or patterns: `prog.frozen("enc/*")`. Matching
                states, such as running statistics, are frozen too.

        Raises:
            UnknownNameError: If a name or pattern matches no update.

        Example:
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     a, b = br.parameter("enc.w", [], init=1.0), br.parameter("w", [], init=1.0)
            ...     pairs = br.optimizer.momentum(0.1).minimize(a * a + b * b)
            >>> list(prog.frozen("enc.*").updates)
            ['momentum/trace/w', 'w']
        """
        return freeze_parameters(self, which)

    def to_jax(self, fetches: Any = (), *, room: int = 0) -> PureFunction:
        """Return the program as a pure JAX function, for `jax.jit`, `vmap` and `grad`.

        `results, after, status = function(values, feeds)`: the inputs are persistable values
        and feeds by name. The outputs are the results in the order of the fetches, the next
        values of the updated variables, and a status. `function.check(status)` raises the
        error of a failed check, such as an index out of range.

        The function computes what `exe.run` computes, with dropout. For inference write
        `prog.for_test().to_jax(…)`.

        JAX differentiates the function, with the gradients of `br.custom_gradient`, unless it
        has a loop of data-dependent trip count. Gradients within the program, `br.gradients`,
        support those loops too.

        Args:
            fetches: Variables, their names, or paths of inner variables as for `exe.run`; by
                default the results of the program.
            room: The capacity in iterations of the stacks of `While` loops, such as those of
                their residuals.

        Raises:
            ProgramError: If sizes are data-dependent, or the loops require a capacity.
            UnknownNameError: If a variable does not exist.

        Example:
            >>> import jax, numpy as np, braces as br
            >>> with br.Program() as prog:
            ...     y = br.sum(br.data("x", [3]) * br.parameter("w", [3]))
            >>> function = prog.to_jax(fetches=[y])
            >>> loss = lambda w, x: function({"w": w}, {"x": x})[0][0]
            >>> jax.jit(jax.grad(loss))(np.ones(3, "f"), np.arange(3, dtype="f")).tolist()
            [0.0, 1.0, 2.0]
        """
        names = read_fetch(fetches, self)[0] or self.fetches
        return PureFunction(without_other_counts(self.definition, names), names, room)

    @checked_call
    def rewrite(self, before: Any, after: Any = None, *, exact: bool = False) -> Program:
        """Return a new program, with a replacement wherever a pattern matches.

        Patterns are searched for in all blocks. A replacement has the names of the outputs that
        it replaces, so fetches and results stay. Layers in it have their own parameters, with
        initial values, updates and random draws: run `exe.init(new, scope, missing_only=True)`.
        `new.report` has the matches, and the near misses with their reasons. Where a place has
        been differentiated, the recorded calls of `gradients`, `jvp` and `minimize` are
        repeated on the rewritten program; names of derivatives, states and updates stay.

        Args:
            before: The pattern, a function of variables; see `br.pattern`. Without `after`, a
                rule: a function of an operator and its place. It returns the operator itself, a
                variable for each of its outputs, or a replacement as in a pass.
            after: The replacement: a function of the variables that match. It returns as many
                variables as the pattern, of the same types. Keyword-only parameters receive
                `match` and the attributes of the pattern.
            exact: Whether the replacement computes the same values. Derivatives then stay as
                they are, and the program is rewritten in place.

        Raises:
            ProgramError: If the pattern can never match, or a place has been differentiated
                and the call is not recorded, or it has a user-written gradient.
            ShapeError, DTypeError: If the type of a replacement differs.

        Example:
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     x = br.data("x", ["n", 4])
            ...     y = br.multiply(br.sigmoid(x), x, name="act")
            >>> new = prog.rewrite(lambda x: x * br.sigmoid(x), br.silu)
            >>> [(op.type, op.name) for op in new.block(0).ops]
            [('silu', 'act')]
        """
        return rewrite(self, before, after, exact=exact)


def default_program() -> Program:
    """Return the current program: that of the innermost `with`, else the one of the thread.

    Outside any `with`, data, parameters and constants are added to the program of the thread.
    Operators are added to the program of their variables; an operator without variables is
    refused there.
    """
    program = builder.current_program()
    assert isinstance(program, Program)
    return program


def parse(source: str) -> Program:
    """Read a program from its text form; the inverse of `str`.

    Raises:
        ParseError: If the text is not a program; the message shows line, column, and a caret.
        VerifyError: If the program is not well formed.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     y = br.tanh(br.data("x", ["n"]))
        >>> br.fingerprint(br.parse(str(prog))) == br.fingerprint(prog)
        True
    """
    return _build_verified(parse_program(source), None)


def _build_verified(main: ProgramDef, startup: ProgramDef | None) -> Program:
    """Build a program from untrusted input: verify it, and fill in omitted attributes."""
    main, startup = complete_and_verify(main, startup)
    program = Program(main)
    if startup is not None:
        program.startup = Program(startup)
    return program


builder.new_default = Program
