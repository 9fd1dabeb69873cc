"""Every operator as an ONNX model, with its derivatives: values in another runtime."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import braces as br
from tests.ops.cases import Case, build, cases, differentiable_cases
from tests.ops.contract.exporting import fetches, first_of_each
from tests.support.onnx_round_trip import check_exported

pytestmark = pytest.mark.unoptimized

PAGE = Path(__file__).parents[3] / "docs" / "tables" / "onnx_operators.md"
ROW = re.compile(r"^\| `(\S+)` \| (values|gradients) \|", re.MULTILINE)
REFUSED = frozenset(ROW.findall(PAGE.read_text(encoding="utf-8")))
"""Operators, and what of them ONNX cannot say, as the page has them."""
NO_KERNEL = frozenset(
    {"arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "conv1d"}
    | {"conv2d", "conv3d", "conv_to_input", "conv_to_weight", "conv_transpose1d"}
    | {"conv_transpose2d", "conv_transpose3d", "cosh", "sinh", "tan"}
)
"""Operators for whose float64 ONNX Runtime has no kernel; there ONNX's own evaluator runs."""


STORED = re.compile(r"\b(f8|f4|u?int[24]\b)")
"""Dtypes that ONNX has, and that arrays of NumPy do not bring to its evaluators and back."""


def others_of_each(found: tuple[Case, ...]) -> list[Case]:
    """All examples but those, and those of dtypes that no evaluator is fed or gives."""
    first = {id(case) for case in first_of_each(found)}
    return [case for case in found if id(case) not in first and not STORED.search(str(case))]


def only_elsewhere(case: Case, differentiate: bool = False) -> bool:
    """Return whether ONNX Runtime does not run it, and ONNX's own evaluator does.

    Derivatives are of float64. That of `resize_back` is a `Resize`, where sizes are symbolic.
    """
    if differentiate and case.op == "resize_back":
        return "h" in case.sizes()
    wide = any("f64" in str(t) for types in case.types.values() for t in types)
    return wide and case.op in NO_KERNEL


@pytest.mark.parametrize("case", first_of_each(tuple(cases())), ids=str)
def test_operators_give_the_same_elsewhere(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path, differentiate=False)


@pytest.mark.thorough
@pytest.mark.parametrize("case", others_of_each(tuple(cases())), ids=str)
def test_all_examples_give_the_same_elsewhere(case: Case, tmp_path: Path) -> None:
    check_or_refuse(case, tmp_path, differentiate=False)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "case",
    [
        case
        for case in others_of_each(differentiable_cases())
        if not (only_elsewhere(case) and case.op.startswith("conv"))
    ],  # ONNX's own evaluator has no paddings that cut off
    ids=str,
)
def test_all_gradients_give_the_same_elsewhere(case: Case, tmp_path: Path) -> None:
    check_or_refuse(case, tmp_path, differentiate=True)


@pytest.mark.parametrize("case", first_of_each(differentiable_cases()), ids=str)
def test_gradients_give_the_same_elsewhere(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path, differentiate=True)


def check_or_refuse(case: Case, folder: Path, differentiate: bool) -> None:
    """An example gives the same, or what it needs is said: a primitive, or a kind of it.

    Where the first one of an operator is written, others may say more than ONNX has.
    """
    built, sizes = build(case), case.sizes()
    fetch = fetches(built, differentiate)
    if not fetch:
        return
    feed = built.feed(case.values(sizes), {}, sizes)
    reference = only_elsewhere(case, differentiate)

    def refusal(fixed: dict[str, int] | None) -> str:
        try:
            check_exported(
                built.program, [feed], fetch, folder, sizes=fixed, reference=reference
            )
        except br.ProgramError as error:
            return str(error)
        return ""

    found = refusal(None)
    if "expected static sizes" in found:
        found = refusal(sizes)
    assert not found or re.search(
        r"without an ONNX export(?s:.*)(JAX primitive `\w+`|complex)", found
    )


def check(case: Case, folder: Path, differentiate: bool) -> None:
    built, sizes = build(case), case.sizes()
    fetch = fetches(built, differentiate)
    feed = built.feed(case.values(sizes), {}, sizes)
    reference = only_elsewhere(case, differentiate)

    def compare(fixed: dict[str, int] | None) -> None:
        check_exported(built.program, [feed], fetch, folder, sizes=fixed, reference=reference)

    complex_ = any(t.dtype.kind == "c" for some in case.types.values() for t in some)
    if (case.op, "gradients" if differentiate else "values") in REFUSED or complex_:
        with pytest.raises(br.ProgramError, match="operators without an ONNX export"):
            compare(sizes)
        return
    try:
        compare(None)
    except br.ProgramError as error:  # a kernel may ask for sizes
        if "expected static sizes" not in str(error):
            raise
        compare(sizes)
