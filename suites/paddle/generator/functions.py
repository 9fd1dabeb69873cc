"""Cases of functions: a name, inputs, and an expression with a Python function of them.

An input is `name:kind@sizes`. Kinds: `f` float32 (the default), `d` float64, `p` positive, `u` in
0 … 1, `i<N` int64 below N, `j<N` int32, `b` truth values, `c` complex64. The first size is
unknown to the program, unless the sizes begin with `=`.
"""

from __future__ import annotations

ARITHMETIC = """
relu             x@3,4                F.relu
elu              x@3,4                lambda x: F.elu(x, 0.7)
selu             x@3,4                F.selu
celu             x@3,4                lambda x: F.celu(x, 0.7)
gelu             x@3,4                F.gelu
gelu_tanh        x@3,4                lambda x: F.gelu(x, approximate=True)
glu              x@3,4                F.glu
softplus         x@3,4                lambda x: F.softplus(x, 2.0, 1.0)
softsign         x@3,4                F.softsign
softshrink       x@3,4                F.softshrink
hardshrink       x@3,4                F.hardshrink
hardsigmoid      x@3,4                F.hardsigmoid
hardswish        x@3,4                F.hardswish
hardtanh         x@3,4                F.hardtanh
leaky_relu       x@3,4                lambda x: F.leaky_relu(x, 0.2)
log_sigmoid      x@3,4                F.log_sigmoid
maxout           x@2,6,4,3              lambda x: F.maxout(x, 2, axis=1)
mish             x@3,4                F.mish
prelu            x@2,3,4              lambda x: F.prelu(x, paddle.to_tensor([0.2, 0.3, 0.4]))
relu6            x@3,4                lambda x: F.relu6(x * 9)
silu             x@3,4                F.silu
swish            x@3,4                F.swish
tanhshrink       x@3,4                F.tanhshrink
thresholded_relu x@3,4                F.thresholded_relu
softmax          x@3,4                F.softmax
softmax_axis     x@3,4,2              lambda x: F.softmax(x, axis=1)
softmax_dtype    x@3,4                lambda x: F.softmax(x, dtype="float64")
log_softmax      x@3,4                lambda x: F.log_softmax(x, axis=-1)
gumbel_hard      x@3,4                lambda x: F.gumbel_softmax(x, hard=True).sum(-1)
unary_many       x@3,4                lambda x: [paddle.sin(x), paddle.cos(x), paddle.tan(x), paddle.tanh(x), paddle.atan(x), paddle.sinh(x), paddle.cosh(x), paddle.asinh(x), paddle.exp(x), paddle.expm1(x), paddle.erf(x), F.sigmoid(x), paddle.square(x)]
unary_positive   x:p@3,4              lambda x: [paddle.log(x), paddle.log2(x), paddle.log10(x), paddle.log1p(x), paddle.sqrt(x), paddle.rsqrt(x), paddle.reciprocal(x), paddle.lgamma(x), paddle.digamma(x), paddle.acosh(x + 1.1)]
unary_unit       x:u@3,4              lambda x: [paddle.asin(x), paddle.acos(x), paddle.atanh(x * 0.9), paddle.logit(x * 0.8 + 0.1), paddle.erfinv(x * 0.9)]
rounding         x@3,4                lambda x: [paddle.ceil(x), paddle.floor(x), paddle.round(x * 3), paddle.trunc(x * 3), paddle.sign(x), paddle.frac(x), paddle.sgn(x)]
bessel           x@3,4                lambda x: [paddle.i0(x), paddle.i0e(x), paddle.i1(x), paddle.i1e(x)]
polygamma        x:p@3,4              lambda x: paddle.polygamma(x + 1, 1)
angles           x@3,4                lambda x: [paddle.deg2rad(x), paddle.rad2deg(x)]
binary_many      x@3,4 y:p@3,4        lambda x, y: [x + y, x - y, x * y, x / y, x // y, x % y, y ** x, paddle.maximum(x, y), paddle.minimum(x, y), paddle.fmax(x, y), paddle.fmin(x, y), paddle.atan2(x, y), paddle.hypot(x, y), paddle.logaddexp(x, y)]
binary_more      x@3,4 y@3,4          lambda x, y: [paddle.heaviside(x, y), paddle.lerp(x, y, 0.3), paddle.dist(x, y), paddle.ldexp(x, paddle.full_like(x, 2))]
integers         x:i<9@=3,4 y:i<5@=3,4  lambda x, y: [x + y, x * y, x // (y + 1), x % (y + 1), x / (y + 1), -x, x ** 2, paddle.gcd(x, y), paddle.lcm(x, y), paddle.maximum(x, y), paddle.abs(-x)]
negative_integers x:i<9@3,4 y:i<5@3,4 lambda x, y: [(x - 5) // (y - 7), (x - 5) % (y - 7), (x - 5) % (y + 1), (x - 5) / (y + 1)]
bits             x:i<99@3,4 y:i<5@3,4 lambda x, y: [x & y, x | y, x ^ y, ~x]
truths           x:b@3,4 y:b@3,4      lambda x, y: [paddle.logical_and(x, y), paddle.logical_or(x, y), paddle.logical_xor(x, y), ~x, x.all(), y.any(axis=0), x & y, x == y]
comparisons      x@3,4 y@3,4          lambda x, y: [x == y, x != y, x < y, x <= y, x > y, x >= y, paddle.isclose(x, y), paddle.allclose(x, x), paddle.equal_all(x, y), paddle.isnan(x), paddle.isinf(x), paddle.isfinite(x)]
broadcasting     x@3,1,4 y@=5,1       lambda x, y: [x + y, x * y, x - y, paddle.maximum(x, y)]
scalars          x@3,4                lambda x: [x + 2, 2 - x, x * 3.5, 2 / (x * x + 1), x ** 2, 2 ** x, x // 0.3, -x, x.scale(2.0, 1.0), paddle.scale(x, 2.0, 1.0, False)]
clip             x@3,4                lambda x: [paddle.clip(x, -0.3, 0.4), paddle.clip(x, min=0.1), x.clip(max=0.2)]
clip_tensor      x@3,4                lambda x: paddle.clip(x, x.min() / 2, x.max() / 2)
nan_to_num       x@3,4                lambda x: paddle.nan_to_num(paddle.log(x))
add_n            x@3,4 y@3,4          lambda x, y: paddle.add_n([x, y, x])
where            x@3,4 y@3,4          lambda x, y: [paddle.where(x > y, x, y), paddle.where(x > 0, x, paddle.zeros_like(x))]
casts            x@3,4                lambda x: [x.astype("int32"), x.astype("bool"), x.astype("float64"), (x * 4).round().astype("float16").astype("float32"), (x * 9).astype("int8"), (x * 4).round().astype("bfloat16").astype("float32")]
diff             x@3,5                lambda x: [paddle.diff(x), paddle.diff(x, axis=0), paddle.diff(x, n=2)]
trapezoid        x@3,5                lambda x: [paddle.trapezoid(x, dx=0.5), paddle.cumulative_trapezoid(x)]
stanh            x@3,4                paddle.stanh
nextafter        x@3,4 y@3,4          lambda x, y: paddle.nextafter(x, y)
multiplex        x@=3,4 y@=3,4          lambda x, y: paddle.multiplex([x, y], paddle.to_tensor([[0], [1], [0]], dtype="int32"))
""".strip()

