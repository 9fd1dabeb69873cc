"""The inventory of the built pages, to which other documentations link, has all names."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

import public_names

HEAD = 4
"""Lines of an inventory before its compressed part."""


def inventory(site: Path) -> dict[str, str]:
    """The names of Python in objects.inv, with their addresses."""
    parts = (site / "objects.inv").read_bytes().split(b"\n", HEAD)
    lines = zlib.decompress(parts[HEAD]).decode("utf-8").splitlines()
    found = (re.match(r"(\S+) py:\w+ \S+ (\S+) ", line) for line in lines)
    return {each[1]: each[2].replace("$", each[1]) for each in found if each}


def public() -> set[str]:
    """The full public names: `braces.linalg.svd`, and `braces.BracesError`."""
    names, module = set[str](), ""
    for line in public_names.SNAPSHOT.read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):
            names.add(f"{module}.{line.strip()}")
        else:
            module = line.replace("br", "braces", 1)
    return names - {name.replace("br", "braces", 1) for name in public_names.modules()}


def test_every_public_name_has_an_address(site: Path) -> None:
    assert public() - set(inventory(site)) == set()


def test_methods_have_addresses(site: Path) -> None:
    methods = ("Program.summary", "Executor.run", "Scope.state_dict", "Program.for_test")
    assert {f"braces.{name}" for name in methods} <= set(inventory(site))


def test_names_in_the_text_of_guides_lead_to_the_reference(site: Path) -> None:
    training = (site / "guides" / "training.html").read_text(encoding="utf-8")
    assert 'href="../reference/data_training.html#braces.fit"' in training
    looking = (site / "guides" / "looking.html").read_text(encoding="utf-8")
    assert 'href="../reference/programs.html#braces.Program.cost"' in looking


def test_classes_of_results_are_shown_by_their_own_names(site: Path) -> None:
    text = (site / "reference" / "executor.html").read_text(encoding="utf-8")
    assert 'id="braces.scope.variable.Variable"' in text
    assert ">br.scope" not in text
