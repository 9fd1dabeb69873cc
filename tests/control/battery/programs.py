"""All programs of the battery."""

from tests.control import (
    battery_blocks as battery_blocks,
    battery_branches as battery_branches,
    battery_gradients as battery_gradients,
    battery_rnn as battery_rnn,
    battery_while as battery_while,
)
from tests.control.battery.cases import CASES as CASES
