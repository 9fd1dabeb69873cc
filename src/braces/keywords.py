"""Hints for keyword arguments of other libraries: `adam(eps=1e-6)` suggests `epsilon`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from braces.errors import did_you_mean

P = ParamSpec("P")
R = TypeVar("R")

_WORDS = """\
act: activation activation_fn nonlinearity
axes: dim dims axis
axis: dim dims axes
b1: beta1 beta_1 betas beta
b2: beta2 beta_2
bias_init: bias_initializer
class_weights: weight weights class_weight
concentration: alpha a
concentration0: beta b
concentration1: alpha a
correction: ddof unbiased
covariance_matrix: cov covariance
dilation: dilations dilation_rate rhs_dilation
epsilon: eps
epsilon_in_sqrt: eps_in_sqrt
epsilon_root: eps_root
feed: feed_dict
feeds: inputs
fetch: fetch_list
fetches: outputs
filters: out_channels
folder: directory dir dirname path
groups: feature_group_count num_groups
heads: num_heads
ignored_label: ignore_index
init: initializer kernel_init kernel_initializer weight_init
keepdims: keepdim keep_dims
labels: label target targets y_true
layers: num_layers
layout: data_format
learning_rate: lr
loc: mean mu
log_prediction: input prediction
log_probs: input log_probabilities
logits: input logit prediction predictions y_pred
mask: attn_mask src_mask weight_decay_mask
momentum: mom
multiplier: depth_multiplier
negative_slope: alpha slope
num_classes: classes n_classes num_labels depth
padding: pad
padding_index: padding_idx
path: file file_name filename folder directory
positive_weight: pos_weight
pred: predicate cond
prediction: input predictions preds y_pred
probs: p prob probability probabilities
rate: p lam drop_prob dropout_prob
reduction: reduce size_average
replace: replacement
scale: std stddev std_dev sigma
seed: rng key random_state
shape: size sample_shape
size: out_features units hidden_size num_units
stride: strides
target: targets labels label y_true
total_count: n trials num_trials
var: variance
weight_decay: weight_decay_rate l2
weights: sample_weight
window: kernel_size filter_size pool_size
x: a input inputs
y: b other
"""
WORDS: Mapping[str, Sequence[str]] = {
    parameter: others.split()
    for parameter, _, others in (line.partition(": ") for line in _WORDS.splitlines())
}
"""Words of other libraries by the parameter that stands for them in Braces."""


def say_keyword(word: str, parameters: Iterable[str]) -> str:
    """Return a sentence about the parameter that an unknown keyword stands for.

    Example:
        >>> say_keyword("eps", ["x", "epsilon"])
        'Use epsilon=.'
        >>> say_keyword("learning_rat", ["learning_rate"])
        'Did you mean `learning_rate`?'
    """
    known = list(parameters)
    meant = [name for name in known if word.lower() in WORDS.get(name, ())]
    if meant:
        return f"Use {' or '.join(f'{name}=' for name in meant)}."
    return did_you_mean(word, known)


def add_keyword_hint(
    error: TypeError, function: Callable[..., Any], keywords: Mapping[str, Any]
) -> None:
    """Extend the message of a call with an unknown keyword by the right one."""
    parameters = inspect.signature(function).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    unknown = [word for word in keywords if word not in parameters]
    if unknown and not takes_any:
        hint = say_keyword(unknown[0], parameters)
        error.args = (f"{error}. {hint}".rstrip(),)


def hint_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a public function: an unknown keyword is an error that says the right one."""

    @functools.wraps(function)
    def hinting(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            add_keyword_hint(error, function, kwargs)
            raise

    return hinting
