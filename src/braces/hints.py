"""Hints for names of other libraries that users type on `br` and on its objects."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from braces.errors import did_you_mean

# ---- br.NAME ---------------------------------------------------------------------------------


def _table(text: str) -> dict[str, str]:
    """Return the hints of lines `name|name hint` by name."""
    lines = (line.partition(" ") for line in text.splitlines())
    return {name: hint for names, _, hint in lines for name in names.split("|")}


HINTS = _table("""\
absolute br.abs(x)
accumulate br.metrics.mean(x)
activations|f|functional br.relu and other functions of br
adam|scale_by_adam br.optimizer.adam(learning_rate)
adamw br.optimizer.adamw(learning_rate)
adaptiveavgpool2d br.layers.adaptive_avg_pool2d(x, size)
add_decayed_weights br.optimizer.add_decayed_weights(weight_decay)
add_momentum br.optimizer.momentum(learning_rate)
additiveattention br.softmax(scores, axis) with scores = br.fc(br.tanh(query + keys), 1)
amax|reduce_max br.max(x, axis)
amin|reduce_min br.min(x, axis)
amp br.passes.mixed_precision("bfloat16")
apply_updates br.optimizer.sgd(learning_rate).minimize(loss)
arccos br.acos(x)
arccosh br.acosh(x)
arcsin br.asin(x)
arcsinh br.asinh(x)
arctan br.atan(x)
arctan2 br.atan2(y, x)
arctanh br.atanh(x)
argpartition br.argsort(x, axis)
argwhere br.stack(br.nonzero(x), axis=-1)
array|from_dlpack|from_numpy|tensor br.constant(value), or br.data for a feed
array_length|list_length br.lists.length(xs)
array_read|list_get br.lists.get(xs, index), or xs[index]
array_write|list_write br.lists.write(xs, index, x)
assign the value itself: a name is bound once
astype br.cast(x, dtype)
attention|multiheadattention br.multi_head_attention(x, heads, key, value)
autograd|grad|gradienttape|vjp br.gradients(targets, inputs)
average|reduce_mean br.mean(x, axis)
avg_pool br.avg_pool2d(x, window)
backward br.append_backward(loss)
batchnorm1d|batchnorm2d br.batch_norm(x)
bce|bce_with_logits|bceloss|bcewithlogitsloss br.sigmoid_binary_cross_entropy(logits, target)
bernoulli br.random.bernoulli(shape, probability), or br.distributions.Bernoulli(probs)
binarycrossentropy br.sigmoid_binary_cross_entropy(logits, target)
binomial_of_key br.random.binomial
bitcast_convert_type br.bitcast(x, dtype)
bitwise_not br.bitwise_invert(x), or ~x
block_until_ready|device_get|fetch|numpy exe.run(prog, scope, fetch=[x])
bmm|mm br.matmul(x, y)
broadcast|broadcast_arrays|expand br.broadcast_to(x, shape): operators broadcast automatically
bucketize br.digitize(x, edges), or br.searchsorted(edges, x)
callbacks br.Callback, br.EarlyStopping and br.Best
case br.create_switch()
case_of br.create_switch(index)
cat|concatenate|vstack br.concat(xs, axis=0)
categorical br.random.categorical(logits), or br.distributions.Categorical(logits=logits)
categoricalcrossentropy br.softmax_cross_entropy_soft(logits, target)
cdist br.linalg.norm(br.expand_dims(x, -2) - br.expand_dims(y, -3), axis=-1)
chain_matmul|multi_dot br.matmul(br.matmul(x, y), z)
cholesky_solve br.linalg.solve_triangular twice, with br.linalg.cholesky(x)
chunk br.split(x, sections, axis)
clamp br.clip(x, min, max)
clip_by_global_norm|clip_grad_norm|clip_grad_norm_ br.optimizer.clip_by_global_norm(max_norm)
clip_by_value|clip_grad_value_|optimizer.clip br.optimizer.clip_by_value(max_delta)
clone the variable itself: values never change
column_stack br.stack(xs, axis=1)
compile|function|jit br.Executor(): it compiles
confusion br.metrics.confusion_matrix(prediction, labels, num_classes)
contrastive_loss br.losses.info_nce_loss(query, key)
conv br.conv2d(x, 16, 3), or br.conv2d(x, weight)
conv_to_input br.gradients(br.conv2d(x, weight), x)
conv_to_weight br.gradients(br.conv2d(x, weight), weight)
conv_transpose|convtranspose2d br.layers.conv_transpose2d(x, weight)
cos_sim br.losses.cosine_similarity(prediction, target)
cosine_decay|cosinedecay|cosine_decay_schedule br.optimizer.cosine_decay_schedule
cosineannealingdecay|cosineannealinglr br.optimizer.cosine_decay_schedule
countable br.as_size(x)
cpuplace|device br.Executor(device="cpu:0")
create_array|create_list|tensorarray br.lists.create(shape, dtype)
create_parameter br.parameter(name, shape)
cross_entropy|crossentropyloss br.softmax_cross_entropy(logits, labels)
csvlogger br.fit(prog, data, log_files=['run.csv'])
cuda|cudaplace br.Executor(device="gpu:0")
cumulative_prod br.cumprod(x, axis)
cumulative_sum br.cumsum(x, axis)
cumulative_trapezoid br.cumsum of the trapezoid areas
custom_jvp|custom_vjp br.custom_gradient(function)
dataloader|dataset br.batches(arrays, batch_size)
default_main_program|get_default_graph br.default_program()
default_startup_program br.default_program().startup
deform_conv br.layers.deform_conv2d(x, weight, offset)
degrees br.rad2deg(x)
dense|linear br.fc(x, size)
depth_to_space br.image.pixel_shuffle(x, factor)
detach br.stop_gradient(x)
device_put br.Executor(device="gpu:0"): the executor sets the device
dice br.losses.dice_loss(prediction, target)
div|elementwise_div|true_divide br.divide(x, y), or x / y
double br.float64
dsplit br.split(x, sections, axis=2)
dstack br.concat(xs, axis=2)
dtype x.dtype
dynamic_index_in_dim br.take(x, i, axis)
dynamic_update_index_in_dim br.dynamic_update_slice(x, update, starts)
dynamicrnn|rnn|staticrnn br.create_rnn()
earlystop br.EarlyStopping as a callback of br.fit
ediff1d br.signal.diff(x)
eig br.linalg.eigh(x), of symmetric matrices
eigvals br.linalg.eigvalsh(x), of symmetric matrices
elementwise_add|sums br.add(x, y), or x + y
elementwise_max|fmax br.maximum(x, y)
elementwise_min|fmin br.minimum(x, y)
elementwise_mul br.multiply(x, y), or x * y
elementwise_pow|float_power|power br.pow(x, y), or x ** y
elementwise_sub|sub br.subtract(x, y), or x - y
empty br.zeros(shape)
empty_like br.zeros_like(x)
eq br.equal(x, y), or x == y
expit br.sigmoid(x)
exponential_decay_schedule|exponentiallr br.optimizer.exponential_decay
export_onnx|onnx br.from_onnx(path), or br.to_onnx(prog, path)
f1_score|f1score br.metrics.f1(prediction, labels)
fence|remat br.block(name, recompute=True) for the gradient
fftconvolve br.signal.convolve(x, y)
fill_constant br.full(shape, value, dtype)
finfo numpy.finfo(x.dtype)
fliplr br.flip(x, axis=1)
flipud br.flip(x, axis=0)
float br.float32
floor_div br.floor_divide(x, y), or x // y
flop_count|flops prog.cost().operations
fluid br, which has data, layers and control flow
fmod br.remainder(x, y), whose sign is that of y
fold br.image.col2im(x, shape, window)
fori_loop br.scan(step_fn, init, length=n), or br.while_loop
gamma_of_key br.random.gamma
gamma_sample_slope br.gradients(br.special.gammainc(a, x), a)
gammaln|lgamma|loggamma br.special.gammaln(x)
gather br.take(x, indices, axis=0), or br.take_along_axis
ge br.greater_equal(x, y), or x >= y
get_window br.signal.hann_window(size)
getitem x[index]
global_average_pooling2d br.layers.global_avg_pool(x)
global_max_pooling2d br.layers.global_max_pool(x)
global_scope|var_scope br.Scope()
global_variables_initializer|initialize exe.init(prog, seed=0), which returns a scope
gradient br.gradients(targets, inputs), or br.signal.central_difference(x) for samples on a grid
graph|program_guard with br.Program() as prog
greater_than|gt br.greater(x, y), or x > y
greedy_decode|greedy_search br.decoding.greedy(step, state, start=bos, end=eos, max_length=n)
group_ids br.segment_sum(x, ids, n), or br.bincount(ids, length=n)
grucell|lstmcell br.layers.gru_cell(x, h), or br.layers.lstm_cell(x, (h, c))
half br.float16
hardshrink br.layers.hard_shrink(x)
hardsigmoid br.layers.hard_sigmoid(x)
hardswish br.layers.hard_swish(x)
hardtanh br.layers.hard_tanh(x)
histc br.histogram(x, bins, range)
hstack br.concat(xs, axis=1)
huber br.losses.huber_loss(prediction, target)
if_else|ifelse br.create_if_else(pred)
igamma br.special.gammainc(a, x)
igammac br.special.gammaincc(a, x)
iinfo numpy.iinfo(x.dtype)
image_resize br.image.resize(x, shape)
increment x + 1
index_add|setitem_add|window_add br.scatter_add(x, indices, updates)
index_copy|index_put br.scatter_nd(x, updates, [indices])
index_select br.take(x, indices, axis=0)
init_params exe.init(prog, seed=0), which returns a scope; br.init has initializers
init_weights exe.init(prog, seed=0); init= of a layer sets an initializer
initializer|initializers br.init
input|placeholder br.data(name, shape)
instancenorm2d br.layers.instance_norm(x)
int br.int32, or br.int64
interpolate br.image.resize(x, shape, mode="linear")
intersect1d|setdiff1d br.unique(x), and br.isin(x, y)
invert ~x
isdtype br.dtypes.is_float(x.dtype), or br.dtypes.is_integer
kaiming_normal|kaiming_normal_|msra br.init.he_normal()
kaiming_uniform|kaiming_uniform_ br.init.he_uniform()
kl_div br.losses.kl_div_loss(log_prediction, target)
kl_divergence br.losses.kl_div_loss, or br.distributions.kl_divergence(p, q)
kthvalue|partition br.sort(x, axis)
l1_loss|l1loss|losses.mae|losses.mean_absolute_error|mae br.absolute_error(prediction, target)
lax br.scan, br.cond and br.while_loop
lax_gather x[index], br.take(x, indices), or br.gather_nd(x, indices)
lax_scatter br.put_along_axis(x, indices, updates, axis), or br.scatter_nd(x, updates, indices)
le br.less_equal(x, y), or x <= y
learningrateschedule|lr_schedule br.optimizer.cosine_decay_schedule and other schedules
less_than|lt br.less(x, y), or x < y
list_append br.lists.append(xs, x)
list_erase br.lists.erase(xs, index)
list_insert br.lists.insert(xs, index, x)
list_pop br.lists.pop(xs)
list_resize br.lists.resize(xs, length)
list_set br.lists.set(xs, index, x)
list_stack br.lists.stack(xs)
list_unstack br.lists.unstack(x)
load br.load_model(path), or br.load_parameters(scope, path)
load_inference_model br.load_model(path)
logcumsumexp br.special.cumlogsumexp(x, axis)
logsigmoid br.log_sigmoid(x)
long br.int64
lookup_table br.embedding(ids, table)
losses.mean_squared_error|mse|mse_loss|mseloss br.squared_error(prediction, target)
lp_pool br.layers.lp_pool2d(x, window)
lr_scheduler|lrscheduler|schedule br.optimizer.cosine_decay_schedule and other schedules
lrn br.layers.local_response_norm(x, size)
lu br.linalg.solve(a, b), br.linalg.slogdet(x), or br.linalg.qr(x)
manual_seed|seed exe.init(prog, scope, seed=0)
masked_fill br.where(mask, value, x)
matrix_exp br.linalg.expm(x)
max_pool br.max_pool2d(x, window)
max_unpool br.layers.max_unpool2d(x, indices, shape)
metrics.mae br.metrics.mean_absolute_error(prediction, target)
mod br.remainder(x, y), or x % y
mode br.unique(x), with the counts that it returns
modelcheckpoint br.fit(prog, data, folder="job"), or br.Best(path) for the best epoch
module layers in a `with br.Program() as prog` block, without a class; br.block(name) groups
mul br.multiply(x, y), or br.matmul for a product of matrices
multinomial br.random.categorical(logits)
name_scope|variable_scope with br.block(name)
nancumsum br.cumsum(br.nan_to_num(x), axis)
narrow x[start:stop], or br.dynamic_slice(x, starts, sizes)
ndim|rank x.ndim
ne br.not_equal(x, y), or x != y
neg br.negative(x), or -x
next_count a memory of a loop, or br.state for a value that persists across runs
nll br.losses.nll_loss(log_probs, labels)
nms br.image.non_max_suppression(boxes, scores)
nn br.layers
no_grad exe.evaluate(prog, scope, feed, fetch) for inference, or br.stop_gradient(x)
normal br.random.normal(shape), or br.distributions.Normal(loc, scale)
normal_ br.init.normal()
normalize br.linalg.l2_normalize(x, axis)
numel the product of x.shape
onecyclelr|warmup_cosine_schedule br.optimizer.warmup_cosine_decay_schedule
operatorfunction br.op, which creates them
optim|optimizers br.optimizer
pad_sequence br.batches(arrays, batch_size, bucket_by=name), which pads sequences
paramattr br.fc(x, size, params=[w, b], init=...)
permute br.permute_dims(x, axes)
pmap br.Executor(layout=br.Layout(mesh, …)), which runs one program on several devices
poisson_of_key br.random.poisson
polynomial_schedule br.optimizer.polynomial_schedule
pool2d br.max_pool2d(x, window), or br.avg_pool2d
positive the variable itself
predict exe.evaluate(prog, scope, feed, fetch=logits)
prefetch exe.feeds(prog, batches), which prepares feeds while runs compute
print a listener of exe.run, or fetch the variable
prngkey|random.key|random.prngkey exe.init(prog, scope, seed=0); operators have no key
psi br.special.digamma(x)
ptp br.max(x, axis) - br.min(x, axis)
put_along_axis_add br.scatter_add(x, indices, updates, axis), or br.scatter_nd_add
radians br.deg2rad(x)
rand|uniform br.random.uniform(shape)
rand_like br.random.uniform(x.shape)
randint br.random.randint(shape, low, high)
randn br.random.normal(shape)
randn_like br.random.normal(x.shape)
random.split exe.init(prog, scope, seed=0); operators have no key
ravel br.reshape(x, [-1])
reduce_all br.all(x, axis)
reduce_any br.any(x, axis)
reduce_prod br.prod(x, axis)
reduce_sum br.sum(x, axis)
reducelronplateau a schedule of br.optimizer, or a br.Callback
resize_back br.gradients(br.image.resize(x, shape), x)
result_type (x + y).dtype
rint br.round(x)
rsub y - x
run exe.run(prog, scope, feed={...}, fetch=[...])
save br.save_model(path, prog, scope), or br.save_parameters(scope, path)
save_inference_model br.save_model(path, prog, scope)
scale_by_adadelta br.optimizer.adadelta(learning_rate)
scale_by_adamax br.optimizer.adamax(learning_rate)
scale_by_amsgrad br.optimizer.amsgrad(learning_rate)
scale_by_belief br.optimizer.adabelief(learning_rate)
scale_by_learning_rate br.optimizer.scale_by_learning_rate(learning_rate)
scale_by_lion br.optimizer.lion(learning_rate)
scale_by_radam br.optimizer.radam(learning_rate)
scale_by_rms br.optimizer.rmsprop(learning_rate)
scale_by_rss br.optimizer.adagrad(learning_rate)
scale_by_stddev br.optimizer.rmsprop(learning_rate, centered=True)
scale_by_trust_ratio br.optimizer.lamb(learning_rate)
scatter br.put_along_axis(x, indices, updates, axis), or br.scatter_nd
scatter_reduce br.segment_sum(data, ids, n) and related functions, or br.put_along_axis
scope_guard exe.run(prog, scope): the scope is an argument
select x[:, index]
sequence_mask br.arange(steps) < lengths[:, None]
sequential br.block(name), which can be called again
session br.Executor()
sgd br.optimizer.sgd(learning_rate)
shape x.shape
sigmoid_cross_entropy|binary_cross_entropy br.sigmoid_binary_cross_entropy(logits, target)
sigmoid_focal_loss br.losses.focal_loss(logits, target)
smooth_l1 br.losses.smooth_l1_loss(prediction, target)
softmax_with_cross_entropy br.softmax_cross_entropy(logits, labels)
solve_triangular|triangular_solve br.linalg.solve_triangular(a, b, lower=True)
space_to_depth br.image.pixel_unshuffle(x, factor)
sparsecategoricalaccuracy br.metrics.accuracy(logits, labels)
sparsecategoricalcrossentropy br.softmax_cross_entropy(logits, labels)
square_error_cost br.squared_error(prediction, target)
step_decay br.optimizer.piecewise_constant_schedule
steplr|multisteplr|piecewise_constant_schedule br.optimizer.piecewise_constant_schedule
summary prog.summary()
summarywriter br.fit(prog, data, log_files=['events']), a folder for TensorBoard
swiglu br.silu(x) * y
swish br.silu(x)
symboltable block.symbol_table
top_k br.topk(x, k)
train|trainer br.fit(prog, data, epochs=10), after br.optimizer.adam(1e-3).minimize(loss)
train_step exe.run(prog, scope, feed), or br.fit(prog, data) for the loop
transpose br.permute_dims(x, axes), or x.T
trapz br.signal.trapezoid(y, x)
triplet_loss br.losses.triplet_margin_loss(anchor, positive, negative)
unfold br.image.im2col(x, window)
union1d br.unique(br.concat([x, y]))
unique_places br.unique(x)
unsqueeze br.expand_dims(x, axis)
upsampling2d br.image.upsample(x, factor)
value_and_grad br.gradients(targets, inputs), and fetch both
vectorize a leading axis: operators broadcast
view br.reshape(x, shape)
while br.create_while(), or br.while_loop
window x[start:stop]
xavier|xavier_uniform|xavier_uniform_ br.init.glorot_uniform()
xavier_normal|xavier_normal_ br.init.glorot_normal()
""")

# ---- x.NAME of a variable --------------------------------------------------------------------

METHODS = _table("""\
assign|assign_add|assign_sub prog.update(x, value) for a parameter or state; others are fixed
at br.scatter_nd(x, updates, [i]) to set x[i], br.scatter_add(x, i, updates) to add, \
br.dynamic_update_slice(x, update, starts) for a part
bool x.astype('bool')
contiguous the variable itself: XLA chooses the memory layout
cpu|cuda|device br.Executor(device=...): the executor sets the device
data|item|numpy|tolist exe.run(prog, scope, fetch=x) for its value
detach br.stop_gradient(x)
dim x.ndim
double x.astype('float64')
eval exe.evaluate(prog, scope, feed={...}, fetch=x) for its value
fc br.fc(x, size)
float x.astype('float32')
get_shape x.shape
grad|retain_grad br.gradients(loss, x), or fetch=br.grad_of(loss, x)
half x.astype('float16')
int x.astype('int32')
long x.astype('int64')
register_hook br.custom_gradient(function) to change a gradient
requires_grad br.gradients(loss, x), or br.stop_gradient(x) to block gradients
size x.shape, or br.size(x.shape[0]) for a number in the program
transpose br.swapaxes(x, 0, 1) for two axes, or br.permute_dims(x, axes)
to x.astype(dtype); br.Executor(device=...) sets the device
update prog.update(x, value) for a parameter or state; memories of loops have update()
view x.reshape(...)
""")

# ---- of programs, scopes, executors and models -----------------------------------------------

HABITS: dict[str, dict[str, str]] = {
    "Program": _table("""\
