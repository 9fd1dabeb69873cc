"""The server: who may ask, what it answers, and what it refuses."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

import numpy as np
import pytest

import braces as br
from braces.debugger.debugger import Debugger
from braces.debugger.server import LONGEST_BODY, MOST_NUMBERS
from tests.debugger.programs import (
    NAN_FEED,
    NESTED_FEED,
    branches,
    branches_feed,
    nan_in_loop,
    nested,
)


class Client:
    """A browser's requests, byte by byte."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname == "127.0.0.1"
        assert parts.port is not None
        self.port, self.first = parts.port, parts.path
        self.host = f"127.0.0.1:{parts.port}"
        self.headers: dict[str, str] = {"Host": self.host}

    def ask(
        self,
        path: str,
        headers: Mapping[str, str] | None = None,
        method: str = "GET",
        body: Any = None,
    ) -> tuple[int, Mapping[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        every = {**self.headers, **(headers or {})}
        if body is not None:
            every["Content-Length"] = str(len(body))
        for name, value in every.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        found = answer.status, dict(answer.headers), answer.read()
        connection.close()
        return found

    def open(self) -> None:
        status, headers, _ = self.ask(self.first)
        assert status == 200
        self.cookie = headers["set-cookie"]
        self.headers["Cookie"] = self.cookie.partition(";")[0]

    def get(self, path: str, **query: Any) -> bytes:
        status, _, data = self.ask(f"/{path}?{urlencode(query)}")
        assert status == 200, data
        return data

    def state(self) -> dict[str, Any]:
        return json.loads(self.get("state"))

    def do(self, headers: Mapping[str, str] | None = None, **fields: Any) -> tuple[int, bytes]:
        kind = {"Content-Type": "application/json", "Origin": f"http://{self.host}"}
        body = json.dumps(fields).encode()
        status, _, data = self.ask("/do", {**kind, **(headers or {})}, "POST", body)
        return status, data


@pytest.fixture
def session() -> Iterator[Debugger]:
    with nested().debug(feed=NESTED_FEED) as session:
        session.controller.wait()
        yield session


@pytest.fixture
def client(session: Debugger) -> Client:
    client = Client(session.url)
    client.open()
    return client


# ---- who may ask ----


def test_the_first_address_sets_a_cookie_once(session: Debugger) -> None:
    client = Client(session.url)
    assert client.ask("/")[0] == 401
    assert client.ask("/wrong-token")[0] == 401
    client.open()
    assert "HttpOnly" in client.cookie
    assert "samesite=strict" in client.cookie.lower()
    assert client.ask("/")[0] == 200
    assert client.ask(client.first)[0] == 200  # the same browser
    assert Client(session.url).ask(client.first)[0] == 403


def test_other_hosts_origins_and_sites_are_refused(client: Client) -> None:
    assert client.ask("/", {"Host": "attacker.example"})[0] == 403
    assert client.ask("/", {"Host": f"attacker.example:{client.port}"})[0] == 403
    assert client.ask("/", {"Host": f"localhost:{client.port}"})[0] == 200
    assert client.ask("/state", {"Origin": "http://attacker.example"})[0] == 403
    assert client.ask("/state", {"Origin": "null"})[0] == 403
    assert client.ask("/state", {"Sec-Fetch-Site": "cross-site"})[0] == 403
    assert client.ask("/state", {"Sec-Fetch-Site": "same-origin"})[0] == 200
    assert client.ask("/state", {"Cookie": "braces_debugger=guess"})[0] == 401
    assert client.ask("/state", {"Cookie": f"braces_debugger_{client.port}=guess"})[0] == 401


def test_the_server_listens_on_loopback_only(session: Debugger) -> None:
    number = urlsplit(session.url).port
    addresses = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None)}
    for address in addresses - {"127.0.0.1", "::1"}:
        with pytest.raises((ConnectionRefusedError, TimeoutError)):
            socket.create_connection((address, number), 1).close()


def test_answers_are_neither_cached_nor_framed(client: Client) -> None:
    _, headers, page = client.ask("/")
    assert headers["cache-control"] == "no-store"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-content-type-options"] == "nosniff"
    assert b"connect-src &#x27;self&#x27;" in page or b"connect-src 'self'" in page


def test_commands_require_an_origin_and_json(client: Client, session: Debugger) -> None:
    body = b'{"command": "step"}'
    kind = {"Content-Type": "application/json"}
    assert client.ask("/do", kind, "POST", body)[0] == 403
    origin = {"Origin": f"http://{client.host}"}
    assert client.ask("/do", origin, "POST", body)[0] == 415
    plain = {**origin, "Content-Type": "text/plain"}
    assert client.ask("/do", plain, "POST", body)[0] == 415
    assert client.do({"Origin": "http://attacker.example"}, command="step")[0] == 403
    assert client.ask("/do")[0] == 405
    assert session.position == ""


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"{", b'{"command": 3}', b'{"command": "eval"}', b"[" * 10_000,
        b'{"command": "run_to"}', b'{"command": "run_to", "block": 99, "op": 0}',
        b'{"command": "run_to", "block": 0, "op": -1}',
        b'{"command": "run_to", "block": true, "op": 0}',
        b'{"command": "unbreak", "number": "1"}', b'{"command": "break", "text": 3}',
        b'{"command": "restart"}', b"\xff\xfe",
    ],
)  # fmt: skip
def test_what_is_no_command_is_refused(client: Client, body: bytes) -> None:
    headers = {"Content-Type": "application/json", "Origin": f"http://{client.host}"}
    assert client.ask("/do", headers, "POST", body)[0] == 400


