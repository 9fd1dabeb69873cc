"""Programs and blocks that run in other processes: `br.remote.worker`, `br.remote.Workers`.

A client makes a `Shipment` of a program, or a block, and its values, and asks a `Worker` for
runs; `Workers` share batches out. Messages go through a `Link` to a `Server`, which lets in who
holds the key, and each client has a `Session` there: a program, a scope, an executor.
"""

from braces.remote.client import Worker as Worker, worker as worker
from braces.remote.pool import Workers as Workers
from braces.remote.worker.server import Server as Server


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = ["Server", "Worker", "Workers", "worker"]
