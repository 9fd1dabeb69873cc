"""Methods of programs that reach variables of inner blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from braces.builder.builder import Builder
from braces.builder.checked_calls import checked_methods, checked_name, checked_path
from braces.ir.paths import current_path
from braces.passes.autodiff.common import Named
from braces.passes.probing.probe import Probe, probe
from braces.runtime.patched_programs import Patched, patch_program
from braces.surgery.handles import Handle


@checked_methods
class InnerValues(Builder):
    """A program whose variables of inner blocks can be given out."""

    def probe(self, path: str | Handle, *, gradient: Named | None = None) -> Probe[Self]:
        """Return a program in which a variable of an inner block is one of the main block.

        `exe.run(prog, scope, feed, fetch=path)` fetches the same value. A probe also has the
        mask of a branch, and its value can be an operand of further operators.

        Args:
            path: The path of the variable, as `loop_0/body/h`, or its handle. Errors and the
                HTML page show paths. For an operator with one output, its path.
            gradient: A loss in the main block, whose gradient by the values is built, too; see
                `br.grad_of`.

        Returns:
            The program, with `value`, the values of all iterations; `ran`, the mask of its
            leading axes that is true where the block of the variable ran; `trips`, the trip
            counts of data-dependent loops in other loops; and `gradient`, of the shape of
            `value`.

        Raises:
            UnknownNameError: If the variable does not exist.
            ProgramError: If the variable is a list, or in a condition or a custom gradient, or
                has no batch axis in a row-wise branch; or if its loop is data-dependent and in
                a branch.

        Example:
            >>> import numpy as np
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     x, lengths = br.data("x", ["n", "t"]), br.data("lengths", ["n"], "int32")
            ...     rnn = br.create_rnn(lengths=lengths)
            ...     with rnn.stepnet() as step:
            ...         row = step.add_input(x, axis=1)
            ...         h = step.add_memory(shape=[], batch_like=x)
            ...         h.update(br.add(h.pre(1), row, name="total"))
            >>> probed = prog.probe("loop_0/body/partition_0/cases[0]/total")
            >>> feed = {"x": np.ones((2, 3), "float32"), "lengths": [1, 3]}
            >>> exe, scope = br.Executor(), br.Scope()
            >>> total, ran = exe.run(
            ...     probed.program, scope, feed, fetch=[probed.value, probed.ran]
            ... )
            >>> total.tolist(), ran.tolist()
            ([[1.0, 1.0], [0.0, 2.0], [0.0, 3.0]], [[True, True], [False, True], [False, True]])
        """
        loss = None if gradient is None else checked_name(gradient, "`gradient`")
        if isinstance(path, Handle):
            path = current_path(self.definition, path)
        return probe(self, checked_path(path), loss)

    def patch(self, patches: Mapping[Any, Any]) -> Patched[Self]:
        """Return a program in which inner values are replaced, and the feed of their values.

        `exe.run(prog, scope, feed, patch=...)` replaces values in one run. The program of
        `prog.patch` can also be differentiated, exported and saved: gradients take the patched
        values, and no gradient passes to operators before a replaced value.

        Args:
            patches: Paths of values to replacements, as for `exe.run`.

        Returns:
            The program, with `feed`, the arrays of the patches by the names of new data.

        Raises:
            UnknownNameError: If a value does not exist.
            ProgramError: If a value is a list, or in a condition or a custom gradient, or was
                differentiated already.
            ShapeError: If an array does not broadcast to the value.

        Example:
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     w = br.parameter("w", [2], init=[1.0, 2.0])
            ...     h = br.multiply(w, br.data("x", [2]), name="h")
            ...     loss = br.sum(w * h)
            >>> patched = prog.patch({"h": 5.0})
            >>> with patched.program as ablated:
            ...     (grad,) = br.gradients(loss.name, "w")
            >>> exe = br.Executor()
            >>> scope = exe.init(ablated)
            >>> feed = {"x": [1.0, 1.0], **patched.feed}
            >>> exe.run(ablated, scope, feed, fetch=grad).tolist()
            [5.0, 5.0]
        """
        return patch_program(self, patches)