def test_long_requests_are_refused(client: Client) -> None:
    headers = {"Content-Type": "application/json", "Origin": f"http://{client.host}"}
    assert client.ask("/do", headers, "POST", b" " * (LONGEST_BODY + 1))[0] == 413
    assert client.ask(f"/state?version={'1' * 9000}")[0] == 414
    assert client.ask("/runs?from=1e5")[0] == 400
    assert client.ask(f"/runs?from={'9' * 40}")[0] == 400
    assert client.ask("/nothing")[0] == 404


# ---- a session ----


def test_commands_move_the_run(client: Client, session: Debugger) -> None:
    assert client.state()["at"] is None
    status, _ = client.do(command="step")
    assert status == 200
    session.controller.wait()
    assert session.position == "full_0"
    assert client.do(command="break", text="loop_1/body/h if max > 10")[0] == 200
    client.do(command="continue")
    session.controller.wait()
    assert session.position == "loop_1/body[1]/h"
    state = client.state()
    assert state["reason"] == "breakpoint 1: loop_1/body/h if max > 10"
    (breakpoint_,) = state["breakpoints"]
    assert breakpoint_[0] == 1
    client.do(command="unbreak", number=1)
    client.do(command="restart", paused=True)
    assert session.generation == 2
    session.controller.wait()
    block = session.sites.number_of(session.sites.places[1])
    client.do(command="run_to", block=block, op=0)
    assert session.controller.wait().state == "paused"


def test_refused_breakpoints_are_explained(client: Client, session: Debugger) -> None:
    status, data = client.do(command="break", text="loop_1/body/hh")
    assert status == 200
    assert "unknown operator" in json.loads(data)["error"]
    _, data = client.do(command="break", text="if max >")
    assert "invalid condition" in json.loads(data)["error"]
    assert len(session.breakpoints) == 0


def test_values_are_raw_numbers(client: Client, session: Debugger) -> None:
    session.finish()
    status, headers, data = client.ask("/value?block=0&name=x&run=0&from=2&count=3")
    assert status == 200
    assert (headers["x-dtype"], headers["x-shape"]) == ("f4", "2,3")
    np.testing.assert_array_equal(np.frombuffer(data, "<f4"), [2.0, 3.0, 4.0])
    assert client.ask("/value?block=0&name=x&run=99")[0] == 204
    assert client.ask("/value?block=-5&name=x&run=0")[0] == 204
    assert MOST_NUMBERS * 16 < 2_000_000


def test_tables_of_runs_events_and_measures(client: Client, session: Debugger) -> None:
    recording = session.finish().recording
    runs = np.frombuffer(client.get("runs", **{"from": 0}), "<i4").reshape(-1, 4)
    assert len(runs) == len(recording.runs) == 9
    assert runs[0].tolist() == [0, -1, -1, 0]
    events = np.frombuffer(client.get("events", **{"from": 5}), "<i4").reshape(-1, 2)
    assert len(events) == len(recording.event_runs) - 5
    variable = recording.sites.variable("loop_1/body/loop_0/body/s")
    data = client.get("series", block=variable.block, name=variable.name)
    assert len(data) == 6 * 52
    np.testing.assert_array_equal(
        np.frombuffer(data, "<f8", 24).reshape(6, 4)[:, 2], [0, 1, 4, 11, 26, 57]
    )
    assert client.get("series", block=0, name="nothing") == b""
    counts = np.frombuffer(client.get("histogram", block=0, name="x", run=0), "<u4")
    assert counts.sum() == 6


def test_the_batch_elements_of_a_case_are_a_table() -> None:
    prog = branches()
    scope = br.Executor().init(prog, br.Scope())
    with prog.debug(scope, branches_feed(), paused=False) as session:
        client = Client(session.finish().url)
        client.open()
        run = next(iter(session.recording.rows))
        found = np.frombuffer(client.get("rows", run=run), "<i4")
        assert found.tolist() == session.recording.rows[run].tolist()


def test_a_state_is_answered_as_soon_as_it_changes(client: Client, session: Debugger) -> None:
    version = client.state()["version"]
    session.go("step")
    data = client.get("state", version=version, generation=1)
    assert json.loads(data)["version"] > version


def test_the_state_has_the_first_nan_and_the_error() -> None:
    with nan_in_loop().debug(feed=NAN_FEED, paused=False) as session:
        client = Client(session.finish().url)
        client.open()
        block, name, _, _ = client.state()["firstNaN"]
        assert (block, name) == (1, "logarithm")


def test_the_recording_is_downloaded_as_a_file(client: Client, session: Debugger) -> None:
    session.finish()
    status, headers, page = client.ask("/saved")
    assert status == 200
    assert "attachment" in headers["content-disposition"]
    assert page.startswith(b"<!doctype html>")
    assert b"connect-src" not in page.partition(b"<body>")[0]


# ---- beginning and end ----


def test_a_port_in_use_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(br.ProgramError, match=f"port {port} is in use"):
            nested().debug(feed=NESTED_FEED, port=port)
    for port in (-1, 70_000, "80", True):
        with pytest.raises(br.ProgramError, match=r"invalid (port|argument port=)"):
            nested().debug(feed=NESTED_FEED, port=port)


def test_a_closed_session_answers_no_more(session: Debugger) -> None:
    client = Client(session.url)
    session.close()
    with pytest.raises(ConnectionRefusedError):
        client.open()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from braces import lazy

    broken = lazy.LazyModule("uvicorn", extra="debug")
    monkeypatch.setattr("braces.debugger.server.uvicorn", broken)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(br.BracesError, match="uvicorn") as caught:
        nested().debug(feed=NESTED_FEED)
    assert 'pip install "braces[debug]"' in str(caught.value)


def test_notebooks_show_a_link(session: Debugger) -> None:
    assert f'href="{session.url}"' in session._repr_html_()
    assert "paused" in repr(session)
