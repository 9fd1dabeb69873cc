"""Models, layers, functions and programs of Paddle through `br.from_paddle`."""

from suites.paddle.programs import GROUPS as GROUPS

TITLE = "Paddle's models, layers and functions"
PACKAGES = ("jax", "numpy", "onnxruntime")
