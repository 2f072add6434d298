"""What all gRPC has in common."""

from __future__ import annotations

from pathlib import Path

import pytest

from ullage.errors import BadInput
from ullage.rpc import MAX_SOCKET_PATH, checked_socket


def test_a_path_of_the_longest_length_is_allowed() -> None:
    path = Path("/" + "x" * (MAX_SOCKET_PATH - 1))
    assert checked_socket(path, where="--socket", given=path) == path


def test_a_path_that_no_socket_can_have_is_refused_with_both_lengths() -> None:
    path = Path("/" + "ä" * 53 + "x")
    with pytest.raises(BadInput, match="--socket given: the path of a socket has 107 bytes at most, this one 108"):
        checked_socket(path, where="--socket", given="given")
