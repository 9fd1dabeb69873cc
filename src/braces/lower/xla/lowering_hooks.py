"""Hooks of lowering: concerns that act before and after each operator of a block.

- `OutputShardings` pins outputs to their sharding.
- `ListLengthReports` reports the lengths of lists; see `list_lengths.py`.
- `DynamicSizes` compares data-dependent sizes with the assumed sizes.
- `ValueCheck` reports NaNs and infinities.
- `Commits` selects next values where they are computed; see `commit.py`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from braces.define.decorator import OPS
from braces.errors import BracesError
from braces.ir.records import Body, Op
from braces.lazy import jnp
from braces.lower.checks.check_codes import VALUE_CHECK, CheckCodes, RunStatus, record_code
from braces.lower.checks.run_checks import read_dynamic_sizes
from braces.lower.checks.value_checks import ValueChecks, is_wrong
from braces.lower.sharding.sharding import Placement
from braces.lower.xla.concrete_attributes import Sizes


@dataclass
class LoweringState:
    """State of a block during lowering.

    Attributes:
        body: The block.
        env: The values of visible variables.
        status: The status of the run.
        pending: Failure codes of checks that are not in the status yet.
    """

    body: Body
    env: dict[str, Any]
    status: RunStatus
    pending: CheckCodes = field(default_factory=CheckCodes)

    def record_checks(self) -> RunStatus:
        """Record the pending failure codes in the status, and return it."""
        self.status = self.pending.record(self.status)
        return self.status


class LoweringHook:
    """Concern of lowering that acts before or after each operator, whose path is `path`."""

    def before(self, op: Op, path: str, block: LoweringState) -> None:
        """Act before an operator is lowered."""

    def after(self, op: Op, path: str, block: LoweringState) -> None:
        """Act after the outputs of an operator are bound."""


@dataclass
class OutputShardings(LoweringHook):
    """Shardings of outputs on several devices."""

    placement: Placement

    def after(self, op: Op, path: str, block: LoweringState) -> None:
        """Pin the outputs to their sharding."""
        for name in op.binds():
            block.env[name] = self.placement.pinned(block.body.vars[name], block.env[name])


@dataclass
class DynamicSizes(LoweringHook):
    """Data-dependent sizes, which are assumed for compilation and compared in each run.

    Attributes:
        sizes: The assumed sizes.
        rounded: The dimensions whose assumed sizes are capacities.
    """

    sizes: Sizes
    rounded: Collection[str]

    def before(self, op: Op, path: str, block: LoweringState) -> None:
        """Record the sizes that an operator reports; another size than assumed ends the run."""
        definition = OPS.get(op.type)
        if definition.learn_rule is None:
            return
        values = {slot: tuple(block.env[n] for n in names) for slot, names in op.inputs.items()}
        try:
            dynamic_sizes = read_dynamic_sizes(definition, values, op.attrs)
        except BracesError as error:
            raise error.located(op.describe()) from error.__cause__
        running, sites = block.record_checks()
        for name, size in dynamic_sizes.items():
            size, assumed = jnp.asarray(size, "int32"), self.sizes.setdefault(name, 0)
            capacity = assumed if name in self.rounded else 0
            fits = (size > 0) & (size <= capacity) if capacity else size == assumed
            code = jnp.where(fits, size if capacity else 0, capacity + 1 + size)
            running, sites = running & fits, sites | {path: jnp.maximum(sites[path], code)}
        block.status = RunStatus(running, sites)


@dataclass
class ValueCheck(LoweringHook):
    """Check of all outputs for NaNs and infinities."""

    checks: ValueChecks

    def after(self, op: Op, path: str, block: LoweringState) -> None:
        """Record whether an output fails a check."""
        wrong = is_wrong(self.checks, op, block.env)
        block.status = record_code(block.record_checks(), VALUE_CHECK, wrong)
