"""Examples of operators as test cases: read, built as programs, fed and run."""

from __future__ import annotations

import ast
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

import braces.ops  # noqa: F401 - registers the operators
from braces import Executor, Program, Scope, Var, data, gradients
from braces.dtypes import parse_type
from braces.extend.building import apply
from braces.extend.operators import OPS, OpDef
from braces.extend.types import FLOAT64, Dim, DType, Size, TensorType, parse_size, substitute
from tests.ops.reference import SIZES, Reference, Values, collect, is_float, numbers

REFERENCES = collect()
MODES = ("compile", "interpret")


def definitions() -> list[OpDef]:
    """Our operators on arrays; those that own blocks or handle lists have their own tests."""
    ours = (d for d in OPS.definitions.values() if d.kernel.__module__.startswith("braces."))
    kernels = [d for d in ours if not d.owns_blocks and not d.lists]
    return sorted(kernels, key=lambda d: d.type)


# ---- reading examples ------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One example of one operator.

    Attributes:
        op: The operator's type.
        example: As in its definition: `x=f32[b,4] axis=1`; a slot that holds many is repeated.
        floats: The dtype that replaces all float dtypes, for gradients.
    """

    op: str
    example: str
    floats: DType | None = None

    def __str__(self) -> str:
        return f"{self.op}({self.example})"

    @property
    def definition(self) -> OpDef:
        return OPS.get(self.op)

    @property
    def reference(self) -> Reference:
        return REFERENCES[self.op]

    @cached_property
    def parts(self) -> list[tuple[str, str]]:
        """Names and texts: `x` and `f32[b,4]`, and so on."""
        pairs = (token.partition("=") for token in self.example.split())
        return [(name, text) for name, _, text in pairs]

    @cached_property
    def types(self) -> dict[str, tuple[TensorType, ...]]:
        """The types of the inputs by slot."""
        found: dict[str, tuple[TensorType, ...]] = {}
        for name, text in self.parts:
            if self.definition.input(name) is not None:
                type_ = parse_type(text)
                assert isinstance(type_, TensorType)
                found[name] = (*found.get(name, ()), self.adapt(type_))
        return found

    def adapt(self, type_: TensorType) -> TensorType:
        """A type with its float dtype replaced."""
        if self.floats is None or not is_float(type_.dtype):
            return type_
        if type_.dtype.kind == "c":
            return type_.with_dtype(np.result_type(self.floats, np.complex64))
        return type_.with_dtype(self.floats)

    @cached_property
    def attrs(self) -> dict[str, Any]:
        """The attributes, defaults included."""
        kinds = {spec.name: spec.kind for spec in self.definition.attrs}
        texts = [(name, text) for name, text in self.parts if name not in self.types]
        given = {name: read_attr(kinds.get(name, "?"), text) for name, text in texts}
        return self.definition.bind_attrs(given)

    @cached_property
    def symbols(self) -> list[str]:
        """The names of symbolic dimensions."""
        sizes = [size for types in self.types.values() for t in types for size in t.shape]
        sizes += [size for value in self.attrs.values() for size in sizes_in(value)]
        return sorted(
            {name for size in sizes if isinstance(size, Dim) for name in size.names()}
        )

    def sizes(self, zero: bool = False) -> dict[str, int]:
        """A number for each symbolic dimension."""
        known = SIZES | dict(self.reference.sizes)
        return {name: 0 if zero else known.get(name, 4) for name in self.symbols}

    def rng(self) -> np.random.Generator:
        """A generator of random numbers, the same on every run."""
        return np.random.default_rng(zlib.crc32(str(self).encode()))

    def values(self, sizes: Mapping[str, int]) -> Values:
        """Suitable inputs."""
        rng, makers = self.rng(), self.reference.inputs
        made = {
            slot: tuple(
                makers.get(slot, numbers)(rng, number(t.shape, sizes), t.dtype) for t in types
            )
            for slot, types in self.types.items()
        }
        adjust = self.reference.adjust
        return adjust(made, numbered(self.attrs, sizes)) if adjust else made

    def expected(self, values: Values, sizes: Mapping[str, int]) -> dict[str, Any]:
        """Return the results of the reference, by output slot."""
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            results = self.reference.function(
                *self.definition.arrange(values), **numbered(self.attrs, sizes)
            )
        return self.definition.by_slot(results)


def cases(floats: DType | None = None) -> list[Case]:
    """All examples of all operators that have a reference; to lack one fails a test."""
    known = [d for d in definitions() if d.type in REFERENCES]
    return [Case(d.type, example, floats) for d in known for example in d.examples]


@cache
def differentiable_cases() -> tuple[Case, ...]:
    """Examples with a gradient, in float64; those that differ in nothing else come once."""
    found: dict[Any, Case] = {}
    for case in cases(FLOAT64):
        dtypes = [t.dtype for types in case.types.values() for t in types]
        if case.definition.differentiable and any(map(is_float, dtypes)):
            key = case.op, str(case.types), str(case.attrs)
            found.setdefault(key, case)
    return tuple(found.values())


def read_attr(kind: str, text: str) -> Any:
    """The value of an attribute from its text."""
    text = text.strip("'\"")
    base = kind.removesuffix(" | None")
    if text == "None":
        return None
    if base in ("str", "DType"):
        return text
    if base == "Size":
        return parse_size(text)
    if base == "Shape":
        sizes = text.removeprefix("(").removesuffix(")").rstrip(",")
        inside = parse_type(f"f32[{sizes}]")
        assert isinstance(inside, TensorType)
        return inside.shape
    try:
        return ast.literal_eval(text)
    except ValueError:
        return text


def sizes_in(value: Any) -> Iterator[Size]:
    """The symbolic sizes in an attribute."""
    if isinstance(value, Dim):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from sizes_in(one)


def number(value: Any, sizes: Mapping[str, int]) -> Any:
    """An attribute or shape with its symbolic sizes as numbers."""
    if isinstance(value, Dim):
        return substitute(value, sizes)
    return tuple(number(one, sizes) for one in value) if isinstance(value, tuple) else value


def tangled(case: Case, rows: Dim) -> bool:
    """Return whether the rows are part of the size of an axis, which then is none of theirs."""
    sizes = (size for types in case.types.values() for t in types for size in t.shape)
    named = (size for size in sizes if isinstance(size, Dim) and str(rows) in size.names())
    return any(size != rows for size in named)


def numbered(attrs: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, Any]:
    """Attributes with their symbolic sizes as numbers."""
    return {name: number(value, sizes) for name, value in attrs.items()}


# ---- building and running --------------------------------------------------------------------


@dataclass
class Built:
    """A program made of a case.

    Attributes:
        inputs: By slot.
        outputs: By slot.
        fetch: What a run returns, by a name of the test's choice.
    """

    case: Case
    program: Program
    inputs: dict[str, tuple[Var, ...]]
    outputs: dict[str, tuple[Var, ...]] = field(default_factory=dict[str, tuple[Var, ...]])
    fetch: dict[str, Var] = field(default_factory=dict[str, Var])
    extra: dict[str, Var] = field(default_factory=dict[str, Var])

    def declare(self, name: str, type_: TensorType) -> Var:
        """One more variable that is fed."""
        self.extra[name] = data(name, type_.shape, type_.dtype)
        return self.extra[name]

    def feed(self, values: Values, extra: Mapping[str, Any], sizes: Mapping[str, int]) -> Any:
        """Values by the names of the variables; the first one tells the sizes."""
        fed: dict[str, Any] = {}
        if sizes:
            told = [sizes[name] for name in self.case.symbols]
            fed[self.extra["sizes"].name] = np.zeros(told, bool)
        for slot, vars_ in self.inputs.items():
            fed |= {var.name: value for var, value in zip(vars_, values[slot], strict=True)}
        return fed | dict(extra)

    def wanted(self) -> dict[str, Var]:
        """Return the fetches of a run: the outputs, and variables that determine sizes."""
        return self.fetch | {n: var for n, var in self.extra.items() if n == "sizes"}

    def run(self, executor: Executor, feed: Mapping[str, Any]) -> dict[str, Any]:
        """Run and fetch."""
        return run_together(executor, [self], [feed])[0]


def run_together(
    executor: Executor, parts: Sequence[Built], feeds: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Run cases that share a program, all at once; the results of each."""
    feed = {name: value for one in feeds for name, value in one.items()}
    fetch = {
        f"{i} {name}": var
        for i, part in enumerate(parts)
        for name, var in part.wanted().items()
    }
    found = executor.run(parts[0].program, Scope(), feed=feed, fetch=fetch)
    return [
        {name: found[f"{i} {name}"] for name in part.wanted()} for i, part in enumerate(parts)
    ]


