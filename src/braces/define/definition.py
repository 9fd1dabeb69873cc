"""What is known of an operator type; `braces.define.decorator.op` makes it from a kernel."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

from braces.define.axes import AxisRule
from braces.define.derived_axes import derived_rule
from braces.define.kinds import PLAIN, coerce_argument, normalise
from braces.define.offence import decode_offender
from braces.define.signature import REQUIRED, AttrSpec, Slot, read_signature
from braces.define.traced import reads_values
from braces.dtypes import DType, Type
from braces.errors import BracesError, OpDefinitionError, ProgramError, suggest
from braces.ir.records import Attr, Op

Tensor: TypeAlias = Any
"""What a kernel computes with: an array of JAX. An annotation, no more."""
Values: TypeAlias = "Mapping[str, tuple[Any, ...]]"
Types: TypeAlias = "Mapping[str, tuple[Type, ...]]"
Attrs: TypeAlias = "Mapping[str, Attr]"
DTypeRule: TypeAlias = "Callable[..., DType | tuple[DType, ...]]"
"""`rule(operator, *dtypes, **attrs)`: from the dtypes of inputs to that of each output."""
GRAD, TANGENT = "_grad", "_tangent"
"""What the slots of first derivatives have after the name of the slot that they belong to."""


@dataclass(frozen=True)
class Check:
    """A condition on values that is an error at run time when it holds.

    Attributes:
        kernel: Same parameters as the operator's kernel; gives a bool array, true where wrong,
            or what `braces.define.offence.offender_code` makes of that and of the values.
        error: The class of the error.
        message: Its text.
        fix: The way out.
    """

    kernel: Callable[..., Any]
    error: type[BracesError]
    message: str
    fix: str | None = None


class Completing:
    """What completes the definition of an operator: an operator's, or its function's methods.

    Attributes:
        definition: What is completed.
    """

    definition: OpDef

    def infer(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Write the inference: `rule(context, *types, **attrs)` gives the output types.

        Example:
            >>> import braces as br
            >>> from braces.dtypes import TensorType
            >>> @br.op
            ... def first_two(x: br.Tensor) -> br.Tensor:
            ...     return x[:2]
            >>> @first_two.infer
            ... def _(context, x):
            ...     return TensorType(x.dtype, (2, *x.shape[1:]))
            >>> with br.Program():
            ...     print(first_two(br.data("x", ["b", 3])).type)
            f32[2,3]
        """
        self.definition.infer_rule = rule
        return rule

    def vjp(self, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """Write the gradient as a kernel.

        Its parameters name what it needs: inputs, outputs, and `NAME_grad` for the cotangents
        of outputs. It returns one cotangent for each input, or for the first one only where it
        is annotated to return a single `Tensor`.

        Example:
            >>> import braces as br
            >>> @br.op
            ... def rounded_up(x: br.Tensor) -> br.Tensor:
            ...     return -(-x // 1)
            >>> @rounded_up.vjp
            ... def _(out_grad: br.Tensor) -> br.Tensor:
            ...     return out_grad  # as if nothing had been rounded
            >>> with br.Program() as program:
            ...     x = br.data("x", [2])
            ...     (grad,) = br.gradients(rounded_up(x), x)
            >>> br.Executor().run(program, br.Scope(), feed={"x": [0.5, 2.0]}, fetch=grad)
            array([1., 1.], dtype=float32)
        """
        self.definition.vjp_rule = _written_vjp(self.definition, kernel)
        return kernel

    def gradient(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Write the gradient as a program: `rule(op)` gives cotangents by input slot.

        `op["x"]` is the variable of an input or output, `op.out_grad` the cotangent, `op.attrs`
        has the attributes, and `op.wants("x")` says whether a cotangent is of any use.

        Example:
            >>> import braces as br
            >>> @br.op
            ... def third_power(x: br.Tensor) -> br.Tensor:
            ...     return x**3
            >>> @third_power.gradient
            ... def _(op):
            ...     return {"x": 3.0 * op["x"] ** 2 * op.out_grad}
            >>> with br.Program() as program:
            ...     x = br.data("x", [2])
            ...     (grad,) = br.gradients(third_power(x), x)
            >>> br.Executor().run(program, br.Scope(), feed={"x": [1.0, 2.0]}, fetch=grad)
            array([ 3., 12.], dtype=float32)
        """
        self.definition.gradient_rule = rule
        return rule

    def jvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Write the directional derivative as a program.

        `rule(values, tangents, attrs)` takes variables and tangents by slot, and gives the
        tangents of the outputs by slot; a slot holds a tuple.

        Example:
            >>> import braces as br
            >>> @br.op
            ... def doubled(x: br.Tensor) -> br.Tensor:
            ...     return x * 2
            >>> @doubled.jvp
            ... def _(values, tangents, attrs):
            ...     (moved,) = tangents["x"]
            ...     return {"out": (moved * 2.0,)}
            >>> with br.Program() as program:
            ...     x = br.data("x", [2])
            ...     (moved,) = br.jvp([doubled(x)], [x], [br.full([2], 1.0)])
            >>> br.Executor().run(program, br.Scope(), feed={"x": [5.0, 7.0]}, fetch=moved)
            array([2., 2.], dtype=float32)
        """
        self.definition.jvp_rule = rule
        return rule

    def resolved(self, rule: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        """Write the attributes that become definite: `rule(*types, **attrs)` gives them.

        What it gives stands in the program in place of what was given.

        Example:
            >>> import braces as br
            >>> @br.op
            ... def ending(x: br.Tensor, *, axis: int = -1) -> br.Tensor:
            ...     return x.max(axis)
            >>> @ending.resolved
            ... def _(x, *, axis):
            ...     return {"axis": axis % x.rank}
            >>> with br.Program() as program:
            ...     out = ending(br.data("x", [2, 3]))
            >>> program.definition.main.ops[0].attrs["axis"]
            1
        """
        self.definition.resolve_rule = rule
        return rule

    def learned(self, rule: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        """Write the sizes that only values tell: `rule(*inputs, **attrs)` gives them by name.

        The dimension is an attribute of the kind `br.Learned`; the kernel gets it as a number,
        the rule as the dimension. Compiled, a size is guessed from the runs before, and a run
        is repeated where that was wrong: each new size is compiled once.

        Example:
            >>> import braces as br
            >>> import jax.numpy as jnp
            >>> from braces.dtypes import INT64, TensorType
            >>> @br.op
            ... def places(x: br.Tensor, *, count: br.Learned) -> br.Tensor:
            ...     return jnp.nonzero(x, size=count)[0]
            >>> @places.infer
            ... def _(context, x, *, count):
            ...     return TensorType(INT64, (count,))
            >>> @places.learned
            ... def _(x, *, count):
            ...     return {count.name: (x != 0).sum()}
            >>> with br.Program() as program:
            ...     found = places(br.data("x", ["b"]), count="found")
            >>> br.Executor().run(program, br.Scope(), feed={"x": [0.0, 5.0, 2.0]}, fetch=found)
            array([1, 2])
        """
        self.definition.learn_rule = rule
        return rule

    def masked(self, rule: Callable[..., Op]) -> Callable[..., Op]:
        """Write what takes its place where rows are reduced and padding is filled.

        `rule(view, *inputs, mask)` gives it, on inputs that are filled.
        """
        self.definition.masked_rule = rule
        return rule

    def rounded(self, rule: Callable[..., Op]) -> Callable[..., Op]:
        """Write what takes its place where rows have room for more than there are.

        `rule(view, count)` gives it; `count` is the variable that tells how many rows there
        are, which come first. It stands in place of what follows from the axes.
        """
        self.definition.rounded_rule = rule
        return rule

    def checked(
        self, error: type[BracesError], message: str, fix: str | None = None
    ) -> Callable[..., Any]:
        """Write the condition that is an error at run time; loops stop where it holds.

        What is decorated has the kernel's parameters, and gives an array of bools: where it is
        wrong.

        Args:
            error: The class of the error.
            message: What it says.
            fix: The way out.

        Example:
            >>> import braces as br
            >>> @br.op
            ... def root(x: br.Tensor) -> br.Tensor:
            ...     return x**0.5
            >>> @root.checked(br.errors.RunError, "A root of a negative number.")
            ... def _(x):
            ...     return x < 0
            >>> with br.Program() as program:
            ...     out = root(br.data("x", [2]))
            >>> try:
            ...     br.Executor().run(program, br.Scope(), feed={"x": [4.0, -1.0]}, fetch=out)
            ... except br.errors.RunError as wrong:
            ...     print(wrong.what)
            A root of a negative number.
        """

        def decorate(kernel: Callable[..., Any]) -> Callable[..., Any]:
            self.definition.check = Check(kernel, error, message, fix)
            return kernel

        return decorate


@dataclass(eq=False)
class OpDef(Completing):
    """All that is known of an operator type.

    The module that defines an operator completes it; from then on nothing changes.

    Attributes:
        type: Its name in programs.
        inputs, attrs, outputs: Its schema.
        kernel: From arrays to arrays, in JAX.
        infer_rule: Output types from input types; without, they follow from `axes_rule` and
            `dtype_rule`, or from the kernel.
        dtype_rule: Output dtypes from input dtypes; shapes then follow from the axes.
        vjp_rule: A written gradient kernel, as an operator of its own.
        gradient_rule: A gradient written as a program; wins over kernels.
        jvp_rule: A directional derivative written as a program.
        resolve_rule: Attributes made definite from the types of the inputs.
        learn_rule: Sizes that only values tell: from inputs and attributes to numbers by the
            names of dimensions.
        axes_rule: How the axes of inputs map to those of outputs; `None` says nothing.
        masked_rule: What takes its place where masking its inputs is not enough.
        rounded_rule: What takes its place where there is room for more rows than there are.
        differentiable: False where gradients are zero or make no sense.
        check: What is an error at run time.
        random: Whether it draws random numbers; its first input is then the random state.
        cheap: Whether it takes no more to make a result again than to read it where it is kept.
        costly: Whether there is much more to compute than numbers to keep.
        lists: Whether it handles lists, which are no arrays.
        transparent: Whether what its blocks bind counts as bound where it stands, so that one
            output may be moved by another.
        function: Whether `br` has a function made from it.
        examples: Types and attributes that documentation and tests use.
        version: Raised when the meaning of stored programs would change.
        suffix: Of a derivative: what the slot of a cotangent or tangent has after the name of
            the slot that it belongs to.
        cotangents: Of a derivative: the input slots that hold cotangents.
    """

    type: str
    inputs: tuple[Slot, ...]
    attrs: tuple[AttrSpec, ...]
    outputs: tuple[Slot, ...]
    kernel: Callable[..., Any]
    doc: str = ""
    infer_rule: Callable[..., Any] | None = None
    dtype_rule: DTypeRule | None = None
    vjp_rule: OpDef | None = None
    gradient_rule: Callable[..., Any] | None = None
    jvp_rule: Callable[..., Any] | None = None
    resolve_rule: Callable[..., dict[str, Any]] | None = None
    learn_rule: Callable[..., dict[str, Any]] | None = None
    axes_rule: AxisRule | None = None
    masked_rule: Callable[..., Op] | None = None
    rounded_rule: Callable[..., Op] | None = None
    differentiable: bool = True
    check: Check | None = None
    random: bool = False
    cheap: bool = False
    costly: bool = False
    lists: bool = False
    transparent: bool = False
    function: bool = True
    examples: tuple[str, ...] = ()
    version: int = 1
    suffix: str = ""
    cotangents: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.definition = self

    # ---- schema ------------------------------------------------------------------------------

    def input(self, name: str) -> Slot | None:
        """The input slot of this name."""
        return self.input_slots.get(name)

    def output(self, name: str) -> Slot | None:
        """The output slot of this name."""
        return self._output_slots.get(name)

    @cached_property
    def input_slots(self) -> Mapping[str, Slot]:
        """The input slots by name."""
        return {slot.name: slot for slot in self.inputs}

    @cached_property
    def _output_slots(self) -> Mapping[str, Slot]:
        return {slot.name: slot for slot in self.outputs}

    @cached_property
    def roles(self) -> Mapping[str, str]:
        """The attributes that have a role, by the role; see `braces.define.kinds.ROLES`."""
        return {spec.role: spec.name for spec in self.attrs if spec.role}

    @cached_property
    def owns_blocks(self) -> bool:
        """Whether blocks are among the attributes."""
        return any(spec.holds_blocks for spec in self.attrs)

    @cached_property
    def stem(self) -> str:
        """What operators of this type are called, before a number."""
        return self.type.replace(".", "_")

    @cached_property
    def output_names(self) -> tuple[str, ...]:
        """The output slots."""
        return tuple(slot.name for slot in self.outputs)

    @cached_property
    def index_slots(self) -> frozenset[str]:
        """The input slots in which a Python integer stays one."""
        return frozenset(slot.name for slot in self.inputs if slot.index)

    @cached_property
    def _specs(self) -> Mapping[str, AttrSpec]:
        return {spec.name: spec for spec in self.attrs}

    @cached_property
    def _defaults(self) -> Mapping[str, Any]:
        """The attributes in order, with what they are where they are not given."""
        return {
            s.name: REQUIRED if s.required else normalise(s.kind, s.default) for s in self.attrs
        }

    @property
    def public(self) -> bool:
        """Whether users call it: an operator on arrays, without blocks of its own."""
        return self.function and not (self.owns_blocks or self.lists or self.random)

    def may_fail(self, attrs: Attrs) -> bool:
        """Whether a run can fail at an operator with these attributes."""
        del attrs
        return self.check is not None or self.learn_rule is not None

    def failure(self, attrs: Attrs, found: int) -> BracesError:
        """The error of a run that fails at this operator, where its check tells `found`."""
        del attrs
        check = self.check
        assert check is not None
        return check.error(check.message, given=decode_offender(found), fix=check.fix)

    def infer_blocks(
        self, context: Any, types: Types, attrs: Attrs, outer: Mapping[str, Type]
    ) -> dict[str, tuple[Type, ...]]:
        """Inference of operators that own blocks; `outer` has the types of the captures."""
        raise OpDefinitionError(f"{self.type} owns blocks and does not infer them.")

    def bind_attrs(self, given: Mapping[str, Any]) -> dict[str, Attr]:
        """The attributes with defaults filled in and values brought to their kinds.

        Raises:
            ProgramError: One is missing, unknown, or of another kind.
        """
        bound, specs = dict(self._defaults), self._specs
        for name in given:
            if name not in specs:
                raise ProgramError(
                    f"{self.type} has no attribute `{name}`.", fix=suggest(name, specs)
                )
        for name, value in given.items():
            kind = specs[name].kind
            plain = PLAIN.get(kind)
            alike = plain is not None and type(value) is plain
            bound[name] = value if alike else coerce_argument(self.type, name, kind, value)
        for name, value in bound.items():
            if value is REQUIRED:
                raise ProgramError(
                    f"{self.type} needs `{name}=`.", fix=f"It is {specs[name].kind}."
                )
        return bound

    # ---- computing ---------------------------------------------------------------------------

    def arrange(self, values: Mapping[str, tuple[Any, ...]]) -> list[Any]:
        """Values by slot as positional arguments of a kernel or an inference rule."""
        arguments: list[Any] = []
        for slot in self.inputs:
            given = values.get(slot.name, ())
            if slot.many:
                arguments.extend(given)
            else:
                arguments.append(given[0] if given else None)
        return arguments

    def by_slot(self, results: Any) -> dict[str, tuple[Any, ...]]:
        """What a kernel or inference rule returned, by output slot."""
        if len(self.outputs) == 1:
            slot = self.outputs[0]
            return {slot.name: tuple(results) if slot.many else (results,)}
        return {
            slot.name: tuple(one) if slot.many else (one,)
            for slot, one in zip(self.outputs, results, strict=True)
            if one is not None
        }

    def compute(self, values: Values, attrs: Attrs, wanted: Iterable[str]) -> dict[str, Any]:
        """Run the kernel: values by slot to results by slot."""
        del wanted
        try:
            return self.by_slot(self.kernel(*self.arrange(values), **attrs))
        except Exception as error:
            found = reads_values(self.type, self.kernel, error)
            if found is None:
                raise
            raise found from None


def suffix_of(stem: str, base: OpDef) -> str:
    """What tells the slots of a derivative from those of the operator: `_grad`, or `_grad2`.

    The operator may be a derivative itself and have an `x_grad` already, which is another thing
    than the cotangent of its `x`.
    """
    names = {slot.name for slot in (*base.inputs, *base.outputs)}
    numbered = (f"{stem}{order}" for order in itertools.count(2))
    suffixes = itertools.chain([stem], numbered)
    return next(s for s in suffixes if names.isdisjoint(name + s for name in names))


def _written_vjp(base: OpDef, kernel: Callable[..., Any]) -> OpDef:
    inputs, given = read_signature(kernel)
    roles = {spec.name: spec.role for spec in base.attrs}
    attrs = tuple(replace(spec, role=roles.get(spec.name, spec.role)) for spec in given)
    single = not str(inspect.signature(kernel).return_annotation).startswith("tuple")
    wrt = base.inputs[:1] if single else base.inputs
    suffix = suffix_of(GRAD, base)
    outputs = tuple(Slot(slot.name + suffix, slot.many, optional=True) for slot in wrt)
    many = {slot.name for slot in (*base.inputs, *base.outputs) if slot.many}
    slots = tuple(
        Slot(s.name, s.many or s.name.removesuffix(suffix) in many, s.optional) for s in inputs
    )
    doc = f"Gradient of {base.type}."
    cotangents = frozenset(slot.name + suffix for slot in base.outputs)
    return OpDef(
        f"{base.type}.vjp", slots, attrs, outputs, kernel, doc, suffix=suffix,
        axes_rule=derived_rule(base.axes_rule, slots, outputs, suffix, cotangents),
        cotangents=cotangents,
    )  # fmt: skip
