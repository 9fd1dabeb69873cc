"""What XLA made of operators: the instructions of compiled code, as its text tells them.

Each instruction keeps the scopes in which it was traced, as `loop_0#3/while/body/add_1#7`; the
number after `#` is that of an operator of the block that was lowered. An instruction that fuses
several, or that was made of several, has the numbers of all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from braces.ir.records import Body, Op
from braces.ir.walk import all_ops
from braces.lower.interpret.operator_timing import Placed
from braces.lower.xla.block_lowering import scope_name

_MODULE = re.compile(r"HloModule ([^,\s]+)")
_COMPUTATION = re.compile(r"(?:ENTRY )?%?([\w.\-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"\s+(?:ROOT )?%?([\w.\-]+) = ")
_CALLED = re.compile(
    r"(?:calls|to_apply|body|condition|true_computation|false_computation)=%?([\w.\-]+)"
    r"|(?:branch_computations|called_computations)=\{([^}]*)\}"
)
_NAMES = re.compile(r"%([\w.\-]+)")
_RUNS = re.compile(r" (?:while|conditional|call)\(")
_SCOPES = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
_NUMBER = re.compile(r"#(\d+)(?=/|$)")
_JOINED = re.compile(r"(?:(.*)/)?\((.*)\)")


class Numbering:
    """The operators of a block and of those in it, each with its number.

    Attributes:
        places: Where each stands, by number.
        ops: The operators, by number.
    """

    def __init__(self, body: Body) -> None:
        found = list(all_ops(body))
        self.ops = [op for _, op in found]
        self.places = [Placed(block, op.name) for block, op in found]
        self._numbers = {place.path: at for at, place in enumerate(self.places)}

    def scope(self, path: str, op: Op) -> str:
        """The name of an operator in the code; see `block_lowering.scope_name`."""
        return f"{scope_name(path, op)}#{self._numbers[path]}"


@dataclass(frozen=True)
class Instruction:
    """One instruction of compiled code.

    Attributes:
        name: Unique in the code.
        computation: That which it is part of.
        numbers: Those of the operators that it was made of.
        called: The computations that it runs, or that are fused into it.
        runs: Whether it runs them: a loop, a branch, a call.
        reads: The instructions whose results it reads.
    """

    name: str
    computation: str
    numbers: tuple[int, ...] = ()
    called: tuple[str, ...] = ()
    runs: bool = False
    reads: tuple[str, ...] = ()


class Code:
    """Compiled code, as its text tells it.

    Args:
        text: What `as_text()` of it gives.

    Attributes:
        module: What it is called when it runs.
        instructions: Its instructions, by name.
    """

    def __init__(self, text: str) -> None:
        found = _MODULE.match(text)
        self.module = found[1] if found else ""
        self.instructions = {one.name: one for one in _instructions(text)}
        self._inside = dict[str, frozenset[int]]()

    @cached_property
    def callers(self) -> dict[str, Instruction]:
        """What runs each computation; of several instructions, the last one."""
        every = self.instructions.values()
        return {name: one for one in every for name in one.called}

    @cached_property
    def users(self) -> dict[str, list[str]]:
        """The instructions that read the result of each."""
        found = dict[str, list[str]]()
        for one in self.instructions.values():
            for name in one.reads:
                found.setdefault(name, []).append(one.name)
        return found

    def inside(self, computation: str) -> frozenset[int]:
        """The operators that instructions of a computation were made of, at any depth."""
        if computation not in self._inside:
            numbers = set[int]()
            for one in self._by_computation.get(computation, ()):
                numbers.update(one.numbers, *map(self.inside, one.called))
            self._inside[computation] = frozenset(numbers)
        return self._inside[computation]

    @cached_property
    def _by_computation(self) -> dict[str, list[Instruction]]:
        found = dict[str, list[Instruction]]()
        for one in self.instructions.values():
            found.setdefault(one.computation, []).append(one)
        return found


def _instructions(text: str) -> Iterator[Instruction]:
    computation = ""
    for line in text.splitlines():
        if begun := _COMPUTATION.match(line):
            computation = begun[1]
        elif found := _INSTRUCTION.match(line):
            told = line.partition("metadata={")[0]
            runs, reads = _RUNS.search(told) is not None, _NAMES.findall(told[found.end() :])
            yield Instruction(
                found[1], computation, _numbers(line), _called(told), runs, tuple(reads)
            )


def _called(told: str) -> tuple[str, ...]:
    several = (one or many for one, many in _CALLED.findall(told))
    return tuple(name.strip().lstrip("%") for names in several for name in names.split(","))


def _numbers(line: str) -> tuple[int, ...]:
    """The innermost operator of each path that an instruction keeps.

    One of several that XLA made one has `around/(one/add:other/dot)`.
    """
    found = _SCOPES.search(line)
    paths = found[1].split(";") if found else []
    several = (_JOINED.fullmatch(path) for path in paths)
    paths = [
        part
        for path, joined in zip(paths, several, strict=True)
        for part in (
            [f"{joined[1]}/{one}" for one in joined[2].split(":")] if joined else [path]
        )
    ]
    numbers = (_NUMBER.findall(path) for path in paths)
    return tuple(dict.fromkeys(int(one[-1]) for one in numbers if one))
