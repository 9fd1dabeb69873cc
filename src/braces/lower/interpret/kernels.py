"""Single operators, each compiled on its own, to be interpreted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, NoReturn, TypeAlias, final

import numpy as np

from braces.define.decorator import OpDef
from braces.define.type_inference import refuse_run
from braces.dtypes import ListType
from braces.ir.records import Op, Slots, VarInfo
from braces.ir.walk import dimensions
from braces.lazy import jax, xla_metadata
from braces.lower.checks.array_size_limit import guarded, refuse_huge_results
from braces.lower.checks.run_checks import told_offence, told_sizes
from braces.lower.xla.concrete_attributes import Sizes, concrete_attrs
from braces.target import ROUNDED, Target, XlaOptions

Layout: TypeAlias = tuple[tuple[str, int], ...]
"""Slots in order, each with how many values it has."""
Attributes: TypeAlias = tuple[tuple[str, Any], ...]
"""Attributes in order, every size a number."""

MOST_KERNELS, MOST_SIZES, LARGEST_CONSTANT = 4096, 16, 4096


@dataclass(eq=False, slots=True)
class Ready:
    """An operator for one set of sizes.

    Attributes:
        attrs: Its attributes, every size a number.
        run: From its inputs to its outputs, in order.
        check: From its inputs to what is wrong with them, where it has a check.
        quick: Whether it is compiled quickly.
    """

    attrs: dict[str, Any]
    run: Callable[..., Sequence[Any]]
    check: Callable[..., Any] | None
    quick: bool


@final
class Kernel:
    """One operator without blocks, as a block has it: prepared once for all runs.

    What reads arrays is compiled on its own. What reads nothing, a constant above all, is not:
    it would be compiled again for each value, and it gives the same on each trip. What draws is
    compiled as it is in whole programs, and so gives the same bits.

    Attributes:
        op: The operator.
        reads: The names that it reads, in order.
        binds: The names that it binds, in order.
        names: The dimensions that its attributes name.
        constant: Whether it reads nothing, and so gives the same on each trip.
        bundled: Whether it may be dispatched together with others, where it is small enough.
    """

    def __init__(
        self, op: Op, definition: OpDef, target: Target, infos: Mapping[str, VarInfo]
    ) -> None:
        self.op = op
        self.reads, self.binds = tuple(op.reads()), tuple(op.binds())
        self._definition, self._target = definition, target
        self._given, self._wanted = _layout(op.inputs), _layout(op.outputs)
        self.names = tuple(sorted(dimensions(tuple(op.attrs.values()))))
        self._small = -1 if definition.random else target.small
        types = (infos[name].type for name in self.reads)
        self._lists = definition.lists or any(isinstance(type_, ListType) for type_ in types)
        self.constant = not (self.reads or self._lists)
        self._learns = definition.learn_rule is not None
        self._measured = bool(self.reads) and self._small >= 0 and not self._lists
        # XLA brings convolutions into another order where they stand alone
        slow = definition.costly and not definition.product
        little = (self.constant or self._measured) and self._small > 0
        self.bundled = little and not slow and not self._learns
        self._ready: dict[Any, Ready] = {}

    def run(
        self, env: dict[str, Any], sizes: Sizes, constants: dict[Ready, Sequence[Any]]
    ) -> None:
        """Compute; `env` gains what it binds.

        Args:
            env: The values of visible variables.
            sizes: The dimensions of the run; those that this operator tells are added.
            constants: What small operators that read nothing gave in this run.
        """
        values = [env[name] for name in self.reads]
        if self._learns:
            self._learn(values, sizes)
        ready = self.found(values, sizes)
        if ready.check is not None and (code := int(np.asarray(ready.check(*values)))):
            raise self._definition.failure(ready.attrs, code)
        if self.constant:
            results = self._once(ready, constants)
        else:
            try:
                results = ready.run(*values)
            except Exception as error:
                self._refuse(ready, values, error)
        if len(results) == 1:  # a `zip` takes four times as long
            (env[self.binds[0]],) = results
        else:
            env.update(zip(self.binds, results, strict=True))

    def _once(self, ready: Ready, constants: dict[Ready, Sequence[Any]]) -> Sequence[Any]:
        """What this operator gives, which reads nothing: where it is small, once in a run."""
        results = constants.get(ready)
        if results is None:
            refuse_huge_results(self._definition, ready.attrs, tuple(self.op.outputs))
            try:
                results = ready.run()
            except Exception as error:
                self._refuse(ready, (), error)
            if sum(x.size for x in results) <= LARGEST_CONSTANT:
                constants[ready] = results
        return results

    def _learn(self, values: Sequence[Any], sizes: Sizes) -> None:
        told = told_sizes(self._definition, _by_slot(self._given, values), self.op.attrs)
        sizes.update((name, int(size)) for name, size in told.items())

    def found(self, values: Sequence[Any], sizes: Sizes) -> Ready:
        """The operator for the sizes of this run, compiled quickly where it reads little."""
        quick = self._small >= 0
        if self._measured:
            numbers = 0
            for value in values:
                numbers += value.size
            quick = numbers <= self._small
        key = (quick, *map(sizes.get, self.names)) if self.names else quick
        found = self._ready.get(key)
        if found is None:
            if len(self._ready) >= MOST_SIZES:
                self._ready.clear()
            found = self._ready[key] = self._made(quick, concrete_attrs(self.op.attrs, sizes))
        return found

    def _made(self, quick: bool, attrs: dict[str, Any]) -> Ready:
        definition, frozen = self._definition, tuple(attrs.items())
        checked = definition.check is not None
        if self._lists or self.constant:
            run = _computing(definition, frozen, self._given, self._wanted)
            check = _checking(definition, frozen, self._given) if checked else None
            return Ready(attrs, run, check, quick)
        options = self._target.quickly if quick else ()
        run = _kernel(definition, frozen, self._given, self._wanted, options)
        check = _checker(definition, frozen, self._given, options) if checked else None
        return Ready(attrs, run, check, quick)

    def inner(self, ready: Ready) -> tuple[Callable[..., Sequence[Any]], Any]:
        """The operator, and its check if it has one, to be called while JAX traces others."""
        definition, frozen = self._definition, tuple(ready.attrs.items())
        run = apart(_computing, definition, frozen, self._given, self._wanted)
        if ready.check is None:
            return run, None
        return run, apart(_checking, definition, frozen, self._given)

    def _refuse(self, ready: Ready, values: Sequence[Any], error: Exception) -> NoReturn:
        definition, given = self._definition, _by_slot(self._given, values)
        refuse_run(definition, given, ready.attrs, tuple(self.op.outputs), error)


def forget_kernels() -> None:
    """Let go of what was compiled to interpret single operators."""
    compiled.cache_clear()
    _kernel.cache_clear()
    _checker.cache_clear()
    apart.cache_clear()


@lru_cache(MOST_KERNELS)
def compiled(function: Callable[..., Any], options: XlaOptions) -> Callable[..., Any]:
    """A function that constructs share, compiled with these options for what it is given."""
    return _jitted(function, options)


def _jitted(function: Callable[..., Any], options: XlaOptions) -> Callable[..., Any]:
    return jax.jit(function, compiler_options=dict((*ROUNDED, *options)))


@lru_cache(MOST_KERNELS)
def _kernel(
    definition: OpDef, attrs: Attributes, given: Layout, wanted: Layout, options: XlaOptions
) -> Callable[..., Sequence[Any]]:
    compute = _computing(definition, attrs, given, wanted)
    function = guarded(lambda values: compute(*values))
    return _jitted(lambda *values: function(values), options)


@lru_cache(MOST_KERNELS)
def _checker(
    definition: OpDef, attrs: Attributes, given: Layout, options: XlaOptions
) -> Callable[..., Any]:
    return _jitted(_checking(definition, attrs, given), options)


@lru_cache(MOST_KERNELS)
def apart(make: Callable[..., Callable[..., Any]], *of: Any) -> Callable[..., Any]:
    """What `make` makes, for code of many operators, in which XLA leaves it what it is alone.

    XLA compiles what is called as a computation of its own where the call says that it is not
    to be put in the place of the call: nothing is fused or simplified across it, and what is in
    it is compiled as if it were all. A barrier would not do; XLA drops those before it fuses.
    """
    function = make(*of)

    @jax.jit
    def inside(*values: Any) -> Any:
        with xla_metadata.set_xla_metadata(inlineable=None):  # what it calls itself is
            return function(*values)

    def call(*values: Any) -> Any:
        with xla_metadata.set_xla_metadata(inlineable="false"):
            return inside(*values)

    return call


def _computing(
    definition: OpDef, attrs: Attributes, given: Layout, wanted: Layout
) -> Callable[..., Sequence[Any]]:
    slots = tuple(slot for slot, _ in wanted)

    def compute(*values: Any) -> Sequence[Any]:
        results = definition.compute(_by_slot(given, values), dict(attrs), slots)
        return [
            value
            for slot, number in wanted
            for _, value in zip(range(number), results.get(slot, ()), strict=True)
        ]

    return compute


def _checking(definition: OpDef, attrs: Attributes, given: Layout) -> Callable[..., Any]:
    return lambda *values: told_offence(definition, _by_slot(given, values), dict(attrs))


def _layout(slots: Slots) -> Layout:
    return tuple((slot, len(names)) for slot, names in slots.items())


def _by_slot(layout: Layout, values: Iterable[Any]) -> Mapping[str, tuple[Any, ...]]:
    """Values in order, by the slots that they belong to."""
    rest = iter(values)
    return {slot: tuple(islice(rest, number)) for slot, number in layout}
