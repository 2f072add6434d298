"""What a driver gets of a Secret."""

from __future__ import annotations

import base64

import pytest

from ullage.errors import Terminal
from ullage.kube.builtin.core import Secret
from ullage.kube.kinds import Meta
from ullage.snapshots import secrets


def encoded(text: bytes) -> str:
    return base64.b64encode(text).decode()


def test_a_secret_is_decoded_and_does_not_show() -> None:
    found = secrets.decoded(Secret(metadata=Meta(name="key"), data={"user": encoded(b"admin"), "empty": ""}))
    assert found.values == {"user": "admin", "empty": ""}
    assert "admin" not in repr(found)


@pytest.mark.parametrize("value", [encoded(b"\xff\xfehunter2"), "hunter2!"], ids=["bytes that are no text", "no base64"])
def test_a_value_that_is_no_text_is_named_by_its_key_alone(value: str) -> None:
    with pytest.raises(Terminal) as caught:
        secrets.decoded(Secret(metadata=Meta(name="key", namespace="storage"), data={"password": value}))
    assert str(caught.value) == "Secret storage/key: the value of password is no text in UTF-8"
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
