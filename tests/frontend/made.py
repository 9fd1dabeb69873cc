"""Parameters of programs with layers, and results of a run."""

from __future__ import annotations

from typing import Any

import braces as br


def run(mode: str, prog: br.Program, feed: Any, fetch: Any) -> tuple[Any, dict[str, Any]]:
    """Return the fetches, and the initial values of persistable variables."""
    scope, exe = br.Scope(), br.Executor(mode=mode)
    exe.init(prog, scope, seed=1)
    before = {info.name: scope.var(info.name).value for info in prog.persistables}
    return exe.run(prog, scope, feed, fetch=fetch), before


def parameters(prog: br.Program) -> dict[str, str]:
    return {info.name: str(info.type) for info in prog.parameters}
