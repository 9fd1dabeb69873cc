"""`braces serve MODEL ...`: serve models over HTTP by the open inference protocol v2."""

from __future__ import annotations

import json
import logging
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import Any

from braces.cli.commands.worker import read_token
from braces.cli.common.command import YES, Command, declare, seconds
from braces.serving.http.guard import ACCESS_LOGGER
from braces.serving.http.settings import ServingSettings
from braces.serving.server import DEFAULT_PORT, LOCALHOST, InferenceServer, open_server

_USAGE = """\
--host HOST          the address to listen at (default: 127.0.0.1, this machine only)
--port N             the port; 0 selects a free one (default: 8000)
--token-file FILE    the file of the token that clients must have; created if missing
--insecure           let other machines connect without a token
--allow-host NAME ...  a name of this server in requests, such as that of a proxy
--device NAME        the device of the models: cpu:0, gpu:0, …
--max-batch N        the largest batch size; 1 turns batching off (default: 32)
--wait-ms N          the time that an idle model waits for more requests (default: 0)
--size NAME=N,N ...  the accepted values of a symbolic size, compiled at the start
--max-queue N        the largest number of waiting requests of a model (default: 256)
--max-requests N     the largest number of requests at a time (default: 1024)
--max-body-mb N      the largest body of a request, in MiB (default: 64)
--max-tokens N       the largest number of tokens of a stream (default: 4096)
--timeout-s N        the time limit of a request (default: 30)
--body-timeout-s N   the time limit of the body of a request (default: 10)
--no-page            do not serve the page to try a model by hand at /
--access-log         print a line of JSON for each request
--log-json           print other messages as lines of JSON, too
"""
_LIMITS = (
    "max_batch", "wait_ms", "max_queue", "max_requests", "timeout_s", "max_tokens",
    "body_timeout_s", "access_log",
)  # fmt: skip


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "models",
        metavar="MODEL",
        nargs="+",
        help="a model file, an ONNX file, or a folder of versions; or NAME=PATH",
    )
    declare(
        parser,
        _USAGE,
        host=LOCALHOST,
        port=DEFAULT_PORT,
        max_batch=ServingSettings.max_batch,
        wait_ms=ServingSettings.wait_ms,
        size=_size,
        max_queue=ServingSettings.max_queue,
        max_requests=ServingSettings.max_requests,
        max_tokens=ServingSettings.max_tokens,
        max_body_mb=ServingSettings.max_body_bytes >> 20,
        timeout_s={"type": seconds, "default": ServingSettings.timeout_s},
        body_timeout_s={"type": seconds, "default": ServingSettings.body_timeout_s},
        allow_host={"default": []},
    )


def _size(text: str) -> tuple[str, tuple[int, ...]]:
    """Parse `NAME=N,N,…`."""
    name, _, numbers = text.partition("=")
    try:
        return name, tuple(map(int, numbers.split(",")))
    except ValueError:
        raise ArgumentTypeError(f"invalid size {text!r:.40}; expected NAME=N,N") from None


def _run(options: Namespace) -> int:
    _start_logs(options.access_log, options.log_json)
    server = _open(options)
    print(server.url, flush=True)
    server.run()
    return YES


def _open(options: Namespace) -> InferenceServer:
    limits: dict[str, Any] = {name: getattr(options, name) for name in _LIMITS}
    token = None if options.token_file is None else read_token(options.token_file).strip()
    if options.allow_host:
        limits["hosts"] = (*options.allow_host, "localhost", LOCALHOST)
    return open_server(
        options.models,
        options.host,
        options.port,
        options.insecure,
        options.device,
        token=token,
        max_body_bytes=options.max_body_mb << 20,
        page=not options.no_page,
        sizes=dict(options.size or ()),
        **limits,
    )


def _start_logs(with_access: bool, as_json: bool) -> None:
    """Print messages of the server to standard error, and requests to standard output."""
    handler = logging.StreamHandler(sys.stderr)
    form = "%(asctime)s %(levelname)s %(message)s"
    handler.setFormatter(_JsonLines() if as_json else logging.Formatter(form))
    logger = logging.getLogger("braces.serving")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    if with_access:
        lines = logging.StreamHandler(sys.stdout)
        lines.setFormatter(logging.Formatter("%(message)s"))
        ACCESS_LOGGER.addHandler(lines)
        ACCESS_LOGGER.setLevel(logging.INFO)
        ACCESS_LOGGER.propagate = False


class _JsonLines(logging.Formatter):
    """Messages as lines of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a message as a line of JSON."""
        fields = {
            "time": round(record.created, 3),
            "level": record.levelname,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        return json.dumps(fields)


COMMAND = Command(
    "serve",
    "serve models over HTTP (br.serve)",
    "braces serve digits=digits.model --port 8000",
    _arguments,
    _run,
)