REDUCTIONS = """
sums             x@2,3,4              lambda x: [x.sum(), x.sum(axis=1), x.sum(axis=[0, 2], keepdim=True), x.sum(axis=-1, dtype="float64")]
means            x@2,3,4              lambda x: [x.mean(), x.mean(axis=1), x.mean(axis=[0, 2], keepdim=True)]
extremes         x@2,3,4              lambda x: [x.max(), x.min(axis=1), paddle.amax(x, axis=[0, 2]), paddle.amin(x, axis=1, keepdim=True)]
products         x@2,3,4              lambda x: [x.prod(), x.prod(axis=1), paddle.prod(x, axis=[0, 2], keepdim=True)]
logsumexp        x@2,3,4              lambda x: [paddle.logsumexp(x), paddle.logsumexp(x, axis=[1, 2], keepdim=True)]
variances        x@2,3,4              lambda x: [x.var(), x.std(axis=1), paddle.var(x, axis=[0, 2], unbiased=False, keepdim=True)]
norms            x@2,3,4              lambda x: [paddle.norm(x), paddle.norm(x, p=1, axis=1), paddle.norm(x, p=3, axis=2), paddle.norm(x, p=float("inf"), axis=1), paddle.norm(x, p="fro", axis=[1, 2]), paddle.norm(x, p=0, axis=1)]
median           x@=3,5               lambda x: [paddle.median(x), paddle.median(x, axis=1)]
median_even      x@=3,4               lambda x: [paddle.median(x), paddle.median(x, axis=1)]
nanmedian        x@=3,4               lambda x: paddle.nanmedian(x)
quantile         x@=3,5               lambda x: [paddle.quantile(x, 0.3, axis=1), paddle.quantile(x, [0.1, 0.6], axis=0)]
nan_reductions   x@3,5                lambda x: [paddle.nansum(paddle.log(x)), paddle.nanmean(paddle.log(x), axis=1)]
argmax           x@3,5                lambda x: [paddle.argmax(x), paddle.argmax(x, axis=1), paddle.argmin(x, axis=0, keepdim=True), paddle.argmax(x, axis=1, dtype="int32")]
sort             x@3,5                lambda x: [paddle.sort(x, axis=1), paddle.sort(x, axis=0, descending=True), paddle.argsort(x, axis=1), paddle.argsort(x, descending=True)]
sort_ties        x:i<3@3,7            lambda x: [paddle.sort(x, axis=1), paddle.argsort(x, axis=1), paddle.argsort(x, axis=1, descending=True)]
topk             x@3,5                lambda x: [*paddle.topk(x, 2), *paddle.topk(x, 3, axis=0, largest=False)]
topk_tensor      x@3,5                lambda x: paddle.topk(x, paddle.to_tensor([2]), axis=1)
kthvalue         x@3,5                lambda x: [*paddle.kthvalue(x, 2), *paddle.kthvalue(x, 1, axis=0, keepdim=True)]
mode             x:i<3@3,7            lambda x: paddle.mode(x, axis=1)
cumulative       x@3,5                lambda x: [paddle.cumsum(x), paddle.cumsum(x, axis=1), paddle.cumprod(x, dim=1), paddle.logcumsumexp(x, axis=1)]
cummax           x@3,5                lambda x: [*paddle.cummax(x, axis=1), *paddle.cummin(x, axis=1)]
counting         x@3,5                lambda x: [paddle.count_nonzero(x > 0, axis=1), paddle.numel(x), paddle.rank(x), paddle.shape(x)]
histogram        x@3,5                lambda x: paddle.histogram(x, bins=4, min=-1, max=1)
bincount         x:i<5@9              lambda x: paddle.bincount(x, minlength=6)
unique           x:i<4@9              lambda x: paddle.unique(x)
unique_all       x:i<4@9              lambda x: paddle.unique(x, return_index=True, return_inverse=True, return_counts=True)
unique_axis      x:i<2@7,2            lambda x: paddle.unique(x, axis=0)
unique_consecutive x:i<2@9            lambda x: paddle.unique_consecutive(x, return_inverse=True, return_counts=True)
nonzero          x:i<2@3,5            lambda x: paddle.nonzero(x)
nonzero_tuple    x:i<2@3,5            lambda x: paddle.nonzero(x, as_tuple=True)
masked_select    x@3,5                lambda x: paddle.masked_select(x, x > 0)
masked_sum       x@3,5                lambda x: (paddle.masked_select(x, x > 0) ** 2).sum()
masked_fill      x@3,5                lambda x: paddle.where(x > 0, paddle.full_like(x, 7.0), x)
boolean_index    x@3,5                lambda x: x[x > 0]
searchsorted     x@3,5                lambda x: [paddle.searchsorted(paddle.to_tensor([-1.0, 0.0, 1.0]), x), paddle.searchsorted(paddle.to_tensor([-1.0, 0.0, 1.0]), x, right=True)]
bucketize        x@3,5                lambda x: paddle.bucketize(x, paddle.to_tensor([-1.0, 0.0, 1.0]))
""".strip()

