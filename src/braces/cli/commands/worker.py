"""`braces worker --listen HOST:PORT --token-file FILE`: serve programs to remote clients."""

from __future__ import annotations

import os
import secrets
import stat
import sys
from argparse import ArgumentParser, Namespace

from braces.cli.common.command import YES, Command, declare
from braces.cluster.host_addresses import is_loopback
from braces.errors import ProgramError
from braces.ir.files.atomic_write import write_atomically
from braces.ir.files.bounded_read import read_bounded
from braces.remote.protocol.connection import parse_address
from braces.remote.serving.local_process import LOOPBACK
from braces.remote.serving.server import Server

LONGEST_TOKEN = 4096
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def _arguments(parser: ArgumentParser) -> None:
    usage = """
    --listen HOST:PORT  the address to listen at (default: a free port, for this machine only)
    --token-file FILE   the file of the token that clients must have; created if missing
    """
    declare(parser, usage, listen=LOOPBACK, token_file={"required": True})


def _run(options: Namespace) -> int:
    host, _ = parse_address(options.listen)
    with Server(options.listen, read_token(options.token_file)) as server:
        if not is_loopback(host):
            print(
                "Connections are not encrypted: use a tunnel such as ssh -L.", file=sys.stderr
            )
        print(server.address, flush=True)
        server.serve()
    return YES


def read_token(path: str) -> str:
    """Return the token in a file that only its owner can read; create the file if absent.

    Raises:
        ProgramError: If other users can read the file.
        FileFormatError: If the file is too large, or not a regular file.
        OSError: If the file cannot be read or created.
    """
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        if os.name == "posix" and os.stat(path).st_mode & _OTHERS:
            raise ProgramError(
                f"other users can read the token file {path}.", fix=f"Run: chmod 600 {path}"
            ) from None
        return read_bounded(path, LONGEST_TOKEN).decode(errors="replace")
    token = secrets.token_urlsafe(32)
    write_atomically(path, f"{token}\n".encode())  # keeps the mode
    return token


COMMAND = Command(
    "worker",
    "run the programs of remote clients that have the token (br.remote.worker)",
    "braces worker --listen 127.0.0.1:7000 --token-file worker.token",
    _arguments,
    _run,
)