add br.fc(x, size) in `with br.Program():`, which adds operators
all_parameters|named_parameters|trainable_variables|trainable_weights|weights prog.parameters
apply|predict exe.evaluate(prog, scope, feed={...}, fetch=[...])
backward br.append_backward(loss)
clone br.for_test(prog), or br.prune(prog, targets)
compile br.optimizer.adam(1e-3).minimize(loss) for the optimizer and the loss, and \
br.fit(prog, data, metrics={...}); exe.compile compiles before the first run
copy br.Program.from_bytes(prog.to_bytes())
cpu|cuda|to br.Executor(device=...): the executor sets the device
eval exe.evaluate(prog, scope, feed={...}), which is in inference mode
evaluate br.evaluate(prog, data, scope)
export br.to_onnx(prog, path, scope=scope), or br.save_model(path, prog, scope)
fit|fit_generator br.fit(prog, data, epochs=10), after br.optimizer.adam(1e-3).minimize(loss)
flops prog.cost().operations
forward|run|train_on_batch|train_step exe.run(prog, scope, feed={...}, fetch=[...])
get_weights|state_dict scope.state_dict()
global_block prog.block(0)
init|init_params|initialize|random_seed exe.init(prog, seed=0), which returns a scope
inputs prog.feeds
layers prog.summary().rows
list_vars|variables prog.vars
load_state_dict scope.load_state_dict(values)
num_blocks len(prog.blocks)
ops prog.block(0).ops
outputs prog.fetches
parse_from_string br.Program.from_bytes(data)
serialize_to_string prog.to_bytes()
set_weights scope.update(values)
to_onnx br.to_onnx(prog, path, scope=scope, fetches=[...])
train br.fit(prog, data, epochs=10), after br.optimizer.adam(1e-3).minimize(loss); exe.run is \
in training mode, exe.evaluate in inference mode
zero_grad exe.run(prog, scope): gradients do not accumulate between runs
"""),
    "Scope": _table("""\
