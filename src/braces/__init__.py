"""Braces: neural-network programs as data."""

from braces.executor.executor import Executor as Executor
from braces.frontend.branches import create_if_else as create_if_else, create_switch as create_switch
from braces.frontend.functions import *
from braces.frontend.rnn import create_rnn as create_rnn
from braces.frontend.variables import (
    Variable as Variable,
    constant as constant,
    data as data,
    get_variable as get_variable,
    parameter as parameter,
    state as state,
)
from braces.frontend.while_loop import create_while as create_while
from braces.ir.block import Block as Block
from braces.ir.program import Program as Program, default_program as default_program
from braces.ir.table import SymbolTable as SymbolTable
from braces.ops.build import Var as Var
from braces.passes.backward import append_backward as append_backward, gradients as gradients
from braces.scope import Scope as Scope
