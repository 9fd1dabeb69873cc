"""Record of an operator type: schema, kernel, rules and declared properties."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from braces.define.axes.axis_map import AxisRule
from braces.define.axes.flop_count import (
    Operations,
    count_combinations,
    count_product_operations,
    require_size,
)
from braces.define.core.attribute_kinds import UNCONVERTED_TYPES, coerce_argument, normalise
from braces.define.core.check_code import decode_offender
from braces.define.core.kernel_call import call_rule
from braces.define.core.signature import REQUIRED, AttrSpec, Slot
from braces.define.core.tracer_guard import value_read_error
from braces.dims import Size
from braces.dtypes import DType, Type
from braces.errors import BracesError, OpDefinitionError, ProgramError, suggest
from braces.ir.records import Attr, Literal, Op

Tensor: TypeAlias = Any
"""Annotation of array parameters of kernels; the values are JAX arrays."""
Values: TypeAlias = "Mapping[str, tuple[Any, ...]]"
Types: TypeAlias = "Mapping[str, tuple[Type, ...]]"
Attrs: TypeAlias = "Mapping[str, Attr]"
DTypeRule: TypeAlias = "Callable[..., DType | tuple[DType, ...]]"
"""`rule(operator, *dtypes, **attrs)`: from input dtypes to the dtype of each output."""
CHANGES = TYPE, SHAPE, AXES = "type", "shape", "axes"
"""The only change that an operator may make to its input; see `braces.define.decorator.op`."""


@dataclass(frozen=True)
class Check:
    """A run-time check: a condition on values that is an error where it holds.

    Attributes:
        kernel: Same parameters as the operator's kernel; returns a bool array, true at errors,
            or the failure codes of `braces.define.core.check_code.encode_offender`.
        error: The class of the error.
        message: Its text; `{name}` stands for the value of an attribute.
        fix: The way out.
    """

    kernel: Callable[..., Any]
    error: type[BracesError]
    message: str
    fix: str | None = None


@dataclass(eq=False)
class OpDef:
    """Definition of an operator type.

    The module that defines an operator completes it; it is constant afterwards.

    Attributes:
        type: Its name in programs.
        inputs, attrs, outputs: Its schema.
        kernel: The JAX function from arrays to arrays.
        infer_rule: Output types from input types; by default they follow from `axes_rule` and
            `dtype_rule`, or from tracing the kernel.
        dtype_rule: Output dtypes from input dtypes; shapes then follow from the axes.
        vjp_rule: A written gradient kernel, as a separate operator.
        gradient_rule: A gradient written as a program; takes precedence over kernels.
        jvp_rule: A directional derivative written as a program.
        resolve_rule: Attributes resolved from the types of the inputs.
        learn_rule: Data-dependent sizes: from inputs and attributes to numbers by name.
        axes_rule: The axis map from inputs to outputs; `None` if unknown.
        masked_rule: Its replacement where masking of its inputs is not sufficient.
        rounded_rule: Its replacement for a batch padded to a capacity.
        count_rule: Appends operators for the number of rows, if its output may be padded.
        differentiable: False where gradients are zero or undefined.
        check: The condition of a run-time error.
        random: Whether it draws random numbers; its first input is then the random state.
        cheap: Whether recomputing a result costs no more than reading a saved one.
        costly: Whether its work is much larger than its result.
        commutative: Whether its inputs may be exchanged.
        neutral: By input slot, the number with which it returns its other input, bitwise.
        uniform: The number in all entries of its result, or the attribute that holds it.
        changes_only: The only property that it changes: "type", "shape" or "axes"; see `op`.
        product: Whether its output is a sum of products of its inputs, over all axes that it
            lacks.
        additive: Whether the sum of its results for parts is its result for the whole, along an
            axis that its output lacks and that is not mixed.
        adds_to: The inputs to which the output is an addition determined by other inputs.
        picks: The inputs from which it reads only as much as it returns (gather).
        joins: The attribute with the axis along which it concatenates its inputs.
        training_only: The optional inputs that are read in training only.
        counts: Whether a state that it updates is updated in programs for testing, too.
        operations: The operation count for each combination of the entries of its axes, or a
            function of types and attributes that returns the total; `None` if it follows from
            the axes. See `braces.define.axes.flop_count`.
        stored: Whether it takes storage-only dtypes, although it has operations.
        rounds: Whether its kernel itself returns numbers of a dtype below 8 bits, and so gets
            that dtype; other kernels get its carrier.
        lists: Whether it handles lists, which are not arrays.
        transparent: Whether names bound in its blocks count as bound by the operator, so that
            one output may depend on another.
        passes_on: The slot whose values are its outputs; only derivatives differ.
        function: Whether `br` has a function made from it.
        examples: Types and attributes for documentation and tests.
        version: Increased when the meaning of stored programs would change.
        suffix: Of a derivative: the suffix of cotangent or tangent slots, appended to the name
            of the original slot.
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
        """Return the input slot of this name."""
        return self.input_slots.get(name)

    def output(self, name: str) -> Slot | None:
        """Return the output slot of this name."""
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
        """Return whether blocks are among the attributes."""
        return any(spec.holds_blocks for spec in self.attrs)

    @cached_property
    def takes_stored(self) -> bool:
        """Return whether it takes storage-only dtypes: it only moves data, or declares it."""
        moves = self.operations == 0 or bool(self.changes_only)
        return self.stored or moves or self.owns_blocks

    @cached_property
    def dtype_attrs(self) -> tuple[str, ...]:
        """The attributes that are dtypes."""
        return tuple(spec.name for spec in self.attrs if spec.kind.startswith("DType"))

    @property
    def makes_narrow(self) -> bool:
        """Return whether it may create numbers below 8 bits: it rounds, or repeats a number."""
        return self.rounds or self.lists or self.uniform is not None

    @cached_property
    def stem(self) -> str:
        """The stem of default names for operators of this type."""
        return self.type.replace(".", "_")

    @cached_property
    def output_names(self) -> tuple[str, ...]:
        """The output slots."""
        return tuple(slot.name for slot in self.outputs)

    @cached_property
    def index_slots(self) -> frozenset[str]:
        """The input slots in which a Python integer stays an integer."""
        return frozenset(slot.name for slot in self.inputs if slot.index)

    @cached_property
    def _spec_of(self) -> Mapping[str, AttrSpec]:
        return {spec.name: spec for spec in self.attrs}

    @cached_property
    def _defaults(self) -> Mapping[str, Any]:
        """The default values of attributes, in order."""
        return {
            s.name: REQUIRED if s.required else normalise(s.kind, s.default) for s in self.attrs
        }

    @property
    def looks_into_lists(self) -> bool:
        """Return whether it reads or changes a list at a dynamic index."""
        return self.lists and self.check is not None

    @property
    def public(self) -> bool:
        """Return whether users call it: an operator on arrays, without own blocks."""
        return self.function and not (self.owns_blocks or self.lists or self.random)

    def number(self, attrs: Attrs) -> Attr:
        """Return the number in all entries of its result; `None` if unknown."""
        value = attrs[self.uniform] if isinstance(self.uniform, str) else self.uniform
        if isinstance(value, Literal):
            return value.array().item() if math.prod(value.shape) == 1 else None
        return value

    def may_fail(self, attrs: Attrs) -> bool:
        """Return whether a run can fail at an operator with these attributes."""
        del attrs
        return self.check is not None or self.learn_rule is not None

    def count(self, inputs: Types, outputs: Types, attrs: Attrs) -> Size | None:
        """Return the operation count for values of these types; `None` if unknown.

        Outputs that are not needed are left out.
        """
        if callable(self.operations):
            rule_args = ({**outputs, **inputs}, attrs)
            return call_rule(
                self.type, "operations=", self.operations, rule_args, {}, require_size
            )
        if self.operations == 0 or (self.operations is None and self.changes_only):
            return 0
        if self.axes_rule is None:
            return None
        axes = self.axes_rule({**outputs, **inputs}, attrs)
        if self.product:
            return count_product_operations(axes, inputs, outputs)
        if self.operations is None and axes.mixed:
            return None
        return count_combinations(axes, inputs, outputs) * (self.operations or 1)

    def failure(self, attrs: Attrs, code: int) -> BracesError:
        """Return the error of a run that fails at this operator with check code `code`."""
        check = self.check
        assert check is not None
        message = check.message
        for name, value in attrs.items():
            message = message.replace(f"{{{name}}}", str(value))
        return check.error(message, given=decode_offender(code), fix=check.fix)

    def infer_blocks(
        self, context: Any, types: Types, attrs: Attrs, outer: Mapping[str, Type]
    ) -> dict[str, tuple[Type, ...]]:
        """Infer the outputs of an operator with blocks; `outer` has the types of captures."""
        raise OpDefinitionError(f"{self.type}: missing type inference of blocks.")

    def bind_attrs(self, attrs: Mapping[str, Any]) -> dict[str, Attr]:
        """Return all attributes, with defaults, converted to their kinds.

        Raises:
            ProgramError: If an attribute is missing, unknown, or of a different kind.
        """
        bound, specs = dict(self._defaults), self._spec_of
        bound.update(self.coerced(attrs))
        for name, value in bound.items():
            if value is REQUIRED:
                raise ProgramError(
                    f"{self.type}: missing attribute `{name}`.",
                    fix=f"Pass `{name}=` as {specs[name].kind}.",
                )
        return bound

    def coerced(self, attrs: Mapping[str, Any]) -> dict[str, Attr]:
        """Return the given attributes, converted to their kinds.

        Raises:
            ProgramError: If an attribute is unknown, or of a different kind.
        """
        converted, specs = dict[str, Attr](), self._spec_of
        for name in attrs:
            if name not in specs:
                raise ProgramError(
                    f"{self.type}: unknown attribute `{name}`.", fix=suggest(name, specs)
                )
        for name, value in attrs.items():
            kind = specs[name].kind
            plain = UNCONVERTED_TYPES.get(kind)
            alike = plain is not None and type(value) is plain
            converted[name] = value if alike else coerce_argument(self.type, name, kind, value)
        return converted

    # ---- computing ---------------------------------------------------------------------------

    def arrange(self, values: Mapping[str, tuple[Any, ...]]) -> list[Any]:
        """Return values by slot as positional arguments of a kernel or an inference rule."""
        arguments: list[Any] = []
        for slot in self.inputs:
            slot_values = values.get(slot.name, ())
            if slot.many:
                arguments.extend(slot_values)
            else:
                arguments.append(slot_values[0] if slot_values else None)
        return arguments

    def by_slot(self, results: Any) -> dict[str, tuple[Any, ...]]:
        """Return the results of a kernel or inference rule by output slot."""
        if len(self.outputs) == 1:
            slot = self.outputs[0]
            return {slot.name: tuple(results) if slot.many else (results,)}
        return {
            slot.name: tuple(result) if slot.many else (result,)
            for slot, result in zip(self.outputs, results, strict=True)
            if result is not None
        }

    def compute(self, values: Values, attrs: Attrs, wanted: Iterable[str]) -> dict[str, Any]:
        """Run the kernel: values by slot to results by slot."""
        del wanted
        try:
            return self.by_slot(self.kernel(*self.arrange(values), **attrs))
        except Exception as error:
            definition_error = value_read_error(self.type, self.kernel, error)
            if definition_error is None:
                raise
            raise definition_error from None
