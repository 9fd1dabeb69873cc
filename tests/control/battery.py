"""All programs of the battery."""

import battery_blocks as battery_blocks
import battery_branches as battery_branches
import battery_gradients as battery_gradients
import battery_rnn as battery_rnn
import battery_while as battery_while
from battery_cases import CASES as CASES
