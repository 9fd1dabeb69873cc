"""Hints for calls with arguments of other libraries: `adam(eps=1e-6)` suggests `epsilon`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from braces.errors import did_you_mean

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_WORDS = """\
act: activation activation_fn nonlinearity
ahead: buffer_size prefetch prefetch_factor
axes: dim dims axis shape axis_names axis_shapes mesh_shape mesh_dim_names dim_names
axis: dim dims axes batch_first time_major start_dim
b1: beta1 beta_1 betas beta
b2: beta2 beta_2
batch_size: batch bs minibatch_size per_device_batch_size
batches: loader data_loader dataloader dataset iterable iterator
bias: use_bias bias_attr with_bias
bias_init: bias_initializer
check_inf: debug_infs
check_nan: check_nan_inf check_numerics debug_nans detect_anomaly terminate_on_nan
class_weights: weight weights class_weight
concentration0: beta b
concentration1: alpha a
concentration: alpha a
correction: ddof unbiased
covariance_matrix: cov covariance
device: place backend devices device_type
dilation: dilations dilation_rate rhs_dilation
dims: rules logical_axis_rules placements
drop_last: drop_remainder
epochs: num_epochs max_epochs n_epochs nb_epoch num_train_epochs
end: eos eos_id end_id eos_token_id end_token
epsilon: eps
epsilon_in_sqrt: eps_in_sqrt
epsilon_root: eps_root
feed: feed_dict
feeds: inputs feed_vars
fetch: fetch_list fetches
fetches: outputs fetch_vars fetch_list
filters: out_channels num_filters features
folder: directory dir dirname path ckpt_dir checkpoint_dir checkpoint_path save_dir output_dir \
default_root_dir
fresh: overwrite overwrite_output_dir
groups: feature_group_count num_groups
heads: num_heads
high: maxval max_value
ignored_label: ignore_index
in_axes: in_dims
init: initializer kernel_init kernel_initializer weight_init
inputs: xs wrt
keep: max_to_keep save_total_limit save_top_k
keepdims: keepdim keep_dims
labels: label target targets y_true
layers: num_layers
layout: data_format sharding in_shardings layout_map mesh
learning_rate: lr
loc: mean mu
log_every: log_every_n_steps logging_steps log_interval
log_files: log_dir logging_dir logger
log_prediction: input prediction
log_probs: input log_probabilities
logits: input logit prediction predictions y_pred
low: minval min_value
mask: attn_mask src_mask weight_decay_mask
max_executables: cache_size_limit maxsize
max_length: max_len max_new_tokens
mesh: device_mesh process_mesh
mode: jit_compile run_eagerly
momentum: mom
multiplier: depth_multiplier
negative_slope: alpha slope
num_classes: classes n_classes num_labels depth
out_axes: out_dims
pad: pad_to_multiple_of padding
pad_to: pad pad_to_multiple_of padding
padding: pad
padding_index: padding_idx
parameters: parameter_list var_list
params: partition_rules layout_map param_attr weight_attr
path: file file_name filename folder directory f filepath path_prefix
positive_weight: pos_weight
pred: predicate cond
prediction: input predictions preds y_pred
probs: p prob probability probabilities
quiet: verbose silent progress progress_bar enable_progress_bar disable_tqdm
rate: p lam drop_prob dropout_prob
reduction: reduce size_average
replace: replacement
runs: number rep repeat
save_every: save_steps save_freq every_n_train_steps save_interval
scale: std stddev std_dev sigma
scope: variables
seed: rng key random_state random_seed rngs
shape: size sample_shape
size: out_features units num_outputs features hidden_size num_units
sizes: batch_size dynamic_axes dynamic_shapes input_size
start: bos bos_id start_id bos_token_id decoder_start_token_id start_token
stride: strides
target: targets labels label y_true
target_gradients: grad_ys grad_outputs
targets: ys outputs fetch fetch_list
timeout_s: timeout
total_count: n trials num_trials
validation: validation_data val_data valid_data eval_data eval_dataset val_dataset val_ds \
val_loader val_dataloader val_dataloaders valid_loader test_data
var: variance
weight_decay: weight_decay_rate l2
weights: sample_weight
window: kernel_size filter_size pool_size
workers: num_workers
x: a input inputs
y: b other
"""
WORDS: Mapping[str, Sequence[str]] = {
    parameter: others.split()
    for parameter, _, others in (line.partition(": ") for line in _WORDS.splitlines())
}
"""Words of other libraries by the parameter that stands for them in Braces."""

_ABSENT = """\
training,train,is_test,is_training,deterministic: exe.run trains, exe.evaluate predicts.
use_running_average: exe.run trains, exe.evaluate predicts.
weight_decay,decay: Use br.optimizer.adamw, or br.optimizer.add_decayed_weights in a chain.
clipnorm,clip_norm,global_clipnorm,grad_clip: Use br.optimizer.clip_by_global_norm in a chain.
max_grad_norm: Use br.optimizer.clip_by_global_norm in a chain.
from_logits: Losses and metrics have logits as arguments.
return_sequences,return_state: The result is (outputs, state).
num_embeddings,input_dim: Pass a pair: br.embedding(ids, [number, size]).
embedding_dim,output_dim: Pass a pair: br.embedding(ids, [number, size]).
in_channels,in_features,num_channels: The number of inputs follows from x.
return_numpy: Results are NumPy arrays.
inplace: Variables are immutable.
keep_prob: Use rate=1 - keep_prob.
num_flatten_dims: The last axis is contracted; use br.flatten(x).
batch_size,shuffle: Pass br.batches(arrays, batch_size).
steps_per_epoch,max_steps: Use steps=.
lstm.mask,gru.mask,simple_rnn.mask: Use lengths=, as in lengths=br.sum(mask, axis=1).
lstm.sequence_length,gru.sequence_length,simple_rnn.sequence_length: Use lengths=.
key_padding_mask: Use lengths=, or mask= with True for the keys that take part.
opset_version: Use opset=.
scan.axis: The loop iterates over the first axis; use br.moveaxis(x, axis, 0).
initial_epoch,resume,resume_from_checkpoint: A folder resumes at its last step; use folder=.
validation_split: Split the arrays, and pass validation=br.batches(held_out, batch_size).
validation_freq,check_val_every_n_epoch: Validation runs after each epoch.
patience,early_stopping: Pass callbacks=[br.EarlyStopping("val_loss", patience=3)].
restore_best_weights: Add best = br.Best(path) to callbacks=, then call best.restore(run).
precision,amp: Pass br.passes.mixed_precision("bfloat16") to br.Executor.
evaluate.eval_dataset,evaluate.test_data,evaluate.validation_data: Use data=.
training.validation,training.validation_data,training.val_data: Use br.fit, or br.evaluate.
training.metrics,training.callbacks,training.log: Use br.fit, whose loop has them.
end_dim: br.flatten(x, axis=1) merges all later axes; br.reshape merges others.
"""
_FITTING = """\
model,module,net,network: Use program=.
train_data,train_dataset,train_ds,dataset: Use data=.
train_loader,train_dataloader,train_dataloaders,loader,dataloader,data_loader: Use data=.
limit_train_batches,limit_val_batches,validation_steps: Use steps=.
checkpoint,checkpoint_path: Use folder=.
device,devices,accelerator,gpus,strategy: Pass exe=br.Executor(device="gpu:0").
mode,jit_compile,run_eagerly: Pass exe=br.Executor("interpret").
lr,learning_rate,optimizer,optim: Call br.optimizer.adam(1e-3).minimize(loss) in the program.
loss,loss_fn,criterion: Call br.optimizer.adam(1e-3).minimize(loss) in the program.
gradient_clip_val: Use br.optimizer.clip_by_global_norm in a chain.
precision,mixed_precision,amp: Pass br.passes.mixed_precision("bfloat16") to br.Executor.
class_weight,class_weights,sample_weight,weights: Multiply the loss by weights in the program.
num_workers,workers,pin_memory: Pass br.batches(arrays, batch_size, workers=4).
x,y,inputs,labels: Pass br.batches({"x": xs, "y": ys}, batch_size).
"""


def _sentences(text: str, prefixes: Sequence[str] = ("",)) -> dict[str, str]:
    """Return the sentences of lines `word,word: sentence` by word, with each prefix."""
    lines = (line.partition(": ") for line in text.splitlines())
    pairs = [(word, said) for words, _, said in lines for word in words.split(",")]
    return {f"{prefix}{word}": said for word, said in pairs for prefix in prefixes}


ABSENT: Mapping[str, str] = _sentences(_ABSENT) | _sentences(
    _FITTING, ("fit.", "training.", "evaluate.")
)
"""Sentences about words of other libraries that stand for no parameter.