delete|drop|pop|remove scope.erase(name)
find scope.find_var(name)
list list(scope)
load br.load_parameters(scope, path)
load_dict scope.update(values)
parameters scope.names()
run exe.run(prog, scope): a scope only holds values
save br.save_parameters(scope, path)
set scope[name] = array
vars scope.keys()
"""),
    "Executor": _table("""\
close exe.clear() to free compiled code; there is nothing to close
device exe.device_name
eval|infer|predict exe.evaluate(prog, scope, feed={...}, fetch=[...])
fit|train br.fit(prog, data, epochs=10), after br.optimizer.adam(1e-3).minimize(loss)
forward|step|train_step exe.run(prog, scope, feed={...}, fetch=[...])
init_params|initialize|reset exe.init(prog, seed=0), which returns a scope
jit exe.run: it compiles
train_from_dataset br.fit(prog, data, epochs=10), after br.optimizer.adam(1e-3).minimize(loss)
"""),
    "Model": _table("""\
eval|evaluate|forward|predict model.run(x=xs)
fit|train model.run_program('train', x=xs, y=ys) for each batch
inputs model.feeds
load_state_dict model.scope.load_state_dict(values)
outputs model.fetches
parameters|weights model.scope.names()
state_dict model.scope.state_dict()
"""),
    "Fit": _table("""\
