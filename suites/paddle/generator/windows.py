"""Cases of functions over windows and images, of losses, and of layers; see `functions.py`."""

from __future__ import annotations

WINDOWS = """
conv1d           x@2,3,9 w@=4,3,3         lambda x, w: [F.conv1d(x, w), F.conv1d(x, w, stride=2, padding=1), F.conv1d(x, w, padding="SAME", dilation=2)]
conv2d           x@2,4,8,8 w@=6,4,3,3     lambda x, w: [F.conv2d(x, w, stride=2, padding=1), F.conv2d(x, w, padding="SAME", stride=2), F.conv2d(x, w, padding=[1, 0, 2, 1]), F.conv2d(x, w, padding=[[0, 0], [0, 0], [1, 2], [0, 1]], dilation=2)]
conv2d_groups    x@2,4,8,8 w@=6,2,3,3     lambda x, w: F.conv2d(x, w, groups=2, padding="VALID")
conv2d_depthwise x@2,4,8,8 w@=8,1,3,3     lambda x, w: F.conv2d(x, w, groups=4)
conv2d_nhwc      x@2,8,8,4 w@=6,4,3,3     lambda x, w: F.conv2d(x, w, data_format="NHWC", padding=1)
conv3d           x@2,2,5,5,5 w@=3,2,2,2,2 lambda x, w: F.conv3d(x, w, stride=2, padding=1)
conv1d_transpose x@2,3,5 w@=3,2,3         lambda x, w: [F.conv1d_transpose(x, w, stride=2), F.conv1d_transpose(x, w, stride=2, padding=1, output_padding=1)]
conv2d_transpose x@2,4,5,5 w@=4,3,3,3     lambda x, w: [F.conv2d_transpose(x, w, stride=2, padding=1), F.conv2d_transpose(x, w, stride=2, output_padding=1), F.conv2d_transpose(x, w, stride=2, padding=1, output_size=[10, 9])]
conv2d_transpose_more x@2,4,5,5 w@=4,3,3,3 lambda x, w: [F.conv2d_transpose(x, w, groups=2), F.conv2d_transpose(x, w, dilation=2), F.conv2d_transpose(x, w, padding="SAME", stride=2)]
conv3d_transpose x@2,2,3,3,3 w@=2,2,2,2,2 lambda x, w: F.conv3d_transpose(x, w, stride=2)
max_pool1d       x@2,3,9                  lambda x: [F.max_pool1d(x, 3), F.max_pool1d(x, 3, 2, 1, ceil_mode=True), *F.max_pool1d(x, 2, return_mask=True)]
max_pool2d       x@2,3,9,8                lambda x: [F.max_pool2d(x, 3, 2, 1), F.max_pool2d(x, [2, 3], ceil_mode=True), F.max_pool2d(x, 3, 2, "SAME"), *F.max_pool2d(x, 3, 2, 1, return_mask=True), F.max_pool2d(x, 2, padding=[1, 0, 0, 1])]
max_pool2d_mask_ceil x@2,3,9,8            lambda x: F.max_pool2d(x, 2, 2, return_mask=True, ceil_mode=True)
max_pool2d_nhwc  x@2,9,8,3                lambda x: F.max_pool2d(x, 3, 2, 1, data_format="NHWC")
max_pool3d       x@2,2,5,5,5              lambda x: [F.max_pool3d(x, 2), F.max_pool3d(x, 3, 2, 1, ceil_mode=True), *F.max_pool3d(x, 2, return_mask=True)]
avg_pool1d       x@2,3,9                  lambda x: [F.avg_pool1d(x, 3), F.avg_pool1d(x, 3, 2, 1, exclusive=False, ceil_mode=True)]
avg_pool2d       x@2,3,9,8                lambda x: [F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1, exclusive=False), F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, exclusive=False), F.avg_pool2d(x, 2, divisor_override=3), F.avg_pool2d(x, 3, 2, "SAME")]
avg_pool2d_nhwc  x@2,9,8,3                lambda x: F.avg_pool2d(x, [3, 2], 2, data_format="NHWC")
avg_pool3d       x@2,2,5,5,5              lambda x: [F.avg_pool3d(x, 2), F.avg_pool3d(x, 3, 2, 1, exclusive=False)]
adaptive_avg     x@2,3,9,8                lambda x: [F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, [4, 3]), F.adaptive_avg_pool2d(x, [None, 2]), F.adaptive_avg_pool1d(x[:, :, 0], 3), F.adaptive_avg_pool3d(x.unsqueeze(2), 2)]
adaptive_max     x@2,3,9,8                lambda x: [F.adaptive_max_pool2d(x, 1), F.adaptive_max_pool2d(x, [4, 3]), F.adaptive_max_pool1d(x[:, :, 0], 3), F.adaptive_max_pool3d(x.unsqueeze(2), [1, 2, 2])]
adaptive_max_mask x@2,3,9,8               lambda x: F.adaptive_max_pool2d(x, [4, 3], return_mask=True)
max_unpool2d     x@2,3,6,6                lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_mask=True), 2)
max_unpool1d     x@2,3,6                  lambda x: F.max_unpool1d(*F.max_pool1d(x, 2, return_mask=True), 2)
unfold           x@2,3,6,6                lambda x: [F.unfold(x, 3), F.unfold(x, [2, 3], 2, 1, 1), F.unfold(x, 2, 1, [1, 0, 2, 1], 2)]
fold             x@2,12,9                 lambda x: F.fold(x, [4, 4], 2)
nearest          x@2,3,4,5                lambda x: [F.interpolate(x, [6, 7]), F.interpolate(x, scale_factor=2), F.interpolate(x, scale_factor=[1.5, 0.5]), F.interpolate(x, [7, 3], mode="nearest")]
bilinear_resize  x@2,3,4,5                lambda x: [F.interpolate(x, [6, 7], mode="bilinear"), F.interpolate(x, [6, 7], mode="bilinear", align_corners=True), F.interpolate(x, scale_factor=2, mode="bilinear", align_mode=1), F.interpolate(x, scale_factor=[1.5, 0.6], mode="bilinear")]
bicubic          x@2,3,4,5                lambda x: [F.interpolate(x, [6, 7], mode="bicubic"), F.interpolate(x, scale_factor=2, mode="bicubic", align_corners=True)]
linear_resize    x@2,3,5                  lambda x: [F.interpolate(x, [7], mode="linear", data_format="NCW"), F.interpolate(x, scale_factor=2, mode="linear", align_corners=True, data_format="NCW")]
trilinear        x@2,3,3,4,5              lambda x: [F.interpolate(x, [4, 5, 6], mode="trilinear", data_format="NCDHW"), F.interpolate(x, [4, 5, 6], mode="nearest", data_format="NCDHW")]
area             x@2,3,4,6                lambda x: F.interpolate(x, [2, 3], mode="area")
resize_nhwc      x@2,4,5,3                lambda x: F.interpolate(x, [6, 7], mode="bilinear", data_format="NHWC")
resize_tensor    x@2,3,4,5 n:j<1@=2       lambda x, n: F.interpolate(x, n + 6, mode="bilinear")
resize_like      x@2,3,4,5 y@2,3,7,9      lambda x, y: F.interpolate(x, paddle.shape(y)[2:], mode="nearest")
upsample         x@2,3,4,5                lambda x: F.upsample(x, scale_factor=2, mode="bilinear", align_corners=True)
grid_sample      x@2,3,4,5 g:u@2,3,3,2    lambda x, g: [F.grid_sample(x, g * 3 - 1.5), F.grid_sample(x, g * 3 - 1.5, align_corners=False, padding_mode="border"), F.grid_sample(x, g * 3 - 1.5, mode="nearest"), F.grid_sample(x, g * 3 - 1.5, padding_mode="reflection")]
grid_sample_3d   x@2,3,4,5,3 g:u@2,2,3,3,3 lambda x, g: F.grid_sample(x, g * 3 - 1.5, align_corners=False)
affine_grid      t@2,2,3                  lambda t: [F.affine_grid(t, [2, 3, 4, 5]), F.affine_grid(t, [2, 3, 4, 5], align_corners=False)]
roi_align        x@=1,2,8,8               lambda x: paddle.vision.ops.roi_align(x, paddle.to_tensor([[0.0, 0.0, 6.0, 6.0], [1.0, 1.0, 5.0, 7.0]]), paddle.to_tensor([2], dtype="int32"), 2)
deform_conv      x@=1,2,5,5 o@=1,18,3,3   lambda x, o: paddle.vision.ops.deform_conv2d(x, o, paddle.ones([3, 2, 3, 3]))
nms              x:u@=6,4                 lambda x: paddle.vision.ops.nms(paddle.concat([x[:, :2], x[:, :2] + x[:, 2:] + 0.1], axis=1), 0.3)
""".strip()

