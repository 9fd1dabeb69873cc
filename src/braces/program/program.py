"""The program that users hold: being built, and all that it does itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from braces import hints
from braces.builder import builder as building
from braces.builder.builder import Builder
from braces.builder.var import Var, main_var
from braces.errors import UnknownNameError
from braces.ir import serde
from braces.ir.records import DATA, PARAMETER, ProgramDef
from braces.ir.text import printer as text
from braces.ir.text.parser import parse_program
from braces.ir.walk import all_bodies
from braces.passes.analysis.flops import cost
from braces.passes.analysis.report import explain
from braces.passes.autodiff.common import Named
from braces.passes.core.untrusted_input import admit, op_modules, op_versions
from braces.passes.training.freeze import frozen
from braces.passes.training.inference_mode import for_test, without_other_counts
from braces.program.block import Block
from braces.program.page_values import shown_values
from braces.program.variables import Variables
from braces.runtime.pure_function import PureFunction
from braces.scope import Scope
from braces.viewer.dot import program_dot
from braces.viewer.html import program_html


class Program(Builder, hints.Hinted):
    """A neural-network program as data.

    Inside `with program:`, building goes to it; the blocks nest, and threads do not mix. Where
    an exception leaves the `with` block, the program is as it was before.

    Attributes:
        updates: Persistable name to the variable that holds its next value.
        results: What the program gives where no fetch is named, as a program written by hand
            returns it and `minimize` adds its loss; `braces run` fetches it, and so does the
            `train` of a model.

    Example:
        >>> with Program() as prog:
        ...     pass
        >>> len(prog.blocks)
        1
    """

    # ---- blocks ------------------------------------------------------------------------------

    @property
    def blocks(self) -> list[Block]:
        """All blocks, the main one first, then nested ones in program order."""
        made: dict[int, Block] = {}
        for body, parent in all_bodies(self.definition.main):
            made[id(body)] = Block(body, made[id(parent)] if parent is not None else None)
        return list(made.values())

    def block(self, index: int) -> Block:
        """The block of this index; 0 is the main one."""
        blocks = self.blocks
        if not -len(blocks) <= index < len(blocks):
            raise UnknownNameError(
                f"There is no block {index}.", fix=f"This program has {len(blocks)} blocks."
            )
        return blocks[index]

    def var(self, name: str) -> Var:
        """The variable of this name in the main block, to build on with.

        Raises:
            UnknownNameError: There is none.

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
        """The variables of the main block by name, to build on with.

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
        """The parameters, trainable or frozen, in order of definition, to build on with.

        Example:
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     loss = br.mean(br.fc(br.data("x", ["n", 2]), 1, name="out") ** 2)
            ...     loss += 1e-4 * sum(br.sum(w**2) for w in prog.parameters)
            >>> [(w.name, str(w.type), w.trainable) for w in prog.parameters]
            [('out.w', 'f32[2,1]', True), ('out.b', 'f32[1]', True)]
        """
        return [var for var in self.persistables if var.kind == PARAMETER]

    @property
    def persistables(self) -> list[Var]:
        """All variables that outlive a run, in order of definition, to build on with."""
        return [main_var(self, info.name) for info in self.persistable_infos]

    @property
    def feeds(self) -> tuple[str, ...]:
        """What a run is fed, by name, in the order of declaration."""
        return tuple(name for name, info in self.infos.items() if info.kind == DATA)

    @property
    def fetches(self) -> tuple[str, ...]:
        """What a run gives where no fetch is named: the names of `results`."""
        return self.definition.main.results

    # ---- text, bytes, files, pictures --------------------------------------------------------

    def __str__(self) -> str:
        return text.print_program(self.definition)

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
    ) -> None:
        """Write one page that shows the nested blocks; it needs no network and no other file.

        Edges are laid out by elkjs, where `pip install "braces[pictures]"` has brought it;
        without it the page shows the blocks as nested lists.

        Args:
            path: The file; what was there before is replaced.
            scope: Where the variables have their values; the page has a histogram of each,
                with its mean and range, and says where numbers are not finite.
            feed: Data as for `exe.run`. The program runs once, without its updates, and the
                page has histograms of the gradients by its trainable parameters, too.
            loss: What the gradients are of; what the program gives unless said, which is the
                loss of `minimize`.

        Raises:
            ProgramError: There is a feed but no scope, or nothing to take gradients of.
            BracesError: The run failed, as of `exe.run`.

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
        values = shown_values(self, scope, feed, loss)
        serde.write_atomically(path, program_html(self, values=values).encode())

    def to_dot(self) -> str:
        """The program in Graphviz's DOT language."""
        return program_dot(self)

    def to_bytes(self) -> bytes:
        """The program, its startup program included, as one protobuf `ProgramDesc`."""
        startup = self._startup.definition if self._startup else None
        if startup is not None and startup.empty:  # nothing but looked at
            startup = None
        return serde.program_to_bytes(self.definition, startup, op_versions(), op_modules())

    @staticmethod
    def from_bytes(data: bytes) -> Program:
        """Read what `to_bytes` wrote.

        Raises:
            FileFormatError: The bytes are not a program, or one of a newer format.
            VerifyError: The program is not well formed.
        """
        main, startup = serde.program_from_bytes(data, op_versions())
        return _admitted(main, startup)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the program to a file, at once or not at all."""
        serde.write_atomically(path, self.to_bytes())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Program:
        """Read a program from a file that `save` wrote.

        Raises:
            FileFormatError: The file is not a program, or one of a newer format.
            VerifyError: The program is not well formed.
            OSError: There is no such file, or it must not be read.
        """
        return Program.from_bytes(serde.read_bounded(path))

    def for_test(self, values: Any = None) -> Program:
        """A copy for inference: no dropout, running statistics, no updates but of draws.

        Args:
            values: What is read in the place of parameters: each, or its name, to a variable
                that follows from parameters and states alone. `br.optimizer.ema` gives such;
                a text is the first part of their names: `prog.for_test(values="ema")`.

        Raises:
            ProgramError: A value follows from data, or nothing is called so.
            ShapeError: A value has another type than its parameter.
            UnknownNameError: There is no such variable.

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
        """A copy in which some parameters do not move, nor what their optimizers keep.

        Runs of both share a scope, so this program goes on where the copy ended: that is how
        parameters are unfrozen. What only a frozen parameter needs is not computed. To move few
        of many, `br.prune(prog, [loss, *pairs])` says which.

        Args:
            *which: Variables, their names, or patterns: `prog.frozen("enc/*")`. What matches
                and is a state, as a running statistic, does not move either.

        Raises:
            UnknownNameError: What is named does not move.

        Example:
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     a, b = br.parameter("enc.w", [], init=1.0), br.parameter("w", [], init=1.0)
            ...     pairs = br.optimizer.momentum(0.1).minimize(a * a + b * b)
            >>> list(prog.frozen("enc.*").updates)
            ['momentum/trace/w', 'w']
        """
        return frozen(self, which)

    def to_jax(self, fetches: Any = (), *, room: int = 0) -> PureFunction:
        """The program as a function of JAX without effects, for `jax.jit`, `vmap` and `grad`.

        `results, after, status = function(values, feeds)`: persistable values and feeds by
        name go in; results in the order of the fetches, and the next values of what the program
        updates, come out. `function.check(status)` raises what went wrong, as an index out of
        range. JAX differentiates it but where a loop's trips only a run knows, and uses the
        gradients that `br.custom_gradient` wrote; gradients of ours in the program,
        `br.gradients`, are there for those loops too.

        Args:
            fetches: Variables or their names; what the program gives where none are said.
            room: For how many trips there is room, where the program keeps what a loop with a
                condition computes, as its gradient does.

        Raises:
            ProgramError: Sizes follow from values, or the loops need room.
            UnknownNameError: There is no such variable.

        Example:
            >>> import jax, numpy as np, braces as br
            >>> with br.Program() as prog:
            ...     y = br.sum(br.data("x", [3]) * br.parameter("w", [3]))
            >>> function = prog.to_jax(fetches=[y])
            >>> loss = lambda w, x: function({"w": w}, {"x": x})[0][0]
            >>> jax.jit(jax.grad(loss))(np.ones(3, "f"), np.arange(3, dtype="f")).tolist()
            [0.0, 1.0, 2.0]
        """
        names = [given if isinstance(given, str) else given.name for given in fetches]
        names = names or self.fetches
        return PureFunction(without_other_counts(self.definition, names), names, room)

    def explain(self, fetch: Any = (), **options: Any) -> Any:
        """What each pass does to each block and each loop, or why it leaves it alone.

        Args:
            fetch: What is fetched, as variables or names; what the program gives where nothing
                is, and where it gives and updates nothing, whatever no operator reads.
            options: `passes=`, a tuple as `br.Executor` takes it; `br.passes.default` where it
                is left out. `sizes=`, numbers in place of symbols, as for `cost`.

        Returns:
            A value with one step for each pass, what operations and bytes each loop takes
            before and after it, and how many bytes are alive at once in the program, counted as
            by `cost`; `print` shows it.

        Raises:
            UnknownNameError: A fetch does not exist, or no size is called so.
            ProgramError: `passes` are no passes.

        Example:
            >>> import braces as br
            >>> prog = br.parse('''program {
            ...   data x: f32[3]  y: f32[3] = tanh(x=x)  z: f32[3] = exp(x=x)  return y }''')
            >>> print(prog.explain(passes=(br.passes.dce,)))
            eliminate: Eliminate operators that no result or update needs.
              block 0: 1 removed (z)
              in all
                operations: 6 FLOP → 3 FLOP
                bytes: 48 B → 24 B
                peak: 36 B → 24 B
            all passes
              operations: 6 FLOP → 3 FLOP
              bytes: 48 B → 24 B
              peak: 36 B → 24 B
        """
        return explain(self, fetch, **options)

    def cost(self, fetch: Any = (), **options: Any) -> Any:
        """How many operations a run takes (FLOPs), and how many bytes it moves.

        Counted from the types, without running anything: a sum, a product, a comparison or a
        function of numbers is one operation, so a multiply-add is two. A matrix product
        `[m, k] @ [k, n]` takes `2 m k n`, what works element by element one for each number, a
        softmax five for each, a copy none. Bytes are those of all that operators read and
        bind, as if each were computed by itself; compiled code keeps some of that in
        registers. A loop takes its trips times a trip; a branch the case that takes most.

        The peak is how many bytes are alive at once, values of the scope and feeds among them,
        estimated as if operators ran in their order: compiled code takes between half and twice
        as much.

        Sizes that are not known stay symbols, and so do trips that only a run knows:
        `loop_0.trips`.

        Args:
            fetch: What is fetched, as for `explain`; only what it and the updates need counts.
            options: `sizes=`, numbers in place of symbols. `passes=`, what is made of the
                program before: `br.passes.default` as compiled runs do, `()` to count all
                that is written; by default `(br.passes.dce,)`.

        Returns:
            A value with `operations`, `bytes`, `peak_bytes`, `total`, `by_type`, and `ops`,
            where each operator is by its path; `print` shows it.

        Raises:
            UnknownNameError: A fetch does not exist, or no size is called so.
            ShapeError: A size is no number; or the result depends on more than a text holds.
            ProgramError: `passes` are no passes.

        Example:
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     y = br.tanh(br.fc(br.data("x", ["batch", 784]), 10))
            >>> print(prog.cost())
            operations  15.7 kFLOP·batch
            read        3.2 kB·batch + 31.4 kB
            written     120 B·batch
            peak        3.2 kB·batch + 31.4 kB
              1  matmul  15.7 kFLOP·batch  3.2 kB·batch + 31.4 kB
              1  add     10 FLOP·batch     80 B·batch + 40 B
              1  tanh    10 FLOP·batch     80 B·batch
            >>> prog.cost().operations
            15700*batch
            >>> prog.cost(sizes={"batch": 32}).operations
            502400
        """
        return cost(self, fetch, **options)


def default_program() -> Program:
    """The program that building goes to: the innermost `with`, else one per thread.

    Outside of all, data, parameters and constants go to the one of the thread, and operators to
    the program of their variables; an operator that is given no variable is refused there.
    """
    program = building.current_program()
    assert isinstance(program, Program)
    return program


def parse(source: str) -> Program:
    """Read a program from its text form; the inverse of `str`.

    Raises:
        ParseError: The text is not a program; the message shows line, column, and a caret.
        VerifyError: The program is not well formed.
    """
    return _admitted(parse_program(source), None)


def _admitted(main: ProgramDef, startup: ProgramDef | None) -> Program:
    """A program from outside, verified, with attributes that were left out filled in."""
    main, startup = admit(main, startup)
    program = Program(main)
    if startup is not None:
        program.startup = Program(startup)
    return program


building.new_default = Program
