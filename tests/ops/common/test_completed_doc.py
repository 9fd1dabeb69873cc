"""Sections of docstrings that follow from the definition of an operator."""

from inspect import cleandoc

import pytest

from braces.define.completed_doc import REDUCED, complete_doc, described
from braces.define.core.signature import AttrSpec, Slot
from braces.ops.common.rules import common, real, real_function, truth

X, Y = Slot("x"), Slot("y")
ALONG = [AttrSpec("axis", "Axis")]
REDUCING = [AttrSpec("axis", "Axes"), AttrSpec("keepdims", "bool")]
BINARY = """
    Sum.

        out[i] = x[i] + y[i]

    Inputs:
        x: number[*shape].
        y: number[*shape], broadcast against `x`.

    Outputs:
        out: The promoted dtype, the common shape.

    Raises:
        ShapeError: If the shapes do not broadcast.
"""


def test_a_formula_gets_the_sections_of_an_elementwise_operator():
    doc = complete_doc("Sum.\n\nout[i] = x[i] + y[i]", [X, Y], [], common, "..., ... -> ...")
    assert doc == cleandoc(BINARY)


def test_a_written_section_takes_precedence_and_keeps_its_place():
    written = "Size.\n\nOutputs:\n    out: Not negative.\n\nExample:\n    >>> 1\n    1"
    doc = complete_doc(written, [X], [], real, "... -> ...")
    titles = [line for line in doc.splitlines() if line.endswith(":")]
    assert titles == ["Inputs:", "Outputs:", "Raises:", "Example:"]
    assert "out: Not negative.\n" in doc
    assert "DTypeError: If the dtype is bool or complex." in doc


@pytest.mark.parametrize(
    ("attrs", "axes", "output"),
    [(ALONG, lambda types, attrs: None, "[*shape]"), (REDUCING, {"x": 0}, "[*rest]")],
)
def test_an_axis_gives_the_output_and_the_error(attrs, axes, output):
    doc = complete_doc("Sum.", [X], attrs, real_function, axes)
    assert f"out: float{output}; integers give float32." in doc
    assert "ShapeError: If `axis` is not an axis of `x`.\n" in doc
    assert [f"{name}: {text}" in doc for name, text in REDUCED.items()] == [
        attrs == REDUCING
    ] * 2


def test_words_of_a_rule_keep_its_result():
    @described("bool", "bool[*shape].", "If an input is not bool.")
    def rule(operator, *dtypes):
        return operator, dtypes

    assert rule("logical_not", 1, 2) == ("logical_not", (1, 2))
    assert "DTypeError: If an input is not bool." in complete_doc(
        "Not.", [X], [], rule, "... -> ..."
    )


@pytest.mark.parametrize(
    ("dtypes", "axes"),
    [
        (lambda operator, x: x, "... -> ..."),
        (None, None),
        (truth, "... i -> ..."),
        (truth, None),
    ],
)
def test_a_docstring_without_words_or_with_other_axes_stays(dtypes, axes):
    assert (
        complete_doc("Twice.\n\nout = 2 * x", [X], [], dtypes, axes) == "Twice.\n\nout = 2 * x"
    )
