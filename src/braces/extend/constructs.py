"""Building constructs: loops, branches and blocks from functions that build their bodies.

The public constructs (`br.create_rnn`, `br.create_while`) are written with `with` statements.
An importer has a graph for each body instead, so it calls `build_loop_around`,
`build_switch` or `build_block` with a function that appends the body. The `view` classes give
the parts of a construct by name: carries, scanned inputs, stacked outputs, cases.
"""

from braces.frontend.autodiff.custom_gradient import custom_gradient as custom_gradient
from braces.frontend.control.rnn import create_rnn as create_rnn
from braces.frontend.control.while_loop import create_while as create_while
from braces.ir.views import (
    BlockView as BlockView,
    LoopView as LoopView,
    PartitionView as PartitionView,
    SwitchView as SwitchView,
    view_of as view_of,
)
from braces.ir.views.partition import Case as Case
from braces.ops.control.batch_axis.masking import analyze_row_axes as analyze_row_axes
from braces.ops.control.construct.build import (
    build_block as build_block,
    build_loop_around as build_loop_around,
    build_partition as build_partition,
    build_plain_block as build_plain_block,
    build_switch as build_switch,
    close_block as close_block,
)
from braces.ops.control.loop.op import LOOP as LOOP
