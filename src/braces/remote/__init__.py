"""Run programs and blocks in other processes: `br.remote.worker`, `br.remote.Workers`.

A client packages a program or a block with its values as a `Package`, and sends runs to a
`Worker`; `Workers` distributes batches. Messages go through a `Link` to a `Server`, which
authenticates clients by a key. Each client has a `Session` there: a program, a scope, an
executor.
"""

from braces.remote.client import Worker as Worker, worker as worker
from braces.remote.pool import Workers as Workers
from braces.remote.serving.server import Server as Server


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = ["Server", "Worker", "Workers", "worker"]
