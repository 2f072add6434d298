"""What a patch document must be before it can be read as one, refused in the server's words."""

from __future__ import annotations

from typing import Any, Final

from ullage.standalone.apiserver.status import bad_request

_NAMES: Final = {str: "string", bool: "bool", dict: "object", list: "array", int: "number", float: "number"}


def json_type(value: Any) -> str:
    """`object`, `array`, `string`, ...: how a decoder names what it found."""
    return _NAMES.get(type(value), "null")


def must_be_object(patch: Any, *, prefix: str = "") -> None:
    if not isinstance(patch, dict):
        raise bad_request(f"{prefix}json: cannot unmarshal {json_type(patch)} into Go value of type map[string]interface {{}}")
