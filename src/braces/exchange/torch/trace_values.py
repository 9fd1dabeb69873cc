"""Trace of a PyTorch module or exported program: every operator of a run, with its values."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np

from braces.errors import FeedError, ProgramError
from braces.exchange.common.model.names import clean_name
from braces.exchange.torch.decompose import OUTPUT, RETURNED_KINDS, output_names
from braces.exchange.torch.graph.convert import is_torch
from braces.exchange.torch.value_recorder import ValueRecorder
from braces.extend.comparing import NEXT, Trace
from braces.extend.programs import Program
from braces.extend.types import TensorType


def trace_torch(
    model: Any, program: Program, feed: Mapping[str, Any], args: Sequence[Any] | None = None
) -> Trace | None:
    """Return every value of a run of a PyTorch module; `None` for other models.

    Operators are those of ATen. The bodies of `torch.cond`, `while_loop`, `scan` and `map` are
    recorded for each iteration. Parameters, buffers and random state keep their values.

    Args:
        model: An `ExportedProgram`, a module, or a function if `args` has tensors.
        program: The program that gives the order of inputs and outputs.
        feed: Its feed, the arguments by default: by name if `forward` has such arguments.
        args: The arguments, if they are not the feeds in the order of `program.feeds`.

    Raises:
        FeedError: If a feed is missing.
        ProgramError: If PyTorch cannot run the module.
    """
    torch = sys.modules.get("torch")
    exported = is_torch(model, "ExportedProgram")
    if torch is None or not (exported or _is_callable_model(torch, model, args)):
        return None
    recorder = ValueRecorder(torch)
    module = model.module() if exported else model
    inputs = _Inputs(recorder, program, feed, module)
    with _recording(recorder, module):
        if exported:
            leaves = inputs.of_export(model, args)
            run: Callable[[], Any] = partial(recorder.run_graph, module, *leaves)
        else:
            arguments, keywords = inputs.of_function(module, args)
            run = partial(module, *arguments, **keywords)
        outputs = _outputs(recorder, _run(recorder, run))
        names = _names(program, model if exported else None, len(outputs))
        trace = recorder.trace
        trace.results = dict(zip(names, map(recorder.key, outputs), strict=True))
        for name, buffer in _named_tensors(module):
            if clean_name(name) in program.updates:
                trace.results[f"{NEXT}{clean_name(name)}"] = recorder.key(buffer)
        return recorder.finish()


def _is_callable_model(torch: Any, model: Any, args: Sequence[Any] | None) -> bool:
    if isinstance(model, torch.nn.Module):
        return True
    tensors = torch.utils._pytree.tree_leaves(list(args or ()))
    return callable(model) and any(isinstance(value, torch.Tensor) for value in tensors)


def _run(recorder: ValueRecorder, run: Callable[[], Any]) -> Any:
    try:
        with recorder.mode:
            return run()
    except Exception as error:
        raise ProgramError(
            "PyTorch cannot run the module.", given=f"{type(error).__name__}: {error!s:.500}"
        ) from error


# ---- inputs ----------------------------------------------------------------------------------


class _Inputs:
    """The inputs of a module, from feeds or arguments."""

    def __init__(
        self, recorder: ValueRecorder, program: Program, feed: Mapping[str, Any], module: Any
    ) -> None:
        self.torch, self.tree = recorder.torch, recorder.torch.utils._pytree
        self.program, self.feed = program, feed
        tensors = (tensor for _, tensor in _named_tensors(module))
        self.device = next((tensor.device for tensor in tensors), "cpu")

    def of_export(self, exported: Any, args: Sequence[Any] | None) -> list[Any]:
        """Return the inputs of an export, in order."""
        specs = [s for s in exported.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
        if args is not None:
            values = self.tree.tree_leaves(self.copied(list(args)))
        else:
            varying = sum(not is_torch(spec.arg, "ConstantArgument") for spec in specs)
            fed = iter(self.fed(self.program.feeds[:varying]))
            values = [
                spec.arg.value if is_torch(spec.arg, "ConstantArgument") else next(fed)
                for spec in specs
            ]
        if len(values) != len(specs):
            raise FeedError(f"expected {len(specs)} inputs of the export, got {len(values)}.")
        return [
            value.item() if is_torch(spec.arg, "SymIntArgument") and self.is_tensor(value)
            else value
            for value, spec in zip(values, specs, strict=True)
        ]  # fmt: skip

    def of_function(
        self, function: Any, args: Sequence[Any] | None
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return positional arguments and keywords."""
        if args is not None:
            return self.copied(list(args)), {}
        parameters = inspect.signature(getattr(function, "forward", function)).parameters
        named = [name for name in self.program.feeds if _is_keyword(parameters.get(name))]
        required = [name for name, p in parameters.items() if _is_required(p)]
        if named and set(required) <= set(named):
            return [], dict(zip(named, self.fed(named), strict=True))
        return self.fed(self.program.feeds), {}

    def fed(self, names: Sequence[str]) -> list[Any]:
        """Return the feeds of these names as tensors."""
        missing = [name for name in names if name not in self.feed]
        if missing:
            raise FeedError(f"missing feeds: {', '.join(missing)}.", fix="Pass feed= or args=.")
        return [self.tensor(self.feed[name], self._dtype(name)) for name in names]

    def copied(self, args: Any) -> Any:
        """Return arguments with copies of their tensors, and arrays as tensors."""
        return self.tree.tree_map(self._copy, args)

    def tensor(self, value: Any, dtype: Any = None) -> Any:
        """Return an array as a new tensor."""
        array = np.asarray(value) if dtype is None else np.asarray(value).astype(dtype)
        wide = array if array.dtype.kind in "biufc" else array.astype("float32")
        tensor = self.torch.tensor(wide, device=self.device)
        return tensor.to(getattr(self.torch, array.dtype.name))

    def is_tensor(self, value: Any) -> bool:
        """Return whether a value is a tensor."""
        return isinstance(value, self.torch.Tensor)

    def _copy(self, value: Any) -> Any:
        if self.is_tensor(value):
            return value.detach().clone()
        return self.tensor(value) if isinstance(value, np.ndarray) else value

    def _dtype(self, name: str) -> Any:
        info = self.program.infos.get(name)
        return (
            info.type.dtype if info is not None and isinstance(info.type, TensorType) else None
        )


