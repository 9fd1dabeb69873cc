"""The server on loopback: start, shutdown, slow headers, ports, exposure, the command."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import FileFormatError, MissingPackageError, ProgramError
from braces.serving.http import connections
from braces.serving.server import InferenceServer
from tests.serving.asgi import body, entry

X = np.ones((2, 3), np.float32)
INFER = "/v2/models/double/infer"


@pytest.fixture
def server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InferenceServer]:
    monkeypatch.setattr(connections, "HEADER_TIMEOUT_S", 0.3)
    with br.serve(folder / "double.model", port=0, max_batch=2, body_timeout_s=0.5) as server:
        yield server.wait_ready()


def port_of(server: InferenceServer) -> int:
    return int(server.url.rpartition(":")[2])


def post(port: int, sent: bytes, path: str = INFER) -> tuple[int, Any]:
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    link.request("POST", path, sent)
    answer = link.getresponse()
    found = answer.status, json.loads(answer.read())
    link.close()
    return found


def raw(port: int, sent: bytes, timeout_s: float = 5.0) -> bytes:
    """Send bytes, and return all that comes until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as link:
        link.sendall(sent)
        received = b""
        while part := link.recv(65536):
            received += part
        return received


def test_requests_are_answered_and_the_socket_is_closed(server: InferenceServer) -> None:
    status, answer = post(port_of(server), body(entry("x", X)))
    assert status == 200
    assert answer["outputs"][0]["data"] == [2.0] * 6
    server.close()
    with pytest.raises(OSError, match="refused"):
        post(port_of(server), b"")


def test_slow_headers_and_slow_bodies_are_ended(server: InferenceServer) -> None:
    port = port_of(server)
    assert raw(port, b"") == b""
    assert raw(port, b"POST /v2 HTT") == b""
    assert raw(port, b"POST /v2 HTTP/1.1\r\nhost: local") == b""
    head = f"POST {INFER} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 500\r\n\r\n".encode()
    assert b" 408 " in raw(port, head + b"{" * 20).partition(b"\r\n")[0]
    assert post(port, body(entry("x", X)))[0] == 200


def test_long_and_damaged_headers_are_refused(server: InferenceServer) -> None:
    port = port_of(server)
    for sent in (
        b"\x16\x03\x01\x02\x00" * 20,
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: -5\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000,
    ):
        try:
            answer = raw(port, sent)
        except ConnectionError:
            continue
        assert answer == b"" or b" 4" in answer.partition(b"\r\n")[0]
    assert post(port, body(entry("x", X)))[0] == 200


def test_clients_that_close_at_once_do_no_harm(server: InferenceServer) -> None:
    port, sent = port_of(server), body(entry("x", X))
    head = f"POST {INFER} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(sent)}\r\n\r\n"
    for i in range(30):
        with socket.create_connection(("127.0.0.1", port)) as link:
            link.sendall((head.encode() + sent)[: 10 * i + 1])
    assert post(port, sent)[0] == 200


def test_a_port_in_use_is_an_error(server: InferenceServer, folder: Path) -> None:
    with pytest.raises(ProgramError, match="is in use"):
        br.serve(folder / "double.model", port=port_of(server))
    for port in (-1, 70_000, True, "80"):
        with pytest.raises(ProgramError, match="invalid port"):
            br.serve(folder / "double.model", port=port)  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="cannot listen"):
        br.serve(folder / "double.model", host="127.0.0.1.1.1", port=0, insecure=True)


def test_other_machines_need_a_token(folder: Path) -> None:
    for host in ("0.0.0.0", "::"):
        with pytest.raises(ProgramError, match="missing token") as caught:
            br.serve(folder / "double.model", host=host, port=0)
        assert "insecure" in str(caught.value)
    with br.serve(folder / "double.model", host="0.0.0.0", port=0, insecure=True) as server:
        assert server.url.startswith("http://0.0.0.0:")


