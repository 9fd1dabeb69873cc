"""A small HTTP client on asyncio streams: every byte of a request is chosen by the caller."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncGenerator, Mapping
from typing import Any


class Link:
    """A connection to the server, which may be kept for several requests."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def open(self) -> asyncio.StreamWriter:
        """Connect, if there is no connection."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self.port)
        return self._streams[1]

    async def send(
        self, path: str, body: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a request."""
        writer = await self.open()
        writer.write(head(path, len(body), headers) + body)
        await writer.drain()

    async def receive(self) -> tuple[int, dict[str, str], bytes]:
        """Read a response: status, headers, body."""
        assert self._streams is not None
        reader, _ = self._streams
        status, headers = await read_head(reader)
        if "chunked" in headers.get("transfer-encoding", ""):
            body = b"".join([chunk async for chunk in self.chunks()])
        else:
            body = await reader.readexactly(int(headers.get("content-length", "0")))
        if headers.get("connection") == "close":
            self.close()
        return status, headers, body

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Read the chunks of a response whose head was read."""
        assert self._streams is not None
        reader, _ = self._streams
        while size := int(await reader.readline(), 16):
            yield (await reader.readexactly(size + 2))[:-2]
        await reader.readline()

    async def head(self) -> tuple[int, dict[str, str]]:
        """Read the head of a response."""
        assert self._streams is not None
        return await read_head(self._streams[0])

    def close(self, reset: bool = False) -> None:
        """Close the connection; with `reset`, as a process that is killed."""
        if self._streams is None:
            return
        writer = self._streams[1]
        if reset:
            endpoint = writer.get_extra_info("socket")
            endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.close()
        self._streams = None


def head(path: str, length: int, headers: Mapping[str, str] | None = None) -> bytes:
    """Return the head of a request."""
    fields = {"host": "127.0.0.1", "content-length": str(length), **(headers or {})}
    method = "POST" if length else "GET"
    lines = [f"{method} {path} HTTP/1.1", *(f"{k}: {v}" for k, v in fields.items()), "", ""]
    return "\r\n".join(lines).encode()


async def read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """Read the head of a response."""
    raw = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = raw.split("\r\n")[:-2]
    pairs = (line.partition(": ") for line in lines)
    return int(first.split()[1]), {name.lower(): value for name, _, value in pairs}


def tensor(name: str, array: Any, datatype: str, **more: Any) -> dict[str, Any]:
    """Return the entry of an input."""
    return {"name": name, "shape": list(array.shape), "datatype": datatype, **more}


def json_request(name: str, array: Any) -> bytes:
    """Return a request in JSON."""
    return json.dumps(
        {"inputs": [tensor(name, array, "FP32", data=array.ravel().tolist())]}
    ).encode()


def binary_request(name: str, array: Any) -> tuple[bytes, dict[str, str]]:
    """Return a request with a binary tensor, and its headers."""
    entry = tensor(name, array, "FP32", parameters={"binary_data_size": array.nbytes})
    text = json.dumps({"inputs": [entry], "parameters": {"binary_data_output": True}}).encode()
    return text + array.tobytes(), {"inference-header-content-length": str(len(text))}
