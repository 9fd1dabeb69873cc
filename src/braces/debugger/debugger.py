"""Sessions of the debugger with a page, as notebooks and commands start them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from braces.builder.builder import Builder
from braces.debugger.server import PageServer
from braces.debugger.session import DebugSession
from braces.notebook import escape_html
from braces.scope import Scope


class Debugger(DebugSession):
    """A session whose page is served on this machine; see `Program.debug`.

    Args:
        program: The program.
        scope: As for `DebugSession`.
        feed: As for `DebugSession`.
        fetch: As for `DebugSession`.
        serve: Whether to serve the page.
        port: The port of the page; 0 selects a free one.
        options: The other arguments of `DebugSession`.

    Attributes:
        url: The address of the page, which opens once, in one browser; empty without a page.
    """

    def __init__(
        self,
        program: Builder,
        scope: Scope | None = None,
        feed: Mapping[Any, Any] | None = None,
        fetch: Any = None,
        *,
        serve: bool = True,
        port: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(program, scope, feed, fetch, **options)
        self._server: PageServer | None = None
        self.url = ""
        if serve:
            try:
                self._server = PageServer(self, port)
            except BaseException:
                super().close()
                raise
            self.url = self._server.url

    def close(self) -> None:
        """Cancel the run and stop the page; waits a short time for the end of both."""
        super().close()
        if self._server is not None:
            self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Debugger {self.status.state}{f' at {self.url}' if self.url else ''}>"

    def _repr_html_(self) -> str:  # pyright: ignore[reportUnusedFunction] — notebooks use it
        text = escape_html(repr(self))
        if not self.url:
            return text
        return f'{text}<br><a href="{escape_html(self.url)}" target="_blank">Open the page</a>'
