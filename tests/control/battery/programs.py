"""All programs of the battery."""

from tests.control.battery import (
    blocks as blocks,
    branches as branches,
    gradients as gradients,
    rnn as rnn,
    while_loops as while_loops,
)
from tests.control.battery.cases import CASES as CASES
