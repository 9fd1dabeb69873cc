"""Methods of programs that report layers, costs and the effects of passes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from braces.builder.builder import Builder
from braces.builder.checked_calls import checked_call
from braces.keywords import hint_methods
from braces.passes.analysis.flops import cost
from braces.passes.analysis.report import explain
from braces.viewer.summary import DEPTH, ProgramSummary, summary


@hint_methods
class Reports(Builder):
    """A program with reports of its layers, its costs and the passes."""

    @checked_call
    def summary(
        self, *, sizes: Mapping[str, int] | None = None, depth: int | None = DEPTH
    ) -> ProgramSummary:
        """Return a table of the layers: output types, parameters, bytes and operations.

        The rows are the operators of the forward part in program order. Operators that read the
        parameters of one layer form one row. A block, loop or branch has a row with the sums of
        its operators, and a loop states its trip count. A shared parameter counts at its first
        use. Gradients and optimizers are in the totals only.

        Args:
            sizes: Numbers in place of symbols, as for `cost`.
            depth: The number of nested blocks whose operators have rows of their own; `None`
                for all.

        Returns:
            A value that prints as a table and is a table in notebooks. It has `rows`,
            `parameters`, `trainable`, `frozen`, `bytes`, `state_bytes`, `operations`,
            `run_operations` and `peak_bytes`.

        Raises:
            UnknownNameError: If no size has this name.
            ShapeError: If a size is not a number.
            ProgramError: If `depth` is not a nonnegative integer.

        Example:
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     h = br.relu(br.fc(br.data("x", ["n", 784]), 32, name="hidden"))
            ...     y = br.fc(h, 10, name="out")
            >>> prog.summary(sizes={"n": 64})
            layer   type          output      parameters     bytes  operations
            hidden  matmul + add  f32[64,32]      25,120  100.5 kB   3.2 MFLOP
            relu_0  relu          f32[64,32]                         2.0 kFLOP
            out     matmul + add  f32[64,10]         330    1.3 kB  41.6 kFLOP
            <BLANKLINE>
            total
            parameters   25,450 (101.8 kB)
              trainable  25,450
              frozen     0
            operations   3.3 MFLOP
            peak memory  318.9 kB
            >>> prog.summary().parameters
            25450
        """
        return summary(self, sizes=sizes, depth=depth)

    def explain(self, fetch: Any = (), **options: Any) -> Any:
        """Report the changes of each pass, and the missed optimizations with their reasons.

        Args:
            fetch: The fetches, as variables or names; by default the results of the program. If
                it has neither results nor updates, the values that no operator reads.
            options: `passes=`, a tuple of passes as for `br.Executor`; by default
                `br.passes.default`. `sizes=`, numbers in place of symbols, as for `cost`.
                `all=True`, to print also passes without effect and unchanged loops.

        Returns:
            A report with one step for each pass: its changes, its notes with the line of the
            program, operations and bytes of each loop before and after it, and the peak of live
            bytes of the program, counted as by `cost`. `print` shows it.

        Raises:
            UnknownNameError: If a fetch or a size does not exist.
            ProgramError: If `passes` are not passes.

        Example:
            >>> import braces as br
            >>> prog = br.parse('''program {
            ...   data x: f32[3]  y: f32[3] = tanh(x=x)  z: f32[3] = exp(x=x)  return y }''')
            >>> print(prog.explain(passes=(br.passes.dce,)))
            dce: Eliminate operators that no result or update needs.
              block 0: 1 removed (z)
              z: removed: no result or update needs it
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
        """Estimate the operations (FLOPs), the memory traffic and the peak memory of a run.

        Nothing is run: the counts follow from the types.

        - Operations: a sum, a product, a comparison or a scalar function is one operation, so
          a multiply-add is two. A matrix product `[m, k] @ [k, n]` takes `2 m k n`. An
          elementwise operator takes one per element, a softmax five, a copy none.
        - Bytes: all inputs and outputs of the operators, as if each ran alone. Fused compiled
          code keeps some of them in registers.
        - Control flow: a loop costs its trip count times one iteration, a branch its most
          expensive case.
        - Peak: the maximum of live bytes, including scope values and feeds, if operators run in
          program order. Compiled code takes between half and twice as much.

        Unknown sizes stay symbols, and so do data-dependent trip counts: `loop_0.trips`.

        Args:
            fetch: The fetches, as for `explain`; only operators that they and the updates need
                count.
            options: `sizes=`, numbers in place of symbols. `passes=`, the passes that run
                before counting: `br.passes.default` as compiled runs do, `()` to count the
                program as written; by default `(br.passes.dce,)`.

        Returns:
            A report with `operations`, `bytes`, `peak_bytes`, `total`, `by_type`, and `ops`,
            which maps the path of each operator to its cost; `print` shows it.

        Raises:
            UnknownNameError: If a fetch does not exist, or no size has this name.
            ShapeError: If a size is not a number, or the result depends on more sizes than a
                text can represent.
            ProgramError: If `passes` are not passes.

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
