"""Sections of an operator's docstring that follow from its dtype rule, axes and attributes.

A dtype rule with words (`described`) completes the docstring of a kernel:

    @op(axes="..., ... -> ...", dtypes=ordered)
    def maximum(x: Tensor, y: Tensor) -> Tensor:
        \"\"\"Elementwise maximum; NaN if one of them is.\"\"\"

Its documentation has the inputs "x: real[*shape]." and "y: real[*shape], broadcast against
`x`.", the output "The promoted dtype, the common shape.", and the errors "ShapeError: If
the shapes do not broadcast." and "DTypeError: If the dtype is complex."
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Any

from braces.define.axes.axis_map import Axes
from braces.define.axes.axis_rules import Reduction
from braces.define.core.signature import AttrSpec, Slot

INPUTS, ATTRIBUTES, OUTPUTS, RAISES = "Inputs", "Attributes", "Outputs", "Raises"
REDUCED = {
    "axis": "One axis or several; `None` means all of them.",
    "keepdims": "Whether reduced axes stay, with size 1.",
}
"""Attributes of a reduction."""


@dataclass(frozen=True)
class DescribedRule:
    """A dtype rule with words for documentation.

    Attributes:
        rule: The rule: `rule(operator, *dtypes, **attrs)`.
        takes: The kind of the inputs, such as "real".
        gives: The output, where `[*shape]` is its shape; empty for the dtype of the inputs.
        refuses: The inputs that raise a `DTypeError`, as a clause with "If"; empty for none.
    """

    rule: Callable[..., Any]
    takes: str
    gives: str = ""
    refuses: str = ""

    def __call__(self, operator: str, *dtypes: Any, **attrs: Any) -> Any:
        """Return the output dtypes."""
        return self.rule(operator, *dtypes, **attrs)


def described(
    takes: str, gives: str = "", refuses: str = ""
) -> Callable[[Callable[..., Any]], DescribedRule]:
    """Decorate a dtype rule with words for documentation; see `DescribedRule`."""
    return lambda rule: DescribedRule(rule, takes, gives, refuses)


def complete_doc(
    doc: str, inputs: Sequence[Slot], attrs: Sequence[AttrSpec], dtypes: object, axes: Axes
) -> str:
    """Return a docstring with the sections that follow from a definition.

    Sections of the docstring take precedence. It is returned unchanged if the dtype rule has no
    words, or if the axes are neither elementwise nor along the attribute `axis`.
    """
    along = any(spec.name == "axis" for spec in attrs)
    if not isinstance(dtypes, DescribedRule) or not (along or _is_elementwise(axes)):
        return doc
    head, *written = re.split(r"\n\n(?=[A-Z]\w+:\n)", doc)
    sections = _derive_sections(dtypes, [slot.name for slot in inputs], attrs, axes)
    sections |= {text.partition(":")[0]: text for text in written}
    return "\n\n".join(filter(None, [_indent_formula(head), *sections.values()]))


def _indent_formula(head: str) -> str:
    """Indent a formula that is all the text after the summary."""
    summary, blank, body = head.partition("\n\n")
    dedented = re.match(r"\w+(\[.*?\])?\S* = ", body)
    return f"{summary}{blank}{indent(body, '    ')}" if dedented else head


def _is_elementwise(axes: Axes) -> bool:
    return isinstance(axes, str) and {*re.split(r", | -> ", axes)} == {"..."}


def _derive_sections(
    words: DescribedRule, inputs: Sequence[str], attrs: Sequence[AttrSpec], axes: Axes
) -> dict[str, str]:
    """Return the sections by title, in order; a section without entries is empty."""
    first, kinds = inputs[0], {spec.name: spec.kind for spec in attrs}
    takes = f"{words.takes}[*shape]"
    entries = {
        INPUTS: {first: f"{takes}."}
        | {name: f"{takes}, broadcast against `{first}`." for name in inputs[1:]},
        ATTRIBUTES: REDUCED if kinds.keys() == REDUCED.keys() else {},
        OUTPUTS: {"out": _describe_output(words.gives, inputs, "keepdims" in kinds)},
        RAISES: {
            "ShapeError": _describe_shape_error(inputs, "axis" in kinds, axes),
            "DTypeError": words.refuses,
        },
    }
    return {title: _format_section(title, texts) for title, texts in entries.items()}


def _describe_output(gives: str, inputs: Sequence[str], reduces: bool) -> str:
    if gives:
        return gives.replace("[*shape]", "[*rest]") if reduces else gives
    if len(inputs) > 1:
        return "The promoted dtype, the common shape."
    return f"The dtype of `{inputs[0]}`." if reduces else f"As `{inputs[0]}`."


def _describe_shape_error(inputs: Sequence[str], along: bool, axes: Axes) -> str:
    if not along:
        return "If the shapes do not broadcast." if len(inputs) > 1 else ""
    nonempty = isinstance(axes, Reduction) and axes.nonempty
    end = ", or its size is 0." if nonempty else "."
    return f"If `axis` is not an axis of `{inputs[0]}`{end}"


def _format_section(title: str, texts: dict[str, str]) -> str:
    lines = [f"    {name}: {text}" for name, text in texts.items() if text]
    return "\n".join([f"{title}:", *lines]) if lines else ""
