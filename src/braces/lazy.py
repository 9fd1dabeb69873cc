"""Lazy imports of JAX, optax, rich and optional packages, on first use.

Programs are data: reading, printing, checking and pruning them needs no arithmetic. A module
that computes writes `from braces.lazy import jnp`; the library is imported at the first
attribute access, so that `import braces` and the read-only commands stay light.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

from braces.errors import MissingPackageError


class LazyModule(ModuleType):
    """A module that is imported at the first attribute access.

    Args:
        name: The module.
        extra: The extra of Braces that installs it, if it is optional.
        package: The name of its package in the registry, if it differs.

    Raises:
        MissingPackageError: If an attribute is accessed, and the optional package is not
            installed.
    """

    def __init__(self, name: str, extra: str = "", package: str = "") -> None:
        super().__init__(name)
        self._extra = extra
        self._package = package or name.partition(".")[0]

    def __getattr__(self, name: str) -> Any:
        try:
            value = getattr(importlib.import_module(self.__name__), name)
        except ModuleNotFoundError as error:
            if not self._extra or error.name not in (
                self.__name__.partition(".")[0],
                self.__name__,
            ):
                raise
            if name.startswith("__"):  # accessed by tools that inspect modules, as doctest does
                raise AttributeError(name, name=name, obj=self) from None
            raise MissingPackageError(
                f"this needs the package {self._package}, which is not installed.",
                fix=f'pip install "braces[{self._extra}]"',
            ) from None
        setattr(self, name, value)
        return value


grain: Any = LazyModule("grain", extra="data")
pyarrow: Any = LazyModule("pyarrow", extra="parquet")
pyarrow_ipc: Any = LazyModule("pyarrow.ipc", extra="parquet")
pyarrow_parquet: Any = LazyModule("pyarrow.parquet", extra="parquet")
ray: Any = LazyModule("ray", extra="ray")
ray_strategies: Any = LazyModule("ray.util.scheduling_strategies", extra="ray")
starlette_applications: Any = LazyModule("starlette.applications", extra="debug")
starlette_responses: Any = LazyModule("starlette.responses", extra="debug")
starlette_routing: Any = LazyModule("starlette.routing", extra="debug")
uvicorn: Any = LazyModule("uvicorn", extra="debug")
serve_applications: Any = LazyModule("starlette.applications", extra="serve")
serve_exceptions: Any = LazyModule("starlette.exceptions", extra="serve")
serve_responses: Any = LazyModule("starlette.responses", extra="serve")
serve_routing: Any = LazyModule("starlette.routing", extra="serve")
serve_uvicorn: Any = LazyModule("uvicorn", extra="serve")
serve_h11: Any = LazyModule("uvicorn.protocols.http.h11_impl", extra="serve")
serve_httptools: Any = LazyModule("uvicorn.protocols.http.httptools_impl", extra="serve")
sklearn_datasets: Any = LazyModule("sklearn.datasets", extra="demo", package="scikit-learn")

if TYPE_CHECKING:
    import asyncio

    import jax
    import jax._src.distributed as distributed
    import jax._src.interpreters.mlir as lowerings
    import jax._src.xla_bridge as xla_bridge
    import jax.core as tracing
    import jax.custom_derivatives as derivatives
    import jax.extend.backend as backends
    import jax.extend.core as extend
    import jax.extend.random as keys
    import jax.numpy as jnp
    import jax.scipy.special as jax_special
    import jaxlib._jax as jaxlib
    import onnx
    import onnxruntime
    import optax
    from jax import custom_batching as batching, lax
    from jax.experimental import (
        custom_partitioning as partitioning,
        layout as layouts,
        xla_metadata,
    )
    from jax.experimental.compilation_cache import compilation_cache
    from jax.interpreters import ad, batching as batchers, mlir
    from rich import console, live as rich_live, table as rich_table, text as rich_text
else:
    asyncio = LazyModule("asyncio")  # takes 10 ms, and servers alone use it
    jax = LazyModule("jax")
    jnp = LazyModule("jax.numpy")
    lax = LazyModule("jax.lax")
    onnx = LazyModule("onnx", extra="onnx")
    onnxruntime = LazyModule("onnxruntime", extra="onnx")
    optax = LazyModule("optax")
    tracing = LazyModule("jax.core")
    distributed = LazyModule("jax._src.distributed")
    lowerings = LazyModule("jax._src.interpreters.mlir")
    derivatives = LazyModule("jax.custom_derivatives")
    jax_special = LazyModule("jax.scipy.special")
    extend = LazyModule("jax.extend.core")
    backends = LazyModule("jax.extend.backend")
    xla_bridge = LazyModule("jax._src.xla_bridge")
    jaxlib = LazyModule("jaxlib._jax")
    keys = LazyModule("jax.extend.random")
    ad = LazyModule("jax.interpreters.ad")
    mlir = LazyModule("jax.interpreters.mlir")
    compilation_cache = LazyModule("jax.experimental.compilation_cache.compilation_cache")
    console = LazyModule("rich.console")
    rich_live = LazyModule("rich.live")
    rich_table = LazyModule("rich.table")
    rich_text = LazyModule("rich.text")
    xla_metadata = LazyModule("jax.experimental.xla_metadata")
    batching = LazyModule("jax.custom_batching")
    layouts = LazyModule("jax.experimental.layout")
    batchers = LazyModule("jax.interpreters.batching")
    partitioning = LazyModule("jax.experimental.custom_partitioning")

__all__ = [
    "ad", "asyncio", "backends", "batchers", "batching", "compilation_cache", "console",
    "derivatives", "distributed", "extend", "grain", "jax", "jax_special", "jaxlib", "jnp",
    "keys", "lax", "layouts", "lowerings", "mlir", "onnx", "onnxruntime", "optax",
    "partitioning", "pyarrow",
    "pyarrow_ipc", "pyarrow_parquet", "ray", "ray_strategies", "rich_live", "rich_table",
    "rich_text", "sklearn_datasets", "starlette_applications", "starlette_responses",
    "starlette_routing", "tracing", "uvicorn", "xla_bridge", "xla_metadata",
]  # fmt: skip
