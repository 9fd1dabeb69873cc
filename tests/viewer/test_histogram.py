"""Histograms of values in the page of a program."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import braces as br
from braces.scope.value_summary import Summary
from braces.viewer.histogram import BINS, histogram_figures, histogram_svg
from braces.viewer.html import program_html
from tests.viewer.programs import HOSTILE, nested
from tests.viewer.test_html import Tags


def bars(values: Any) -> list[tuple[int, float, float]]:
    """How many numbers each bar stands for, and from where to where."""
    found = re.findall(
        r"<title>([\d,]+) from (\S+) to (\S+)</title>", histogram_figures("", values)
    )
    return [(int(n.replace(",", "")), float(low), float(high)) for n, low, high in found]


@pytest.mark.parametrize("dtype", ["float32", "float16", ml_dtypes.bfloat16, "int8", "bool"])
def test_bars_count_what_numpy_counts(rng: np.random.Generator, dtype: Any) -> None:
    value = np.rint(rng.normal(size=(40, 50)) * 9).astype(dtype)
    counts, edges = np.histogram(value.astype(np.float64), BINS)
    found = bars({"w": value})
    assert [n for n, _, _ in found] == [n for n in counts.tolist() if n]
    np.testing.assert_allclose(found[0][1], edges[0], 1e-3)
    np.testing.assert_allclose(found[-1][2], edges[-1], 1e-3)


ODD = {
    "nothing": np.zeros(0),
    "only NaN": np.full(3, np.nan),
    "one": np.array(3.0),
    "equal": np.full(9, -2.0),
    "infinite": np.array([1.0, np.inf, -np.inf, np.nan]),
    "largest": np.array([-1.7e308, 1.7e308]),
    "close": np.array([1.0, np.nextafter(1.0, 2.0)]),
    "smallest": np.array([5e-324, 0.0]),
    "complex": np.array([3 + 4j, 0j]),
}


@pytest.mark.parametrize("name", ODD)
def test_any_value_has_a_picture_that_is_well_formed(name: str) -> None:
    value = ODD[name]
    text = histogram_svg(Summary.of(value))
    finite = np.isfinite(value).sum()
    assert sum(n for n, _, _ in bars({"w": value})) == finite
    assert bool(text) == bool(finite)
    if text:
        places = [
            float(rect.attrib[k]) for rect in ET.fromstring(text).iter("rect") for k in "xy"
        ]
        assert np.isfinite(places).all()


def test_what_is_not_finite_is_said() -> None:
    text = histogram_figures("", {"w": ODD["infinite"]})
    assert '<span class="last ill">' in text
    assert "1 NaN, 2 infinite" in text
    assert "ill" not in histogram_figures("", {"w": np.ones(2)})


def test_names_are_escaped_and_pictures_bounded() -> None:
    values = {f"{HOSTILE}{i}": np.ones(1) for i in range(5000)}
    page = program_html(nested(), values={HOSTILE: values})
    plain = Tags(program_html(nested()))
    found = Tags(page)
    for tags in ("script", "style", "img"):
        assert [t for t, _ in found.tags if t == tags] == [
            t for t, _ in plain.tags if t == tags
        ]
    assert not any({"src", "href", "onclick", "style"} & set(a) for _, a in found.tags)
    assert "… and 4,800 more" in page
    assert page.count("<figure") == 200


# ---- of programs -----------------------------------------------------------------------------


def figures(path: Path, group: str) -> list[str]:
    """The captions in a group of a page."""
    page = path.read_text(encoding="utf-8")
    inside = re.search(rf"<summary>{group} \(\d+\)</summary>(.*?)</details>", page)
    return re.findall(r"<figcaption>(.*?) <span", inside.group(1)) if inside else []


@pytest.fixture(scope="module")
def trained() -> tuple[br.Program, br.Scope]:
    with br.Program() as prog:
        x = br.dropout(br.data("x", ["n", 3]), 0.5)
        frozen = br.parameter("frozen", [3], trainable=False)
        loss = br.mean(br.fc(x * frozen, 2, name="fc") ** 2, name="loss")
        br.optimizer.momentum(0.1).minimize(loss)
    scope = br.Scope()
    br.Executor(mode="interpret").init(prog, scope)
    return prog, scope


def test_a_page_has_parameters_gradients_and_other_states(
    trained: tuple[br.Program, br.Scope], tmp_path: Path
) -> None:
    prog, scope = trained
    path, before = tmp_path / "page.html", scope.state_dict()
    text = prog.to_bytes()
    prog.to_html(path, scope=scope)
    assert figures(path, "Parameters") == ["frozen", "fc.w", "fc.b"]
    assert figures(path, "Gradients") == []
    assert set(figures(path, "Other states")) == scope.keys() - {"frozen", "fc.w", "fc.b"}
    prog.to_html(path, scope=scope, feed={"x": np.ones((4, 3), "f")})
    assert figures(path, "Gradients") == ["fc.w", "fc.b"]
    after = scope.state_dict()
    assert all(np.array_equal(after[name], before[name]) for name in before)
    assert prog.to_bytes() == text
    prog.to_html(path)
    assert figures(path, "Parameters") == []


def test_gradients_are_those_of_the_loss(tmp_path: Path) -> None:
    with br.Program() as prog:
        w = br.parameter("w", [3], init=[1.0, 2.0, 3.0])
        loss = br.sum(w * br.data("x", [3]))
        br.sum(w, name="other")
    scope, path = br.Scope(), tmp_path / "page.html"
    br.Executor(mode="interpret").init(prog, scope)
    feed = {"x": [5.0, 7.0, 9.0]}
    for wanted in (loss, loss.name):
        prog.to_html(path, scope=scope, feed=feed, loss=wanted)
        assert "mean 7, std 1.63, from 5 to 9" in path.read_text(encoding="utf-8")
    prog.to_html(path, scope=scope, loss="other")
    assert "all 1</span>" in path.read_text(encoding="utf-8")
    before = path.read_bytes()
    for wrong, words in (
        ({"feed": feed}, "require scope="),
        ({"scope": scope, "feed": feed}, "missing loss"),
        ({"scope": scope, "feed": {}, "loss": loss}, "missing feeds"),
        ({"scope": scope, "feed": feed, "loss": "losss"}, "losss"),
    ):
        with pytest.raises(br.BracesError, match=words):
            prog.to_html(path, **wrong)
    assert path.read_bytes() == before
