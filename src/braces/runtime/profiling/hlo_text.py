"""Parser of HLO text: the instructions that XLA compiled from operators.

Each instruction keeps the name scopes in which it was traced, as `loop_0#3/while/body/add_1#7`;
the number after `#` is that of an operator of the lowered block. A fused instruction has the
numbers of all of its operators.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from braces.ir.records import Body, Op
from braces.ir.walk import all_ops
from braces.lower.interpret.operator_timing import OpLocation
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
    """The operators of a block and its sub-blocks, each with its number.

    Attributes:
        places: The location of each, by number.
        ops: The operators, by number.
    """

    def __init__(self, body: Body) -> None:
        ops_by_block = list(all_ops(body))
        self.ops = [op for _, op in ops_by_block]
        self.places = [OpLocation(block, op.name) for block, op in ops_by_block]
        self._numbers = {place.path: at for at, place in enumerate(self.places)}

    def scope(self, path: str, op: Op) -> str:
        """Return the name of an operator in the code; see `block_lowering.scope_name`."""
        return f"{scope_name(path, op)}#{self._numbers[path]}"


@dataclass(frozen=True)
class Instruction:
    """One instruction of compiled code.

    Attributes:
        name: Unique in the code.
        computation: The computation that contains it.
        numbers: The numbers of its operators.
        called: The computations that it runs, or that are fused into it.
        runs: Whether it runs them, rather than fusing them: a loop, a branch, a call.
        reads: The instructions whose results it reads.
    """

    name: str
    computation: str
    numbers: tuple[int, ...] = ()
    called: tuple[str, ...] = ()
    runs: bool = False
    reads: tuple[str, ...] = ()


class HloModule:
    """Compiled code, parsed from its text.

    Args:
        text: The result of `as_text()`.

    Attributes:
        module: The name of the module at run time.
        instructions: Its instructions, by name.
    """

    def __init__(self, text: str) -> None:
        header = _MODULE.match(text)
        self.module = header[1] if header else ""
        self.instructions = {
            instruction.name: instruction for instruction in _parse_instructions(text)
        }
        self._inside = dict[str, frozenset[int]]()

    @cached_property
    def callers(self) -> dict[str, Instruction]:
        """The instruction that runs each computation; of several, the last one."""
        every = self.instructions.values()
        return {name: instruction for instruction in every for name in instruction.called}

    @cached_property
    def users(self) -> dict[str, list[str]]:
        """The instructions that read the result of each."""
        readers = dict[str, list[str]]()
        for instruction in self.instructions.values():
            for name in instruction.reads:
                readers.setdefault(name, []).append(instruction.name)
        return readers

    def inside(self, computation: str) -> frozenset[int]:
        """Return the operators of a computation, at any depth."""
        if computation not in self._inside:
            numbers = set[int]()
            for instruction in self._by_computation.get(computation, ()):
                numbers.update(instruction.numbers, *map(self.inside, instruction.called))
            self._inside[computation] = frozenset(numbers)
        return self._inside[computation]

    @cached_property
    def _by_computation(self) -> dict[str, list[Instruction]]:
        groups = dict[str, list[Instruction]]()
        for instruction in self.instructions.values():
            groups.setdefault(instruction.computation, []).append(instruction)
        return groups


def _parse_instructions(text: str) -> Iterator[Instruction]:
    computation = ""
    for line in text.splitlines():
        if start := _COMPUTATION.match(line):
            computation = start[1]
        elif parts := _INSTRUCTION.match(line):
            code = line.partition("metadata={")[0]
            runs, reads = _RUNS.search(code) is not None, _NAMES.findall(code[parts.end() :])
            yield Instruction(
                parts[1],
                computation,
                _parse_numbers(line),
                _parse_called(code),
                runs,
                tuple(reads),
            )


def _parse_called(code: str) -> tuple[str, ...]:
    several = (single or many for single, many in _CALLED.findall(code))
    return tuple(name.strip().lstrip("%") for names in several for name in names.split(","))


def _parse_numbers(line: str) -> tuple[int, ...]:
    """Return the innermost operator of each path of an instruction.

    The path of a merged instruction is `around/(one/add:other/dot)`.
    """
    match = _SCOPES.search(line)
    paths = match[1].split(";") if match else []
    several = (_JOINED.fullmatch(path) for path in paths)
    paths = [
        part
        for path, joined in zip(paths, several, strict=True)
        for part in (
            [f"{joined[1]}/{number}" for number in joined[2].split(":")] if joined else [path]
        )
    ]
    numbers = (_NUMBER.findall(path) for path in paths)
    return tuple(dict.fromkeys(int(number[-1]) for number in numbers if number))
