"""Training curves."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET

import pytest

import braces as br
from braces.viewer.html import program_html
from braces.viewer.training_curve import curve_figures, curve_svg


def path(values: list[float]) -> str:
    found = re.search(r'<path d="([^"]*)"', curve_svg(values))
    assert found is not None
    return found.group(1)


@pytest.mark.parametrize(
    "values", [[], [1.0], [2.0, 2.0], [3.0, 1.0, 2.0], [math.nan], [math.inf, 1.0]]
)
def test_a_curve_is_well_formed_and_has_a_point_for_each_finite_value(
    values: list[float],
) -> None:
    root = ET.fromstring(curve_svg(values))
    circles = root.findall("circle")
    assert len(circles) == sum(map(math.isfinite, values))
    assert "nan" not in path(values)


def test_a_larger_value_is_higher_and_a_later_one_further_right() -> None:
    numbers = [float(n) for n in re.findall(r"[\d.]+", path([3.0, 1.0, 2.0]))]
    x, y = numbers[::2], numbers[1::2]
    assert x == sorted(x)
    assert y[0] < y[2] < y[1]


def test_a_value_that_is_not_finite_leaves_a_gap() -> None:
    assert path([1.0, math.nan, 2.0, 3.0]).count("M") == 2


def test_equal_values_keep_their_own_epochs() -> None:
    titles = re.findall(r"<title>(epoch \d+)", curve_svg([0.5, 0.5, 0.5]))
    assert titles == ["epoch 1", "epoch 2", "epoch 3"]


def test_the_page_has_a_figure_for_each_measure() -> None:
    page = program_html(br.Program(), curve={"loss": [2.0, 1.0], "accuracy": [0.1, 0.9]})
    assert page.count("<figure") == 2
    assert "0.9 after epoch 2" in page
    assert "<figure" not in program_html(br.Program())
    assert curve_figures(None) == ""
