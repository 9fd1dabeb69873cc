"""Models that generate in parts: their form, which `br.decoding.generation_loop` builds.

- An input `steps`, an integer scalar: the number of iterations of a run.
- State: outputs with the name and type of an input. The next run is fed with them.
- Optionally an output `continues`, a bool scalar: false after the last iteration.
- Streamed outputs: all others. Iterations are axis 1, or axis 0 of arrays of rank 1.
- Optionally a program `start` in the file, whose fetches are initial values of inputs.

A run with fewer iterations than `steps` is the last one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from braces.serving.models.served_model import ServedModel, Signature
from braces.serving.protocol.tensor_spec import DATATYPES, Array, TensorSpec

STEPS, CONTINUES = "steps", "continues"
_COUNTS = ("INT32", "INT64")


@dataclass(frozen=True)
class GenerationForm:
    """The roles of inputs and outputs in generation.

    Attributes:
        steps: The input with the number of iterations.
        carried: The outputs that are the next inputs.
        streamed: The outputs of the iterations.
    """

    steps: TensorSpec
    carried: tuple[str, ...]
    streamed: tuple[str, ...]


def find_generation(signature: Signature) -> GenerationForm | None:
    """Return the roles of inputs and outputs, if a model has the form of generation."""
    inputs, outputs = signature.inputs, signature.outputs
    steps = inputs.get(STEPS)
    if steps is None or steps.shape or DATATYPES[steps.dtype] not in _COUNTS:
        return None
    carried = tuple(name for name in outputs if name in inputs)
    streamed = tuple(name for name in outputs if name not in inputs and name != CONTINUES)
    is_same = all(outputs[name] == inputs[name] for name in carried)
    has_iterations = all(outputs[name].shape for name in streamed)
    if not (carried and streamed and is_same and has_iterations):
        return None
    return GenerationForm(steps, carried, streamed)


def generation_inputs(model: ServedModel, form: GenerationForm) -> dict[str, TensorSpec]:
    """Return the inputs of a request: those of `start`, and those that it does not give."""
    specs, start = dict(model.signature.inputs), model.start
    del specs[form.steps.name]
    if start is None:
        return specs
    initial = start.signature.outputs
    left = {name: spec for name, spec in specs.items() if name not in initial}
    return {**start.signature.inputs, **left}


def describe_generation(model: ServedModel) -> dict[str, Any]:
    """Return the metadata of generation: inputs of a request, and streamed outputs."""
    form = find_generation(model.signature)
    if form is None:
        return {}
    inputs = [spec.describe() for spec in generation_inputs(model, form).values()]
    return {"generate": {"inputs": inputs, "outputs": list(form.streamed)}}


def iterations_first(array: Array) -> Array:
    """Return a streamed output with the iterations on axis 0."""
    return array if array.ndim < 2 else array.swapaxes(0, 1)
