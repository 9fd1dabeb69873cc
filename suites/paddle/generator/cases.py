"""The cases by group and name; imports neither Paddle nor Braces."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import functions, windows

VISION = """
alexnet densenet121 densenet161 densenet169 densenet201 densenet264 googlenet inception_v3
mobilenet_v1 mobilenet_v2 mobilenet_v3_large mobilenet_v3_small resnet18 resnet34 resnet50
resnet101 resnet152 resnext50_32x4d resnext50_64x4d resnext101_32x4d resnext101_64x4d
resnext152_32x4d resnext152_64x4d shufflenet_v2_swish shufflenet_v2_x0_25 shufflenet_v2_x0_33
shufflenet_v2_x0_5 shufflenet_v2_x1_0 shufflenet_v2_x1_5 shufflenet_v2_x2_0 squeezenet1_0
squeezenet1_1 vgg11 vgg13 vgg16 vgg19 wide_resnet50_2 wide_resnet101_2 LeNet
""".split()
SIZES = {"alexnet": 224, "inception_v3": 80, "LeNet": 28, "googlenet": 64}
"""Sizes of images, where 32 is too small; AlexNet of Paddle accepts no other size."""
TABLES = {
    "arithmetic": functions.ARITHMETIC, "reductions": functions.REDUCTIONS,
    "shapes": functions.SHAPES, "products": functions.PRODUCTS, "windows": windows.WINDOWS,
    "losses": windows.LOSSES, "layers": windows.LAYERS, "kinks": functions.KINKS,
}  # fmt: skip
GROUPS = ("vision", "control_flow", *TABLES)
_INPUT = re.compile(r"(\w+)(?::([a-z])([<=]\d+)?)?@(=?)([\d,]*)$")


@dataclass(frozen=True)
class Input:
    """An input of a case."""

    name: str
    kind: str
    bound: str
    static: bool
    sizes: tuple[int, ...]

    def array(self, at: int) -> np.ndarray[Any, Any]:
        """Return the values."""
        rng = np.random.default_rng([3, at])
        if self.kind in "ij":
            dtype = np.int64 if self.kind == "i" else np.int32
            number = int(self.bound[1:])
            if self.bound[0] == "=":
                return np.full(self.sizes, number, dtype)
            return np.asarray(rng.integers(0, number, self.sizes)).astype(dtype)
        if self.kind == "b":
            return rng.random(self.sizes) > 0.5
        values = np.asarray(rng.normal(size=self.sizes))
        if self.kind == "k":
            values = rng.integers(-3, 4, self.sizes)
        if self.kind == "u":
            values = np.asarray(rng.random(self.sizes))
        if self.kind == "p":
            values = np.abs(values) + 0.1
        if self.kind == "c":
            values = values + 1j * rng.normal(size=self.sizes)
        return values.astype({"d": np.float64, "c": np.complex64}.get(self.kind, np.float32))


@dataclass(frozen=True)
class Case:
    """A case: its inputs, and the expression of its function."""

    group: str
    name: str
    inputs: tuple[Input, ...]
    text: str


def inputs_in(words: list[str]) -> tuple[Input, ...]:
    """Return the inputs that words declare."""
    matches = [_INPUT.match(word) for word in words]
    return tuple(
        Input(m[1], m[2] or "f", m[3] or "", bool(m[4]) or not m[5],
              tuple(int(n) for n in m[5].split(",") if n))
        for m in matches if m
    )  # fmt: skip


def row(group: str, line: str) -> Case:
    """Return the case of a line of a table."""
    name, *words = line.split()
    count = next(at for at, word in enumerate(words) if not _INPUT.match(word))
    *_, text = line.split(None, count + 1)
    return Case(group, name, inputs_in(words[:count]), text)


def vision(name: str) -> Case:
    """Return the case of a model of images."""
    size = SIZES.get(name, 32)
    image = Input("x", "f", "", False, (2, 1 if name == "LeNet" else 3, size, size))
    return Case("vision", name, (image,), name)


def programs() -> dict[str, Case]:
    """Return the functions with control flow."""
    tree = ast.parse(Path(__file__).with_name("control_flow.py").read_text())
    found = [one for one in tree.body if isinstance(one, ast.FunctionDef)]
    return {
        one.name: Case(
            "control_flow", one.name, inputs_in((ast.get_docstring(one) or "").split()),
            " ".join(arg.arg for arg in one.args.args),
        )
        for one in found
    }  # fmt: skip


def cases_of(group: str) -> dict[str, Case]:
    """Return the cases of a group by name."""
    if group == "vision":
        return {name: vision(name) for name in VISION}
    if group == "control_flow":
        return programs()
    rows = [row(group, line) for line in TABLES[group].splitlines()]
    return {one.name: one for one in rows}


def case(group: str, name: str) -> Case:
    """Return a case."""
    return cases_of(group)[name]