LOSSES = """
cross_entropy       x@4,5 y:i<5@4         lambda x, y: [F.cross_entropy(x, y), F.cross_entropy(x, y, reduction="none"), F.cross_entropy(x, y.unsqueeze(1), reduction="sum"), F.cross_entropy(x, y, ignore_index=1)]
cross_entropy_soft  x@4,5 y@4,5           lambda x, y: [F.cross_entropy(x, F.softmax(y), soft_label=True), F.cross_entropy(x, F.softmax(y), soft_label=True, label_smoothing=0.1)]
cross_entropy_weight x@4,5 y:i<5@4        lambda x, y: [F.cross_entropy(x, y, weight=paddle.arange(1, 6, dtype="float32")), F.cross_entropy(x, y, label_smoothing=0.1)]
cross_entropy_axis  x@2,5,3,3 y:i<5@2,1,3,3 lambda x, y: F.cross_entropy(x, y, axis=1)
softmax_with_cross_entropy x@4,5 y:i<5@4,1 lambda x, y: F.softmax_with_cross_entropy(x, y, return_softmax=True)
cross_entropy_probabilities x@4,5 y:i<5@4 lambda x, y: F.cross_entropy(F.softmax(x), y, use_softmax=False)
nll_loss            x@4,5 y:i<5@4         lambda x, y: [F.nll_loss(F.log_softmax(x), y), F.nll_loss(F.log_softmax(x), y, weight=paddle.arange(1, 6, dtype="float32"), reduction="sum"), F.nll_loss(F.log_softmax(x), y, ignore_index=2, reduction="none")]
nll_loss_image      x@2,5,3,3 y:i<5@2,3,3 lambda x, y: F.nll_loss(F.log_softmax(x, axis=1), y)
mse_loss            x@4,5 y@4,5           lambda x, y: [F.mse_loss(x, y), F.mse_loss(x, y, reduction="none"), F.square_error_cost(x, y)]
l1_losses           x@4,5 y@4,5           lambda x, y: [F.l1_loss(x, y), F.smooth_l1_loss(x, y), F.smooth_l1_loss(x, y, delta=0.5, reduction="sum")]
binary_cross_entropy x:u@4,5 y:u@4,5      lambda x, y: [F.binary_cross_entropy(x * 0.9 + 0.05, y), F.binary_cross_entropy(x * 0.9 + 0.05, y, weight=y, reduction="none")]
log_loss            x:u@4,1 y:u@4,1       lambda x, y: F.log_loss(x * 0.9 + 0.05, y)
bce_logits          x@4,5 y:u@4,5         lambda x, y: [F.binary_cross_entropy_with_logits(x, y), F.binary_cross_entropy_with_logits(x, y, pos_weight=paddle.full([5], 2.0), reduction="none")]
kl_div              x@4,5 y@4,5           lambda x, y: [F.kl_div(F.log_softmax(x), F.softmax(y)), F.kl_div(F.log_softmax(x), F.softmax(y), reduction="batchmean")]
margin_losses       x@4,5 y@4,5           lambda x, y: [F.margin_ranking_loss(x, y, paddle.sign(x)), F.hinge_embedding_loss(x, paddle.sign(y)), F.soft_margin_loss(x, paddle.sign(y))]
cosine_embedding    x@4,5 y@4,5           lambda x, y: F.cosine_embedding_loss(x, y, paddle.to_tensor([1, -1, 1, -1]))
triplet             x@4,5 y@4,5 z@4,5     lambda x, y, z: [F.triplet_margin_loss(x, y, z), F.triplet_margin_with_distance_loss(x, y, z)]
multi_margin        x@4,5 y:i<5@4         lambda x, y: [F.multi_margin_loss(x, y), F.multi_label_soft_margin_loss(x, F.one_hot(y, 5))]
focal               x@4,5 y:i<2@4,5       lambda x, y: F.sigmoid_focal_loss(x, y.astype("float32"))
dice                x@4,5 y:i<5@4,1       lambda x, y: F.dice_loss(F.softmax(x), y)
gaussian_nll        x@4,5 y@4,5           lambda x, y: F.gaussian_nll_loss(x, y, F.softplus(y))
poisson_nll         x@4,5 y:u@4,5         lambda x, y: F.poisson_nll_loss(x, y)
npair               x@4,5 y@4,5           lambda x, y: F.npair_loss(x, y, paddle.to_tensor([0, 1, 0, 2]))
ctc                 x@=6,2,5              lambda x: F.ctc_loss(x, paddle.to_tensor([[1, 2], [3, 1]], dtype="int32"), paddle.to_tensor([6, 5]), paddle.to_tensor([2, 1]), reduction="none")
margin_cross_entropy x:u@4,5 y:i<5@4      lambda x, y: F.margin_cross_entropy(x, y, reduction="none")
accuracy            x@4,5 y:i<5@4,1       lambda x, y: paddle.metric.accuracy(F.softmax(x), y, k=2)
""".strip()

