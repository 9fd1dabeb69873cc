"""What is known of an operator type, whatever made it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from braces.define.axes.axis_map import AxisRule
from braces.define.axes.flop_count import Operations, of_products, size_of, space
from braces.define.core.attribute_kinds import PLAIN, coerce_argument, normalise
from braces.define.core.check_code import decode_offender
from braces.define.core.kernel_call import ask
from braces.define.core.signature import REQUIRED, AttrSpec, Slot
from braces.define.core.tracer_guard import reads_values
from braces.dims import Size
from braces.dtypes import DType, Type
from braces.errors import BracesError, OpDefinitionError, ProgramError, suggest
from braces.ir.records import Attr, Literal, Op

Tensor: TypeAlias = Any
"""What a kernel computes with: an array of JAX. An annotation, no more."""
Values: TypeAlias = "Mapping[str, tuple[Any, ...]]"
Types: TypeAlias = "Mapping[str, tuple[Type, ...]]"
Attrs: TypeAlias = "Mapping[str, Attr]"
DTypeRule: TypeAlias = "Callable[..., DType | tuple[DType, ...]]"
"""`rule(operator, *dtypes, **attrs)`: from the dtypes of inputs to that of each output."""
CHANGES = TYPE, SHAPE, AXES = "type", "shape", "axes"
"""What alone an operator may change of its input; see `braces.define.decorator.op`."""


@dataclass(frozen=True)
class Check:
    """A condition on values that is an error at run time when it holds.

    Attributes:
        kernel: Same parameters as the operator's kernel; gives a bool array, true where wrong,
            or what `braces.define.core.check_code.offender_code` makes of that and of the
            values.
        error: The class of the error.
        message: Its text.
        fix: The way out.
    """

    kernel: Callable[..., Any]
    error: type[BracesError]
    message: str
    fix: str | None = None


@dataclass(eq=False)
class OpDef:
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
        count_rule: How many rows there are, where it may make room for more: operators.
        differentiable: False where gradients are zero or make no sense.
        check: What is an error at run time.
        random: Whether it draws random numbers; its first input is then the random state.
        cheap: Whether it takes no more to make a result again than to read it where it is kept.
        costly: Whether there is much more to compute than numbers to keep.
        commutative: Whether its inputs may change places.
        neutral: By input slot, the number with which it gives its other input, to the bit.
        uniform: The one number that its result consists of, or the attribute that holds it.
        changes_only: What alone it changes: "type", "shape" or "axes"; see `op`.
        product: Whether its output is a sum of products of its inputs, over all axes that it
            lacks.
        additive: Whether what it gives is the sum of what it gives of parts, along an axis that
            its output lacks and that is not mixed.
        adds_to: The inputs to each of which the output adds something that others tell.
        picks: The inputs of which no more is read than is given.
        joins: The attribute that says the axis along which its inputs follow one another.
        training_only: The optional inputs that are read in training alone.
        counts: Whether a state that it moves is moved in programs for testing, too.
        operations: How many operations it takes for each combination of the entries of its
            axes, or a function of types and attributes that tells how many in all; `None`
            where the axes tell. See `braces.define.axes.flop_count`.
        stored: Whether it takes numbers that are only stored, although it has operations.
        rounds: Whether its kernel itself makes numbers of a dtype of less than 8 bits, and so
            gets that dtype; another gets the one that carries them.
        lists: Whether it handles lists, which are no arrays.
        transparent: Whether what its blocks bind counts as bound where it stands, so that one
            output may be moved by another.
        passes_on: The slot whose values its outputs are, where only derivatives tell them
            apart.
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
    count_rule: Callable[..., Any] | None = None
    differentiable: bool = True
    check: Check | None = None
    random: bool = False
    cheap: bool = False
    costly: bool = False
    commutative: bool = False
    neutral: Mapping[str, float] = field(default_factory=dict[str, float])
    uniform: str | float | None = None
    changes_only: str = ""
    product: bool = False
    additive: bool = False
    adds_to: tuple[str, ...] = ()
    picks: tuple[str, ...] = ()
    joins: str = ""
    training_only: tuple[str, ...] = ()
    counts: bool = False
    operations: Operations = None
    stored: bool = False
    rounds: bool = False
    lists: bool = False
    transparent: bool = False
    passes_on: str = ""
    function: bool = True
    examples: tuple[str, ...] = ()
    version: int = 1
    suffix: str = ""
    cotangents: frozenset[str] = frozenset()

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
        """The attributes that have a role, by the role; see `attribute_kinds.ROLES`."""
        return {spec.role: spec.name for spec in self.attrs if spec.role}

    @cached_property
    def owns_blocks(self) -> bool:
        """Whether blocks are among the attributes."""
        return any(spec.holds_blocks for spec in self.attrs)

    @cached_property
    def takes_stored(self) -> bool:
        """Whether it takes numbers that are only stored: it moves them, or says so."""
        moves = self.operations == 0 or bool(self.changes_only)
        return self.stored or moves or self.owns_blocks

    @cached_property
    def dtype_attrs(self) -> tuple[str, ...]:
        """The attributes that are dtypes."""
        return tuple(spec.name for spec in self.attrs if spec.kind.startswith("DType"))

    @property
    def makes_narrow(self) -> bool:
        """Whether it may be told to make numbers of less than 8 bits: it rounds, or repeats."""
        return self.rounds or self.lists or self.uniform is not None

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
    def looks_into_lists(self) -> bool:
        """Whether it reads or changes a list at a place that is told."""
        return self.lists and self.check is not None

    @property
    def public(self) -> bool:
        """Whether users call it: an operator on arrays, without blocks of its own."""
        return self.function and not (self.owns_blocks or self.lists or self.random)

    def number(self, attrs: Attrs) -> Attr:
        """The one number that its result consists of; `None` where it is not known."""
        found = attrs[self.uniform] if isinstance(self.uniform, str) else self.uniform
        if isinstance(found, Literal):
            return found.array().item() if math.prod(found.shape) == 1 else None
        return found

    def may_fail(self, attrs: Attrs) -> bool:
        """Whether a run can fail at an operator with these attributes."""
        del attrs
        return self.check is not None or self.learn_rule is not None

    def count(self, inputs: Types, outputs: Types, attrs: Attrs) -> Size | None:
        """How many operations it takes for values of these types; `None` where nothing tells.

        Outputs that are not wanted are left out.
        """
        if callable(self.operations):
            given = ({**outputs, **inputs}, attrs)
            return ask(self.type, "operations=", self.operations, given, {}, size_of)
        if self.operations == 0 or (self.operations is None and self.changes_only):
            return 0
        if self.axes_rule is None:
            return None
        axes = self.axes_rule({**outputs, **inputs}, attrs)
        if self.product:
            return of_products(axes, inputs, outputs)
        if self.operations is None and axes.mixed:
            return None
        return space(axes, inputs, outputs) * (self.operations or 1)

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
        bound.update(self.coerced(given))
        for name, value in bound.items():
            if value is REQUIRED:
                raise ProgramError(
                    f"{self.type} needs `{name}=`.", fix=f"It is {specs[name].kind}."
                )
        return bound

    def coerced(self, given: Mapping[str, Any]) -> dict[str, Attr]:
        """Some of the attributes, brought to their kinds.

        Raises:
            ProgramError: One is unknown, or of another kind.
        """
        found, specs = dict[str, Attr](), self._specs
        for name in given:
            if name not in specs:
                raise ProgramError(
                    f"{self.type} has no attribute `{name}`.", fix=suggest(name, specs)
                )
        for name, value in given.items():
            kind = specs[name].kind
            plain = PLAIN.get(kind)
            alike = plain is not None and type(value) is plain
            found[name] = value if alike else coerce_argument(self.type, name, kind, value)
        return found

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