SHAPES = """
reshape          x@2,3,4              lambda x: [x.reshape([-1, 4]), x.reshape([0, 12]), paddle.reshape(x, [2, 2, -1])]
transposes       x@2,3,4              lambda x: [x.transpose([2, 0, 1]), paddle.moveaxis(x, 0, -1), x[0].t()]
swapaxes         x@2,3,4              lambda x: paddle.transpose(x, [1, 0, 2])
concat           x@2,3 y@2,3          lambda x, y: [paddle.concat([x, y]), paddle.concat([x, y], axis=1), paddle.concat([x, y], axis=paddle.to_tensor(1))]
splits           x@2,6                lambda x: [*paddle.split(x, 3, axis=1), *paddle.split(x, [1, -1, 2], axis=1), *paddle.chunk(x, 2, axis=1)]
vsplit           x@=4,6               lambda x: paddle.vsplit(x, 2)
stacks           x@2,3 y@2,3          lambda x, y: [paddle.stack([x, y]), paddle.stack([x, y], axis=-1), *paddle.unstack(x, axis=1), *paddle.unbind(x, axis=1)]
squeezes         x@2,1,3,1            lambda x: [x.squeeze(1), x.squeeze([1, 3]), x.unsqueeze(0), x.unsqueeze([1, -1])]
flattens         x@2,3,4              lambda x: [paddle.flatten(x), paddle.flatten(x, 1), paddle.flatten(x, 0, 1)]
unflatten        x@2,12               lambda x: paddle.unflatten(x, 1, [3, 4])
expands          x@2,1,3              lambda x: [paddle.expand(x, [-1, 4, 3]), paddle.broadcast_to(x, [5, 2, 4, 3]), x.expand([2, 5, 3])]
expand_as        x@2,1 y@2,4          lambda x, y: [x.expand_as(y), *paddle.broadcast_tensors([x, y])]
tiles            x@2,3                lambda x: [paddle.tile(x, [2, 1]), paddle.tile(x, [2, 1, 3]), paddle.tile(x, [2])]
repeat_interleave x@2,3               lambda x: [paddle.repeat_interleave(x, 2, axis=1), paddle.repeat_interleave(x, paddle.to_tensor([1, 0, 2]), axis=1)]
flips            x@2,3,4              lambda x: [paddle.flip(x, [1]), paddle.flip(x, [0, -1]), paddle.rot90(x, 1, [1, 2])]
rolls            x@2,3,4              lambda x: [paddle.roll(x, 1), paddle.roll(x, [1, -1], axis=[1, 2])]
slices           x@4,5,6              lambda x: [x[1], x[:, 1:3], x[..., -1], x[:, ::2], x[:, None, 2:], x[1:-1, :, ::-1], x[0, 1, 2], x[:, 4:1:-1]]
slice_function   x@4,5,6              lambda x: [paddle.slice(x, [1, 2], [0, -3], [2, 9]), paddle.strided_slice(x, [1], [0], [5], [2])]
slice_tensor     x@4,5 n:i<3@=1       lambda x, n: [x[:, n[0]], paddle.slice(x, [1], [n], [n + 2])]
index_tensor     x@4,5 y:i<4@3        lambda x, y: [x[y], x[:, y], x[y, y]]
index_mixed      x@4,5,6 y:i<4@3      lambda x, y: [x[y, 1], x[1, y], x[:, y, 2:4], x[y, :, y]]
setitem          x@4,5                lambda x: assigned(x)
setitem_mask     x@4,5                lambda x: masked(x)
gathers          x@4,5 y:i<4@3        lambda x, y: [paddle.gather(x, y), paddle.index_select(x, y, axis=0)]
gather_axis      x@4,5 y:i<4@3        lambda x, y: paddle.gather(x, y, axis=1)
gather_nd        x@4,5 y:i<4@3,2      lambda x, y: [paddle.gather_nd(x, y), paddle.gather_nd(x, y[:, :1])]
take             x@4,5 y:i<9@3        lambda x, y: [paddle.take(x, y), paddle.index_sample(x, y[:1].unsqueeze(0).expand([4, 1]) % 5)]
take_along_axis  x@4,5 y:i<4@4,5      lambda x, y: [paddle.take_along_axis(x, y, 0), paddle.take_along_axis(x, y, 1)]
put_along_axis   x@=4,5 y:i<4@=4,5    lambda x, y: [paddle.put_along_axis(x, y, paddle.full([1, 1], 1.5), 1), paddle.put_along_axis(x, y, x * 2, 0, "add"), paddle.put_along_axis(x, y, x * 2, 0, "mul")]
scatters         x@4,5 y@=2,5         lambda x, y: [paddle.scatter(x, paddle.to_tensor([3, 1]), y), paddle.scatter(x, paddle.to_tensor([1, 1]), y, overwrite=False), paddle.scatter_nd_add(x, paddle.to_tensor([[1], [1]]), y)]
scatter_nd       x@=3                 lambda x: paddle.scatter_nd(paddle.to_tensor([[1], [2], [1]]), x, [6])
index_add        x@4,5 y@2,5          lambda x, y: paddle.index_add(x, paddle.to_tensor([0, 2]), 0, y)
index_put        x@4,5                lambda x: [paddle.index_put(x, (paddle.to_tensor([0, 2]), paddle.to_tensor([1, 1])), paddle.to_tensor([7.0, 8.0])), paddle.index_put(x, (paddle.to_tensor([0, 0]), paddle.to_tensor([1, 1])), paddle.to_tensor([7.0, 8.0]), accumulate=True)]
index_fill       x@4,5                lambda x: paddle.index_fill(x, paddle.to_tensor([0, 2]), 1, -1.0)
triangles        x@4,5                lambda x: [paddle.tril(x), paddle.triu(x, 1), paddle.tril(x, -1)]
triangle_indices x@3                  lambda x: [paddle.tril_indices(3, 4, 0), paddle.triu_indices(4, offset=1), x]
diagonals        x@=3                 lambda x: [paddle.diag(x), paddle.diag(x, 1), paddle.diagflat(x), F.diag_embed(x.reshape([1, 3]))]
diagonal         x@3,4,4              lambda x: [paddle.diagonal(x, axis1=1, axis2=2), paddle.diagonal(x, 1, 1, 2), paddle.trace(x, axis1=1, axis2=2)]
diag_matrix      x@=4,4               lambda x: [paddle.diag(x), paddle.diag(x, -1)]
creation         x@3,4                lambda x: [paddle.zeros_like(x), paddle.ones_like(x), paddle.full_like(x, 3), paddle.zeros([paddle.shape(x)[0], 2]), paddle.arange(5), paddle.arange(1, 9, 2.5), paddle.linspace(0, 1, 5), paddle.eye(3, 4), paddle.full([2], 1.5), paddle.to_tensor([1, 2]), paddle.logspace(0, 2, 3), paddle.tril(paddle.ones([2, 2]))]
arange_size      x@3,4                lambda x: paddle.arange(paddle.shape(x)[0]).astype("float32") + x[:, 0]
meshgrid         x@3 y@4              lambda x, y: paddle.meshgrid(x, y)
one_hot          x:i<4@3              lambda x: [F.one_hot(x, 4), F.label_smooth(F.one_hot(x, 4))]
sequence_mask    x:i<4@3              lambda x: [F.sequence_mask(x, maxlen=5), F.sequence_mask(x)]
shard_index      x:i<16@3,1           lambda x: paddle.shard_index(x, 20, 2, 0)
pads             x@2,3,4,5            lambda x: [F.pad(x, [1, 2, 0, 1]), F.pad(x, [1, 2, 0, 1], mode="reflect"), F.pad(x, [1, 1, 1, 1], mode="replicate"), F.pad(x, [1, 1, 1, 1], mode="circular"), F.pad(x, [0, 0, 1, 1, 0, 2, 1, 0], value=2.0)]
pads_1d_3d       x@2,3,4              lambda x: [F.pad(x, [1, 2], data_format="NCL"), F.pad(x, [1, 2], mode="reflect", data_format="NCL"), F.pad(x.unsqueeze(1), [1, 1, 1, 0], data_format="NHWC"), F.pad(x.unsqueeze([1, 2]), [1, 1, 0, 1, 1, 0], data_format="NCDHW")]
zeropad          x@2,3,4,5            lambda x: F.zeropad2d(x, [1, 2, 0, 1])
crop             x@4,5                lambda x: paddle.crop(x, [2, 3], [1, 1])
shuffles         x@2,4,4,6            lambda x: [F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2), F.channel_shuffle(x, 2)]
temporal_shift   x@4,4,3,3            lambda x: F.temporal_shift(x, 2, 0.25)
as_real          x:c@3,4              lambda x: [paddle.as_real(x), x.real(), x.imag(), paddle.abs(x), paddle.angle(x), paddle.conj(x)]
complexes        x@3,4 y@3,4          lambda x, y: [paddle.complex(x, y), paddle.as_complex(paddle.stack([x, y], axis=-1)), paddle.complex(x, y) * paddle.complex(y, x), paddle.polar(y.abs(), x)]
atleast          x@3                  lambda x: [paddle.atleast_1d(x), paddle.atleast_2d(x), paddle.atleast_3d(x)]
zero_d           x@= y@=              lambda x, y: [x + y, x * 2, paddle.tanh(x), x > y, x.reshape([1, 1]), x.unsqueeze(0), paddle.stack([x, y]), x.sum(), x.astype("int64"), paddle.maximum(x, y), x.expand([3]), x.flatten()]
zero_d_more      x@=                  lambda x: [x.max(), x.argmax(), F.softmax(x), F.log_softmax(x), x.cumsum(), paddle.sort(x), paddle.topk(x, 1)[0], x.transpose([]), x.squeeze(), x.clip(0, 1), x.prod(), paddle.logsumexp(x), paddle.norm(x), x.var(unbiased=False), x.tile([2]), paddle.flip(x, []), paddle.assign(x), paddle.where(x > 0, x, -x), x.all(), paddle.isnan(x)]
zero_d_index     x@3,4 n:i<3@=        lambda x, n: [x[n], x[:, n], paddle.gather(x, n), paddle.index_select(x, n.reshape([1])), x[0, 0], paddle.take(x, n), F.one_hot(n, 4)]
""".strip()

