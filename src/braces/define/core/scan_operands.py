"""The operands of JAX's `scan`, whose parameters differ between versions of JAX.

JAX 0.10 counts them: `num_consts=1 num_carry=2`. JAX 0.11 gives their tree: `ft_in` has a part
for the captured values, one for the carries and one for the scanned inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


def split_scan_operands(
    params: Mapping[str, Any], operands: Sequence[T]
) -> tuple[Sequence[T], Sequence[T], Sequence[T]]:
    """Split the operands of a `scan` into captured values, carries and scanned inputs.

    Args:
        params: The parameters of the equation.
        operands: Its operands.

    Example:
        >>> import jax
        >>> rows = jax.numpy.ones(3)
        >>> run = lambda start: jax.lax.scan(lambda c, row: (c + row, None), start, rows)[0]
        >>> (scan,) = jax.make_jaxpr(run)(0.0).eqns
        >>> [len(part) for part in split_scan_operands(scan.params, scan.invars)]
        [0, 1, 1]
    """
    if "ft_in" in params:
        consts, carried, _ = map(len, params["ft_in"].unpack())
    else:
        consts, carried = params["num_consts"], params["num_carry"]
    return operands[:consts], operands[consts : consts + carried], operands[consts + carried :]
