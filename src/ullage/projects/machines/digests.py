"""The digest of a provider spec: the same for all texts that the API may give back for what was once sent, and for no others.

Keys are sorted. A field that is null is a field that is absent. A number such as `1.0` is written `1` by whoever stores it, so
both are one number; but `1` and `"1"` differ, as do `1` and `true`.

A spec is written by a tenant, and looked at whenever its Machine changes: one that is larger or deeper than any provider's is
not. Whether it is does not depend on who looks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sized
from typing import Any, Final

import msgspec

from ullage.errors import BadInput

MOST_PARTS: Final = 5_000  # fields and elements; real ones have some dozens, and 1.5 MiB has room for half a million
MOST_DEEP: Final = 100  # levels


class BadSpec(BadInput):
    """A provider spec that cannot be written down: nothing can be said about it, so no stamp is good for it."""


def digest(spec: Any) -> str:
    """SHA-256 of the canonical JSON, in hexadecimal. Raises BadSpec."""
    try:
        return hashlib.sha256(msgspec.json.encode(_Canonical().of(spec), order="deterministic")).hexdigest()
    except (TypeError, ValueError) as error:
        raise BadSpec("spec.providerSpec", "…", f"it is no JSON: {error}") from error


def same(one: Any, other: Any) -> bool:
    """Whether two provider specs are one. What has no digest is like what is equal to it and nothing else: whoever only takes
    a finalizer off its Machine has not changed it."""
    try:
        return digest(one) == digest(other)
    except BadSpec:
        pass
    try:
        return bool(one == other)
    except RecursionError:
        return False


class _Canonical:
    """How a spec is written, as long as it is not too large: parts are counted before they are looked at."""

    def __init__(self) -> None:
        self._left = MOST_PARTS

    def of(self, value: Any, depth: int = 0) -> Any:
        if isinstance(value, dict):
            self._count(value, depth)
            return {key: self.of(item, depth + 1) for key, item in value.items() if item is not None}
        if isinstance(value, list | tuple):
            self._count(value, depth)
            return [self.of(item, depth + 1) for item in value]
        if isinstance(value, float) and value.is_integer():
            return int(value)
        return value

    def _count(self, parts: Sized, depth: int) -> None:
        if depth >= MOST_DEEP:
            raise BadSpec("spec.providerSpec", "…", f"it is nested too deeply, more than {MOST_DEEP} levels")
        self._left -= len(parts)
        if self._left < 0:
            raise BadSpec("spec.providerSpec", "…", f"it has more than {MOST_PARTS} fields and elements")
