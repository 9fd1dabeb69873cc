r"""Parser of the text form of programs.

    program     := "program" unknown? params? "{" (statement | update)* "}"
    block       := "block" params? body
    body        := "{" statement* "}"
    params      := "(" (binding ("," binding)*)? ")"
    statement   := declaration | operator | return | unknown
    declaration := KIND NAME ":" AXES "trainable"? unknown?
    operator    := ("do" | outputs "=") NAME "(" inputs? ")"
                   attrs? captures? ("as" NAME)? unknown? source? (NAME block-value)*
    outputs     := output ("," output)*
    output      := binding | NAME "=" "[" (binding ("," binding)*)? "]"
    binding     := NAME (":" TYPE)?
    inputs      := NAME "=" names ("," NAME "=" names)*
    names       := NAME | "[" (NAME ("," NAME)*)? "]"
    attrs       := "{" (NAME "=" value ("," NAME "=" value)*)? "}"
    captures    := "captures" "[" NAME ("," NAME)* "]"
    return      := "return" (NAME ("," NAME)*)?
    update      := "update" NAME "=" NAME
    unknown     := "unknown" STRING, holding base64
    source      := "#" (FILE | STRING) ":" digits, at the end of the line

    value       := "none" | "true" | "false" | INTEGER | REAL | STRING | DTYPE
                 | "size(" SIZE ")" | TYPE array | params body
                 | "[" (value ("," value)* ","?)? "]"
    block-value := a value that begins with "(" or "["
    array       := number | "[" (array ("," array)* ","?)? "]" | STRING, holding base64

    KIND    := "data" | "parameter" | "state" | "value" | "argument"
    NAME    := a letter, "_" or "@", then letters, digits and "_ . @ / -"
    TYPE    := see braces.dtypes, as f32[2*b,4] or list<f32[4]>
    AXES    := TYPE, in which a number may have a name before it, as f32[embed=16,mlp=32]
    SIZE    := see braces.dims, as 2*b + 1
    DTYPE   := see braces.dtypes, as f32
    INTEGER := "-"? digits
    REAL    := digits with "." or an exponent, as in Python, or "nan", "inf", "-inf"
    STRING  := as in JSON

Line breaks are white space, except that they end comments, which begin with `#`. No word is
reserved: `data` and `return` can be names. A binding with a type declares a value (an argument,
among params); without a type the name is declared elsewhere in the block, or not at all.
Bindings without a slot belong to the slots of `derived_outputs`, and an operator without `as`
has the name of `derived_name`. In an array, a complex number is `[re, im]`. `unknown` holds
fields of a later schema: of the program, declaration or operator before it, or of the block
that it is a statement of.
"""

from __future__ import annotations

import re

from braces.ir import limits, serde
from braces.ir.files.bounded_read import stored_path
from braces.ir.records import (
    ARGUMENT,
    CAPTURES,
    VALUE,
    VARIABLE_KINDS,
    Attr,
    Body,
    Op,
    ProgramDef,
    Source,
    VarInfo,
)
from braces.ir.text.printer import derived_name, derived_outputs
from braces.ir.text.tokens import Token
from braces.ir.text.value_parser import Values, bytes_of, string_of

_SOURCE = re.compile(
    r'[ \t]*#[ \t]*(?:(?:([^\s"]\S*)|("(?:[^"\\\n]++|\\.)*+")):|(cell [0-9]{1,9}), line )'
    r"([0-9]{1,9})[ \t\r]*(?:\n|\Z)"
)


def parse_program(text: str) -> ProgramDef:
    """Parse the text that `print_program` wrote.

    Raises:
        ParseError: If the text is not a program; the message shows line, column and a caret.

    Example:
        >>> program = parse_program("program { data x: f32[b]  y: f32[b] = tanh(x=x) }")
        >>> program.main.ops[0].inputs
        {'x': ('x',)}
    """
    parser = _Parser(text)
    parser.take("program")
    unknown = parser.unknown(ProgramDef)
    updates: dict[str, str] = {}
    main = parser.block(0, updates)
    parser.end()
    return ProgramDef(main, updates, unknown)


