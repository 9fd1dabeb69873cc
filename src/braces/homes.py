"""Public paths of functions: `tanh` is `br.tanh`, and `svd` is `br.linalg.svd`.

Every public object has one home. A function is in `br` unless a table below names another
namespace.
"""

from __future__ import annotations

import sys

MODULES = (
    "linalg", "fft", "signal", "special", "losses", "layers", "image", "lists", "metrics",
    "decoding", "optimizer", "init", "random", "distributions", "passes", "dtypes", "errors",
    "cluster", "remote",
)  # fmt: skip
"""The public modules, in the order in which a name is looked for; all others are internal."""

_ELSEWHERE = """\
fft fft fft2 fftfreq fftn fftshift ifft ifft2 ifftn ifftshift irfft irfft2 irfftn rfft rfft2
fft rfftfreq rfftn
image col2im grid_sample im2col non_max_suppression pixel_shuffle pixel_unshuffle resize
image roi_align roi_pool rot90 upsample
layers AttentionCache adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
layers adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d alpha_dropout attention_cache
layers bilinear celu channel_shuffle conditional_random_field conv_lstm conv_lstm_cell
layers conv_transpose1d conv_transpose2d conv_transpose3d ctc_greedy_decode deform_conv2d
layers depthwise_conv1d depthwise_conv2d dequantize embedding_bag gaussian_dropout
layers gaussian_noise global_avg_pool global_max_pool glu gru_cell hard_shrink hard_sigmoid
layers hard_swish hard_tanh instance_norm local_response_norm lp_pool1d lp_pool2d lp_pool3d
layers lstm_cell max_pool_with_indices1d max_pool_with_indices2d max_pool_with_indices3d
layers max_unpool1d max_unpool2d max_unpool3d maxout mish positional_encoding prelu quantize
layers relu6 rotary_embedding rrelu selu separable_conv1d separable_conv2d simple_rnn
layers simple_rnn_cell softshrink softsign spectral_norm tanhshrink transformer_decoder_layer
layers transformer_encoder_layer viterbi weight_norm
losses circle_loss cosine_embedding_loss cosine_similarity ctc_loss dice_loss focal_loss
losses gaussian_nll_loss hinge_embedding_loss hinge_loss huber_loss info_nce_loss kl_div_loss
losses log_cosh_loss margin_ranking_loss multi_margin_loss multilabel_margin_loss
losses multilabel_soft_margin_loss nll_loss poisson_nll_loss smooth_l1_loss soft_margin_loss
losses triplet_margin_loss tversky_loss
linalg cholesky cross det diagonal eigh eigvalsh expm inner inv kron l2_normalize lstsq
linalg matrix_norm matrix_power matrix_rank norm outer pinv qr slogdet solve solve_triangular
linalg svd svdvals trace vander vdot vector_norm
signal blackman_window central_difference convolve correlate diff frame hamming_window
signal hann_window interp stft trapezoid unwrap
special betainc betaln cbrt cumlogsumexp digamma entr erf erfc erfinv gammainc gammaincc
special gammaln heaviside i0 i0e i1 i1e logit multigammaln polygamma polyval sinc xlog1py xlogy
special zeta
"""
ELSEWHERE = {
    name: namespace
    for namespace, *names in (line.split() for line in _ELSEWHERE.splitlines())
    for name in names
}
"""The namespace of each function whose home is not `br` itself."""

OPERATORS = {
    "acos": "arccos",
    "acosh": "arccosh",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atan2": "arctan2",
    "atanh": "arctanh",
    "gammaln": "lgamma",
    "permute_dims": "transpose",
    "solve_triangular": "triangular_solve",
}
"""Operator types by the names of their functions, where the two differ.

The names are those of the array API, and of SciPy in `br.linalg` and `br.special`. The types
are part of the file format.
"""
FUNCTIONS = {op_type: name for name, op_type in OPERATORS.items()}
"""Names of functions by the types of their operators, where the two differ."""


def public_path(name: str) -> str:
    """Return the path of a function, given its name or the type of its operator.

    Example:
        >>> public_path("tanh"), public_path("svd"), public_path("arccos")
        ('br.tanh', 'br.linalg.svd', 'br.acos')
    """
    name = FUNCTIONS.get(name, name)
    namespace = ELSEWHERE.get(name)
    return f"br.{namespace}.{name}" if namespace else f"br.{name}"


def find_homes(name: str) -> list[str]:
    """Return the paths of all public objects of a name: `br.linalg.svd` for `svd`."""
    root = sys.modules["braces"]
    places = {"br": root} | {f"br.{module}": getattr(root, module) for module in MODULES}
    return [f"{place}.{name}" for place, module in places.items() if name in dir(module)]


def say_home(path: str) -> str:
    """Return a sentence for a path that does not exist: "br.svd is br.linalg.svd."."""
    homes = find_homes(path.rpartition(".")[2])
    return f"{path} is {' or '.join(homes)}." if homes else ""