best_epoch|best_model_path br.Best(path, monitor) as a callback
fit|train br.fit(prog, data, epochs=..., folder=...): more epochs continue a run
logged_metrics|metrics run.history
model run.program and run.scope
params run.history for measurements, run.scope for parameters
predict run.exe.evaluate(prog, run.scope, feed={...}, fetch=[...])
save_checkpoint run.save()
save_weights br.save_parameters(run.scope, path)
state_dict run.scope.state_dict()
summary run.program.summary()
test|validate run.evaluate(data)
"""),
    "TrainingSteps": _table("""\
fit for step in br.training(...), or br.fit(prog, data) with the loop inside
history br.fit(prog, data), which has a history
run|train for step in br.training(...)
step for step in br.training(...), or next(iter(steps)) for one step
"""),
}  # fmt: skip

NO_HINTS: Mapping[str, str] = {}


def no_member(
    kind: str, name: str, known: Iterable[str], others: Mapping[str, str] = NO_HINTS
) -> AttributeError:
    """Return the error for a missing attribute, with a hint of `HABITS[kind]` or `others`."""
    hint = HABITS.get(kind, NO_HINTS).get(name.lower()) or others.get(name)
    near = did_you_mean(
        name, (candidate for candidate in known if not candidate.startswith("_"))
    )
    fix = f"Use {hint}." if hint else near or "See help() of it."
    return AttributeError(f"{kind} has no attribute `{name}`. {fix}", name=name)


class Hinted:
    """Base class whose error for a missing attribute has a hint."""

    __slots__ = ()
    _internal: ClassVar[Collection[str]] = ()
    """Names that Braces itself uses, which completion does not offer."""

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in self._internal]

    @staticmethod
    def _attribute_hints() -> Mapping[str, str]:
        """Return hints for attributes beyond those of `HABITS`."""
        return NO_HINTS

    if not TYPE_CHECKING:  # type checkers must report wrong names themselves

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            kind = type(self)
            raise no_member(kind.__name__, name, dir(self), kind._attribute_hints())