PRODUCTS = """
matmul           x@3,4 y@=4,5         lambda x, y: [x @ y, paddle.matmul(x, y.t(), transpose_y=True), paddle.mm(x, y)]
matmul_batch     x@2,3,4 y@2,4,5      lambda x, y: [paddle.bmm(x, y), x @ y, paddle.matmul(x, y, transpose_x=False)]
matmul_vector    x@=4 y@=4,5          lambda x, y: [x @ y, y.t() @ x, x @ x, paddle.mv(y.t(), x), paddle.dot(x, x), paddle.inner(x, x), paddle.outer(x, x)]
addmm            x@=3,5 y@=3,4 z@=4,5 lambda x, y, z: paddle.addmm(x, y, z, beta=0.5, alpha=2.0)
einsum           x@2,3,4 y@2,4,5      lambda x, y: [paddle.einsum("bij,bjk->bik", x, y), paddle.einsum("bij->bji", x), paddle.einsum("...ij->...", x), paddle.einsum("bij,bjk->ik", x, y)]
einsum_trace     x@=3,3               lambda x: [paddle.einsum("ii->i", x), paddle.einsum("ii", x)]
tensordot        x@=3,4,2 y@=4,2,5    lambda x, y: [paddle.tensordot(x, y, 2), paddle.tensordot(x, y, [[1], [0]])]
kron             x@=2,3 y@=3,2        lambda x, y: [paddle.kron(x, y), paddle.cross(x.t(), y)]
cdist            x@3,4 y@2,4          lambda x, y: [paddle.cdist(x, y), F.pairwise_distance(x[:2], y), F.cosine_similarity(x[:2], y)]
multi_dot        x@=3,4 y@=4,5 z@=5,2 lambda x, y, z: paddle.linalg.multi_dot([x, y, z])
matrix_power     x@=3,3               lambda x: [paddle.linalg.matrix_power(x, 3), paddle.linalg.matrix_power(x, 0), paddle.linalg.matrix_power(x, -1)]
inverse          x@=2,3,3             lambda x: [paddle.inverse(x), paddle.linalg.det(x), *paddle.linalg.slogdet(x)]
solve            x@=3,3 y@=3,2        lambda x, y: [paddle.linalg.solve(x, y), paddle.linalg.triangular_solve(x, y), paddle.linalg.triangular_solve(x, y, upper=False, unitriangular=True)]
cholesky         x@=3,3 y@=3,2        lambda x, y: [paddle.linalg.cholesky(x @ x.t() + paddle.eye(3)), paddle.linalg.cholesky_solve(y, paddle.linalg.cholesky(x @ x.t() + paddle.eye(3)))]
qr               x@=4,3               lambda x: [paddle.linalg.qr(x)[0].abs(), paddle.linalg.qr(x)[1].abs()]
svd              x@=4,3               lambda x: [paddle.linalg.svd(x)[1], paddle.linalg.pinv(x), paddle.linalg.matrix_rank(x)]
eigh             x@=3,3               lambda x: [paddle.linalg.eigvalsh(x + x.t()), paddle.linalg.eigh(x + x.t())[0]]
lu               x@=3,3               lambda x: paddle.linalg.lu(x)
matrix_norms     x@=3,4               lambda x: [paddle.linalg.norm(x, "fro"), paddle.linalg.norm(x, 2), paddle.linalg.cond(x[:, :3])]
lstsq            x@=4,3 y@=4,2        lambda x, y: paddle.linalg.lstsq(x, y)[0]
cov              x@=3,7               lambda x: [paddle.linalg.cov(x), paddle.linalg.corrcoef(x)]
vander           x@=3                 lambda x: paddle.vander(x, 4)
bilinear         x@2,3 y@2,4          lambda x, y: F.bilinear(x, y, paddle.arange(24, dtype="float32").reshape([2, 3, 4]) / 9)
linear           x@2,3 w@=3,4 b@=4    lambda x, w, b: F.linear(x, w, b)
embedding        i:i<5@2,3 w@=5,4     lambda i, w: [F.embedding(i, w), F.embedding(i, w, padding_idx=1)]
attention        q@2,3,2,4 k@2,5,2,4  lambda q, k: F.scaled_dot_product_attention(q, k, k)
attention_causal q@2,3,2,4            lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True)
normalize        x@2,3,4              lambda x: [F.normalize(x), F.normalize(x, p=1, axis=2)]
renorm           x@=2,3,4             lambda x: paddle.renorm(x, 2.0, 1, 0.7)
layer_norm       x@2,3,4              lambda x: [F.layer_norm(x, [4]), F.layer_norm(x, [3, 4])]
local_response   x@2,5,3,3            lambda x: F.local_response_norm(x, 3)
fft              x@3,8                lambda x: [paddle.fft.fft(x), paddle.fft.rfft(x), paddle.fft.ifft(x), paddle.fft.fftshift(x)]
fft_norms        x@3,8                lambda x: [paddle.fft.fft(x, n=6, norm="ortho"), paddle.fft.rfft(x, n=10, axis=1, norm="forward"), paddle.fft.ifft(x, norm="forward")]
fft_2d           x@2,4,6              lambda x: [paddle.fft.fft2(x), paddle.fft.rfft2(x), paddle.fft.fftn(x, axes=[1, 2]), paddle.fft.rfftn(x, axes=[1, 2])]
fft_complex      x:c@3,5              lambda x: [paddle.fft.fft(x), paddle.fft.ifft(x), paddle.fft.irfft(x), paddle.fft.hfft(x), paddle.fft.irfft(x, n=7)]
fft_hermitian    x@3,6                lambda x: [paddle.fft.ihfft(x), paddle.fft.rfftfreq(6), paddle.fft.fftfreq(6)]
fft_real_loss    x@3,8                lambda x: [paddle.fft.rfft(x).abs(), paddle.fft.irfft(paddle.fft.rfft(x) * 2)]
stft             x@=2,32              lambda x: paddle.signal.stft(x, 8, 4)
istft            x@=2,32              lambda x: paddle.signal.istft(paddle.signal.stft(x, 8, 4), 8, 4)
frame            x@=2,16              lambda x: [paddle.signal.frame(x, 6, 2), paddle.signal.overlap_add(paddle.signal.frame(x, 6, 2), 2)]
""".strip()


