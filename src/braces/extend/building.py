"""Building programs: append operators, open blocks, read and declare variables.

`emit` appends an operator by its type and returns its output variable. `call` does the same
for operators with several outputs, `apply` takes operands by slot. They append to the block
that is open in `current_program()`. MLIR: `OpBuilder`.

    >>> import braces as br
    >>> from braces.extend.building import current_program, emit
    >>> with br.Program() as prog:
    ...     x = br.data("x", ("b", 3))
    ...     y = emit("tanh", x)
    ...     current_program() is not None, str(y.type)
    (True, 'f32[b,3]')
"""

from braces.builder.append import apply as apply, call as call, emit as emit
from braces.builder.builder import Builder as Builder, current_program as current_program
from braces.builder.program_argument import (
    ProgramHolder as ProgramHolder,
    program_of as program_of,
)
from braces.builder.source_line import with_user_line as with_user_line
from braces.builder.symbol_table import SymbolTable as SymbolTable
from braces.builder.var import (
    Var as Var,
    tensor_type as tensor_type,
    var_of as var_of,
    visible_var as visible_var,
)
from braces.frontend.core.variables import data as data
from braces.ops.indexing.symbolic_slice import as_number as as_number
from braces.ops.lists.list_to_array import append_stack as append_stack
from braces.ops.lists.stack import (
    EMPTY as EMPTY,
    INDEX_TYPE as INDEX_TYPE,
    list_attrs as list_attrs,
)
