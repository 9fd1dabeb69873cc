"""Kernels of single operators, compiled separately for the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, NoReturn, TypeAlias, final

import numpy as np

from braces.define.core.check_code import add_operands
from braces.define.decorator import OpDef
from braces.define.type_inference import raise_run_error
from braces.dtypes import ListType, TensorType
from braces.ir.records import Op, Slots, VarInfo
from braces.ir.walk import dimensions
from braces.lazy import jax, xla_metadata
from braces.lower.checks.array_size_limit import guard_array_sizes, refuse_huge_results
from braces.lower.checks.run_checks import read_check_code, read_dynamic_sizes
from braces.lower.compiler_options import compiler_options
from braces.lower.xla.concrete_attributes import Sizes, concrete_attrs
from braces.target import Target, XlaOptions

SlotLayout: TypeAlias = tuple[tuple[str, int], ...]
"""Slots in order, each with its number of values."""
Attributes: TypeAlias = tuple[tuple[str, Any], ...]
"""Attributes in order; every size is a number."""

MAX_KERNELS, MAX_SIZE_SETS, MAX_CONSTANT_ELEMENTS = 4096, 16, 4096


@dataclass(eq=False, slots=True)
class SpecializedKernel:
    """Kernel specialized for one set of sizes.

    Attributes:
        attrs: Its attributes; every size is a number.
        run: Maps the inputs to the outputs, in order.
        check: Maps the inputs to a failure code, if the operator has a check.
        quick: Whether it is compiled with few optimizations.
    """

    attrs: dict[str, Any]
    run: Callable[..., Sequence[Any]]
    check: Callable[..., Any] | None
    quick: bool


@final
class Kernel:
    """Kernel of one operator without blocks, prepared once for all runs.

    An operator that reads arrays is compiled separately. An operator without inputs, a constant
    above all, is not: it would be compiled again for each value, and its result is the same in
    each iteration. Random operators are compiled with the options of whole programs, which
    gives the same bits.

    Attributes:
        op: The operator.
        reads: The names that it reads, in order.
        binds: The names that it binds, in order.
        names: The dimensions that its attributes name.
        constant: Whether it has no inputs, so its result is the same in each iteration.
        bundled: Whether it may be part of a hot trace, if it is small enough.
    """

    def __init__(
        self, op: Op, definition: OpDef, target: Target, infos: Mapping[str, VarInfo]
    ) -> None:
        self.op = op
        self.reads, self.binds = tuple(op.reads()), tuple(op.binds())
        self._definition, self._target = definition, target
        self._given, self._wanted = _layout_of(op.inputs), _layout_of(op.outputs)
        self.names = tuple(sorted(dimensions(tuple(op.attrs.values()))))
        self._small = -1 if definition.random else target.small
        types = (infos[name].type for name in self.reads)
        self._lists = definition.lists or any(isinstance(type_, ListType) for type_ in types)
        self.constant = not (self.reads or self._lists)
        self._learns = definition.learn_rule is not None
        self._measured = bool(self.reads) and self._small >= 0 and not self._lists
        # XLA computes a convolution in another order if it is compiled alone
        slow = definition.costly and not definition.product
        little = (self.constant or self._measured) and self._small > 0
        self.bundled = little and not slow and not self._learns
        self._ready: dict[Any, SpecializedKernel] = {}

    def _operand_types(self, values: Sequence[Any]) -> Iterator[tuple[str, TensorType]]:
        """Yield the slots and types of values."""
        slots = [slot for slot, names in self.op.inputs.items() for _ in names]
        for slot, value in zip(slots, values, strict=True):
            if hasattr(value, "shape"):
                yield slot, TensorType(np.dtype(value.dtype), tuple(value.shape))

    def run(
        self,
        env: dict[str, Any],
        sizes: Sizes,
        constants: dict[SpecializedKernel, Sequence[Any]],
    ) -> None:
        """Compute the outputs; `env` gains them.

        Args:
            env: The values of visible variables.
            sizes: The dimensions of the run; the data-dependent sizes of this operator are
                added.
            constants: The results of small operators without inputs in this run.
        """
        values = [env[name] for name in self.reads]
        if self._learns:
            self._learn(values, sizes)
        ready = self.specialize(values, sizes)
        if ready.check is not None and (code := int(np.asarray(ready.check(*values)))):
            failure = self._definition.failure(ready.attrs, code)
            raise add_operands(failure, self._operand_types(values))
        if self.constant:
            results = self._once(ready, constants)
        else:
            try:
                results = ready.run(*values)
            except Exception as error:
                self._refuse(ready, values, error)
        if len(results) == 1:  # `zip` takes four times as long
            (env[self.binds[0]],) = results
        else:
            env.update(zip(self.binds, results, strict=True))

    def _once(
        self, ready: SpecializedKernel, constants: dict[SpecializedKernel, Sequence[Any]]
    ) -> Sequence[Any]:
        """Return the results of an operator without inputs; cache small ones for the run."""
        results = constants.get(ready)
        if results is None:
            refuse_huge_results(self._definition, ready.attrs, tuple(self.op.outputs))
            try:
                results = ready.run()
            except Exception as error:
                self._refuse(ready, (), error)
            if sum(x.size for x in results) <= MAX_CONSTANT_ELEMENTS:
                constants[ready] = results
        return results

    def _learn(self, values: Sequence[Any], sizes: Sizes) -> None:
        dynamic_sizes = read_dynamic_sizes(
            self._definition, _group_by_slot(self._given, values), self.op.attrs
        )
        sizes.update((name, int(size)) for name, size in dynamic_sizes.items())

    def specialize(self, values: Sequence[Any], sizes: Sizes) -> SpecializedKernel:
        """Return the kernel for the sizes of this run; small inputs get quick compilation."""
        quick = self._small >= 0
        if self._measured:
            numbers = 0
            for value in values:
                numbers += value.size
            quick = numbers <= self._small
        key = (quick, *map(sizes.get, self.names)) if self.names else quick
        ready = self._ready.get(key)
        if ready is None:
            if len(self._ready) >= MAX_SIZE_SETS:
                self._ready.clear()
            ready = self._ready[key] = self._build(quick, concrete_attrs(self.op.attrs, sizes))
        return ready

    def _build(self, quick: bool, attrs: dict[str, Any]) -> SpecializedKernel:
        definition, frozen = self._definition, tuple(attrs.items())
        checked = definition.check is not None
        if self._lists or self.constant:
            run = _build_compute(definition, frozen, self._given, self._wanted)
            check = _build_check(definition, frozen, self._given) if checked else None
            return SpecializedKernel(attrs, run, check, quick)
        options = self._target.quickly if quick else ()
        run = _kernel(definition, frozen, self._given, self._wanted, options)
        check = _compile_check(definition, frozen, self._given, options) if checked else None
        return SpecializedKernel(attrs, run, check, quick)

    def inner(self, ready: SpecializedKernel) -> tuple[Callable[..., Sequence[Any]], Any]:
        """Return the operator and its optional check as functions for a fused call."""
        definition, frozen = self._definition, tuple(ready.attrs.items())
        run = isolate_computation(_build_compute, definition, frozen, self._given, self._wanted)
        if ready.check is None:
            return run, None
        return run, isolate_computation(_build_check, definition, frozen, self._given)

    def _refuse(
        self, ready: SpecializedKernel, values: Sequence[Any], error: Exception
    ) -> NoReturn:
        definition, values_by_slot = self._definition, _group_by_slot(self._given, values)
        raise_run_error(definition, values_by_slot, ready.attrs, tuple(self.op.outputs), error)


def forget_kernels() -> None:
    """Clear the caches of kernels compiled for the interpreter."""
    compile_shared.cache_clear()
    _kernel.cache_clear()
    _compile_check.cache_clear()
    isolate_computation.cache_clear()


@lru_cache(MAX_KERNELS)
def compile_shared(function: Callable[..., Any], options: XlaOptions) -> Callable[..., Any]:
    """Return a shared function of constructs, compiled with these options."""
    return _jit(function, options)


def _jit(function: Callable[..., Any], options: XlaOptions) -> Callable[..., Any]:
    return jax.jit(function, compiler_options=compiler_options(options))


@lru_cache(MAX_KERNELS)
def _kernel(
    definition: OpDef,
    attrs: Attributes,
    input_layout: SlotLayout,
    wanted: SlotLayout,
    options: XlaOptions,
) -> Callable[..., Sequence[Any]]:
    compute = _build_compute(definition, attrs, input_layout, wanted)
    function = guard_array_sizes(lambda values: compute(*values))
    return _jit(lambda *values: function(values), options)


@lru_cache(MAX_KERNELS)
def _compile_check(
    definition: OpDef, attrs: Attributes, input_layout: SlotLayout, options: XlaOptions
) -> Callable[..., Any]:
    return _jit(_build_check(definition, attrs, input_layout), options)


@lru_cache(MAX_KERNELS)
def isolate_computation(
    make: Callable[..., Callable[..., Any]], *of: Any
) -> Callable[..., Any]:
    """Return `make(*of)` as an isolated computation, for use inside larger code.

    XLA compiles a call as a separate computation if the call is marked as not inlineable:
    nothing is fused or simplified across it, and its body is compiled as it is alone. An
    optimization barrier does not suffice; XLA drops barriers before it fuses.
    """
    function = make(*of)

    @jax.jit
    def inside(*values: Any) -> Any:
        with xla_metadata.set_xla_metadata(inlineable=None):  # its own calls are inlineable
            return function(*values)

    def call(*values: Any) -> Any:
        with xla_metadata.set_xla_metadata(inlineable="false"):
            return inside(*values)

    return call


def _build_compute(
    definition: OpDef, attrs: Attributes, input_layout: SlotLayout, wanted: SlotLayout
) -> Callable[..., Sequence[Any]]:
    slots = tuple(slot for slot, _ in wanted)

    def compute(*values: Any) -> Sequence[Any]:
        results = definition.compute(_group_by_slot(input_layout, values), dict(attrs), slots)
        return [
            value
            for slot, number in wanted
            for _, value in zip(range(number), results.get(slot, ()), strict=True)
        ]

    return compute


def _build_check(
    definition: OpDef, attrs: Attributes, input_layout: SlotLayout
) -> Callable[..., Any]:
    return lambda *values: read_check_code(
        definition, _group_by_slot(input_layout, values), dict(attrs)
    )


def _layout_of(slots: Slots) -> SlotLayout:
    return tuple((slot, len(names)) for slot, names in slots.items())


def _group_by_slot(layout: SlotLayout, values: Iterable[Any]) -> Mapping[str, tuple[Any, ...]]:
    """Group values, in order, by their slots."""
    remaining = iter(values)
    return {slot: tuple(islice(remaining, number)) for slot, number in layout}
