"""Data frames of pandas and polars, and tables of Arrow, as data sets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br

LIBRARIES = ("pandas", "polars", "pyarrow")


def library(name: str) -> Any:
    return pytest.importorskip(name, reason="no requirement")


def frame(name: str, columns: dict[str, Any]) -> Any:
    """A data frame of a library."""
    make = "table" if name == "pyarrow" else "DataFrame"
    return getattr(library(name), make)(columns)


def with_missing(name: str, values: list[Any]) -> Any:
    dtype = {"dtype": "Int64"} if name == "pandas" else {}
    make = {"pandas": "Series", "polars": "Series", "pyarrow": "array"}[name]
    return frame(name, {"x": getattr(library(name), make)(values, **dtype)})


COLUMNS = {
    "x": np.arange(10, dtype="float32"),
    "n": np.arange(10, dtype="int64"),
    "small": np.arange(10, dtype="int8"),
    "good": np.arange(10) % 2 == 0,
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_columns_are_read_by_name_with_their_dtypes(name: str) -> None:
    data = br.batches(frame(name, COLUMNS), 4, seed=3)
    plain = br.batches(COLUMNS, 4, seed=3)
    assert data.fingerprint() == plain.fingerprint()
    for batch, wanted in zip(data.epoch(2), plain.epoch(2), strict=True):
        assert list(batch) == list(COLUMNS)
        for key in COLUMNS:
            assert batch[key].dtype == wanted[key].dtype
            assert (batch[key] == wanted[key]).all()
    chosen = br.batches(frame(name, COLUMNS), 4, names=("n", "x"))
    assert chosen.names == ("n", "x")


@pytest.mark.parametrize("name", LIBRARIES)
def test_series_and_selections_are_columns_of_dicts_and_tuples(name: str) -> None:
    table = frame(name, COLUMNS)
    select = table.select if name != "pandas" else table.__getitem__
    inputs, label = select(["x", "n"]), table["n"]
    for source in ((inputs, label), {"0": inputs, "1": label}):
        (batch,) = br.batches(source, 10, shuffle=False, names=("0", "1"))
        assert batch["0"].tolist() == [[i, i] for i in range(10)]
        assert batch["1"].dtype == np.int64


@pytest.mark.parametrize("name", LIBRARIES)
def test_columns_of_lists_are_sequences(name: str) -> None:
    words = [[1], [2, 3], [4, 5, 6], [7]]
    data = br.batches(frame(name, {"w": words}), 2, shuffle=False, bucket_by="w", sizes=(1, 3))
    assert [b["w"].tolist() for b in data] == [[[2, 3, 0], [4, 5, 6]], [[1], [7]]]


def test_nullable_and_arrow_columns_of_pandas_without_missing_values_are_numbers() -> None:
    pandas = library("pandas")
    kinds = ["Int64", "Float32", "boolean"]
    for kind in kinds + ["int32[pyarrow]"] * bool(pytest.importorskip("pyarrow")):
        table = pandas.DataFrame({"x": pandas.Series([1, 0, 1], dtype=kind)})
        table.index = [7, 7, 9]
        (batch,) = br.batches(table, 3, shuffle=False)
        assert batch["x"].tolist() == [1, 0, 1]
        assert batch["x"].dtype.kind in "ifb"


# ---- bad input -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.parametrize("as_series", [False, True])
def test_missing_values_are_an_error_with_column_and_count(name: str, as_series: bool) -> None:
    table = with_missing(name, [1, None, 3, None])
    source = {"x": table["x"]} if as_series else table
    words = r"column `x` has 2 (missing values|nulls)"
    with pytest.raises(br.FeedError, match=words) as caught:
        br.batches(source, 2)
    assert "Fill or drop" in str(caught.value)


def test_nan_of_pandas_is_a_missing_value() -> None:
    table = library("pandas").DataFrame({"x": [1.0, float("nan")]})
    with pytest.raises(br.FeedError, match="column `x` has 1 missing value"):
        br.batches(table)


@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.parametrize("as_series", [False, True])
def test_strings_are_an_error_with_the_column(name: str, as_series: bool) -> None:
    table = frame(name, {"n": [1, 2], "city": ["Bern", "Rom"]})
    source = {"city": table["city"]} if as_series else table
    with pytest.raises(br.DTypeError, match="expected numbers for `city`") as caught:
        br.batches(source)
    assert "names=" in str(caught.value)
    assert br.batches(table, names=("n",)).names == ("n",)


def test_categories_and_objects_of_pandas_are_refused() -> None:
    pandas = library("pandas")
    for values in (pandas.Categorical(["a", "b"]), np.array(["a", 1], object)):
        with pytest.raises(br.DTypeError, match="expected numbers for `c`"):
            br.batches(pandas.DataFrame({"c": values}))
    with pytest.raises(br.DTypeError, match=r"`t`.*datetime64"):
        br.batches(pandas.DataFrame({"t": pandas.date_range("2026-01-01", periods=3)}))


def test_names_of_columns_must_be_different_strings() -> None:
    pandas = library("pandas")
    with pytest.raises(br.FeedError, match="expected strings as names of columns, got 0"):
        br.batches(pandas.DataFrame(np.zeros((3, 2))))
    with pytest.raises(br.FeedError, match="two columns `a`"):
        br.batches(pandas.DataFrame(np.zeros((3, 2)), columns=["a", "a"]))


@pytest.mark.parametrize("name", LIBRARIES)
def test_empty_frames_and_unknown_columns_are_refused(name: str) -> None:
    with pytest.raises(br.FeedError, match="data set is empty: `x` with 0 rows"):
        br.batches(frame(name, {"x": np.zeros(0)}))
    with pytest.raises(br.UnknownNameError, match="`good`"):
        br.batches(frame(name, COLUMNS), names=("god",))


def test_a_lazy_frame_names_the_call_that_is_missing() -> None:
    with pytest.raises(br.FeedError, match=r"frame\.collect\(\)"):
        br.batches(frame("polars", COLUMNS).lazy())


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_data_frame_in_place_of_batches_names_br_batches(name: str) -> None:
    with br.Program() as prog:
        x = br.data("x", ["n"])
        br.optimizer.sgd(0.1).minimize(br.mean(x) * br.parameter("w", [], init=1.0))
    with pytest.raises(br.FeedError, match=r"br\.batches"):
        br.fit(prog, frame(name, {"x": np.ones(4, "float32")}), quiet=True)
