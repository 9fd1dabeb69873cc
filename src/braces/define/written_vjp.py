"""Gradients of operators written as kernels, and their checks.

The type of a gradient is that of its input, so it is not inferred. A kernel of a user may
return something else: its number of gradients, their dtypes and shapes are checked when a
gradient is built, by tracing, and in each run that traces or interprets it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from braces.define.axes.derivative_axes import derive_axis_rule
from braces.define.core.kernel_call import first_line_of
from braces.define.core.signature import Slot, read_signature
from braces.define.definition import Attrs, OpDef, Values
from braces.define.derivatives import GRAD, suffix_of
from braces.dtypes import TensorType, Type
from braces.errors import OpDefinitionError
from braces.lazy import jax


@dataclass(eq=False)
class WrittenVjp(OpDef):
    """Gradient of an operator with a written kernel; see `DefinitionRules.vjp`."""

    base: OpDef | None = None

    def by_slot(self, results: Any) -> dict[str, tuple[Any, ...]]:
        """Return gradients by slot; without those that are `None`.

        Raises:
            OpDefinitionError: If their number is not that of the inputs.
        """
        several = isinstance(results, tuple | list)
        grads = list(cast("Sequence[Any]", results)) if several else [results]
        if len(self.outputs) == 1 and self.outputs[0].many:
            return super().by_slot(results)
        if len(grads) != len(self.outputs):
            raise self.count_error(len(grads))
        return {
            slot.name: tuple(grad) if slot.many else (grad,)
            for slot, grad in zip(self.outputs, grads, strict=True)
            if grad is not None
        }

    def count_error(self, count: int, expected: int | None = None) -> OpDefinitionError:
        """Return the error for a number of gradients that is not that of the inputs."""
        base = self.base
        assert base is not None
        names, number = [slot.name for slot in base.inputs], expected or len(base.inputs)
        several = f"{number} gradients, one for each input"
        return OpDefinitionError(
            f"@{base.type}.vjp: expected {'1 gradient' if number == 1 else several}, "
            f"got {count}.",
            given=f"inputs: {', '.join(names)}",
            fix=f"{self._returned(names)} See {first_line_of(self.kernel)}",
        )

    def _returned(self, names: Sequence[str]) -> str:
        """Return the instruction how to return gradients."""
        if self.outputs[0].many and len(names) == 1:
            return f"Annotate -> list[br.Tensor], and return one for each of `{names[0]}`."
        if len(names) == 1:
            return f"Return the gradient of `{names[0]}`."
        return (
            f"Annotate -> tuple[{', '.join(['br.Tensor'] * len(names))}], and return a tuple "
            "with one gradient for each input, in this order; None for an input without one."
        )

    def type_error(
        self, slot: str, expected: Type | None, got: Type | None
    ) -> OpDefinitionError:
        """Return the error for a gradient that does not have the type of its input."""
        base = self.base
        assert base is not None
        return OpDefinitionError(
            f"@{base.type}.vjp: expected {expected} for the gradient of "
            f"`{slot.removesuffix(self.suffix)}`, got {got}.",
            fix=f"Return a gradient with the dtype and shape of its input. See "
            f"{first_line_of(self.kernel)}",
        )

    @property
    def of_user(self) -> bool:
        """Return whether a user wrote the kernel."""
        return is_of_user(self.kernel)

    def compute(self, values: Values, attrs: Attrs, wanted: Iterable[str]) -> dict[str, Any]:
        """Run the kernel: values by slot to results by slot."""
        results = super().compute(values, attrs, wanted)
        if not self.of_user:
            return results
        for slot, grads in results.items():
            sources = values.get(slot.removesuffix(self.suffix)) or grads
            for grad, source in zip(grads, sources, strict=False):
                if not _agree(source, grad):
                    raise self.type_error(slot, _type_of(source), _type_of(grad))
        return results | self._zeros(values, results, wanted)

    def _zeros(
        self, values: Values, results: Mapping[str, Any], wanted: Iterable[str]
    ) -> dict[str, Any]:
        """Return zeros for wanted gradients that are `None`."""
        return {
            slot: tuple(map(jax.numpy.zeros_like, values[slot.removesuffix(self.suffix)]))
            for slot in wanted
            if slot not in results and values.get(slot.removesuffix(self.suffix))
        }


def is_of_user(function: Callable[..., Any]) -> bool:
    """Return whether a kernel or rule is not from this package."""
    module = getattr(inspect.unwrap(function), "__module__", None) or ""
    return module.partition(".")[0] != __name__.partition(".")[0]


def _agree(source: Any, grad: Any) -> bool:
    """Return whether dtype and shape agree; true for symbolic sizes, compared later."""
    dims = (*getattr(source, "shape", ()), *getattr(grad, "shape", ()))
    if not all(isinstance(size, int) for size in dims) or not hasattr(source, "dtype"):
        return True
    dtype = getattr(grad, "dtype", None)
    return dtype == source.dtype and tuple(grad.shape) == tuple(source.shape)


def _type_of(value: Any) -> TensorType | None:
    if not hasattr(value, "dtype"):
        return None
    return TensorType(value.dtype, tuple(value.shape))


def make_written_vjp(base: OpDef, kernel: Callable[..., Any]) -> OpDef:
    """Return the gradient of an operator with a written kernel; see `DefinitionRules.vjp`."""
    _annotate_lambda(kernel, f"{base.stem}_vjp")
    _check_names(base, kernel)
    inputs, kernel_attrs = read_signature(kernel)
    roles = {spec.name: spec.role for spec in base.attrs}
    attrs = tuple(replace(spec, role=roles.get(spec.name, spec.role)) for spec in kernel_attrs)
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
    return WrittenVjp(
        f"{base.type}.vjp", slots, attrs, outputs, kernel, doc, suffix=suffix,
        axes_rule=derive_axis_rule(base.axes_rule, slots, outputs, suffix, cotangents),
        cotangents=cotangents, operations=2 * _factor(base), base=base,
    )  # fmt: skip


def _check_names(base: OpDef, kernel: Callable[..., Any]) -> None:
    """Refuse parameters that name no value or attribute of the operator."""
    suffix = suffix_of(GRAD, base)
    values = [slot.name for slot in (*base.inputs, *base.outputs)]
    values += [slot.name + suffix for slot in base.outputs]
    attrs = [spec.name for spec in base.attrs]
    for parameter in inspect.signature(kernel).parameters.values():
        is_attr = parameter.kind is parameter.KEYWORD_ONLY
        if parameter.name not in (attrs if is_attr else values):
            raise OpDefinitionError(
                f"@{base.type}.vjp: unknown {'attribute' if is_attr else 'parameter'} "
                f"`{parameter.name}`.",
                given=f"values: {', '.join(values)}   attributes: {', '.join(attrs) or 'none'}",
                fix="Name the parameters after the values that the gradient reads: inputs, "
                f"outputs, and `NAME{suffix}` for the gradient of an output. Attributes are "
                "keyword-only.",
            )


def _annotate_lambda(kernel: Callable[..., Any], name: str) -> None:
    """Name a lambda expression, and annotate its parameters as arrays."""
    function = inspect.unwrap(kernel)
    if getattr(function, "__name__", "") == "<lambda>":
        function.__annotations__ = dict.fromkeys(inspect.signature(kernel).parameters, "Tensor")
        function.__name__ = kernel.__name__ = name


def _factor(base: OpDef) -> int:
    return base.operations if isinstance(base.operations, int) else 1
