"""Transposed convolution layers: each input element is spread over a window of the output.

`br.layers.conv_transpose2d(x, 16, 3)` creates weights and a bias;
`br.layers.conv_transpose2d(x, weight, bias=b)` uses given ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from braces.builder.var import Operand, Var
from braces.define.decorator import Padding
from braces.dtypes import Extent
from braces.frontend.core.all_or_nothing import transactional
from braces.frontend.core.argument_docs import describe_arguments
from braces.frontend.core.init import Initializer
from braces.frontend.core.parameters import Activation, Weight
from braces.frontend.nn.conv import ARGUMENTS, FILTERS, append_convolution
from braces.ops.conv_pool.data_layouts import CHANNELS_FIRST
from braces.ops.conv_pool.spatial_ranks import name_for_rank


def _conv_transpose(rank: int):
    @transactional
    @name_for_rank(rank)
    @describe_arguments(
        ARGUMENTS,
        filters=f"{FILTERS} [channels of x, channels / groups, *window], for `$last` [*window, "
        "channels / groups, channels of x].",
        stride="Distance between the windows of adjacent input elements.",
        padding='`"valid"`, `"same"`, or numbers: the width cropped at the edges.',
        output_padding="Extra size of the result at the end of each axis.",
    )
    def conv_transpose(
        x: Any,
        filters: Extent | Operand,
        window: int | Sequence[int] | None = None,
        *,
        stride: int | Sequence[int] = 1,
        padding: Padding = "valid",
        output_padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        layout: str = CHANNELS_FIRST[rank],
        act: Activation = None,
        name: str | None = None,
        params: Sequence[str] | None = None,
        bias: Weight = None,
        init: Initializer | Any = None,
        bias_init: Initializer | Any = 0.0,
    ) -> Var:
        """A transposed convolution along $axes; the formula is that of the operator.

        Raises:
            ProgramError: If weights are given together with a window or options of created
                weights.
            ShapeError: If the number of channels is not divisible by `groups`, or the result is
                empty.

        Example:
            >>> import braces as br
            >>> with br.Program():
            ...     x = br.data("x", ["batch", 8, 7, 7])
            ...     up = br.layers.conv_transpose2d(x, 4, 3, stride=2, padding="same", name="u")
            ...     print(up.type, br.get_variable("u.w").type)
            f32[batch,4,14,14] f32[8,4,3,3]
        """
        return append_convolution(
            f"conv_transpose{rank}d", x, filters, window, stride=stride, padding=padding,
            output_padding=output_padding, dilation=dilation, groups=groups, layout=layout,
            act=act, name=name, params=params, bias=bias, init=init, bias_init=bias_init,
            transposed=True,
        )  # fmt: skip

    return conv_transpose


conv_transpose1d = _conv_transpose(1)
conv_transpose2d = _conv_transpose(2)
conv_transpose3d = _conv_transpose(3)
