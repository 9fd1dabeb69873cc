"""The server of the debugger's page: loopback only, for one user with a token.

The addresses are:

GET  /TOKEN      once: sets the cookie, and goes on to the page
GET  /           the page
GET  /state      the state, as soon as its version differs; JSON without arrays
GET  /runs       runs of blocks, from a number on; see `packed`
GET  /events     events, from a time on
GET  /series     measures of a variable
GET  /histogram  histogram of a value
GET  /value      numbers of a value, raw; dtype and shape are headers
GET  /rows       batch elements of a case of a row-wise branch
GET  /saved      the recording as a file
POST /do         a command; JSON
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http.cookies import SimpleCookie
from secrets import compare_digest, token_urlsafe
from threading import Thread
from typing import Any, final

from braces.debugger.commands import CommandError, run_command
from braces.debugger.html.packed import describe_state, pack_events, pack_runs, pack_series
from braces.debugger.html.page import debugger_page
from braces.debugger.html.saved_run import saved_page
from braces.debugger.recorded.measures import portable
from braces.debugger.recorded.sites import VariableKey
from braces.debugger.session import DebugSession
from braces.errors import BracesError
from braces.lazy import (
    starlette_applications as applications,
    starlette_responses as responses,
    starlette_routing as routing,
    uvicorn,
)
from braces.lower.interrupt.deadline import join_threads
from braces.web.server import listen, make_config, wait_started

HOST = "127.0.0.1"
LONGEST_BODY, LONGEST_QUERY = 16_384, 8_192
"""Bounds of a request, in bytes."""
MOST_NUMBERS = 65_536
"""The largest number of elements of a value in one answer."""
MOST_RUNS = 250_000
"""The largest number of runs or events in one answer."""
POLL_S = 10.0
START_S, STOP_S = 10.0, 3.0
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
}
Scope = dict[str, Any]
Handler = Callable[[Scope, Any, Any], Awaitable[None]]
_OPENED = (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=/">'
    "<title>Debugger</title>"
)


@final
class Guard:
    """Refuses requests of other sites, hosts and users, and long ones; sets the cookie.

    Args:
        app: The application.
        token: The secret of the first address.
        port: The port of the server.
    """

    def __init__(self, app: Handler, token: str, port: int) -> None:
        self._app, self._token = app, token
        self._secret = token_urlsafe(32)
        self._cookie = f"braces_debugger_{port}"
        self._hosts = {f"{name}:{port}" for name in (HOST, "localhost")}
        self._origins = {f"http://{host}" for host in self._hosts}
        self._is_used = False

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        answer = self._answer(scope)
        await (answer or self._app)(scope, receive, send)

    def _answer(self, scope: Scope) -> Any:
        """Return the answer of the guard itself; `None` to pass the request on."""
        headers = {name.decode("latin-1"): v.decode("latin-1") for name, v in scope["headers"]}
        if headers.get("host") not in self._hosts:
            return refuse(403, "unknown host")
        if len(scope["query_string"]) > LONGEST_QUERY:
            return refuse(414, "the query is too long")
        is_known = self._is_known(headers)
        if self._matches(scope["path"]):
            return self._open(is_known)
        origin = headers.get("origin")
        if origin is not None and origin not in self._origins:
            return refuse(403, "unknown origin")
        if scope["method"] not in ("GET", "HEAD") and origin is None:
            return refuse(403, "a command requires an origin")
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return refuse(403, "the request comes from another site")
        return None if is_known else refuse(401, "open the address that Braces printed")

    def _is_known(self, headers: dict[str, str]) -> bool:
        morsel = SimpleCookie(headers.get("cookie", "")[:LONGEST_QUERY]).get(self._cookie)
        return morsel is not None and compare_digest(morsel.value, self._secret)

    def _matches(self, path: str) -> bool:
        return compare_digest(path.removeprefix("/").encode(), self._token.encode())

    def _open(self, is_known: bool) -> Any:
        """Answer the address with the token, which sets the cookie once."""
        if self._is_used and not is_known:
            return refuse(403, "the address was opened already, in another browser")
        self._is_used = True
        page = responses.HTMLResponse(_OPENED, headers=HEADERS)
        page.set_cookie(self._cookie, self._secret, httponly=True, samesite="strict", path="/")
        return page


def refuse(status: int, reason: str) -> Any:
    """Return an answer that refuses a request."""
    return responses.PlainTextResponse(f"{reason}\n", status, HEADERS)


# ---- the application -------------------------------------------------------------------------


class Pages:
    """The answers of the server for a session."""

    def __init__(self, session: DebugSession) -> None:
        self.session = session

    def application(self) -> Any:
        """Return the ASGI application, without the guard."""
        answers = {
            "/": self.page,
            "/state": self.state,
            "/runs": self.runs,
            "/events": self.events,
            "/series": self.series,
            "/histogram": self.histogram,
            "/value": self.value,
            "/rows": self.rows,
            "/saved": self.saved,
        }
        answers["/favicon.ico"] = lambda request: responses.Response(status_code=204)
        routes = [routing.Route(path, _guarded(answer)) for path, answer in answers.items()]
        command = routing.Route("/do", self.command, methods=["POST"])
        return applications.Starlette(routes=[*routes, command])

    def page(self, request: Any) -> Any:
        """Answer with the page."""
        del request
        session = self.session
        extra = {"state": self._state()}
        text = debugger_page(session.program, session.sites, session.flow, extra, connects=True)
        return responses.HTMLResponse(text, headers=HEADERS)

    def state(self, request: Any) -> Any:
        """Answer with the state, once it differs from the one that the page knows."""
        version, known = _number(request, "version", -1), _number(request, "generation")
        generation, controller = self.session.current
        if generation == known:
            controller.wait_for_change(version, POLL_S)
        return _json(self._state())

    def _state(self) -> dict[str, Any]:
        session = self.session
        generation, controller = session.current
        status = controller.status
        breakpoints = [
            [each.number, *(each.site or ("", "")), each.condition, each.hits, str(each)]
            for each in session.breakpoints.all()
        ]
        return {
            "version": status.version,
            "generation": generation,
            "breakpoints": breakpoints,
            **describe_state(controller.recording, status),
        }

    def runs(self, request: Any) -> Any:
        """Answer with the runs of blocks."""
        table = pack_runs(self.session.recording, _number(request, "from"))
        return _bytes(table[: 16 * MOST_RUNS])

    def events(self, request: Any) -> Any:
        """Answer with the events."""
        table = pack_events(self.session.recording, _number(request, "from"))
        return _bytes(table[: 8 * MOST_RUNS])

    def series(self, request: Any) -> Any:
        """Answer with the measures of a variable."""
        variable = _variable(request)
        return _bytes(pack_series(self.session.recording, variable, with_histograms=False))

    def histogram(self, request: Any) -> Any:
        """Answer with the histogram of a value; empty if there is none."""
        run = _number(request, "run")
        counts = self.session.recording.histogram(_variable(request), run)
        return _bytes(b"" if counts is None else counts.tobytes())

    def value(self, request: Any) -> Any:
        """Answer with numbers of a value, in the order of its elements."""
        array = self.session.recording.kept_value(_variable(request), _number(request, "run"))
        if array is None:
            return responses.Response(status_code=204, headers=HEADERS)
        start = max(_number(request, "from"), 0)
        count = min(max(_number(request, "count", MOST_NUMBERS), 0), MOST_NUMBERS)
        code, numbers = portable(array.reshape(-1)[start : start + count])
        shape = ",".join(map(str, array.shape))
        return _bytes(numbers.tobytes(), {"X-Dtype": code, "X-Shape": shape})

    def rows(self, request: Any) -> Any:
        """Answer with the batch elements of a case of a row-wise branch."""
        rows = self.session.recording.rows.get(_number(request, "run"))
        return _bytes(b"" if rows is None else rows.tobytes())

    def saved(self, request: Any) -> Any:
        """Answer with the recording as a file."""
        del request
        session = self.session
        text = saved_page(session.program, session.recording, session.flow, session.status)
        name = {"Content-Disposition": 'attachment; filename="debugger.html"'}
        return responses.HTMLResponse(text, headers={**HEADERS, **name})

    async def command(self, request: Any) -> Any:
        """Run a command of the page."""
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            return refuse(415, "a command is JSON")
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > LONGEST_BODY:
                return refuse(413, "the command is too long")
        try:
            run_command(self.session, body)
        except CommandError as error:
            return refuse(400, str(error))
        except BracesError as error:
            return _json({"error": str(error)})
        return _json(self._state())


def _guarded(answer: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return an answer that refuses invalid numbers of its query."""

    def guarded(request: Any) -> Any:
        try:
            return answer(request)
        except CommandError as error:
            return refuse(400, str(error))

    return guarded


