"""The cases of ONNX's backend test suite: models with inputs and expected outputs."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

import braces as br
from braces.exchange.common.model.names import clean_name
from braces.frontend.core.random_state import RANDOM_STATE

PAGE = Path(__file__).resolve().parents[1] / "docs/tables/conformance.md"
KINDS = ("node", "simple")
CONTROL = {
    "control flow: `If`, `Loop`, `Scan`": ("If", "Loop", "Scan"),
    "recurrent: `RNN`, `GRU`, `LSTM`": ("RNN", "GRU", "LSTM"),
    "sequences and optionals": (
        "ConcatFromSequence", "Optional", "OptionalGetElement", "OptionalHasElement",
        "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert",
        "SequenceLength", "SequenceMap", "SplitToSequence",
    ),
}  # fmt: skip
"""What is held compiled too: cases whose models have one of these operators, at any depth."""
DECODING = "ImageDecoder"


@dataclass(frozen=True)
class Case:
    """A case.

    Attributes:
        given: The case as the package has it: a folder with files, or, from onnx 1.23 on, a
            model and arrays in memory.
    """

    given: Any

    @property
    def name(self) -> str:
        """Its name in the suite."""
        return self.given.name

    def model(self) -> Any:
        """A copy of its model."""
        if self.given.model_dir is not None:
            return onnx.load(Path(self.given.model_dir) / "model.onnx")
        copy = onnx.ModelProto()
        copy.CopyFrom(self.given.model)
        return copy

    def data(self, model: Any) -> Iterator[tuple[dict[str, Any], list[Any]]]:
        """Inputs by name and outputs in order, of each set."""
        inner = {tensor.name for tensor in model.graph.initializer}
        inputs = [entry for entry in model.graph.input if entry.name not in inner]
        for given, wanted in self._sets(inputs, model.graph.output):
            fed = dict(zip((entry.name for entry in inputs), given, strict=True))
            yield {k: v for k, v in fed.items() if v is not None}, wanted

    def _sets(
        self, inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> Iterator[tuple[list[Any], list[Any]]]:
        if self.given.model_dir is None:
            for given, wanted in self.given.data_sets:
                yield [*map(_in_memory, given)], [*map(_in_memory, wanted)]
            return
        for folder in sorted(Path(self.given.model_dir).glob("test_data_set_*")):
            yield _read_all(folder, "input", inputs), _read_all(folder, "output", outputs)


@dataclass(frozen=True)
class Kind:
    """The subject of a case.

    Attributes:
        operators: The types of the operators of its model, at any depth.
        numeric: Whether it is numeric, without strings and without decoding of images.
    """

    operators: frozenset[str]
    numeric: bool

    @staticmethod
    def of(case: Case) -> Kind:
        """The subject of a case."""
        model = case.model()
        nodes = (*model.graph.node, *(n for f in model.functions for n in f.node))
        operators = frozenset(_operators(nodes))
        entries = (*model.graph.input, *model.graph.output)
        texts = any(_has_texts(entry.type) for entry in entries)
        return Kind(operators, not texts and DECODING not in operators)


def _operators(nodes: Iterable[Any]) -> Iterator[str]:
    for node in nodes:
        yield node.op_type
        for attribute in node.attribute:
            yield from _operators(attribute.g.node)


def _has_texts(type_: Any) -> bool:
    kind = type_.WhichOneof("value")
    if kind == "tensor_type":
        return type_.tensor_type.elem_type == onnx.TensorProto.STRING
    return kind is not None and _has_texts(getattr(type_, kind).elem_type)


@functools.cache
def cases() -> dict[str, Case]:
    """All numeric cases, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # onnx 1.23 computes its cases, infinities among them
        found = [case for kind in KINDS for case in load_model_tests(kind=kind)]
    there = sorted(found, key=lambda case: case.name)
    return {case.name: Case(case) for case in there if _is_there(case)}


def _is_there(case: Any) -> bool:
    """Return whether the package contains a case, instead of its address."""
    return case.model_dir is not None or case.model is not None


