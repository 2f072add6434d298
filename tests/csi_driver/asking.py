"""What the services check the same way: required fields, unknown things, pages, one operation at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import grpc

from ullage.snapshots.backends.csi import csi_pb2 as csi

from .faults import Refusal

LONGEST_NAME = 128  # bytes
T = TypeVar("T")


def invalid(message: str) -> Refusal:
    return Refusal(grpc.StatusCode.INVALID_ARGUMENT, message)


def required(**fields: str) -> None:
    for name, value in fields.items():
        if not value:
            raise invalid(f"{name} is missing")


def short(name: str) -> None:
    if len(name.encode()) > LONGEST_NAME:
        raise invalid(f"name has more than {LONGEST_NAME} bytes")


def found(thing: T | None, what: str) -> T:
    if thing is None:
        raise Refusal(grpc.StatusCode.NOT_FOUND, f"there is no {what}")
    return thing


def is_block(capabilities: Sequence[csi.VolumeCapability]) -> bool:
    """Whether a raw device is asked for. All must ask for the same kind, and say how they mean to use it."""
    if not capabilities:
        raise invalid("volume_capabilities is missing")
    kinds = {capability.WhichOneof("access_type") for capability in capabilities}
    if len(kinds) != 1 or None in kinds:
        raise invalid("volume_capabilities: exactly one of block and mount")
    if any(capability.access_mode.mode == csi.VolumeCapability.AccessMode.UNKNOWN for capability in capabilities):
        raise invalid("volume_capabilities: access_mode is missing")
    return kinds == {"block"}


def page(items: list[T], token: str, most: int) -> tuple[list[T], str]:
    """One page, and the token of the next. Tokens are positions."""
    if most < 0:
        raise invalid("max_entries is negative")
    if token and not (token.isascii() and token.isdigit() and int(token) <= len(items)):
        raise Refusal(grpc.StatusCode.ABORTED, f"starting_token {token} is none of ours")
    start = int(token or 0)
    end = min(len(items), start + most) if most else len(items)
    return items[start:end], str(end) if end < len(items) else ""


class Turns:
    """A second request about the same thing, while the first is at work, is to come again later."""

    def __init__(self) -> None:
        self._busy: set[str] = set()

    @contextmanager
    def take(self, *things: str) -> Iterator[None]:
        if busy := self._busy.intersection(things):
            raise Refusal(grpc.StatusCode.ABORTED, f"an operation on {', '.join(sorted(busy))} is under way")
        self._busy.update(things)
        try:
            yield
        finally:
            self._busy.difference_update(things)
