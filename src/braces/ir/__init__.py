"""Programs as data: records, and their forms as bytes, text and fingerprint."""

from braces.ir.fingerprint import canonical_names as canonical_names, fingerprint as fingerprint
from braces.ir.names import Names as Names, check_name as check_name
from braces.ir.parser import parse_body as parse_body, parse_program as parse_program
from braces.ir.records import (
    CAPTURES as CAPTURES,
    Attr as Attr,
    Body as Body,
    Literal as Literal,
    Op as Op,
    ProgramDef as ProgramDef,
    Slots as Slots,
    Source as Source,
    VarInfo as VarInfo,
)
from braces.ir.text import print_body as print_body, print_program as print_program