KINKS = """
maximum_ties     x:k@3,4 y:k@3,4      lambda x, y: [paddle.maximum(x, y), paddle.minimum(x, y)]
fmax_ties        x:k@3,4 y:k@3,4      lambda x, y: [paddle.fmax(x, y), paddle.fmin(x, y)]
reduce_ties      x:k@3,9              lambda x: [x.max(), x.min(axis=1), x.max(axis=0, keepdim=True)]
amax_ties        x:k@3,9              lambda x: [paddle.amax(x), paddle.amin(x, axis=1)]
clip_bounds      x:k@3,9              lambda x: [paddle.clip(x, -1.0, 2.0), paddle.clip(x, min=0.0)]
activations_1    x:k@3,9              lambda x: [F.relu(x), F.relu6(x * 3), F.leaky_relu(x, 0.2), F.elu(x, 0.7), F.selu(x), F.celu(x, 0.7)]
activations_2    x:k@3,9              lambda x: [F.hardswish(x), F.hardsigmoid(x), F.hardtanh(x), F.hardshrink(x, 1.0), F.softshrink(x, 1.0), F.thresholded_relu(x, 1.0)]
activations_3    x:k@3,9              lambda x: [F.softplus(x, 1.0, 2.0), F.softsign(x), F.tanhshrink(x), F.log_sigmoid(x), F.mish(x), F.prelu(x, paddle.to_tensor([0.3]))]
absolutes        x:k@3,9              lambda x: [x.abs(), paddle.sign(x), paddle.norm(x, p=1), F.l1_loss(x, x * 0)]
norm_infinity    x:k@3,9              lambda x: [paddle.norm(x, p=float("inf"), axis=1), paddle.norm(x, p=float("-inf"), axis=1)]
norm_zero        x:k@3,9              lambda x: [paddle.norm(x * 0), paddle.norm(x * 0, p=3, axis=1), F.normalize(x * 0)]
pool_ties        x:k@2,3,6,6          lambda x: [F.max_pool2d(x, 2), F.max_pool2d(x, 3, 2, 1)]
pool_mask_ties   x:k@2,3,6,6          lambda x: F.max_pool2d(x, 3, 2, 1, return_mask=True)
adaptive_ties    x:k@2,3,6,6          lambda x: [F.adaptive_max_pool2d(x, 4), F.adaptive_max_pool2d(x, 2), F.adaptive_max_pool2d(x, 1)]
maxout_ties      x:k@2,6,3,3          lambda x: F.maxout(x, 2)
sort_tied        x:k@3,9              lambda x: [paddle.sort(x, axis=1), paddle.sort(x, axis=1, descending=True)]
cummax_tied      x:k@3,9              lambda x: [paddle.cummax(x, axis=1)[0], paddle.cummin(x, axis=1)[0]]
where_nan        x:k@3,9              lambda x: paddle.where(x > 0, x, paddle.zeros_like(x))
powers           x:k@3,9              lambda x: [x ** 2, x ** 3, paddle.square(x), paddle.pow(x, 2.0)]
prod_zero        x:k@3,4              lambda x: [x.prod(axis=1), x.prod()]
cumprod_zero     x:k@3,4              lambda x: paddle.cumprod(x, dim=1)
huber_bounds     x:k@3,9              lambda x: [F.smooth_l1_loss(x, x * 0, reduction="none"), F.smooth_l1_loss(x, x * 0, delta=2.0)]
hinge            x:k@3,9              lambda x: F.hinge_embedding_loss(x, paddle.sign(x - 0.5))
""".strip()
