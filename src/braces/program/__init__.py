"""Public programs and blocks: running, drawing, saving and pruning."""

from braces.program.block import Block as Block
from braces.program.program import (
    Program as Program,
    default_program as default_program,
    parse as parse,
)
