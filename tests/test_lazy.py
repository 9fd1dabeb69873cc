"""Optional libraries: the errors if one is not installed."""

from __future__ import annotations

import pytest

from braces.errors import MissingPackageError
from braces.lazy import LazyModule


def test_the_extra_that_brings_a_package_is_named() -> None:
    with pytest.raises(MissingPackageError, match="the package nowhere,") as caught:
        _ = LazyModule("nowhere.deep", extra="deep").attribute
    assert 'pip install "braces[deep]"' in str(caught.value)


def test_what_looks_modules_over_finds_no_special_names_in_one_that_is_not_there() -> None:
    assert not hasattr(LazyModule("nowhere", extra="deep"), "__wrapped__")


def test_a_package_that_must_be_there_is_missed_in_pythons_own_words() -> None:
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        _ = LazyModule("nowhere").attribute