LAYERS = """
Linear              x@2,3             nn.Linear(3, 4)
MLP                 x@2,3             nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2), nn.Softmax())
Bilinear            x@2,3 y@2,4       nn.Bilinear(3, 4, 2)
Embedding           i:i<7@2,5         nn.Embedding(7, 3, padding_idx=0)
Conv1D              x@2,3,8           nn.Conv1D(3, 4, 3, padding=1, padding_mode="circular")
Conv2D              x@2,4,8,8         nn.Conv2D(4, 8, 3, stride=2, padding=1, groups=2)
Conv2D_reflect      x@2,4,8,8         nn.Conv2D(4, 8, 3, padding=1, padding_mode="reflect")
Conv2DTranspose     x@2,4,5,5         nn.Conv2DTranspose(4, 3, 3, stride=2, padding=1, output_padding=1)
Conv3D              x@2,2,5,5,5       nn.Conv3D(2, 3, 2)
BatchNorm1D         x@4,3             nn.BatchNorm1D(3)
BatchNorm1D_3       x@4,3,5           nn.BatchNorm1D(3)
BatchNorm2D         x@2,3,4,4         nn.BatchNorm2D(3)
BatchNorm2D_nhwc    x@2,4,4,3         nn.BatchNorm2D(3, data_format="NHWC")
BatchNorm3D         x@2,3,2,4,4       nn.BatchNorm3D(3)
LayerNorm           x@2,3,4           nn.LayerNorm([3, 4])
LayerNorm_plain     x@2,3,4           nn.LayerNorm(4, weight_attr=False, bias_attr=False)
GroupNorm           x@2,6,4,4         nn.GroupNorm(3, 6)
GroupNorm_nhwc      x@2,4,4,6         nn.GroupNorm(3, 6, data_format="NHWC")
InstanceNorm1D      x@2,3,5           nn.InstanceNorm1D(3)
InstanceNorm2D      x@2,3,4,4         nn.InstanceNorm2D(3)
InstanceNorm3D      x@2,3,3,4,4       nn.InstanceNorm3D(3)
LocalResponseNorm   x@2,5,4,4         nn.LocalResponseNorm(3)
SpectralNorm        x@=4,3,2          nn.SpectralNorm([4, 3, 2], dim=0, power_iters=2)
spectral_norm       x@2,3             nn.utils.spectral_norm(nn.Linear(3, 4))
weight_norm         x@2,3             nn.utils.weight_norm(nn.Linear(3, 4))
PReLU               x@2,3,4,4         nn.PReLU(3)
Maxout              x@2,6,4,4         nn.Maxout(2)
Upsample            x@2,3,4,4         nn.Upsample(scale_factor=2, mode="nearest")
PixelShuffle        x@2,4,3,3         nn.PixelShuffle(2)
Unfold              x@2,3,6,6         nn.Unfold(3)
Pad2D               x@2,3,4,4         nn.Pad2D([1, 2, 0, 1], mode="reflect")
Pools               x@2,3,8,8         nn.Sequential(nn.MaxPool2D(2), nn.AvgPool2D(3, 1, 1), nn.AdaptiveAvgPool2D(2), nn.AdaptiveMaxPool2D(1), nn.Flatten())
CosineSimilarity    x@2,3 y@2,3       nn.CosineSimilarity()
Dropouts            x@2,3,4,4         nn.Sequential(nn.Dropout(0.5), nn.Dropout2D(0.5), nn.AlphaDropout(0.5))
Dropout_downscale   x@2,3             nn.Dropout(0.4, mode="downscale_in_infer")
SimpleRNN           x@2,5,3           nn.SimpleRNN(3, 4)
SimpleRNN_relu      x@2,5,3           nn.SimpleRNN(3, 4, activation="relu", num_layers=2)
LSTM                x@2,5,3           nn.LSTM(3, 4, num_layers=2)
LSTM_bidirectional  x@2,5,3           nn.LSTM(3, 4, direction="bidirect")
LSTM_time_major     x@=5,2,3          nn.LSTM(3, 4, time_major=True)
LSTM_lengths        x@3,5,3 n:i<5@3   nn.LSTM(3, 4, direction="bidirect"), lambda f, x, n: f(x, sequence_length=n + 1)
GRU                 x@2,5,3           nn.GRU(3, 4, num_layers=2)
GRU_bidirectional   x@2,5,3           nn.GRU(3, 4, direction="bidirect")
GRU_state           x@=2,5,3 h@=1,2,4 nn.GRU(3, 4), lambda f, x, h: f(x, h)
LSTMCell            x@2,3 h@2,4       nn.LSTMCell(3, 4), lambda f, x, h: f(x, (h, h * 2))[1]
GRUCell             x@2,3 h@2,4       nn.GRUCell(3, 4), lambda f, x, h: f(x, h)[0]
RNN_of_cell         x@2,5,3           nn.RNN(nn.SimpleRNNCell(3, 4))
RNN_of_LSTMCell     x@2,5,3           nn.RNN(nn.LSTMCell(3, 4), is_reverse=True)
BiRNN               x@2,5,3           nn.BiRNN(nn.GRUCell(3, 4), nn.GRUCell(3, 4))
RNN_lengths         x@3,5,3 n:i<5@3   nn.RNN(nn.GRUCell(3, 4)), lambda f, x, n: f(x, sequence_length=n + 1)
MultiHeadAttention  x@2,5,8           nn.MultiHeadAttention(8, 2)
EncoderLayer        x@2,5,8           nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1)
EncoderLayer_pre    x@2,5,8           nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", normalize_before=True)
Encoder             x@2,5,8           nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2)
DecoderLayer        x@2,5,8 m@2,4,8   nn.TransformerDecoderLayer(8, 2, 16)
Transformer         x@2,5,8 y@2,4,8   nn.Transformer(8, 2, 1, 1, 16)
Losses              x@4,5 y:i<5@4     nn.CrossEntropyLoss(weight=paddle.arange(1, 6, dtype="float32"))
HSigmoidLoss        x@4,3 y:i<5@4,1   nn.HSigmoidLoss(3, 5)
CTCLoss             x@=6,2,5          nn.CTCLoss(), lambda f, x: f(x, paddle.to_tensor([[1, 2], [3, 1]], dtype="int32"), paddle.to_tensor([6, 5]), paddle.to_tensor([2, 1]))
ParameterList       x@2,3             Stacked()
""".strip()