def _in_memory(value: Any) -> Any:
    if isinstance(value, list):
        return [_in_memory(one) for one in value]
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return None if value is None else np.asarray(value)


def _read_all(folder: Path, what: str, entries: Sequence[Any]) -> list[Any]:
    return [_read(folder / f"{what}_{i}.pb", entry.type) for i, entry in enumerate(entries)]


def _read(path: Path, type_: Any) -> Any:
    if not path.exists():
        return None
    kinds = {
        "tensor_type": (onnx.TensorProto, numpy_helper.to_array),
        "sequence_type": (onnx.SequenceProto, numpy_helper.to_list),
        "optional_type": (onnx.OptionalProto, numpy_helper.to_optional),
    }
    message, convert = kinds[type_.WhichOneof("value")]
    found = message()
    found.ParseFromString(path.read_bytes())
    return convert(found)


def outcome(case: Case, mode: str = "interpret") -> str | None:
    """The failure of a case; `None` if it passes."""
    model = case.model()
    for given, wanted in case.data(model):
        try:
            got, draws = run(model, given, mode)
        except br.BracesError as error:
            return f"{type(error).__name__}: {error}"
        flat = list(flattened(wanted))
        if len(got) != len(flat):
            return f"{len(got)} outputs in place of {len(flat)}"
        for one, other in zip(got, flat, strict=True):
            found = difference(np.asarray(one), other, None if draws else case)
            if found:
                return found
    return None


def reason_of(wrong: str) -> str:
    """A short reason of a failure: the first unsupported part, without its place."""
    lines = [line.strip() for line in wrong.splitlines()]
    given = [line for line in lines if ", first " in line]
    said = given[0].split(", first ", 1)[1].split(": ", 1)[-1] if given else lines[0]
    return re.sub(r"`[^`]*`", "`…`", said).replace("|", "/")[:160]


def listed_as_failing() -> set[str]:
    """The failing cases by the page of the suite."""
    rows = PAGE.read_text(encoding="utf-8").split("|--:|---|---|\n")[1].splitlines()
    return {
        f"test_{name}" for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[3])
    }


def run(model: Any, given: Mapping[str, Any], mode: str) -> tuple[list[Any], bool]:
    """The outputs of a model as a program, and whether they are random.

    Inputs that must be constants are not fed.
    """
    prog, values = br.from_onnx(model, inputs=given)
    scope = br.Scope()
    scope.update(values)
    named = {clean_name(name, "input"): value for name, value in given.items()}
    fed = {name: value for name, value in _elements(named) if name in prog.feeds}
    if not prog.fetches:
        return [], False
    exe = br.Executor(mode=mode)
    exe.init(prog, scope, seed=0, missing_only=True)
    return exe.run(prog, scope, feed=fed, fetch=list(prog.fetches)), RANDOM_STATE in prog.vars


def _elements(given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in given.items():
        if isinstance(value, list):
            yield from ((f"{name}.{i}", one) for i, one in enumerate(value))
        else:
            yield name, value


def flattened(value: Any) -> Iterator[Any]:
    """The arrays of nested lists, without missing elements."""
    if isinstance(value, list):
        for one in value:
            yield from flattened(one)
    elif value is not None:
        yield np.asarray(value)


def difference(got: Any, want: Any, case: Case | None) -> str | None:
    """The difference of two arrays; `None` within the tolerance of the suite.

    Args:
        got: The result of a program.
        want: The expected result.
        case: The case; `None` for random results, whose values are not compared.
    """
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"{got.dtype}{list(got.shape)} in place of {want.dtype}{list(want.shape)}"
    if case is None:
        return None
    if got.dtype.kind in "biu":
        return None if np.array_equal(got, want) else f"{got} in place of {want}"
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    left, right = got.astype(wide), want.astype(wide)
    if np.allclose(left, right, rtol=case.given.rtol, atol=case.given.atol, equal_nan=True):
        return None
    return f"{got} in place of {want}"
