"""Tables of equivalents: the last column runs, and computes what the first one does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
import pytest

import braces as br
from tests.docs.snippets import fences

jnp: Any = jax.numpy
FOLDER = Path(__file__).resolve().parents[2] / "docs" / "coming_from"
PAGES = sorted(page.stem for page in FOLDER.glob("*.md") if page.stem != "index")
CODE = re.compile(r"`([^`]+)`")
DRAWS = re.compile(r"rand|dropout|nn\.[A-Z]|layers\.|init")
"""Rows whose two sides draw other numbers; only their types are compared."""
SETUP = "prog = br.Program()"
"""The beginning of the block that defines the names of the tables of a page."""


@dataclass(frozen=True)
class Row:
    """A row of a table: the code of the other framework, and that of Braces."""

    line: int
    there: str
    here: str


def tables(page: str) -> Iterator[list[Row]]:
    """The tables of equivalents of a page: those with a column `Braces` of two."""
    rows = list[Row]()
    lines = (FOLDER / f"{page}.md").read_text(encoding="utf-8").splitlines()
    header = False
    for number, line in enumerate([*lines, ""], start=1):
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if header and line.startswith("|"):
            if not line.startswith("|---"):
                code = ["\n".join(CODE.findall(cell)) for cell in cells]
                rows.append(Row(number, code[0], code[-1]))
        else:
            if rows:
                yield rows
            rows, header = [], line.startswith("|") and cells[1:] == ["Braces"]


@cache
def setup(page: str) -> str:
    """The block of a page that defines the names of its tables."""
    blocks = list(fences((FOLDER / f"{page}.md").read_text(encoding="utf-8")))
    (code,) = (block.text for block in blocks if block.text.startswith(SETUP))
    return code


def evaluated(code: str, names: dict[str, Any]) -> Any:
    """Run lines of code; return the value of the first one, if it is an expression."""
    first, _, rest = code.partition("\n")
    value = None
    try:
        value = eval(first, names)
    except SyntaxError:
        exec(first, names)
    if rest:
        exec(rest, names)
    return value


def value_of(type_: Any) -> np.ndarray[Any, Any]:
    """A value for data of this type: 4 rows, 5 steps."""
    rng, dtype = np.random.default_rng(0), np.dtype(type_.dtype)
    shape = [{"n": 4, "t": 5}.get(str(size)) or int(size) for size in type_.shape]
    if dtype.kind == "i":
        return rng.integers(0, 4, shape).astype(dtype)
    normal = rng.normal(size=shape)
    return normal > 0 if dtype.kind == "b" else normal.astype(dtype)


def feeds(prog: br.Program) -> dict[str, Any]:
    """Values for the data of a program."""
    infos = prog.definition.main.vars.values()
    return {info.name: value_of(info.type) for info in infos if info.kind == "data"}


@dataclass
class Ran:
    """The variables that the rows of a table computed, and the program, scope and feed."""

    prog: br.Program
    scope: br.Scope
    feed: dict[str, Any]
    by_line: dict[int, Any]
    names: dict[str, Any]

    def values(self, variables: Any) -> Any:
        """Values of variables in inference mode."""
        return br.Executor().evaluate(self.prog, self.scope, self.feed, variables)


def initialize(prog: br.Program, scope: br.Scope) -> None:
    """Initialize the variables that a row has added."""
    infos = prog.definition.main.vars.values()
    if any(info.kind in ("parameter", "state") and info.name not in scope for info in infos):
        br.Executor(mode="interpret").init(prog, scope, missing_only=True)


def run_table(page: str, rows: list[Row], folder: Path) -> Ran:
    """Run the code of the last column; return the values of its variables by line."""
    names: dict[str, Any] = {"np": np, "br": br, "rng": np.random.default_rng(0)}
    exec(setup(page), names)
    prog, scope = names["prog"], names["scope"]
    start, results = dict(names), dict[int, br.Var]()
    with prog:
        for row in rows:
            code = row.here.replace("/tmp/", f"{folder.as_posix()}/")
            try:
                value = evaluated(code, names)
            except Exception as error:
                raise AssertionError(f"{page}.md:{row.line}: `{row.here}`: {error}") from error
            if isinstance(value, br.Var):
                results[row.line] = value
            names.update(start)
            initialize(prog, scope)
    ran = Ran(prog, scope, feeds(prog), {}, start)
    ran.by_line.update(zip(results, ran.values(list(results.values())), strict=True))
    return ran


@pytest.mark.unoptimized
@pytest.mark.parametrize("page", PAGES)
def test_the_braces_column_of_each_table_runs(page: str, tmp_path: Path) -> None:
    count = 0
    for rows in tables(page):
        run_table(page, rows, tmp_path)
        count += len(rows)
    assert count >= 25


# ---- comparisons with the other framework ----------------------------------------------------


def compare(page: str, rows: list[Row], ran: Ran, names: dict[str, Any], to_numpy: Any) -> int:
    """Compare the first with the last column where both are arrays; return the number."""
    compared = 0
    for row in rows:
        if row.line not in ran.by_line:
            continue
        value = None
        with suppress(SyntaxError, NameError):  # a statement, or a name that stands for yours
            value = to_numpy(eval(row.there, dict(names)))
        if value is None:
            continue
        ours = ran.by_line[row.line]
        place = f"{page}.md:{row.line}: `{row.there}`"
        assert value.shape == ours.shape, place
        assert value.dtype.kind == ours.dtype.kind, place
        if not DRAWS.search(row.there):
            np.testing.assert_allclose(ours, value, rtol=1e-5, atol=1e-5, err_msg=place)
        compared += 1
    return compared


@pytest.mark.unoptimized
def test_the_columns_of_the_page_of_pytorch_agree(tmp_path: Path) -> None:
    torch: Any = pytest.importorskip("torch")

    def from_torch(value: Any) -> Any:
        return value.detach().numpy() if isinstance(value, torch.Tensor) else None

    compared = 0
    for rows in tables("pytorch"):
        ran = run_table("pytorch", rows, tmp_path)
        names: dict[str, Any] = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}
        names |= {name: torch.as_tensor(value) for name, value in ran.feed.items()}
        names["logits"] = torch.as_tensor(ran.values(ran.names["logits"]))
        compared += compare("pytorch", rows, ran, names, from_torch)
    assert compared >= 50


@pytest.mark.unoptimized
def test_the_columns_of_the_page_of_jax_agree(tmp_path: Path) -> None:
    compared = 0
    for rows in tables("jax"):
        ran = run_table("jax", rows, tmp_path)
        names: dict[str, Any] = {
            "jax": jax,
            "jnp": jnp,
            "optax": optax,
            "key": jax.random.key(0),
        }
        names |= {name: jnp.asarray(value) for name, value in ran.feed.items()}
        names["w"] = jnp.asarray(ran.scope["w"])
        names["logits"] = jnp.asarray(ran.values(ran.names["logits"]))
        compared += compare("jax", rows, ran, names, from_jax)
    assert compared >= 25


def from_jax(value: Any) -> Any:
    """A NumPy array for an array of JAX."""
    return np.asarray(value) if isinstance(value, jax.Array) else None