def build(case: Case, program: Program | None = None, prefix: str = "") -> Built:
    """A program that computes a case from fed inputs, or a part of one that has others too.

    Args:
        case: What is computed.
        program: The one that has the others.
        prefix: Before the names of the inputs; another one for each case of a program.
    """
    with program or Program() as program:
        built = Built(case, program, {})
        if case.symbols:
            shape = tuple(map(Dim.named, case.symbols))
            built.extra["sizes"] = data(f"{prefix}sizes", shape, "bool")
        for slot, types in case.types.items():
            names = [slot if len(types) == 1 else f"{slot}_{i}" for i in range(len(types))]
            built.inputs[slot] = tuple(
                data(prefix + name, t.shape, t.dtype)
                for name, t in zip(names, types, strict=True)
            )
        built.outputs = apply(case.op, built.inputs, case.attrs)
    built.fetch = {
        f"{slot}.{i}": var
        for slot, vars_ in built.outputs.items()
        for i, var in enumerate(vars_)
    }
    return built


def build_together(chosen: Sequence[Case]) -> list[Built]:
    """One program that computes some cases side by side: one compilation for all of them."""
    program = Program()
    return [build(case, program, f"example_{i}_") for i, case in enumerate(chosen)]


def with_floats(case: Case, dtype: DType) -> Case:
    """The case with all its floats in another dtype."""
    return replace(case, floats=dtype)


def value_and_gradients(
    function: Callable[..., Var], inputs: Mapping[str, Any], mode: str
) -> tuple[Any, list[Any]]:
    """What a function of variables gives at some arrays, and the gradient of its sum.

    All sizes are fixed; the gradient is that of each input of a float dtype.
    """
    arrays = {name: np.asarray(value) for name, value in inputs.items()}
    with Program() as program:
        vars_ = [data(name, a.shape, a.dtype) for name, a in arrays.items()]
        out = function(*vars_)
        floats = [var for var in vars_ if is_float(var.dtype)]
        grads = gradients([out], floats) if is_float(out.dtype) and floats else []
    fetch = {str(i): grad for i, grad in enumerate(grads) if grad is not None} | {"out": out}
    results = Executor(mode=mode).run(program, Scope(), feed=arrays, fetch=fetch)
    return results["out"], [results.get(str(i)) for i in range(len(grads))]
