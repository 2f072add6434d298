"""What all gRPC of Ullage has in common: the options of a channel, and how long the path of a socket may be."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from ullage.errors import BadInput

MAX_SOCKET_PATH: Final = 107  # bytes, the kernel's limit

Options = tuple[tuple[str, str | int], ...]


def channel_options(*, max_receive: int, max_send: int = -1) -> Options:
    """Of a client's channel. Sizes are bytes of one message; -1 is no limit."""
    return (
        ("grpc.default_authority", "localhost"),  # else it is the socket's path, which servers written in Go reject
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 5000),  # how long one attempt may take: a busy machine is slow to say hello
        ("grpc.max_reconnect_backoff_ms", 1000),  # a server that is back should not wait for us for minutes
        *message_sizes(max_receive=max_receive, max_send=max_send),
    )


def message_sizes(*, max_receive: int, max_send: int = -1) -> Options:
    """Of a channel or a server."""
    return (("grpc.max_receive_message_length", max_receive), ("grpc.max_send_message_length", max_send))


def checked_socket(path: Path, *, where: str, given: object) -> Path:
    """Refuses a path that no socket can have. `where` and `given` are what the user wrote."""
    size = len(os.fsencode(path))
    if size > MAX_SOCKET_PATH:
        raise BadInput(where, given, f"the path of a socket has {MAX_SOCKET_PATH} bytes at most, this one {size}")
    return path
