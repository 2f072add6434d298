"""Query parameters that are numbers: integers and resourceVersions, with Go's complaints about them."""

from __future__ import annotations

import re

from ullage.standalone.apiserver.request.request import Request
from ullage.standalone.apiserver.status import (
    ApiError,
    bad_request,
    invalid_value,
    json_string,
)

MAX_INT64 = 2**63 - 1
MAX_UINT64 = 2**64 - 1
_INTEGER = re.compile(r"[+-]?[0-9]+")


def integer(request: Request, name: str) -> int:
    """An integer parameter; absent or empty is 0."""
    text = request.param(name)
    if not text:
        return 0
    try:
        value = int(text) if _INTEGER.fullmatch(text) else None
    except ValueError:  # Python gives up on thousands of digits
        value = MAX_INT64 + 1
    if value is None:
        raise bad_request(f"strconv.ParseInt: parsing {json_string(text)}: invalid syntax")
    if abs(value) > MAX_INT64:
        raise bad_request(f"strconv.ParseInt: parsing {json_string(text)}: value out of range")
    return value


def revision(text: str) -> int:
    """A resourceVersion as a number. kube-apiserver answers a bad one with a 500 without a reason, and so do we."""
    if not text:
        return 0
    if not text.isascii() or not text.isdigit():
        detail = f"strconv.ParseUint: parsing {json_string(text)}: invalid syntax"
        raise ApiError(500, "", str(invalid_value("resourceVersion", text, detail)))
    if len(text.lstrip("0")) > 20 or int(text) > MAX_UINT64:
        detail = f"strconv.ParseUint: parsing {json_string(text)}: value out of range"
        raise ApiError(500, "", str(invalid_value("resourceVersion", text, detail)))
    return int(text)


META = "meta.k8s.io"


def too_large_version(asked: int, current: int) -> ApiError:
    return ApiError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {asked}, current: {current}",
        details={
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
    )
