"""One definition per operator: `@op` reads the kernel's signature.

Positional parameters are inputs, keyword-only parameters are attributes. The return annotation
distinguishes one output from several. Schema, inference, gradient, documentation and tests
follow from the one definition:

    @op(examples=("x=f32[2,3]",))
    def double(x: Tensor, *, times: int = 1) -> Tensor:
        \"\"\"Twice the input, `times` times.\"\"\"
        return x * 2**times

    @double.vjp
    def double_vjp(out_grad: Tensor, *, times: int = 1) -> Tensor:
        return out_grad * 2**times

Derivatives carry their transforms in the type: `double.vjp`, `double.jvp`,
`double.vjp.vjp`. Derivatives without a written rule use `jax.vjp` and `jax.jvp` of the kernel.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast

from braces.define.axes.axis_map import Axes as AxisSpec
from braces.define.axes.axis_notation import axis_rule, is_elementwise
from braces.define.axes.flop_count import Operations
from braces.define.completed_doc import complete_doc
from braces.define.completion import KernelOp
from braces.define.core.attribute_kinds import (
    Axes as Axes,
    Axis as Axis,
    Capacity as Capacity,
    History as History,
    Indices as Indices,
    Learned as Learned,
    Order as Order,
    Padding as Padding,
    Roomy as Roomy,
    Salt as Salt,
    Training as Training,
)
from braces.define.core.signature import AttrSpec as AttrSpec, Slot as Slot, read_signature
from braces.define.definition import (
    AXES,
    CHANGES,
    Attrs as Attrs,
    DTypeRule as DTypeRule,
    OpDef as OpDef,
    Tensor as Tensor,
    Types as Types,
)
from braces.define.derivatives import TRANSFORMS
from braces.errors import OpDefinitionError, UnknownNameError, suggest

HIGHEST_ORDER = 10
"""Highest order of derivatives: each order has 1.6 times the slots of the previous one."""

# ---- registry --------------------------------------------------------------------------------


class Registry:
    """Registry of operator definitions by type; write-once, derivatives on demand."""

    def __init__(self) -> None:
        self.definitions: dict[str, OpDef] = {}
        self.derived: dict[str, OpDef] = {}

    def add(self, definition: OpDef) -> OpDef:
        """Register a new operator.

        Raises:
            OpDefinitionError: If the type is registered already.
        """
        if definition.type in self.definitions:
            raise OpDefinitionError(
                f"duplicate operator `{definition.type}`.",
                fix="Choose another name for the function.",
            )
        self.definitions[definition.type] = definition
        return definition

    def find(self, type: str) -> OpDef | None:
        """Return the definition of a type, derivatives included, or `None`.

        Derivatives beyond `HIGHEST_ORDER` have none.
        """
        if type in self.definitions:
            return self.definitions[type]
        if type not in self.derived and type.count(".") <= HIGHEST_ORDER:
            base_type, _, transform = type.rpartition(".")
            base = self.find(base_type) if transform in TRANSFORMS else None
            if base is None:
                return None
            self.derived[type] = TRANSFORMS[transform](base)
        return self.derived.get(type)

    def get(self, type: str) -> OpDef:
        """Return the definition of a type.

        Raises:
            UnknownNameError: If the type is not registered; the error suggests similar names.
        """
        definition = self.find(type)
        if definition is None:
            raise UnknownNameError(
                f"unknown operator `{type}`.", fix=suggest(type, self.definitions)
            )
        return definition


OPS = Registry()


# ---- decorator -------------------------------------------------------------------------------


def op(
    kernel: Callable[..., Any] | None = None,
    *,
    outputs: tuple[str, ...] = ("out",),
    infer: Callable[..., Any] | None = None,
    axes: AxisSpec = None,
    dtypes: DTypeRule | None = None,
    differentiable: bool = True,
    random: bool = False,
    cheap: bool = False,
    costly: bool = False,
    commutative: bool = False,
    neutral: Mapping[str, float] | None = None,
    uniform: str | float | None = None,
    changes_only: str = "",
    product: bool = False,
    additive: bool = False,
    adds_to: tuple[str, ...] = (),
    picks: tuple[str, ...] = (),
    joins: str = "",
    training_only: tuple[str, ...] = (),
    counts: bool = False,
    operations: Operations = None,
    stored: bool = False,
    rounds: bool = False,
    lists: bool = False,
    function: bool = True,
    examples: tuple[str, ...] = (),
    version: int = 1,
) -> Any:
    """Define an operator by its kernel; see the module's docstring.

    Args:
        kernel: Inputs are positional, attributes keyword-only. `Tensor` is an input,
            `Tensor | None` an optional one, `*xs: Tensor` any number.
        outputs: Their names, in the order in which the kernel returns them.
        infer: A shared inference rule: `rule(context, *types, **attrs)`.
        axes: The map from input axes to output axes, in one of three forms. See
            `braces.define.axes.axis_map`. Notation of einsum, a term for each slot:
            `"..., ... -> ..."` is elementwise, `"... i k, ... k j -> ... i j"` contracts `k`,
            `"... i! -> ... i!"` mixes entries along `i`. Identity elements of a reduction:
            `{"x": 0}` reduces `x` over the attribute `axis`, or over all axes, and 0 masks an
            entry; `"lowest"` and `"highest"` are the least and greatest numbers. Function of
            the types by slot and the attributes, which returns the notation or an `AxisMap`; if
            it reads the type of an output, which the kernel determines, inputs are not checked
            against it first. Partitioned branches and steps with `lengths=` reject operators
            without axes, because compiled, they run on their rows and padding.
        dtypes: The dtypes of the outputs: `rule(operator, *dtypes, **attrs)`, where `operator`
            is the type and `dtypes` are those of the inputs, `None` for an absent one. It
            returns one dtype, or one for each output. The shapes then follow from `axes`
            without the kernel: an axis has one size wherever it is named, also with a `!`, and
            an axis that no input has is named like the attribute with its size. Without
            `dtypes` and `infer`, the types are inferred by tracing the kernel, after inputs are
            checked against the axes. A rule with words also completes the docstring; see
            `braces.define.completed_doc`.
        differentiable: False where there is no gradient.
        random: Whether it draws random numbers; its first input is then the random state.
        cheap: Whether it computes nothing, as a permutation of axes. Elementwise operators are
            cheap, too: they are fused into the readers of their results, and recomputing them
            costs less than reading saved results from memory, on any machine.
        costly: Whether its work is much larger than its result, as in a matrix product.
        commutative: Whether its inputs may be exchanged, bitwise.
        neutral: By input slot, the number with which it returns its other input, where both
            have one type: bitwise, so sums of floats have -0.0. Complex numbers are excluded.
        uniform: The number in all entries of its result, or the attribute that holds it.
        changes_only: The only property of its one input that it changes. `"type"`: if the type
            stays, it returns its input. `"shape"`: the numbers stay, in row-major order.
            `"axes"`: all axes stay, in an order that `axes` defines. Gradients hold to it, too.
        product: Whether its output is a sum of products of its inputs, over all axes that it
            lacks. If the iterations of a loop sum such products, one product replaces them.
        additive: Whether the sum of its results for parts of its inputs is its result, along an
            axis that its output lacks and that is not mixed. All products are.
        adds_to: The inputs to which the output is an addition determined by other inputs.
        picks: The inputs from which it reads only as much as it returns, as in a gather.
        joins: The attribute with the axis along which it concatenates its inputs, all of one
            slot; a product of the result is a sum of products of the parts.
        training_only: The optional inputs that are read in training only. Programs for testing
            omit them, with all operators that only they need.
        counts: Whether a state that it updates is updated in programs for testing, too, as the
            counts of a metric.
        operations: The number of sums, products, comparisons and functions of numbers for each
            combination of the entries of its axes: 5 for a softmax, 0 for pure data movement.
            Or `rule(types, attrs)`, which returns the total from the types by slot, outputs
            included. `prog.cost()` counts them. The default is 1, and for sums of products the
            number of products and sums; operators with `!` axes should set it.
        stored: Whether it takes storage-only dtypes, such as 8-bit floats, although it has
            operations; operators without operations always do.
        rounds: Whether its kernel itself returns numbers of a dtype below 8 bits, and so gets
            that dtype; other kernels get its carrier (`dtypes.CARRIERS`).
        lists: Whether it handles lists, which are not arrays.
        function: Whether `br` has a function made from it; not if users write it otherwise,
            as `x[...]`, or call a function written by hand.
        examples: As `"x=f32[b,4] axis=1"`; tests run each of them.
        version: Increased when the meaning of stored programs would change.

    Raises:
        OpDefinitionError: If a parameter has no annotation, or an unsupported one; `axes` is
            invalid; `dtypes` is not a function, or `axes` is missing beside it; or another
            argument does not match the parameters.

    Example:
        >>> import braces as br
        >>> @br.op(axes="... -> ...")
        ... def halved(x: br.Tensor) -> br.Tensor:
        ...     return x / 2
        >>> with br.Program() as program:
        ...     x = br.data("x", ["b"])
        ...     choice = br.create_if_else(x > 1.0)
        ...     with choice.true_block() as large:
        ...         large.add_output(halved(large.add_input(x)))
        ...     choice.pass_through(x)
        ...     out = choice()
        >>> br.Executor().run(program, br.Scope(), feed={"x": [4.0, 1.0, 6.0]}, fetch=out)
        array([2., 1., 3.], dtype=float32)

        Types without the kernel, and errors that name the axis:

        >>> @br.op(axes="... i, i j -> ... j", dtypes=lambda operator, x, w: x)
        ... def projected(x: br.Tensor, w: br.Tensor) -> br.Tensor:
        ...     return x @ w
        >>> with br.Program():
        ...     x, w = br.data("x", ["b", 3]), br.data("w", [3, 4])
        ...     print(projected(x, w).type)
        ...     try:
        ...         projected(x, br.data("v", [5, 4]))
        ...     except br.ShapeError as wrong:
        ...         print(wrong.what)
        ...         print(wrong.fix)
        f32[b,4]
        projected cannot contract 3 with 5 for `i`.
        The last axis of x must equal the second last axis of w.
    """

    def decorate(kernel: Callable[..., Any]) -> KernelOp:
        _check_dtypes(kernel.__name__, dtypes, axes)
        inputs, attrs = read_signature(kernel)
        many = str(inspect.signature(kernel).return_annotation).startswith("list")
        slots = tuple(Slot(name, many=many) for name in outputs)
        rule = axis_rule(kernel.__name__, axes, inputs, slots, attrs)
        doc = complete_doc(inspect.getdoc(kernel) or "", inputs, attrs, dtypes, axes)
        definition = KernelOp(
            kernel.__name__, inputs, attrs, slots, kernel, doc,
            infer_rule=infer, dtype_rule=dtypes, axes_rule=rule, differentiable=differentiable,
            cheap=cheap or (is_elementwise(rule) and not (costly or random or lists)),
            random=random, costly=costly, commutative=commutative, neutral=neutral or {},
            uniform=uniform, changes_only=changes_only, product=product,
            additive=additive or product, adds_to=adds_to,
            picks=picks, joins=joins, training_only=training_only, counts=counts,
            operations=operations, stored=stored, rounds=rounds, lists=lists, function=function,
            examples=examples, version=version,
        )  # fmt: skip
        _check_declarations(definition)
        OPS.add(definition)
        return definition

    return decorate if kernel is None else decorate(kernel)


def _check_dtypes(name: str, dtypes: object, axes: AxisSpec) -> None:
    if dtypes is None:
        return
    if axes is None:
        raise OpDefinitionError(
            f"{name}: dtypes= requires axes=, which determines the shapes.",
            fix="Declare axes='... -> ...', or omit dtypes= to infer both from the kernel.",
        )
    if not callable(dtypes):
        raise OpDefinitionError(
            f"{name}: expected a function for `dtypes`, got {dtypes!r:.80}.",
            fix="Pass dtypes=lambda operator, x: 'float32', with a parameter for each input.",
        )


def _check_declarations(definition: OpDef) -> None:
    """Check the declared properties of an operator against its parameters."""
    inputs, attrs = [slot.name for slot in definition.inputs], definition.attrs
    only, uniform = definition.changes_only, definition.uniform

    def refuse(what: str, fix: str) -> None:
        raise OpDefinitionError(f"{definition.type}: {what}.", fix=fix)

    _check_counts(definition, refuse)
    if definition.neutral and (len(inputs) != 2 or not definition.neutral.keys() <= {*inputs}):
        refuse("neutral= requires two inputs and names of these", "Name one of two inputs.")
    if isinstance(uniform, str) and uniform not in [spec.name for spec in attrs]:
        refuse(f"unknown attribute `{uniform}` in uniform=", "Name an attribute.")
    if only and (len(inputs) != 1 or len(definition.outputs) != 1):
        refuse(f"invalid changes_only={only!r}", "Declare one input and one output.")
    if only not in ("", *CHANGES):
        refuse(f"unknown changes_only={only!r}", f"Use one of {', '.join(CHANGES)}.")
    if only == AXES and definition.axes_rule is None:
        refuse(f"changes_only={only!r} requires axes=", "Declare the order in axes=.")
    if definition.training_only and "Training" not in definition.roles:
        refuse("training_only= requires a `Training` attribute", "Annotate it as Training.")
    if definition.joins and definition.joins not in [spec.name for spec in attrs]:
        refuse(f"unknown attribute `{definition.joins}` in joins=", "Name an axis attribute.")


def _check_counts(definition: OpDef, refuse: Callable[[str, str], None]) -> None:
    """Check the declared work of an operator against its parameters."""
    operations, picks = definition.operations, definition.picks
    if not {*picks} <= definition.input_slots.keys():
        refuse(f"unknown input in picks={picks!r}", "Name inputs: picks=('x',).")
    number = 0 if operations is None or callable(operations) else cast("Any", operations)
    if type(number) is not int or number < 0:
        refuse(
            f"invalid operations={operations!r:.80}",
            "Pass a nonnegative integer, or a function.",
        )
