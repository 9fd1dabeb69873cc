"""Scopes in notebooks, and descriptions of their values."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from braces.scope import Scope
from braces.scope.html_view import TrieNode, build_tree
from braces.scope.value_summary import Summary
from tests.viewer.programs import HOSTILE


class Outline(HTMLParser):
    """What a browser would show: the text of each row and title, and how deep it lies."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.lines: list[tuple[int, str]] = []
        self.tags: set[str] = set()
        self.attrs: set[str] = set()
        self.depth = 0
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attrs |= {name for name, _ in attrs}
        self.depth += tag == "details"
        if tag == "div" or tag == "summary":
            self.lines.append((self.depth - (tag == "summary"), ""))

    def handle_endtag(self, tag: str) -> None:
        self.depth -= tag == "details"

    def handle_data(self, data: str) -> None:
        depth, before = self.lines[-1]
        self.lines[-1] = depth, before + data


def outline(scope: Scope) -> list[tuple[int, str]]:
    return [line for line in Outline(scope._repr_html_()).lines if line[1]]


def test_names_are_a_tree_with_types_of_values() -> None:
    scope = Scope()
    scope.update({"enc/q.w": np.float32([[1.0, 3.0]]), "enc/q.b": [2.0], "enc/k.w": [0.0, 0.0]})
    scope.update({"step": 7, "bad": [1.0, np.nan, np.inf], "fc": [], "fc.w": [True, False]})
    scope.var("later")
    scope.var("rows").put([np.ones(2)])
    assert outline(scope) == [
        (0, "scope root: 9 variables, 58 B"),
        (0, "bad: f32[3]  12 B  ⚠ 1, 1 NaN, 1 infinite"),
        (0, "fc: f32[0]  0 B  no numbers"),
        (0, "fc.w: bool[2]  2 B  mean 0.5, std 0.5, from 0 to 1"),
        (0, "later: not set"),
        (0, "rows: list<f64[2]> of 1 item  16 B"),
        (0, "step: i64[]  8 B  7"),
        (0, "enc/  3 variables, 20 B"),
        (1, "k.w: f32[2]  8 B  all 0"),
        (1, "q.  2 variables, 12 B"),
        (2, "b: f32[1]  4 B  2"),
        (2, "w: f32[1,2]  8 B  mean 2, std 1, from 1 to 3"),
    ]


def test_scopes_below_are_boxes_in_boxes() -> None:
    scope = Scope()
    first, second = scope.new_scope(), scope.new_scope()
    inner = first.new_scope()
    for one, name in zip((scope, first, inner, second), "wabc", strict=True):
        one[name] = 1
    titles = [line for line in outline(scope) if line[1].startswith("scope")]
    assert titles == [
        (0, "scope root: 1 variable, 8 B"),
        (0, "scope root/1: 1 variable, 8 B"),
        (1, "scope root/1/1: 1 variable, 8 B"),
        (0, "scope root/2: 1 variable, 8 B"),
    ]
    assert [depth for depth, text in outline(scope) if "i64" in text] == [0, 1, 2, 1]
    scope.close()
    assert outline(scope) == [(0, "scope root (closed)")]


def test_a_tree_has_every_name_once() -> None:
    names = ["a", "a.", "a..b", "a/b", "a/b/", "/", ".", "..", "//", "a/b.c.d", "x" + "/y" * 99]

    def spelled(branch: TrieNode, before: str = "") -> list[str]:
        below = (spelled(one, before + part) for part, one in branch.branches.items())
        return [before + name for name in branch.raws] + [name for one in below for name in one]

    assert sorted(spelled(build_tree(dict.fromkeys(names)))) == sorted(names)


def test_nothing_that_a_name_says_is_run() -> None:
    scope = Scope()
    for name in (
        HOSTILE.replace("\u2028", ""),
        'a/"onclick="x',
        "<b>.</details>.c",
    ):
        scope.var(name).set(1)
    found = Outline(scope._repr_html_())
    assert found.tags <= {"div", "details", "summary"}
    assert found.attrs <= {"style", "open"}
    assert found.depth == 0
    assert any("<img src=x" in text for _, text in found.lines)


def test_very_many_variables_are_bounded_and_begin_closed() -> None:
    scope = Scope()
    scope.update({f"layer{i}.{name}": 0.0 for i in range(5000) for name in "wb"})
    text = scope._repr_html_()
    assert len(text.encode()) < 200_000
    assert text.count("<details") == text.count("</details>") > 100
    assert "print(scope)" in text
    wide = Scope()
    wide.update({f"net/{i}": 0.0 for i in range(41)} | {f"small/{i}": 0.0 for i in range(3)})
    assert re.findall(r"<details( open)?[^>]*><summary>(\w+)", wide._repr_html_()) == [
        ("", "net"), (" open", "small")
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16, "int8", "bool", "float64"])
def test_a_summary_is_that_of_numpy(rng: np.random.Generator, dtype: str) -> None:
    values = np.rint(rng.normal(size=(20, 30)) * 4).astype(dtype)
    for given in (values, jnp.asarray(values) if dtype != "float64" else values):
        found, wide = Summary.of(given), values.astype(np.float64)
        np.testing.assert_array_equal(found.finite, wide.reshape(-1))
        assert (found.nans, found.infinite, found.is_well) == (0, 0, True)
        assert str(found) == (
            f"mean {wide.mean():.3g}, std {wide.std():.3g}, from {wide.min():.3g} "
            f"to {wide.max():.3g}"
        )


def test_a_summary_tells_what_is_not_finite() -> None:
    assert str(Summary.of([np.nan, np.nan])) == "2 NaN"
    assert str(Summary.of(np.float32([-np.inf, 1.0, 2.0]))) == (
        "mean 1.5, std 0.5, from 1 to 2, 1 infinite"
    )
    assert str(Summary.of(np.array([3 + 4j, 0j]))) == "mean 2.5, std 2.5, from 0 to 5"
    assert str(Summary.of([1e300, -1e300])).startswith("mean 0, std")