def parse_body(text: str) -> Body:
    """Parse the text that `print_body` wrote.

    Raises:
        ParseError: If the text is not a block; the message shows line, column and a caret.
    """
    parser = _Parser(text)
    parser.take("block")
    body = parser.block(0)
    parser.end()
    return body


# ---- blocks ----------------------------------------------------------------------------------


class _Contents:
    """Parsed contents of one block."""

    def __init__(self) -> None:
        self.params: list[str] = []
        self.results: tuple[str, ...] | None = None
        self.vars: dict[str, VarInfo] = {}
        self.ops: dict[str, Op] = {}
        self.unknown = b""

    def body(self) -> Body:
        names = tuple(self.params), self.results or ()
        return Body(*names, self.vars, tuple(self.ops.values()), self.unknown)


class _Parser(Values):
    def block(self, depth: int, updates: dict[str, str] | None = None) -> Body:
        """Parse parameters and the statements between braces."""
        if depth > limits.DEEPEST_NESTING:
            raise self.missing(f"at most {limits.DEEPEST_NESTING} levels of nesting")
        contents = _Contents()
        if self.took("("):
            self.several(")", lambda: contents.params.append(self.binding(contents, ARGUMENT)))
        self.take("{")
        while not self.took("}"):
            self.statement(contents, depth, updates)
        return contents.body()

    def statement(self, into: _Contents, depth: int, updates: dict[str, str] | None) -> None:
        first, second = self.peek(), self.peek(1)
        if first.kind != "name":
            raise self.missing("a statement or `}`")
        if first.text == "return" and (second.kind == "name" or second.text == "}"):
            self.results(into)
        elif self.sees_unknown():
            if into.unknown:
                raise self.error("duplicate unknown fields of a block.", first)
            into.unknown = self.unknown(Body)
        elif second.kind == "name" and first.text in VARIABLE_KINDS:
            self.declaration(into)
        elif second.kind == "name" and first.text == "update":
            self.update(updates)
        else:
            self.op(into, depth)

    def declaration(self, into: _Contents) -> None:
        kind, name = self.next().text, self.name()
        self.take(":")
        type_, axes = self.named_type()
        trainable = self.peek().text == "trainable" and self.peek(1).text not in (":", "=", ",")
        if trainable:
            self.next()
        unknown = self.unknown(VarInfo)
        self.declare(into, name, VarInfo(name.text, type_, kind, trainable, axes, unknown))

    def sees_unknown(self) -> bool:
        return self.peek().text == "unknown" and self.peek(1).kind == "string"

    def unknown(self, record: type) -> bytes:
        """Parse fields of a later schema, if they come next."""
        if not self.sees_unknown():
            return b""
        self.next()
        token = self.next()
        return self.checked(token, lambda: serde.readable_unknown(record, bytes_of(token.text)))

    def declare(self, into: _Contents, name: Token, info: VarInfo) -> None:
        if name.text in into.vars:
            raise self.error(f"duplicate declaration of `{name.text}` in this block.", name)
        into.vars[name.text] = info

    def results(self, into: _Contents) -> None:
        word = self.next()
        if into.results is not None:
            raise self.error("duplicate return in a block.", word)
        into.results = self.names_after() if self.peek().kind == "name" else ()

    def names_after(self) -> tuple[str, ...]:
        names = [self.name().text]
        while self.took(","):
            names.append(self.name().text)
        return tuple(names)

    def update(self, updates: dict[str, str] | None) -> None:
        word, name = self.next(), self.name()
        if updates is None:
            raise self.error("updates are allowed in programs only.", word)
        if name.text in updates:
            raise self.error(f"duplicate update of `{name.text}`.", name)
        self.take("=")
        updates[name.text] = self.name().text

    def binding(self, into: _Contents, kind: str) -> str:
        """Parse a name; declare it if its type follows."""
        name = self.name()
        if self.took(":"):
            self.declare(into, name, VarInfo(name.text, self.type(), kind))
        return name.text

    # ---- operators ---------------------------------------------------------------------------

    def op(self, into: _Contents, depth: int) -> None:
        first = self.peek()
        outputs = self.outputs(into)
        op_type = self.name("an operator")
        inputs, attrs = self.inputs(), self.attrs(depth)
        if self.peek().text == CAPTURES and self.peek(1).text == "[":
            self.into_slot(inputs, self.next())
        name = self.op_name(outputs, first)
        unknown = self.unknown(Op)
        source = self.source()
        while self.peek().kind == "name" and self.peek(1).text in ("(", "["):
            self.into_attrs(attrs, self.name(), depth)
        if name.text in into.ops:
            raise self.error(f"duplicate operator name `{name.text}` in this block.", name)
        into.ops[name.text] = Op(
            op_type.text, name.text, inputs, outputs, attrs, source, unknown
        )

    def op_name(self, outputs: dict[str, tuple[str, ...]], first: Token) -> Token:
        if self.peek().text == "as" and self.peek(1).kind == "name":
            self.next()
            return self.name()
        name = derived_name(outputs)
        if not name:
            raise self.missing("`as` and a name, for an operator that binds nothing,")
        return Token("name", name, first.start, first.end)

    def outputs(self, into: _Contents) -> dict[str, tuple[str, ...]]:
        if self.peek().text == "do" and self.peek(1).kind == "name":
            self.next()
            return {}
        slots: dict[str, tuple[str, ...]] = {}
        plain: list[str] = []
        while True:
            self.output(into, slots, plain)
            if not self.took(","):
                break
        self.take("=")
        return self.with_plain(slots, plain)

    def output(
        self, into: _Contents, slots: dict[str, tuple[str, ...]], plain: list[str]
    ) -> None:
        if self.peek(1).text != "=" or self.peek(2).text != "[":
            plain.append(self.binding(into, VALUE))
            return
        slot, names = self.name(), list[str]()
        self.take("=")
        self.take("[")
        self.several("]", lambda: names.append(self.binding(into, VALUE)))
        if slot.text in slots:
            raise self.error(f"duplicate slot `{slot.text}`.", slot)
        slots[slot.text] = tuple(names)

    def with_plain(
        self, slots: dict[str, tuple[str, ...]], plain: list[str]
    ) -> dict[str, tuple[str, ...]]:
        derived = derived_outputs(plain)
        for slot in derived:
            if slot in slots:
                raise self.missing(f"names for the slot `{slot}` in one place,")
        return derived | slots

    def inputs(self) -> dict[str, tuple[str, ...]]:
        slots: dict[str, tuple[str, ...]] = {}

        def parse_slot() -> None:
            slot = self.name("a slot")
            self.take("=")
            self.into_slot(slots, slot)

        self.take("(")
        self.several(")", parse_slot)
        return slots

    def into_slot(self, slots: dict[str, tuple[str, ...]], slot: Token) -> None:
        """Parse the names in an input slot."""
        names: list[str] = []
        if self.took("["):
            self.several("]", lambda: names.append(self.name().text))
        else:
            names.append(self.name("a variable").text)
        if slot.text in slots:
            raise self.error(f"duplicate slot `{slot.text}`.", slot)
        slots[slot.text] = tuple(names)

    def attrs(self, depth: int) -> dict[str, Attr]:
        attrs_by_name: dict[str, Attr] = {}

        def parse_attr() -> None:
            name = self.name("an attribute")
            self.take("=")
            self.into_attrs(attrs_by_name, name, depth)

        if self.took("{"):
            self.several("}", parse_attr)
        return attrs_by_name

    def into_attrs(self, attrs: dict[str, Attr], name: Token, depth: int) -> None:
        """Parse the value of an attribute."""
        value = self.value(depth)
        if name.text in attrs:
            raise self.error(f"duplicate attribute `{name.text}`.", name)
        attrs[name.text] = self.checked(name, lambda: limits.reachable(value))

    def source(self) -> Source | None:
        """Parse the source line from the comment behind the last token."""
        match = _SOURCE.match(self.text, self.last_end)
        if match is None:
            return None
        file, text, cell, line = match.groups()
        try:
            return Source(stored_path(string_of(text) if text else file or cell), int(line))
        except ValueError:
            return None
