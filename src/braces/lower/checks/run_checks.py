"""Reports of operators to a run, besides outputs: data-dependent sizes and failure codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from braces.define.core.check_code import worst_code
from braces.define.core.kernel_call import call_rule
from braces.define.decorator import Attrs, OpDef
from braces.define.definition import Values
from braces.lazy import jnp


def read_dynamic_sizes(definition: OpDef, values: Values, attrs: Attrs) -> Mapping[str, Any]:
    """Return the data-dependent sizes of an operator, by the names of dimensions."""
    assert definition.learn_rule is not None
    rule, arguments = definition.learn_rule, definition.arrange(values)
    return call_rule(definition.type, "learned", rule, arguments, attrs, _read_sizes)


def _read_sizes(sizes: Mapping[object, Any]) -> Mapping[str, Any]:
    return {_check_name(name): _check_size(size) for name, size in sizes.items()}


def _check_name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError
    return name


def _check_size(size: Any) -> Any:
    size_array = jnp.asarray(size)
    if size_array.shape or size_array.dtype.kind not in "iu":
        raise TypeError
    return size


def read_check_code(definition: OpDef, values: Values, attrs: Mapping[str, Any]) -> Any:
    """Return the failure code from the check of an operator, or 0; see `check_code`."""
    assert definition.check is not None
    rule, arguments = definition.check.kernel, definition.arrange(values)
    return call_rule(definition.type, "checked", rule, arguments, attrs, _read_offence)


def _read_offence(code: Any) -> Any:
    if code is False:
        return 0
    if jnp.asarray(code).dtype.kind not in "biu":
        raise TypeError
    return worst_code(code)