def _is_keyword(parameter: inspect.Parameter | None) -> bool:
    return parameter is not None and parameter.kind in (
        parameter.POSITIONAL_OR_KEYWORD,
        parameter.KEYWORD_ONLY,
    )


def _is_required(parameter: inspect.Parameter) -> bool:
    variable = (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and parameter.kind not in variable


# ---- outputs ---------------------------------------------------------------------------------


def _outputs(recorder: ValueRecorder, result: Any) -> list[Any]:
    """Return the results as tensors; numbers too."""
    leaves = recorder.torch.utils._pytree.tree_leaves(result)
    number = bool | int | float | complex
    return [
        recorder.torch.tensor(leaf) if isinstance(leaf, number) else leaf
        for leaf in leaves
        if isinstance(leaf, recorder.torch.Tensor | number)
    ]


def _names(program: Program, exported: Any, count: int) -> list[str]:
    """Return the names of results: the program's, or those that an import gives them."""
    if len(program.fetches) == count:
        return list(program.fetches)
    if exported is not None:
        specs = exported.graph_signature.output_specs
        pairs = zip(specs, output_names(exported), strict=True)
        names = [clean_name(n, OUTPUT) for s, n in pairs if s.kind.name in RETURNED_KINDS]
        if len(names) == count:
            return names
    return [f"{OUTPUT}_{at}" if at else OUTPUT for at in range(count)]


# ---- modules ---------------------------------------------------------------------------------


def _named_tensors(module: Any) -> list[tuple[str, Any]]:
    """Return the parameters and buffers of a module by name; none of a function."""
    if not is_torch(module, "Module"):
        return []
    return [*module.named_parameters(), *module.named_buffers()]


@contextmanager
def _recording(recorder: ValueRecorder, module: Any) -> Generator[None]:
    """Prepare a run that is recorded: without compilation, gradients and lasting changes."""
    torch = recorder.torch
    fast = torch.backends.mha.get_fastpath_enabled()
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.random.fork_rng())
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        for library in (torch.backends.mkldnn, torch.backends.cudnn):
            stack.enter_context(library.flags(enabled=False))  # one operator for all steps
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast)
        torch.backends.mha.set_fastpath_enabled(False)
        if is_torch(module, "Module"):
            stack.enter_context(_unchanged(torch, module))
            stack.enter_context(_named_calls(recorder, module))
            for name, tensor in _named_tensors(module):
                recorder.record(tensor, name)
        yield


@contextmanager
def _unchanged(torch: Any, module: Any) -> Generator[None]:
    """Restore the parameters and buffers of a module after a run."""
    slots = [table for part in module.modules() for table in (part._parameters, part._buffers)]
    before = [dict(table) for table in slots]
    copies = [(tensor, tensor.detach().clone()) for _, tensor in _named_tensors(module)]
    try:
        yield
    finally:
        for table, kept in zip(slots, before, strict=True):
            table.clear()
            table.update(kept)
        for tensor, copy in copies:
            if not torch.equal(tensor, copy):
                tensor.copy_(copy)


@contextmanager
def _named_calls(recorder: ValueRecorder, module: Any) -> Generator[None]:
    """Record the operators of each submodule under its name."""
    hooks = list[Any]()
    try:
        for name, part in module.named_modules():
            if not name or is_torch(part, "ScriptModule"):
                continue
            hooks.append(part.register_forward_pre_hook(partial(_enter_call, recorder, name)))
            hooks.append(
                part.register_forward_hook(partial(_leave_call, recorder), always_call=True)
            )
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _enter_call(recorder: ValueRecorder, name: str, _module: Any, _args: Any) -> None:
    recorder.enter(name)


def _leave_call(recorder: ValueRecorder, _module: Any, _args: Any, _result: Any) -> None:
    recorder.leave()
