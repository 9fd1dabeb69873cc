"""Classes that public functions return have a place, an example and no constructor there."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from importlib.util import find_spec
from operator import attrgetter
from typing import Any, get_args, get_type_hints

import pytest
from braces_docs import equivalents, reference

import braces as br

RECORDS = {
    "SymbolTable", "Place", "ProgramDef", "Body", "LoopCarry", "DistributionParams",
    "NamedProgram", "Feeds", "Unique",
}  # fmt: skip
"""Records of the core and named tuples, which their functions describe."""
SHOWN = ("Fit", "History", "TrainingSteps", "InferenceServer", "InferenceApp", "Stats")
"""Classes of results that have an example."""


def public() -> dict[str, Any]:
    """Everything that the reference documents, by name."""
    names = (name for page in reference.pages() for name in page.names)
    return {name: attrgetter(name)(br) for name in names}


def functions(value: Any) -> Iterator[Any]:
    """A function, or the public methods and properties of a class."""
    if not inspect.isclass(value):
        yield inspect.unwrap(value) if callable(value) else None
        return
    for name in dir(value) if not issubclass(value, Exception) else ():
        member = inspect.getattr_static(value, name)
        member = member.fget if isinstance(member, property) else member
        yield None if name.startswith("_") else getattr(member, "__func__", member)


def classes(hint: Any) -> Iterator[type]:
    """The classes of Braces in a type."""
    for inner in get_args(hint):
        yield from classes(inner)
    if inspect.isclass(hint) and hint.__module__.startswith("braces."):
        yield hint


def returned(function: Any) -> list[type]:
    """The classes that a function returns; none if its types are for checkers alone."""
    try:
        return list(classes(get_type_hints(function).get("return")))
    except (NameError, TypeError, AttributeError):
        return []


def resolve(name: str) -> Any:
    """A class of results."""
    module, _, own = name.rpartition(".")
    return getattr(importlib.import_module(f"braces.{module}"), own)


def test_every_class_that_a_public_function_returns_is_in_the_reference() -> None:
    values = public()
    known = [*values.values(), *(resolve(n) for p in reference.pages() for n in p.results)]
    listed = {value for value in known if inspect.isclass(value)}
    found = {c for v in values.values() for f in functions(v) if f for c in returned(f)}
    assert len(found) > 40
    assert {each.__name__ for each in found - listed} <= RECORDS


def test_classes_of_results_have_docstrings_and_examples() -> None:
    found = [resolve(name) for page in reference.pages() for name in page.results]
    found += filter(inspect.isclass, public().values())
    assert all(each.__doc__ for each in found)
    documented = {each.__name__ for each in found if ">>>" in each.__doc__}
    assert set(SHOWN) <= documented


def test_equivalents_are_of_names_in_the_reference() -> None:
    names = {n for page in reference.pages() for n in (*page.names, *page.results)}
    assert {name for name, *_ in equivalents.others()} <= names
    assert equivalents.line("fit") == "Keras: ``Model.fit``"
    assert equivalents.line("cond") == "PyTorch: ``cond`` · Keras: ``ops.cond``"


@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
def test_equivalents_exist_in_pytorch() -> None:
    for _, name, _ in equivalents.others():
        if name:
            parts = name.split(".")
            value = importlib.import_module("torch")
            for at, part in enumerate(parts[1:], 2):
                if not hasattr(value, part):
                    importlib.import_module(".".join(parts[:at]))
                value = getattr(value, part)
