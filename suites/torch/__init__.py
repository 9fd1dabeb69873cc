"""PyTorch's databases of operators and modules, exported and imported by `br.from_torch`.

A case of `op_db` is one sample input of one entry, as `fft.irfft 3`; one of `module_db` is a
module with one of its inputs, in training or evaluation.
"""

from functools import partial

from suites.case import Group
from suites.torch import modules, operators
from suites.torch.architectures import GROUPS as ARCHITECTURES

TITLE = "PyTorch's databases of operators and modules, and architectures"
PACKAGES = ("torch", "torchvision", "timm", "transformers", "torchaudio", "jax", "numpy")
GROUPS = {
    "op_db values": Group(0.97, operators.names, operators.values),
    "op_db gradients": Group(0.97, partial(operators.names, True), operators.gradients),
    "module_db values": Group(1.0, modules.names, modules.values),
    "module_db gradients": Group(1.0, modules.names, modules.gradients),
    **ARCHITECTURES,
}
"""The groups of this suite."""