def _number(request: Any, name: str, default: int = 0) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if len(text) > 12 or not text.removeprefix("-").isdecimal():
        raise CommandError(f"`{name}` is not an integer")
    return int(text)


def _variable(request: Any) -> VariableKey:
    return VariableKey(_number(request, "block"), request.query_params.get("name", ""))


def _bytes(data: bytes, headers: dict[str, str] | None = None) -> Any:
    kind = "application/octet-stream"
    return responses.Response(data, media_type=kind, headers={**HEADERS, **(headers or {})})


def _json(content: Any) -> Any:
    return responses.JSONResponse(content, headers=HEADERS)


# ---- the server ------------------------------------------------------------------------------


@final
class PageServer:
    """The server of a session, in a thread.

    Attributes:
        url: The address of the page with the token, which is valid once.

    Raises:
        MissingPackageError: If Starlette or uvicorn is not installed.
        ProgramError: If the port is invalid or in use.
    """

    def __init__(self, session: DebugSession, port: int = 0) -> None:
        token = token_urlsafe(32)
        application = Pages(session).application()
        self._socket = listen(HOST, port)
        number = self._socket.getsockname()[1]
        self.url = f"http://{HOST}:{number}/{token}"
        try:
            self._uvicorn = make_server(Guard(application, token, number))
        except BaseException:
            self._socket.close()
            raise
        self._thread = Thread(target=self._serve, name="braces-debugger-page", daemon=True)
        self._thread.start()
        wait_started(self._uvicorn, self._thread, START_S)

    def _serve(self) -> None:
        self._uvicorn.run(sockets=[self._socket])

    def close(self) -> None:
        """Stop the server, and wait a short time for its end."""
        self._uvicorn.should_exit = True
        self._uvicorn.force_exit = True
        join_threads([self._thread], STOP_S)
        self._socket.close()


def make_server(application: Handler) -> Any:
    """Return a server with bounds of requests, without logs and protocol upgrades."""
    config = make_config(
        uvicorn,
        application,
        log_level="critical",
        http="h11",
        loop="asyncio",
        lifespan="off",
        limit_concurrency=64,
        h11_max_incomplete_event_size=LONGEST_BODY,
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config)
