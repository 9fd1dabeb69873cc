"""Edits of names, types, blocks and parameters, as methods of programs and of transactions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Self

from braces.builder.checked_calls import checked_methods
from braces.surgery.edits import blocks, names as naming, parameters, splicing, types as typing_
from braces.surgery.edits.core.address import At
from braces.surgery.edits.core.change import Edit


@checked_methods
class StructureEdits:
    """Edits of names, types, blocks and parameters; each is verified."""

    @abstractmethod
    def _edited(self, edit: Edit[Any]) -> Self:
        """Return the result of one edit."""

    # ---- names and types ------------------------------------------------------------

    def rename(self, names: Mapping[Any, str]) -> Self:
        """Rename operators and variables, everywhere: blocks, updates, startup, results.

        An operator and its output have one name, and both are renamed. Handles of earlier
        versions follow: `new[handle]`. Values of parameters in a scope keep their old names.

        Args:
            names: From paths, handles or variables to names. A pattern renames all variables
                and operators that match, as in `{"encoder/*": "enc/*"}`.

        Returns:
            The new program; in a transaction, the transaction.

        Raises:
            DuplicateNameError: If a name has another meaning where it would be visible.
            ProgramError: If a name is invalid.
            UnknownNameError: If a path does not exist, or a pattern matches nothing.

        Example:
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     y = br.fc(br.data("x", ["n", 4]), 2, name="out")
            >>> new = prog.rename({"x": "features", "out.*": "head.*"})
            >>> new.feeds, [w.name for w in new.parameters]
            (('features',), ['head.w', 'head.b'])
        """
        return self._edited(lambda p: naming.rename(p, names))

    def retype(self, types: Mapping[Any, Any]) -> Self:
        """Declare other types of data, parameters and states.

        The types of all values that depend on them are inferred again, in all blocks. A symbol
        that no declaration has any more is replaced by the new size. Initial values of
        parameters follow.

        Args:
            types: From names, paths or handles to types, as `f32[n,8]`.

        Returns:
            The new program; in a transaction, the transaction.

        Raises:
            ShapeError, DTypeError: If an operator does not fit; the message names it.
            ProgramError: If a variable is computed, or a type is invalid.
            UnknownNameError: If a variable does not exist.

        Example:
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     y = br.tanh(br.data("x", ["n", 4]), name="y")
            >>> prog.retype({"x": "f64[32,6]"})["y"].outputs[0].type
            f64[32,6]
        """
        return self._edited(lambda p: typing_.retype(p, types))

    # ---- blocks ------------------------------------------------------------------------------

    def replace_block(
        self, at: At, function: Callable[..., Any], *, retype: bool = False, exact: bool = False
    ) -> Self:
        """Replace the content of a block by that of a function.

        Args:
            at: Blocks, as `loop_0/body`; or operators with one block.
            function: From the parameters of the block to its results, in their order. For the
                body of a loop these are the iteration number, memories and step inputs, and
                next memories and step outputs. A block without parameters passes the values
                that it reads from outside, without parameters and states of the program.
            retype: Whether the types of the new values may differ, as for `insert_after`.
            exact: Whether the new values are equal, as for `insert_after`.

        Returns:
            The new program; in a transaction, the transaction.

        Raises:
            ProgramError: If the function returns another number of values.
            BracesError: As for `insert_after`.

        Example:
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     x = br.data("x", ["steps", 8])
            ...     y = br.scan(lambda h, row: (br.tanh(h + row), row), 0.0 * x[0], x)
            >>> new = prog.replace_block("loop_0/body", lambda t, h, row: (h * row, row + h))
            >>> [op.type for op in new["loop_0/body"].body.ops]
            ['multiply', 'add']
        """
        return self._edited(
            lambda p: blocks.replace_block(p, at, function, retype=retype, exact=exact)
        )

    def wrap(self, at: At, *, name: str, recompute: bool = False) -> Self:
        """Move operators of one block into a plain block; no name and no value changes.

        Args:
            at: Operators of one block, without others on a way between them.
            name: The name of the block.
            recompute: Whether gradients recompute it instead of saving residuals.

        Returns:
            The new program; in a transaction, the transaction.

        Raises:
            ProgramError: If the operators are in different blocks, or another operator is
                between them.
            DuplicateNameError: If an operator beside the block has this name.

        Example:
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     y = br.tanh(br.fc(br.data("x", ["n", 4]), 2, name="h"), name="y")
            >>> new = prog.wrap(prog.find(type=["matmul", "add"]), name="layer")
            >>> [op.name for op in new.block(0).ops], new[prog["h"]].path
            (['layer', 'y'], 'layer/body/h')
        """
        return self._edited(lambda p: blocks.wrap(p, at, name=name, recompute=recompute))

    def inline(self, at: At) -> Self:
        """Replace plain blocks by the operators in them.

        Args:
            at: Plain blocks, or operators that own them.

        Returns:
            The new program; in a transaction, the transaction.

        Raises:
            ProgramError: If a block is not a plain block.
            UnknownNameError: If the block does not exist.

        Example:
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     x = br.data("x", ["n", 4])
            ...     with br.block("layer"):
            ...         y = br.tanh(x, name="y")
            ...     prog.give(y)
            >>> [op.name for op in prog.inline("layer").block(0).ops]
            ['layer/y']
        """
        return self._edited(lambda p: blocks.inline(p, at))

    def splice(
        self,
        other: Any,
        inputs: Mapping[str, Any] | None = None,
        *,
        name: str,
        outputs: Mapping[str, Any] | None = None,
        at: At | None = None,
        share: bool = False,
        retype: bool = False,
        exact: bool = False,
    ) -> Self:
        """Insert the operators of another program as a plain block.

        The block is built as by `br.call`: parameters and states are named `NAME/...`.

        Args:
            other: The other program; not modified.
            inputs: From its feeds to variables of this program. Other feeds become data of this
                program; data of the same name and type is shared.
            name: The name of the block, and the prefix of the names in it.
            outputs: From its variables to variables of this program, whose readers read them
                instead. By default its results become further results of this program.
            at: The operator before which the block is inserted; by default it is inserted after
                all inputs, and after the variables of `outputs`.
            share: Whether a parameter or state of this name and type, as from an earlier splice
                of the same name, is shared.
            retype: Whether the types of the new values may differ, as for `insert_after`.
            exact: Whether the new values are equal, as for `insert_after`.

        Returns:
            The new program; in a transaction, the transaction.

        Raises:
            DuplicateNameError: If this program has another variable with the name of a feed, or
                a parameter or state of this name that is not shared.
            ProgramError: If an operator reads a replaced variable before the block.
            BracesError: As for `insert_after` and `br.call`.

        Example:
            >>> import braces as br
            >>> with br.Program() as head:
            ...     head.give(br.fc(br.data("h", ["b", 4]), 2, name="out"))
            >>> with br.Program() as prog:
            ...     y = br.tanh(br.data("x", ["n", 4]), name="y")
            >>> new = prog.splice(head, {"h": "y"}, name="head")
            >>> new.fetches, [w.name for w in new.parameters]
            (('head/out',), ['head/out.w', 'head/out.b'])
        """
        return self._edited(
            lambda p: splicing.splice(
                p,
                other,
                inputs,
                name=name,
                outputs=outputs,
                at=at,
                share=share,
                retype=retype,
                exact=exact,
            )
        )

    # ---- parameters --------------------------------------------------------------------------

    def freeze(self, at: At) -> Self:
        """Stop the updates of parameters: they are not trainable, and training keeps them.

        Operators needed only for their updates are pruned by a run. `prog.frozen` keeps
        parameters trainable and removes updates of a training step.

        Args:
            at: Parameters, or operators and blocks that read them.

        Returns:
            The new program; in a transaction, the transaction.

        Raises:
            ProgramError: If operators read no parameter.
            UnknownNameError: If a path does not exist, or a pattern matches nothing.

        Example:
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     y = br.fc(br.fc(br.data("x", ["n", 4]), 4, name="a"), 2, name="b")
            >>> [w.name for w in prog.freeze("a.*").parameters if w.trainable]
            ['b.w', 'b.b']
        """
        return self._edited(lambda p: parameters.freeze(p, at))

    def unfreeze(self, at: At) -> Self:
        """Make parameters trainable: an optimizer that is built afterwards updates them.

        A training step has no updates of parameters that were frozen when it was built, or
        afterwards. Unfreeze `br.prune(prog, [loss])` instead, and call `minimize` again.

        Args:
            at: Parameters, or operators and blocks that read them.

        Returns:
            The new program; in a transaction, the transaction.

        Raises:
            ProgramError: If operators read no parameter, a parameter has no float dtype, or a
                training step does not update it.
            UnknownNameError: If a path does not exist, or a pattern matches nothing.

        Example:
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     y = br.fc(br.fc(br.data("x", ["n", 4]), 4, name="a"), 2, name="b")
            >>> frozen = prog.freeze("*.w")
            >>> [w.name for w in frozen.unfreeze("b.w").parameters if w.trainable]
            ['a.b', 'b.w', 'b.b']
        """
        return self._edited(lambda p: parameters.unfreeze(p, at))

    def cast(self, at: At, dtype: Any, *, exact: bool = False) -> Self:
        """Store parameters, and compute operators, in another float dtype.

        A parameter is converted to its old dtype where it is read, and its next value to the
        new one. The operands of an operator are converted to the dtype, and its outputs back.
        No other type changes.

        Args:
            at: Parameters, operators, or blocks, whose operators are cast.
            dtype: The dtype, as "bfloat16".
            exact: Whether gradients of cast operators stay valid, as for `insert_after`.

        Returns:
            The new program; in a transaction, the transaction.

        Raises:
            DTypeError: If the dtype is not a float dtype, or an operator does not support it.
            ProgramError: If a variable is no float parameter.
            BracesError: As for `insert_after`.

        Example:
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     y = br.fc(br.data("x", ["n", 4]), 2, name="y")
            >>> new = prog.cast(prog.find(kind="parameters"), "bfloat16")
            >>> [str(w.type) for w in new.parameters], new["y"].outputs[0].type
            (['bf16[4,2]', 'bf16[2]'], f32[n,2])
        """
        return self._edited(lambda p: parameters.cast(p, at, dtype, exact=exact))
