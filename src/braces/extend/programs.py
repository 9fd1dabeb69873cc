"""Programs as records: operators, variables, bodies, literals, and their files.

A program is immutable data. `Op` has a type, inputs and outputs by slot, and attributes;
`Body` is a list of operators with parameters and results; `ProgramDef` is a whole program.
`all_ops` and `all_bodies` walk nested bodies. `print_program` and `parse_program` write and
read the text form. Files are read with bounds on everything, and written to a temporary file
that replaces the target at the end.
"""

from braces.ir import serde as serde
from braces.ir.files.atomic_write import (
    refuse_unwritable as refuse_unwritable,
    replace_atomically as replace_atomically,
    write_atomically as write_atomically,
)
from braces.ir.files.bounded_read import (
    check_regular as check_regular,
    read_bounded as read_bounded,
)
from braces.ir.metadata import (
    check_metadata as check_metadata,
    read_metadata as read_metadata,
)
from braces.ir.names import LONGEST_NAME as LONGEST_NAME
from braces.ir.records import (
    DATA as DATA,
    PARAMETER as PARAMETER,
    STATE as STATE,
    VALUE as VALUE,
    Body as Body,
    Literal as Literal,
    Op as Op,
    ProgramDef as ProgramDef,
    Source as Source,
    VarInfo as VarInfo,
)
from braces.ir.text.parser import parse_program as parse_program
from braces.ir.text.printer import print_program as print_program
from braces.ir.walk import (
    all_bodies as all_bodies,
    all_ops as all_ops,
    producers as producers,
    resolve_body as resolve_body,
)
from braces.program import Program as Program
from braces.runtime.inputs.feeds import convert_feed as convert_feed
from braces.runtime.inputs.fetches import read_fetch as read_fetch
from braces.scope import Scope as Scope
