"""What users hold: programs and blocks that run, draw, save and prune themselves."""

from braces.program.block import Block as Block
from braces.program.program import (
    Program as Program,
    default_program as default_program,
    parse as parse,
)
