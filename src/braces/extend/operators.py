"""The registry of operators, and the JAX functions behind them.

`OPS` maps an operator type to its definition (`OpDef`): slots, attributes, kernel, inference
and derivatives. `names_in` returns the operators by their names in another system.
`PureFunction` is a program as a function of arrays, `TracedFunction` a JAX function as
operators. An operator of your own is defined with `br.op`.

    >>> from braces.extend.operators import OPS
    >>> OPS.get("softmax").inputs[0].name
    'x'
"""

from braces.define.core.jax_settings import braces_jax_settings as braces_jax_settings
from braces.define.core.scan_operands import split_scan_operands as split_scan_operands
from braces.define.decorator import OPS as OPS
from braces.define.definition import OpDef as OpDef, Values as Values
from braces.equivalents import (
    ELEMENTWISE as ELEMENTWISE,
    UNARY as UNARY,
    derived as derived,
    names_in as names_in,
    translated as translated,
)
from braces.jaxpr.core.equation import (
    ProgramImport as ProgramImport,
    abstract_words as abstract_words,
    constant_array as constant_array,
    run_equations as run_equations,
    source_of as source_of,
)
from braces.jaxpr.core.named_scopes import (
    Path as Path,
    block_name as block_name,
    build_scopes as build_scopes,
    common_depth as common_depth,
)
from braces.jaxpr.registry import IS_CALLBACK as IS_CALLBACK, REFUSAL_REASONS as REFUSAL_REASONS
from braces.jaxpr.rules.arithmetic import einsum_terms as einsum_terms
from braces.jaxpr.rules.higher_order import inlined_call as inlined_call
from braces.jaxpr.trace import TracedFunction as TracedFunction, trace_structs as trace_structs
from braces.ops.conv_pool.cpu_algorithms import BY_XLA as BY_XLA, dilated_span as dilated_span
from braces.ops.nn.activation import SELU_ALPHA as SELU_ALPHA, SELU_SCALE as SELU_SCALE
from braces.ops.special.incomplete_gamma_beta import (
    above_over_density as above_over_density,
    below_over_density as below_over_density,
    beta_part_below as beta_part_below,
)
from braces.runtime.plan.plan import Plan as Plan
from braces.runtime.pure_function import PureFunction as PureFunction