A key with a dot belongs to the function before it.
"""


def say_keyword(word: str, parameters: Iterable[str]) -> str:
    """Return a sentence about the parameter that an unknown keyword means.

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
    return ABSENT.get(word) or did_you_mean(word, known)


def add_call_hint(
    error: TypeError,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
) -> None:
    """Extend the message of a call that does not fit the signature of the function.

    An unknown keyword gets the right one; another number of arguments gets the signature.
    """
    signature = inspect.signature(function)
    parameters = signature.parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    unknown = [word for word in keywords if word not in parameters]
    if unknown and not takes_any:
        own = ABSENT.get(f"{function.__name__}.{unknown[0]}")
        hint = own or say_keyword(unknown[0], parameters)
        error.args = (f"{error}. {hint}".rstrip(),)
    elif not _fits(signature, arguments, keywords):
        error.args = (f"{error}. Call {written_call(function)}.",)


def _fits(
    signature: inspect.Signature, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> bool:
    try:
        signature.bind(*arguments, **keywords)
    except TypeError:
        return False
    return True


def written_call(function: Callable[..., Any]) -> str:
    """Return a call with the names of the parameters, at most 5 of them keywords.

    Example:
        >>> def fc(x, size=None, *, act=None, name=None): ...
        >>> written_call(fc)
        'fc(x, size, act=…, name=…)'
    """
    parameters = inspect.signature(function).parameters.values()
    keywords = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    parts = [
        "*" * (p.kind is p.VAR_POSITIONAL) + p.name
        for p in parameters
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)
        and p.name != "self"
    ]
    parts += [f"{word}=…" for word in keywords[:5]] + ["…"] * (len(keywords) > 5)
    name = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
    return f"{name}({', '.join(parts)})"


HINTING = "adds_call_hints"
"""An attribute of functions whose errors have hints; decorators around them inherit it."""


def hint_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a public function: the error of an unknown keyword names the right one."""
    if hasattr(function, HINTING):
        return function

    @functools.wraps(function)
    def hinting(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            add_call_hint(error, function, args, kwargs)
            raise

    setattr(hinting, HINTING, True)
    return hinting


def hint_methods(cls: type[T]) -> type[T]:
    """Decorate a public class: its constructor and its own methods have hints for keywords."""
    for name, member in list(vars(cls).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(member, staticmethod):
            setattr(cls, name, staticmethod(hint_keywords(member.__func__)))
        elif inspect.isfunction(member):
            setattr(cls, name, hint_keywords(member))
    return cls
