"""Braces: neural-network programs as data."""

import typing as _typing

from braces import (
    cluster as cluster,
    dtypes as dtypes,
    errors as errors,
    passes as passes,
    remote as remote,
    testing as testing,
)
from braces.builder.var import Var as Var
from braces.define.decorator import (
    Indices as Indices,
    Learned as Learned,
    Tensor as Tensor,
    Training as Training,
)
from braces.errors import (
    BracesError as BracesError,
    BracesWarning as BracesWarning,
    ClusterError as ClusterError,
    DeviceError as DeviceError,
    DTypeError as DTypeError,
    DuplicateNameError as DuplicateNameError,
    FeedError as FeedError,
    FileFormatError as FileFormatError,
    GradientError as GradientError,
    IndexRangeError as IndexRangeError,
    InfinityError as InfinityError,
    LayoutError as LayoutError,
    MissingPackageError as MissingPackageError,
    NaNError as NaNError,
    NoMatchError as NoMatchError,
    OpDefinitionError as OpDefinitionError,
    ParseError as ParseError,
    ProgramError as ProgramError,
    RemoteError as RemoteError,
    RunError as RunError,
    ScopeClosedError as ScopeClosedError,
    ShapeError as ShapeError,
    SymbolicValueError as SymbolicValueError,
    TripLimitError as TripLimitError,
    UninitializedError as UninitializedError,
    UnknownNameError as UnknownNameError,
    VerifyError as VerifyError,
)
from braces.exchange.jax.importer import from_jax as from_jax
from braces.exchange.jax.trace_values import trace_jax as _trace_jax
from braces.exchange.onnx.reader.importer import from_onnx as from_onnx
from braces.exchange.onnx.reader.metadata import onnx_metadata as onnx_metadata
from braces.exchange.onnx.reader.trace_values import trace_onnx as _trace_onnx
from braces.exchange.onnx.writer.exporter import to_onnx as to_onnx
from braces.exchange.paddle.importer import from_paddle as from_paddle
from braces.exchange.stablehlo import to_stablehlo as to_stablehlo
from braces.exchange.torch.importer import from_torch as from_torch
from braces.exchange.torch.trace_values import trace_torch as _trace_torch
from braces.fitting.callbacks import (
    Best as Best,
    Callback as Callback,
    EarlyStopping as EarlyStopping,
)
from braces.fitting.evaluation import evaluate as evaluate
from braces.fitting.fit import fit as fit
from braces.fitting.fit_run import Fit as Fit
from braces.fitting.history import History as History
from braces.fitting.steps.step import TrainingStep as TrainingStep
from braces.fitting.steps.training_steps import TrainingSteps as TrainingSteps
from braces.fitting.training import training as training
from braces.frontend import (
    distributions as distributions,
    metrics as metrics,
    optimizer as optimizer,
    random as random,
)
from braces.frontend.array_api.data_dependent import *  # noqa: F403 - data-dependent sizes
from braces.frontend.array_api.linalg import tensordot as tensordot, vecdot as vecdot
from braces.frontend.array_api.meshgrid import isin as isin, meshgrid as meshgrid
from braces.frontend.array_api.numpy_dispatch import found_by_numpy as _found_by_numpy
from braces.frontend.array_api.pointwise import (
    allclose as allclose,
    copysign as copysign,
    deg2rad as deg2rad,
    isclose as isclose,
    lerp as lerp,
    log10 as log10,
    nan_to_num as nan_to_num,
    rad2deg as rad2deg,
    signbit as signbit,
)
from braces.frontend.array_api.quantiles import *  # noqa: F403 - medians and other quantiles
from braces.frontend.array_api.segment_ops import *  # noqa: F403 - counts and sums by groups
from braces.frontend.array_api.statistics import *  # noqa: F403 - covariances, and reductions without NaN
from braces.frontend.attention.dot_product import (
    scaled_dot_product_attention as scaled_dot_product_attention,
)
from braces.frontend.attention.multi_head import (
    multi_head_attention as multi_head_attention,
)
from braces.frontend.autodiff.custom_gradient import (
    CustomGradient as CustomGradient,
    create_custom_gradient as create_custom_gradient,
    custom_gradient as custom_gradient,
)
from braces.frontend.autodiff.jacobian_hessian_vmap import (
    hessian as hessian,
    jacobian as jacobian,
    vmap as vmap,
)
from braces.frontend.control.block import PlainBlock as PlainBlock, block as block
from braces.frontend.control.calls.program_call import call as call
from braces.frontend.control.calls.shared import shared as shared
from braces.frontend.control.construct import Memory as Memory
from braces.frontend.control.functional import (
    cond as cond,
    scan as scan,
    switch as switch,
    while_loop as while_loop,
)
from braces.frontend.control.if_else import (
    Branch as Branch,
    IfElse as IfElse,
    create_if_else as create_if_else,
)
from braces.frontend.control.pipeline import pipeline as pipeline
from braces.frontend.control.rnn import (
    Rnn as Rnn,
    StepNet as StepNet,
    create_rnn as create_rnn,
)
from braces.frontend.control.switch import Switch as Switch, create_switch as create_switch
from braces.frontend.control.while_loop import (
    While as While,
    WhileBlock as WhileBlock,
    create_while as create_while,
)
from braces.frontend.core import init as init
from braces.frontend.core.functions import *  # noqa: F403 - one function for each operator
from braces.frontend.core.functions import add_two as add_two, op as op
from braces.frontend.core.public_names import *  # noqa: F403 - arrays from nothing, constants, dtypes
from braces.frontend.core.public_names import listed as _listed, missing as _missing
from braces.frontend.core.variables import (
    Variable as Variable,
    constant as constant,
    data as data,
    get_variable as get_variable,
    parameter as parameter,
    state as state,
)
from braces.frontend.losses.binary import (
    sigmoid_binary_cross_entropy as sigmoid_binary_cross_entropy,
)
from braces.frontend.losses.classification import (
    softmax_cross_entropy as softmax_cross_entropy,
    softmax_cross_entropy_soft as softmax_cross_entropy_soft,
)
from braces.frontend.losses.regression import (
    absolute_error as absolute_error,
    squared_error as squared_error,
)
from braces.frontend.namespaces import (
    fft as fft,
    image as image,
    layers as layers,
    linalg as linalg,
    lists as lists,
    losses as losses,
    signal as signal,
    special as special,
)
from braces.frontend.nn.conv import conv1d as conv1d, conv2d as conv2d, conv3d as conv3d
from braces.frontend.nn.dropout_noise import dropout as dropout
from braces.frontend.nn.embedding import embedding as embedding
from braces.frontend.nn.linear import fc as fc
from braces.frontend.nn.normalization import (
    batch_norm as batch_norm,
    group_norm as group_norm,
    layer_norm as layer_norm,
    rms_norm as rms_norm,
)
from braces.frontend.recurrent.layers import gru as gru, lstm as lstm
from braces.frontend.sequence import decoding as decoding
from braces.ir.fingerprint import fingerprint as fingerprint
from braces.layout import Layout as Layout, Mesh as Mesh
from braces.loaders.batches import batches as batches
from braces.loaders.core.data_set import Batches as Batches
from braces.passes.autodiff.forward_mode import jvp as jvp
from braces.passes.autodiff.reverse_mode import (
    append_backward as append_backward,
    gradients as gradients,
)
from braces.passes.cleanup.prune import prune as prune
from braces.passes.probing.inner_gradient import grad_of as grad_of
from braces.passes.probing.patch_value import patch as patch
from braces.passes.training.inference_mode import for_test as for_test
from braces.passes.verifier.program import verify as verify
from braces.planning.planner import plan as plan
from braces.program import (
    Block as Block,
    Program as Program,
    default_program as default_program,
    parse as parse,
)
from braces.runtime.executor import Executor as Executor
from braces.scope import Scope as Scope
from braces.serving.server import create_inference_app as create_inference_app, serve as serve
from braces.storage.checkpoint import (
    Checkpoint as Checkpoint,
    load_checkpoint as load_checkpoint,
    save_checkpoint as save_checkpoint,
)
from braces.storage.model import Model as Model
from braces.storage.model_files import load_model as load_model, save_model as save_model
from braces.storage.parameters import (
    load_parameters as load_parameters,
    save_parameters as save_parameters,
)
from braces.surgery.compare import (
    FOREIGN_TRACERS as _TRACERS,
    compare_values as compare_values,
)
from braces.surgery.cut import cut as cut
from braces.surgery.diff import diff as diff
from braces.surgery.handles import Handle as Handle, Selection as Selection
from braces.surgery.matches.alternatives import any_of as any_of
from braces.surgery.matches.rewriting import pattern as pattern

__version__ = "0.2.0"
_found_by_numpy()
_TRACERS[:] = _trace_onnx, _trace_torch, _trace_jax


if not _typing.TYPE_CHECKING:  # type checkers resolve missing names themselves
    __getattr__ = _missing


def __dir__() -> list[str]:
    return _listed(globals())


__all__ = __dir__()  # pyright: ignore[reportUnsupportedDunderAll]