def test_models_that_cannot_be_served_are_errors(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.model").write_text("no model")
    with pytest.raises(FileFormatError, match="no versions"):
        br.create_inference_app(tmp_path / "empty")
    with pytest.raises(FileFormatError):
        br.create_inference_app(tmp_path / "text.model")
    with pytest.raises(FileNotFoundError):
        br.create_inference_app(tmp_path / "none.model")
    with pytest.raises(br.DuplicateNameError, match="duplicate model name `a`"):
        br.create_inference_app([f"a={folder}/double.model", f"a={folder}/picked.model"])
    with pytest.raises(ProgramError, match="no model"):
        br.create_inference_app([])
    with pytest.raises(ProgramError, match="invalid model name"):
        br.create_inference_app({"a/b": folder / "double.model"})
    with pytest.raises(ProgramError, match="expected a path"):
        br.create_inference_app([3])  # type: ignore[list-item]
    with br.Program() as prog:
        y = br.cast(br.data("x", ["n"]), "complex64")
    br.save_model(tmp_path / "c.model", prog, br.Scope(), ["x"], {"y": y})
    with pytest.raises(ProgramError, match="output `y` has no datatype"):
        br.create_inference_app(tmp_path / "c.model")


def test_an_onnx_file_is_served(tmp_path: Path, folder: Path) -> None:
    pytest.importorskip("onnx")
    with br.Program() as prog:
        y = br.relu(br.data("x", ["n", 3]))
    br.to_onnx(prog, tmp_path / "m.onnx", scope=br.Scope(), fetches=[y])
    app = br.create_inference_app(f"relu={tmp_path / 'm.onnx'}")
    model = app.engine.find("relu")
    assert model.platform == "onnx_braces"
    assert model.signature.is_joined
    (out,) = model.run({"x": X - 2.0}).values()
    np.testing.assert_array_equal(out, np.zeros((2, 3)))


# ---- the command -----------------------------------------------------------------------------


def command(*arguments: Any) -> subprocess.Popen[str]:
    line = [sys.executable, "-m", "braces", "serve", *map(str, arguments)]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_the_command_serves_and_ends_by_a_signal(folder: Path, tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    served = command(
        *(f"double={folder}/double.model", f"v={folder}/versions", "--port", 0),
        *("--max-batch", 1, "--token-file", token_file, "--access-log"),
    )
    try:
        assert served.stdout is not None
        port = int(served.stdout.readline().strip().rpartition(":")[2])
        header = {"Authorization": f"Bearer {token_file.read_text().strip()}"}
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        for _ in range(600):
            link.request("GET", "/v2/health/ready")
            answer = link.getresponse()
            answer.read()
            if answer.status == 200:
                break
            time.sleep(0.05)
        link.request("POST", INFER, body(entry("x", X)))
        refused = link.getresponse()
        refused.read()
        assert refused.status == 401
        link.request("POST", INFER, body(entry("x", X)), header)
        assert json.loads(link.getresponse().read())["outputs"][0]["data"] == [2.0] * 6
        link.close()
        served.send_signal(signal.SIGTERM)
        out, err = served.communicate(timeout=30)
        assert served.returncode == 0, err
        assert '"status": 200' in out
        assert "Traceback" not in err
    finally:
        served.kill()
        served.wait()


def test_signals_during_the_shutdown_do_not_end_it_early(folder: Path) -> None:
    served = command(f"double={folder}/double.model", "--port", 0)
    try:
        assert served.stdout is not None
        port = int(served.stdout.readline().strip().rpartition(":")[2])
        live = b"GET /v2/health/live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        assert b" 200 " in raw(port, live, 30.0)  # it answers, and compiles the models
        for _ in range(20):
            served.send_signal(signal.SIGINT)
            served.send_signal(signal.SIGTERM)
            time.sleep(0.005)
        _, err = served.communicate(timeout=60)
        assert served.returncode == 0, err
        assert "KeyboardInterrupt" not in err
    finally:
        served.kill()
        served.wait()


def test_the_command_reports_errors(folder: Path) -> None:
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    for arguments, text in (
        ([folder / "none.model"], "No such file"),
        ([folder / "double.model", "--host", "0.0.0.0"], "missing token"),
    ):
        line = [sys.executable, "-m", "braces", "serve", *map(str, arguments), "--port", "0"]
        done = subprocess.run(
            line, capture_output=True, text=True, env=environment, timeout=60, check=False
        )
        assert done.returncode in (1, 2)
        assert text in done.stderr
        assert "Traceback" not in done.stderr


def test_a_missing_package_is_named_with_its_extra(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from braces import lazy

    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    monkeypatch.delitem(lazy.serve_applications.__dict__, "Starlette", raising=False)
    with pytest.raises((MissingPackageError, ModuleNotFoundError)) as caught:
        br.create_inference_app(folder / "double.model")
    assert "starlette" in str(caught.value)


def test_a_request_in_progress_is_answered_before_the_end(folder: Path) -> None:
    with br.serve(folder / "double.model", port=0, max_batch=2, wait_ms=300.0) as server:
        server.wait_ready()
        link = http.client.HTTPConnection("127.0.0.1", port_of(server), timeout=10)
        link.request("POST", INFER, body(entry("x", X[:1])))
        time.sleep(0.1)
        server.close()
        answer = link.getresponse()
        assert answer.status == 200
        assert json.loads(answer.read())["outputs"][0]["data"] == [2.0] * 3
        link.close()


def test_an_application_can_be_mounted(folder: Path) -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    from tests.serving.asgi import call, run, wait_ready

    app = br.create_inference_app(folder / "double.model", max_batch=1, token="t" * 20)
    site = Starlette(routes=[Mount("/models", app=app)])

    async def work() -> None:
        await wait_ready(app)
        header = {"Authorization": "Bearer " + "t" * 20}
        sent = body(entry("x", X))
        answer = await call(site, "POST", f"/models{INFER}", sent, header)
        assert answer.json["outputs"][0]["data"] == [2.0] * 6
        assert (await call(site, "POST", f"/models{INFER}", sent)).status == 401
        assert (await call(site, "GET", "/models/v2/health/live")).status == 200

    run(work())
    app.close()


def test_a_head_is_sent_with_its_body_or_at_the_end_of_the_step() -> None:
    sent: list[list[bytes]] = []

    class Transport:
        def write(self, data: bytes) -> None:
            sent.append([data])

        def writelines(self, parts: Any) -> None:
            sent.append([*parts])

        def close(self) -> None:
            sent.append([])

        def is_closing(self) -> bool:
            return False

    async def work() -> None:
        joined = connections.JoinedWrites(Transport(), asyncio.get_running_loop())
        first, second = b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"
        joined.write(first)
        joined.write(b"body")
        joined.write(b"more")
        assert sent == [[first, b"body"], [b"more"]]
        joined.write(first)
        await asyncio.sleep(0)
        assert sent[2:] == [[first]]
        joined.write(second)
        joined.close()
        await asyncio.sleep(0)
        assert sent[3:] == [[second], []]

    asyncio.run(work())
