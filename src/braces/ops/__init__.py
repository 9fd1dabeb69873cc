"""Operator definitions: importing this package fills the operator registry."""

# pyright: reportUnusedImport=false
# ruff: noqa: F401

from braces.ops import control
from braces.ops.array import (
    concat_split,
    creation,
    error_check,
    identity,
    pad_tile,
    permute,
    reshape,
)
from braces.ops.conv_pool import (
    avg_pool,
    conv,
    conv_gradients,
    conv_transpose,
    im2col,
    max_pool,
    max_unpool,
)
from braces.ops.elementwise import (
    arithmetic,
    binary,
    bitwise,
    comparison,
    complex,
    select,
    trigonometry,
    unary,
)
from braces.ops.image import (
    deformable_conv,
    grid_sample,
    non_max_suppression,
    resize,
    roi_pool,
)
from braces.ops.indexing import (
    dynamic_slice,
    gather_nd,
    getitem,
    lax_gather,
    scatter,
    static_slice,
    symbolic_slice,
    take,
)
from braces.ops.linalg import (
    cholesky,
    determinant,
    diagonal,
    eig,
    eigh_svd,
    einsum,
    matmul,
    matrix_functions,
    qr_lu,
    schur,
    solve,
)
from braces.ops.lists import list_to_array, nested, random_access, stack
from braces.ops.nn import (
    accuracy,
    activation,
    cross_entropy,
    elementwise_losses,
    local_response_norm,
    normalization,
    quantization,
    shrink_activations,
    softmax,
)
from braces.ops.random import (
    discrete,
    gamma as random_gamma,
    key_bits,
    key_draws,
    philox,
    poisson_binomial,
    stateless,
)
from braces.ops.reduction import (
    cumulative,
    moments,
    nonzero,
    reduce,
    searchsorted,
    sort,
    unique,
)
from braces.ops.signal import fft, framing
from braces.ops.special import (
    bessel,
    gamma as special_gamma,
    incomplete_gamma_beta,
    inverse_hyperbolic,
)
